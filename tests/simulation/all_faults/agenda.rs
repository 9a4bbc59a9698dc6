//! The events of a full world with their times. All of them follow from the seed and are fixed before the
//! world begins.
//!
//! The rates let a week with all its trade, faults and polls fit into a few seconds: a hundred events a day
//! on twenty-odd SKUs, that is few changes per stock level and many faults per change.

use super::super::random::Random;
use super::super::rewrite::Oddity;
use super::super::storm::Storm;
use super::super::world::{Ending, Step};

/// Begin of every world: Saturday, 28 March 2026, 20:00 UTC.
///
/// Berlin changes to summer time in the first night, Sydney back to winter time in the seventh.
pub const BEGIN_MS: i64 = 1_774_728_000_000;
pub const HOUR_MS: i64 = 3_600_000;
pub const DAY_MS: i64 = 24 * HOUR_MS;
/// Hour (UTC) from which there are no faults and no acts. Everything is judged one hour later.
const CALM_HOUR: i64 = 21;
/// Duration of a storm.
const BLOW_MS: i64 = 2 * HOUR_MS;

/// Longest time from a change to a sale amid its push: before its read, between, or after its write.
const AMID_MS: i64 = 2_000;

/// Time from a sale to a later adjust of the same stock level.
const BEFORE_MS: (i64, i64) = (15_000, 600_000);

/// Longest time from a count to its report.
const TOLD_MS: i64 = 600_000;

/// Sends of a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sends {
    Once,
    Twice,
}

/// A form of the page that is about no stock level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Office {
    Ship(Sends),
    Tracking,
    /// Cancels, retries or releases any open change.
    Decide,
    /// Pauses a job and ends the pause.
    Pause,
}

/// Part of a file that is imported first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Brought {
    /// All lines; the file comes again under another name.
    Whole,
    /// The valid lines; the corrected file comes under the same name.
    Partial,
}

/// Maker of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyBy {
    Product,
    AnotherTool,
}

/// Moment at which programs insert the keys again that a restore lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    BeforeTheStart,
    AfterTheStart,
}

/// An event; its subject is drawn when it happens, from the state at that time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// A customer buys from one warehouse.
    Sale,
    /// A customer buys from the stock level that a change was last inserted for.
    SaleAmid,
    /// A customer orders, and the dock ships it: in whole, in part, or in two shipments.
    Order,
    /// A later shipment of the rest of an order.
    Parcel,
    /// A customer buys from a stock level that is adjusted after its facts are too old.
    SaleBefore,
    /// Goods come or go, and the warehouse's program reports it.
    Moved,
    /// A clerk counts.
    Count,
    /// A clerk counts, and reports the count later with its moment.
    CountLater,
    CountTold,
    /// A colleague enters another quantity at the platform.
    Colleague,
    /// Changes: create or update a product, create a warehouse or a template.
    Product,
    Update,
    Warehouse,
    Template,
    /// A colleague gives a product another SKU at the platform.
    Rename,
    /// A colleague removes a product from the assortment, or puts it back.
    Discontinue,
    Reactivate,
    /// A colleague ships a part of an order, or submits a tracking, at the platform.
    ShipByHand,
    TrackByHand,
    /// Another program uses this many of the account's calls at once.
    Burst(i64),
    /// The daemon's key becomes wrong, or right again.
    WrongKey(bool),
    /// Balances come from a replica with this delay, ms.
    Lag(i64),
    /// Percentages of writes and reads with a network fault.
    Weather(i64, i64),
    /// Percentage of the reads with an odd answer.
    Odd(Oddity, i64),
    /// A SKU, an entry or an order begins to fail; the one that failed longest works again.
    Poison,
    Cure,
    /// Every call fails, or no longer; the account lapses, or no longer.
    Sick(bool),
    Lapse(bool),
    /// A colleague ships the rest of an order, or cancels those shipments; the customer cancels an order.
    CloseOrder,
    ReopenOrder,
    CancelOrder,
    /// A kit is made and sold; a kit becomes a product, or the reverse.
    Kit,
    KitTurns,
    /// A product is removed for good.
    Gone,
    /// Two changes of one stock level at once; a person's decision amid the daemon's work.
    Pair,
    Word,
    /// Another program locks the database for this long, ms.
    Lock(i64),
    /// A person sends a form of the page, once or twice; sends the last one again.
    Form(Sends),
    FormAgain,
    /// A person loads a page, and counts much later what it shows then.
    FormOpened,
    FormLate,
    /// A person ships, submits a number or decides by a form of the page.
    Office(Office),
    /// Somebody brings a file of movements, whole or in part; brings it again.
    File(Brought),
    FileAgain,
    /// A copy of the database is made; it is put back; a person decides what is held then.
    Copied(CopyBy),
    Restored(Keys),
    Released,
    /// Another program's trigger refuses commits of answers, or no longer.
    Refusal(bool),
    /// The daemon is killed; `Reconfigure` starts it with another configuration.
    Kill,
    Reconfigure,
    Suspend,
    Resume,
    /// Offset of the host's calendar from the true time, ms.
    Calendar(i64),
    /// Of two hosts, the daemon that leads is struck; the other host's daemon stands by, or no longer.
    Strike(Step, Ending),
    Join,
    Leave,
    /// Offsets of the calendars of two hosts, ms.
    Apart(i64, i64),
    /// All faults end.
    Calm,
    /// Everything is judged.
    Judge,
}

