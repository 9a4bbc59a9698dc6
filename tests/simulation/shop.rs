//! The events of a trade: customers buy, goods come and go, colleagues count and edit.
//!
//! All events follow from the seed and are fixed before the first contestant begins, so all contestants meet
//! the same events.

use super::books::Level;
use super::clock::START_MS;
use super::random::Random;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A customer buys units from one warehouse.
    Sale(Level, i64),
    /// A customer orders units from any warehouses.
    Order(String, i64),
    /// Goods come (above zero) or go other than by a sale; the warehouse's program reports it at once.
    Moved(Level, i64),
    /// Goods come or go, and a colleague enters the new quantity at the platform.
    Colleague(Level, i64),
    /// A clerk counts a stock level.
    Count(Level),
    /// Sold units leave the shelf.
    Pick(Level),
}

/// Rates of the events.
#[derive(Clone, Copy, Debug)]
pub struct Trade {
    pub lasts_ms: i64,
    /// Mean time between two events of the kind, ms; the next fields likewise.
    pub sale_ms: i64,
    pub moved_ms: i64,
    pub colleague_ms: i64,
    pub count_ms: i64,
    pub pick_ms: i64,
    /// Units of the largest delivery.
    pub delivery: i64,
    /// Hours of the day with events.
    pub open_hours: (i64, i64),
}

const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;

/// Returns the events of a trade with their times, in order.
pub fn events(trade: &Trade, levels: &[Level], random: &mut Random) -> Vec<(i64, Event)> {
    let kinds = [trade.sale_ms, trade.moved_ms, trade.colleague_ms, trade.count_ms, trade.pick_ms];
    let mut events = Vec::new();
    for (kind, every_ms) in kinds.into_iter().enumerate().filter(|(_, every_ms)| *every_ms > 0) {
        let mut at = random.between(0, every_ms);
        while at < trade.lasts_ms {
            let hour = (START_MS + at) % DAY_MS / HOUR_MS;
            if (trade.open_hours.0..trade.open_hours.1).contains(&hour) {
                events.push((START_MS + at, event(kind, levels, trade, random)));
            }
            at += random.between(1, 2 * every_ms);
        }
    }
    events.sort_by_key(|(at, _)| *at);
    events
}

fn event(kind: usize, levels: &[Level], trade: &Trade, random: &mut Random) -> Event {
    let level = random.pick(levels).clone();
    match kind {
        0 if random.percent(20) => Event::Order(level.0, random.between(1, 2)),
        0 => Event::Sale(level, random.between(1, 2)),
        1 if random.percent(60) => Event::Moved(level, random.between(1, trade.delivery)),
        1 => Event::Moved(level, -random.between(1, 3)),
        2 if random.percent(50) => Event::Colleague(level, random.between(1, trade.delivery)),
        2 => Event::Colleague(level, -random.between(1, 3)),
        3 => Event::Count(level),
        _ => Event::Pick(level),
    }
}
