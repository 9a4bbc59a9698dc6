//! The two usual designs of such software, on the same events: the references for tallyd's own figures.
//!
//! Both have better conditions than in production: their writes never fail and wait for no quota. Each sale
//! at the platform is in their own stock record at the next import at the latest.

use super::books::{Books, Level};
use super::clock::START_MS;
use super::random::Random;
use super::shop::Event;
use std::collections::BTreeMap;

/// Interval of the imports of sales, equal to the daemon's interval of balances.
const IMPORT_MS: i64 = 5 * 60_000;
/// Offset of the exports of changed quantities: their own schedule of equal interval, independent of the
/// imports.
const EXPORT_AFTER_MS: i64 = 150_000;
/// Interval at which the blind design sends all quantities.
const EVERYTHING_MS: i64 = 15 * 60_000;
/// Time from a decision to its arrival at the platform, ms.
const WAY_MS: (i64, i64) = (25, 250);

/// The moments at which a rival writes a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Habit {
    /// At each change of its quantity, and all of them at each interval.
    Blind,
    /// At each export, where its quantity differs from the last one that it sent.
    LastSent,
}

enum Thing {
    Event(Event),
    Import,
    Export,
    Everything,
    Arrives(Level, i64),
}

struct Rival {
    habit: Habit,
    books: Books,
    /// The warehouse's own quantities.
    own: BTreeMap<Level, i64>,
    /// Units sold at the platform since the last import.
    unknown: BTreeMap<Level, i64>,
    sent: BTreeMap<Level, i64>,
    agenda: BTreeMap<(i64, u64), Thing>,
    numbers: u64,
    random: Random,
    now: i64,
}

/// Runs a rival through the events; returns the ground truth afterwards.
pub fn compete(habit: Habit, stock: &BTreeMap<Level, i64>, events: &[(i64, Event)], random: Random) -> Books {
    let mut rival = Rival {
        habit,
        books: Books::new(stock.clone()),
        own: stock.clone(),
        unknown: BTreeMap::new(),
        sent: stock.clone(),
        agenda: BTreeMap::new(),
        numbers: 0,
        random,
        now: START_MS,
    };
    for (at, event) in events {
        rival.plan(*at, Thing::Event(event.clone()));
    }
    let end = events.last().map_or(START_MS, |(at, _)| *at);
    rival.plan(START_MS + IMPORT_MS, Thing::Import);
    rival.plan(START_MS + EXPORT_AFTER_MS, Thing::Export);
    rival.plan(START_MS + EVERYTHING_MS, Thing::Everything);
    while let Some(((at, _), thing)) = rival.agenda.pop_first().filter(|((at, _), _)| *at <= end) {
        rival.now = at;
        rival.live(thing);
    }
    rival.books
}

impl Rival {
    fn plan(&mut self, at: i64, thing: Thing) {
        self.numbers += 1;
        self.agenda.insert((at, self.numbers), thing);
    }

    fn live(&mut self, thing: Thing) {
        match thing {
            Thing::Event(event) => self.happen(&event),
            Thing::Import => {
                for (level, units) in std::mem::take(&mut self.unknown) {
                    self.change(&level, |own| own - units);
                }
                self.plan(self.now + IMPORT_MS, Thing::Import);
            }
            Thing::Export => {
                if self.habit == Habit::LastSent {
                    self.send_all(|own, sent| own != sent);
                }
                self.plan(self.now + IMPORT_MS, Thing::Export);
            }
            Thing::Everything => {
                if self.habit == Habit::Blind {
                    self.send_all(|_, _| true);
                }
                self.plan(self.now + EVERYTHING_MS, Thing::Everything);
            }
            Thing::Arrives(level, quantity) => self.books.written(&level, quantity),
        }
    }

    fn happen(&mut self, event: &Event) {
        match event {
            Event::Sale(level, units) => {
                if self.books.sale(level, *units) {
                    *self.unknown.entry(level.clone()).or_default() += units;
                }
            }
            Event::Order(sku, units) => {
                for (level, part) in self.books.ordered(sku, *units) {
                    *self.unknown.entry(level).or_default() += part;
                }
            }
            Event::Moved(level, units) => {
                let moved = self.books.moved(level, *units);
                self.change(level, |own| own + moved);
            }
            // Colleagues enter these at the platform only; a rival does not learn of them.
            Event::Colleague(level, units) => {
                self.books.colleague(level, *units);
            }
            Event::Count(level) => {
                let counted = self.books.level(level).sellable();
                self.unknown.remove(level);
                self.change(level, |_| counted);
            }
            Event::Pick(level) => {
                self.books.pick(level);
            }
        }
    }

    fn change(&mut self, level: &Level, change: impl FnOnce(i64) -> i64) {
        let own = self.own.get_mut(level).expect("a stock level of the shop");
        let before = *own;
        *own = change(before);
        if *own != before && self.habit == Habit::Blind {
            self.send(level);
        }
    }

    fn send_all(&mut self, wanted: impl Fn(i64, i64) -> bool) {
        let levels: Vec<Level> = self.own.keys().cloned().collect();
        for level in
            levels.iter().filter(|level| wanted(self.own[*level], self.sent[*level])).collect::<Vec<_>>()
        {
            self.send(level);
        }
    }

    fn send(&mut self, level: &Level) {
        let own = self.own[level];
        self.sent.insert(level.clone(), own);
        let way = self.random.between(WAY_MS.0, WAY_MS.1);
        self.plan(self.now + way, Thing::Arrives(level.clone(), own.max(0)));
    }
}