impl Act {
    /// Returns true if a daemon that leads must work for the act.
    pub fn needs_leader(self) -> bool {
        matches!(
            self,
            Act::Kill
                | Act::Reconfigure
                | Act::Judge
                | Act::Calendar(_)
                | Act::Pair
                | Act::Word
                | Act::Lock(_)
                | Act::Copied(_)
                | Act::Restored(_)
                | Act::Released
                | Act::Refusal(_)
        )
    }

    pub fn storm(writes: i64, reads: i64) -> Storm {
        Storm { writes, reads }
    }
}

/// Mean number of events a day, by kind.
const TRADE: [(Act, i64); 21] = [
    (Act::Sale, 20),
    (Act::Order, 7),
    (Act::Parcel, 3),
    (Act::Moved, 16),
    (Act::Count, 8),
    (Act::CountLater, 3),
    (Act::Colleague, 3),
    (Act::Product, 1),
    (Act::Update, 2),
    (Act::Template, 1),
    (Act::ShipByHand, 1),
    (Act::TrackByHand, 1),
    (Act::Discontinue, 1),
    (Act::Reactivate, 1),
    (Act::Burst(110), 2),
    (Act::CloseOrder, 2),
    (Act::ReopenOrder, 2),
    (Act::KitTurns, 1),
    (Act::Pair, 8),
    (Act::Word, 4),
    (Act::Poison, 3),
];

/// Events that do not happen every day, with their chance in percent.
const SELDOM: [(Act, i64); 3] = [(Act::CancelOrder, 60), (Act::Kit, 40), (Act::Gone, 30)];

/// Returns the events of a number of days.
pub fn agenda(days: i64, random: &mut Random) -> Vec<(i64, Act)> {
    let mut agenda = Vec::new();
    for day in 0..days {
        day_of(BEGIN_MS + day * DAY_MS, random, &mut agenda);
    }
    agenda.sort_by_key(|(at, _)| *at);
    agenda
}

/// Adds a day from 20:00 to 20:00, which begins with its calm hours.
fn day_of(begin: i64, random: &mut Random, agenda: &mut Vec<(i64, Act)>) {
    let calm = begin + (CALM_HOUR - 20) * HOUR_MS;
    agenda.push((calm, Act::Calm));
    agenda.push((calm + HOUR_MS, Act::Judge));
    let (from, until) = (calm + 2 * HOUR_MS, begin + DAY_MS);
    for (act, times) in TRADE {
        for _ in 0..random.between(times / 2, times + times / 2) {
            let at = random.between(from, until);
            agenda.push((at, act));
            // Some customers buy during an adjust or a count.
            if matches!(act, Act::Moved | Act::Count) && random.percent(60) {
                agenda.push((at + random.between(1, AMID_MS), Act::SaleAmid));
            }
            if act == Act::CountLater {
                agenda.push((at + random.between(1_000, TOLD_MS / 2), Act::Moved));
                agenda.push((at + random.between(TOLD_MS / 2, TOLD_MS), Act::CountTold));
            }
            if act == Act::Moved && random.percent(40) {
                agenda.push((at - random.between(BEFORE_MS.0, BEFORE_MS.1), Act::SaleBefore));
            }
        }
    }
    if random.percent(20) {
        agenda.push((random.between(from, until), Act::Warehouse));
    }
    if random.percent(30) {
        agenda.push((random.between(from, until), Act::Rename));
    }
    for (act, percent) in SELDOM {
        if random.percent(percent) {
            agenda.push((random.between(from, until), act));
        }
    }
    weather(from, until, random, agenda);
    sickness(from, until, random, agenda);
    host(from, until, random, agenda);
}

