//! What happens in a full world, and when: all of it follows from the seed and stands before the world begins.
//!
//! The rates are chosen so that a week with all its trade, faults and polls fits into a few seconds: a hundred events a
//! day in a shop of twenty-odd SKUs, which is few wishes a cell and many faults a wish.

use super::super::random::Random;
use super::super::rewrite::Oddity;
use super::super::storm::Storm;

/// Every world begins on Saturday, 28 March 2026, 20:00 UTC: Berlin goes over to summer time in the first night, Sydney
/// back to winter time in the seventh.
pub const BEGIN_MS: i64 = 1_774_728_000_000;
pub const HOUR_MS: i64 = 3_600_000;
pub const DAY_MS: i64 = 24 * HOUR_MS;
/// From this hour on (UTC) nothing goes wrong any more and nobody does anything, and at the next the books are judged.
const CALM_HOUR: i64 = 21;
/// Storms blow for so long.
const BLOW_MS: i64 = 2 * HOUR_MS;

/// A sale amid a push comes at most so long after its wish: some before its read, some after its write, some between.
const AMID_MS: i64 = 2_000;

/// A sale before a movement comes so long before it.
const BEFORE_MS: (i64, i64) = (15_000, 600_000);

/// A count is told so much later at the latest.
const TOLD_MS: i64 = 600_000;

/// One thing that happens. What it befalls is drawn when it does, from what is there then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// A customer buys from one warehouse.
    Sale,
    /// The same, from the cell that a wish was last inserted for.
    SaleAmid,
    /// A customer orders, and the dock ships it: whole, in part, in two parcels.
    Order,
    /// A later parcel of what is left of an order.
    Parcel,
    /// The same, from a cell that a movement will be said of after so long that what was read before is old.
    SaleBefore,
    /// Goods come or go, and the warehouse's program says so.
    Moved,
    /// A clerk counts.
    Count,
    /// A clerk counts, and tells it later with the moment of his count.
    CountLater,
    CountTold,
    /// A colleague enters another number at the service himself.
    Colleague,
    /// A product is to be created, updated; a warehouse, a template to be created.
    Product,
    Update,
    Warehouse,
    Template,
    /// Somebody gives a product another SKU at the service.
    Rename,
    /// Somebody takes a product out of the assortment, or back into it.
    Discontinue,
    Reactivate,
    /// A colleague ships a part of an order, or tells a tracking, at the service himself.
    ShipByHand,
    TrackByHand,
    /// Another program spends so many of the account's calls at once.
    Burst(i64),
    /// The daemon's key is wrong, or right again.
    WrongKey(bool),
    /// Balances come from a replica that is so far behind, ms.
    Lag(i64),
    /// So much goes wrong on the way.
    Weather(i64, i64),
    /// This percentage of the reads is answered in an odd way.
    Odd(Oddity, i64),
    /// A SKU, an entry or an order fails from now on; the one that did so longest works again.
    Poison,
    Cure,
    /// Every call fails; the account lapsed. Or no longer.
    Sick(bool),
    Lapse(bool),
    /// A colleague makes parcels of all that is left of an order, cancels them again; the customer cancels an order.
    CloseOrder,
    ReopenOrder,
    CancelOrder,
    /// A kit is made and sold; what was a kit is a product from now on, and the other way round.
    Kit,
    KitTurns,
    /// A product is taken away for good.
    Gone,
    /// Two wishes for one cell at once; a person's word amid what the daemon does.
    Pair,
    Word,
    /// Another program locks the database for so long, ms.
    Lock(i64),
    /// The daemon is killed; with another configuration afterwards, if so.
    Kill,
    Reconfigure,
    /// The machine sleeps, and wakes.
    Suspend,
    Resume,
    /// The host's calendar is so far ahead of the true time, ms.
    Calendar(i64),
    /// All faults end.
    Calm,
    /// The books are judged.
    Judge,
}

impl Act {
    pub fn storm(writes: i64, reads: i64) -> Storm {
        Storm { writes, reads }
    }
}

/// Trade a day, by kind.
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

/// All that happens in so many days.
pub fn agenda(days: i64, random: &mut Random) -> Vec<(i64, Act)> {
    let mut agenda = Vec::new();
    for day in 0..days {
        day_of(BEGIN_MS + day * DAY_MS, random, &mut agenda);
    }
    agenda.sort_by_key(|(at, _)| *at);
    agenda
}

/// A day from 20:00 to 20:00, so it begins with its calm hours.
fn day_of(begin: i64, random: &mut Random, agenda: &mut Vec<(i64, Act)>) {
    let calm = begin + (CALM_HOUR - 20) * HOUR_MS;
    agenda.push((calm, Act::Calm));
    agenda.push((calm + HOUR_MS, Act::Judge));
    let (from, until) = (calm + 2 * HOUR_MS, begin + DAY_MS);
    for (act, times) in TRADE {
        for _ in 0..random.between(times / 2, times + times / 2) {
            let at = random.between(from, until);
            agenda.push((at, act));
            // Somebody buys what is just being moved or counted.
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

/// Storms, replicas that are behind, a wrong key.
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

/// A platform that fails for some minutes, an account that lapses, entries that fail for hours, a locked database.
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

/// Crashes, restarts, suspends, clock steps.
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
