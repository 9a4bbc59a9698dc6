//! Events beside those of the agenda, with random numbers of their own: a world without these kinds of fault is the
//! same as before they were added.
//!
//! They are forms and files that come twice, copies that are put back, answers without a field or about another
//! subject, and triggers of other programs.

use super::super::random::Random;
use super::super::rewrite::Oddity;
use super::agenda::{Act, Brought, CopyBy, DAY_MS, HOUR_MS, Keys, Office, Sends};

const MINUTE_MS: i64 = 60_000;
/// Time between the begin of a day and its first fault, and between its last one and the evening.
const BEFORE_MS: i64 = 3 * HOUR_MS;
const AFTER_MS: i64 = 2 * HOUR_MS;

/// Adds the events of a number of days that begin at a time.
pub fn add(begin_ms: i64, days: i64, random: &mut Random, agenda: &mut Vec<(i64, Act)>) {
    for day in 0..days {
        let begin = begin_ms + day * DAY_MS;
        let hours = (begin + BEFORE_MS, begin + DAY_MS - AFTER_MS);
        forms(hours, random, agenda);
        files(hours, random, agenda);
        restores(hours, random, agenda);
        fields(hours, random, agenda);
        refusals(hours, random, agenda);
    }
    agenda.sort_by_key(|(at, _)| *at);
}

fn forms((from, until): (i64, i64), random: &mut Random, agenda: &mut Vec<(i64, Act)>) {
    for _ in 0..random.between(2, 4) {
        let sends = *random.pick(&[Sends::Once, Sends::Twice]);
        agenda.push((random.between(from, until), Act::Form(sends)));
    }
    for _ in 0..random.between(1, 2) {
        agenda.push((random.between(from, until), Act::FormAgain));
    }
    for _ in 0..random.between(1, 3) {
        let at = random.between(from, until - 8 * HOUR_MS);
        let later = *random.pick(&[MINUTE_MS, HOUR_MS, 8 * HOUR_MS]);
        agenda.push((at, Act::FormOpened));
        agenda.push((at + random.between(1_000, later), Act::FormLate));
    }
}

/// Adds the forms of the office, with random numbers of their own: the other events stay where they were before.
pub fn add_office(begin_ms: i64, days: i64, random: &mut Random, agenda: &mut Vec<(i64, Act)>) {
    for day in 0..days {
        let begin = begin_ms + day * DAY_MS;
        let (from, until) = (begin + BEFORE_MS, begin + DAY_MS - AFTER_MS);
        for _ in 0..random.between(1, 3) {
            let sends = *random.pick(&[Sends::Once, Sends::Twice]);
            agenda.push((random.between(from, until), Act::Office(Office::Ship(sends))));
        }
        for _ in 0..random.between(1, 3) {
            agenda.push((random.between(from, until), Act::Office(Office::Tracking)));
        }
        for act in [Office::Decide, Office::Pause] {
            let at = random.between(from, until - HOUR_MS);
            agenda.push((at, Act::Office(act)));
            if random.percent(50) {
                agenda.push((at + random.between(1_000, HOUR_MS), Act::FormAgain));
            }
        }
    }
    agenda.sort_by_key(|(at, _)| *at);
}

fn files((from, until): (i64, i64), random: &mut Random, agenda: &mut Vec<(i64, Act)>) {
    for _ in 0..random.between(1, 2) {
        let at = random.between(from, until - 2 * HOUR_MS);
        let later = *random.pick(&[1_000, 10 * MINUTE_MS, 2 * HOUR_MS]);
        agenda.push((at, Act::File(*random.pick(&[Brought::Whole, Brought::Partial]))));
        agenda.push((at + random.between(0, later), Act::FileAgain));
    }
}

/// Adds, on most days, a copy that is put back seconds to hours later, with changes before, between and after.
fn restores((from, until): (i64, i64), random: &mut Random, agenda: &mut Vec<(i64, Act)>) {
    if random.percent(40) {
        return;
    }
    let at = random.between(from, until - 5 * HOUR_MS);
    let lasts = *random.pick(&[4_000, 4_000, MINUTE_MS, 10 * MINUTE_MS, 4 * HOUR_MS]);
    let back = at + random.between(lasts / 4, lasts);
    agenda.push((at, Act::Copied(*random.pick(&[CopyBy::Product, CopyBy::AnotherTool]))));
    agenda.push((back, Act::Restored(*random.pick(&[Keys::BeforeTheStart, Keys::AfterTheStart]))));
    agenda.push((back + random.between(2 * MINUTE_MS, 30 * MINUTE_MS), Act::Released));
    for _ in 0..random.between(1, 3) {
        let act = *random.pick(&[
            Act::Moved,
            Act::Moved,
            Act::Order,
            Act::Parcel,
            Act::Count,
            Act::Form(Sends::Once),
        ]);
        agenda.push((at - random.between(0, 2_000), act));
    }
    for _ in 0..random.between(1, 4) {
        let act = *random.pick(&[Act::Moved, Act::Moved, Act::Order, Act::Count, Act::Pair, Act::Template]);
        agenda.push((at + random.between(0, (back - at).min(2_000)), act));
    }
    for _ in 0..random.between(1, 3) {
        let act = *random.pick(&[Act::Moved, Act::Moved, Act::Count, Act::Parcel]);
        agenda.push((back + random.between(0, 3_000), act));
    }
}

fn fields((from, until): (i64, i64), random: &mut Random, agenda: &mut Vec<(i64, Act)>) {
    for oddity in Oddity::FIELDS {
        let (share, lasts) = *random.pick(&[(20, 2 * HOUR_MS), (50, HOUR_MS), (100, HOUR_MS / 3)]);
        if random.percent(60) {
            let at = random.between(from, until - lasts);
            agenda.push((at, Act::Odd(oddity, share)));
            agenda.push((at + lasts, Act::Odd(oddity, 0)));
        }
    }
}

fn refusals((from, until): (i64, i64), random: &mut Random, agenda: &mut Vec<(i64, Act)>) {
    if random.percent(60) {
        let at = random.between(from, until - HOUR_MS);
        let end = at + random.between(MINUTE_MS, 10 * MINUTE_MS);
        agenda.push((at, Act::Refusal(true)));
        agenda.push((end, Act::Refusal(false)));
        for _ in 0..random.between(2, 5) {
            agenda.push((random.between(at, end), *random.pick(&[Act::Moved, Act::Moved, Act::Count])));
        }
    }
}
