//! What happens in a shop: customers buy, goods come and go, colleagues count and edit. All of it follows from the seed
//! and is known before the first contestant begins, so that every contestant meets the same.

use super::books::Cell;
use super::clock::START_MS;
use super::random::Random;

/// One thing that happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A customer wants so many.
    Sale(Cell, i64),
    /// A customer orders so many, wherever they are.
    Order(String, i64),
    /// Goods come (above zero) or go otherwise than by a sale; the warehouse's program says so at once.
    Moved(Cell, i64),
    /// The same, but a colleague enters it at the service himself, as a new number.
    Colleague(Cell, i64),
    /// A cell is counted.
    Count(Cell),
    /// What was sold leaves the shelf.
    Pick(Cell),
}

/// How much happens.
#[derive(Clone, Copy, Debug)]
pub struct Trade {
    /// How long, ms.
    pub lasts_ms: i64,
    /// Milliseconds between two of a kind, on average.
    pub sale_ms: i64,
    pub moved_ms: i64,
    pub colleague_ms: i64,
    pub count_ms: i64,
    pub pick_ms: i64,
    /// The largest delivery.
    pub delivery: i64,
    /// The hours of the day in which something happens.
    pub open_hours: (i64, i64),
}

const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;

/// The events of a trade with their times, in order.
pub fn events(trade: &Trade, cells: &[Cell], random: &mut Random) -> Vec<(i64, Event)> {
    let kinds = [trade.sale_ms, trade.moved_ms, trade.colleague_ms, trade.count_ms, trade.pick_ms];
    let mut events = Vec::new();
    for (kind, every_ms) in kinds.into_iter().enumerate().filter(|(_, every_ms)| *every_ms > 0) {
        let mut at = random.between(0, every_ms);
        while at < trade.lasts_ms {
            let hour = (START_MS + at) % DAY_MS / HOUR_MS;
            if (trade.open_hours.0..trade.open_hours.1).contains(&hour) {
                events.push((START_MS + at, event(kind, cells, trade, random)));
            }
            at += random.between(1, 2 * every_ms);
        }
    }
    events.sort_by_key(|(at, _)| *at);
    events
}

fn event(kind: usize, cells: &[Cell], trade: &Trade, random: &mut Random) -> Event {
    let cell = random.pick(cells).clone();
    match kind {
        0 if random.percent(20) => Event::Order(cell.0, random.between(1, 2)),
        0 => Event::Sale(cell, random.between(1, 2)),
        1 if random.percent(60) => Event::Moved(cell, random.between(1, trade.delivery)),
        1 => Event::Moved(cell, -random.between(1, 3)),
        2 if random.percent(50) => Event::Colleague(cell, random.between(1, trade.delivery)),
        2 => Event::Colleague(cell, -random.between(1, 3)),
        3 => Event::Count(cell),
        _ => Event::Pick(cell),
    }
}