/// Adds storms, lagging replicas, odd answers, a wrong key.
fn weather(from: i64, until: i64, random: &mut Random, agenda: &mut Vec<(i64, Act)>) {
    for begin in (from..until).step_by(usize::try_from(BLOW_MS).expect("not negative")) {
        let (writes, reads) =
            if random.percent(40) { (random.between(10, 40), random.between(2, 10)) } else { (0, 0) };
        agenda.push((begin, Act::Weather(writes, reads)));
        let lag = match random.between(1, 100) {
            1..=25 => random.between(500, 3_000),
            26..=29 => random.between(10_000, 60_000),
            _ => 0,
        };
        agenda.push((begin, Act::Lag(lag)));
        if lag > 0 {
            agenda.push((begin + BLOW_MS - 1, Act::Lag(0)));
        }
        for oddity in Oddity::ALL {
            let (share, lasts) =
                *random.pick(&[(20, BLOW_MS - 1), (50, BLOW_MS / 2), (80, BLOW_MS / 4), (100, BLOW_MS / 6)]);
            if random.percent(20) {
                let from = begin + random.between(0, BLOW_MS - 1 - lasts);
                agenda.push((from, Act::Odd(oddity, share)));
                agenda.push((from + lasts, Act::Odd(oddity, 0)));
            }
        }
    }
    if random.percent(40) {
        let begin = random.between(from, until - HOUR_MS);
        agenda.push((begin, Act::WrongKey(true)));
        agenda.push((begin + random.between(60_000, 2_400_000), Act::WrongKey(false)));
    }
}

/// Adds failures of the platform for minutes, lapses of the account, recoveries of entries, locks of the
/// database.
fn sickness(from: i64, until: i64, random: &mut Random, agenda: &mut Vec<(i64, Act)>) {
    for _ in 0..3 {
        agenda.push((random.between(from, until), Act::Cure));
    }
    for (act, over, times) in
        [(Act::Sick(true), Act::Sick(false), 2), (Act::Lapse(true), Act::Lapse(false), 1)]
    {
        for _ in 0..random.between(0, times) {
            let begin = random.between(from, until - HOUR_MS);
            let end = begin + random.between(5_000, 600_000);
            agenda.push((begin, act));
            agenda.push((end, over));
            for _ in 0..random.between(2, 5) {
                let meanwhile = *random.pick(&[Act::Moved, Act::Moved, Act::Count, Act::Parcel]);
                agenda.push((random.between(begin, end), meanwhile));
            }
        }
    }
    for _ in 0..random.between(0, 4) {
        agenda.push((random.between(from, until), Act::Lock(random.between(500, 20_000))));
    }
}

/// Adds crashes, restarts, suspends and clock steps.
fn host(from: i64, until: i64, random: &mut Random, agenda: &mut Vec<(i64, Act)>) {
    for _ in 0..random.between(1, 3) {
        agenda.push((random.between(from, until), Act::Kill));
    }
    if random.percent(70) {
        agenda.push((random.between(from, until), Act::Reconfigure));
    }
    if random.percent(50) {
        let begin = random.between(from, until - 3 * HOUR_MS);
        agenda.push((begin, Act::Suspend));
        agenda.push((begin + random.between(30_000, 2 * HOUR_MS), Act::Resume));
    }
    if random.percent(60) {
        let begin = random.between(from, until - 4 * HOUR_MS);
        let by = if random.percent(50) { HOUR_MS } else { -HOUR_MS };
        agenda.push((begin, Act::Calendar(by)));
        agenda.push((begin + random.between(60_000, 4 * HOUR_MS), Act::Calendar(0)));
    }
}
