//! What happens in a full world, and when: all of it follows from the seed and stands before the world begins.
//!
//! The rates are chosen so that a week with all its trade, faults and polls fits into a few seconds: a hundred events a
//! day in a shop of twenty-odd SKUs, which is few wishes a cell and many faults a wish.

use super::super::random::Random;
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
    /// Goods come or go, and the warehouse's program says so.
    Moved,
    /// A clerk counts.
    Count,
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
const TRADE: [(Act, i64); 14] = [
    (Act::Sale, 20),
    (Act::Order, 7),
    (Act::Parcel, 3),
    (Act::Moved, 16),
    (Act::Count, 8),
    (Act::Colleague, 3),
    (Act::Product, 1),
    (Act::Update, 2),
    (Act::Template, 1),
    (Act::ShipByHand, 1),
    (Act::TrackByHand, 1),
    (Act::Discontinue, 1),
    (Act::Reactivate, 1),
    (Act::Burst(110), 2),
];

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
        }
    }
    if random.percent(20) {
        agenda.push((random.between(from, until), Act::Warehouse));
    }
    if random.percent(30) {
        agenda.push((random.between(from, until), Act::Rename));
    }
    weather(from, until, random, agenda);
    host(from, until, random, agenda);
}

/// Storms, replicas that are behind, a wrong key.
fn weather(from: i64, until: i64, random: &mut Random, agenda: &mut Vec<(i64, Act)>) {
    for begin in (from..until).step_by(usize::try_from(BLOW_MS).expect("not negative")) {
        let (writes, reads) =
            if random.percent(50) { (random.between(10, 40), random.between(2, 10)) } else { (0, 0) };
        agenda.push((begin, Act::Weather(writes, reads)));
        let lag = if random.percent(25) { random.between(500, 3_000) } else { 0 };
        agenda.push((begin, Act::Lag(lag)));
    }
    if random.percent(40) {
        let begin = random.between(from, until - HOUR_MS);
        agenda.push((begin, Act::WrongKey(true)));
        agenda.push((begin + random.between(60_000, 2_400_000), Act::WrongKey(false)));
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
