//! The events of a full world with two hosts, beside those of the agenda: strikes at the daemon that leads, amid the
//! changes that it sends, and calendars that differ.
//!
//! A standby that is not needed is absent for most of the day, because each of its looks is an event.

use super::super::random::Random;
use super::super::world::{Ending, HeldCommit, Step};
use super::agenda::{Act, DAY_MS, HOUR_MS};

/// Strikes a day, least and most.
const STRIKES: (i64, i64) = (6, 12);
/// Time between the first hour of faults and the last strike of a day.
const STRUCK_MS: i64 = DAY_MS - 4 * HOUR_MS;
/// Time for which a standby stands by before a strike, and after the end of its trouble.
const BEFORE_MS: (i64, i64) = (10_000, 60_000);
const AFTER_MS: (i64, i64) = (60_000, 900_000);
/// Time from the end of a trouble to the next strike, where each is made once.
const APART_AT_LEAST_MS: i64 = 240_000;
/// Largest offset of a calendar: those of two hosts are at most ten minutes apart.
const APART_MS: i64 = 300_000;
/// Longest time from a strike's order to the changes that bring the daemon to the step.
const AMID_MS: i64 = 8_000;

/// Each trouble once; the long pauses outlast the quiet time of a shipment, and the wake-up meets another leader. After
/// the short ones the leader still leads.
const ENDINGS: [Ending; 7] = [
    Ending::Pause(5_000, true),
    Ending::Pause(1_200_000, true),
    Ending::Pause(1_200_000, false),
    Ending::Death(60_000),
    Ending::Cut(5_000),
    Ending::Cut(60_000),
    Ending::Stop(60_000),
];

const STEPS: [Step; 7] = [
    Step::Anytime,
    Step::InFlight,
    Step::InFlight,
    Step::At(HeldCommit::BeforeClaim),
    Step::At(HeldCommit::AfterClaim),
    Step::At(HeldCommit::BeforeConclusion),
    Step::At(HeldCommit::AfterConclusion),
];

/// Adds the events of a number of days that begin at a time.
pub fn add(begin_ms: i64, days: i64, random: &mut Random, agenda: &mut Vec<(i64, Act)>) {
    for day in 0..days {
        let from = begin_ms + day * DAY_MS + 3 * HOUR_MS;
        if random.percent(60) {
            let apart = [(); 2].map(|()| random.between(-APART_MS, APART_MS));
            agenda.push((from, Act::Apart(apart[0], apart[1])));
        }
        for _ in 0..random.between(STRIKES.0, STRIKES.1) {
            let at = from + random.between(0, STRUCK_MS);
            strike(at, random, agenda);
        }
    }
    agenda.sort_by_key(|(at, _)| *at);
}

/// Returns an agenda that strikes a daemon with each trouble at each step, amid movements and shipments.
pub fn one_of_each(begin_ms: i64) -> Vec<(i64, Act)> {
    let mut agenda = Vec::new();
    let mut at = begin_ms + HOUR_MS;
    for ending in ENDINGS {
        for step in &STEPS[2..] {
            agenda.push((at, Act::Join));
            agenda.push((at + 20_000, Act::Order));
            // The shipments of the order come to each of their steps within the time of the strike.
            agenda.push((at + 20_000, Act::Strike(*step, ending)));
            agenda.push((at + 21_000, Act::Moved));
            agenda.push((at + 22_000, Act::Sale));
            agenda.push((at + 120_000, Act::SaleAmid));
            at += ending.lasts_ms() + APART_AT_LEAST_MS;
        }
    }
    agenda.push((at, Act::Calm));
    agenda.push((at + HOUR_MS, Act::Judge));
    agenda
}

/// Adds a strike, in most cases before a standby, in some before a second strike at the next leader.
fn strike(at: i64, random: &mut Random, agenda: &mut Vec<(i64, Act)>) {
    if random.percent(85) {
        agenda.push((at - random.between(BEFORE_MS.0, BEFORE_MS.1), Act::Join));
    }
    let (step, ending) = (*random.pick(&STEPS), ending(random));
    agenda.push((at, Act::Strike(step, ending)));
    amid(at, random, agenda);
    let mut over = at + ending.lasts_ms();
    if random.percent(30) {
        let again = at + random.between(16_000, 60_000);
        let (step, ending) = (*random.pick(&STEPS), self::ending(random));
        agenda.push((again, Act::Strike(step, ending)));
        amid(again, random, agenda);
        over = over.max(again + ending.lasts_ms());
    }
    // A struck daemon comes back as a standby.
    agenda.push((over + random.between(AFTER_MS.0, AFTER_MS.1), Act::Leave));
}

/// Adds changes that bring the daemon to the step.
fn amid(at: i64, random: &mut Random, agenda: &mut Vec<(i64, Act)>) {
    for _ in 0..random.between(1, 3) {
        let act = *random.pick(&[Act::Moved, Act::Moved, Act::Count, Act::Order, Act::Parcel, Act::Template]);
        agenda.push((at + random.between(0, AMID_MS), act));
    }
}

fn ending(random: &mut Random) -> Ending {
    let short = random.between(1_000, 14_000);
    let long = random.between(20_000, 180_000);
    let longest = random.between(180_000, 1_200_000);
    let lasts = *random.pick(&[short, long, long, longest]);
    match random.between(1, 10) {
        1..=3 => Ending::Pause(lasts, true),
        4..=5 => Ending::Pause(lasts, false),
        6..=7 => Ending::Death(*random.pick(&[5_000, lasts])),
        8..=9 => Ending::Cut(lasts),
        _ => Ending::Stop(lasts),
    }
}
