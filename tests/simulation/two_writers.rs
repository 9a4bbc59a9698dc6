//! Two writers of one quantity: a platform that sells and is edited while the warehouse's changes are pushed.
//!
//! tallyd is measured against the two usual designs on one seed and the same events; docs/reconciliation.md
//! has the figures.

use super::books::{Books, Level};
use super::clock::START_MS;
use super::random::Random;
use super::rivals::{Habit, compete};
use super::seed;
use super::shop::{Event, Trade, events};
use super::world::{Plan, World};
use std::collections::BTreeMap;
use std::time::Duration;
use tallyd::model::JobKind;

/// A busy hour: a sale every other second in forty stock levels, a delivery or a withdrawal every eight.
const BUSY: Trade = Trade {
    lasts_ms: 3_600_000,
    sale_ms: 2_000,
    moved_ms: 8_000,
    colleague_ms: 60_000,
    count_ms: 90_000,
    pick_ms: 10_000,
    delivery: 12,
    open_hours: (0, 24),
};
/// The smallest factor by which the better rival oversells more.
const TIMES_BETTER: i64 = 20;
/// Seeds judged together; tallyd oversells so rarely that one hour proves little.
const SEEDS: u64 = 3;

#[tokio::test]
async fn a_push_oversells_a_twentieth_of_what_the_usual_ways_do() {
    let [ours, blind, last_sent] = contests(SEEDS, "").await;
    assert!(
        ours * TIMES_BETTER <= blind.min(last_sent),
        "seeds from {}: ours {ours}, blind {blind}, last sent {last_sent}",
        seed()
    );
}

#[tokio::test]
async fn the_same_seed_is_the_same_hour() {
    let trade = Trade { lasts_ms: 300_000, ..BUSY };
    let (first, again) = (contest(seed(), &trade, "").await, contest(seed(), &trade, "").await);
    assert_eq!(first.fingerprint, again.fingerprint, "seed {}", seed());
    assert_ne!(first.fingerprint, contest(seed() + 1, &trade, "").await.fingerprint);
}

/// Returns the units oversold by tallyd, the blind and the last-sent design, over all seeds.
async fn contests(seeds: u64, config: &str) -> [i64; 3] {
    let mut undone = [0; 3];
    for seed in seed()..seed() + seeds {
        let outcome = contest(seed, &BUSY, config).await;
        outcome.print(seed);
        for (sum, (_, books)) in undone.iter_mut().zip(&outcome.books) {
            *sum += books.undone;
        }
    }
    undone
}

struct Outcome {
    /// By contestant: tallyd, blind, last sent.
    books: [(&'static str, Books); 3],
    fingerprint: u64,
}

impl Outcome {
    fn print(&self, seed: u64) {
        for (name, Books { undone, sold_beyond, writes, sold, .. }) in &self.books {
            println!(
                "seed {seed}: {name}: {undone} units oversold by {writes} writes; \
                 {sold_beyond} of {sold} sold beyond the shelf"
            );
        }
    }
}

async fn contest(seed: u64, trade: &Trade, config: &str) -> Outcome {
    let polls = vec![(JobKind::Balances, Duration::from_secs(300))];
    let mut world = World::open(Plan {
        seed,
        skus: 22,
        warehouses: 2,
        config: config.into(),
        begins_ms: START_MS,
        polls,
        is_scheduled: false,
    })
    .await;
    let stock: BTreeMap<Level, i64> = world.stock().await;
    let levels: Vec<Level> = stock.keys().cloned().collect();
    let events: Vec<(i64, Event)> = events(trade, &levels, &mut Random::new(seed, "shop"));
    world.live(&events).await;
    world.settled(120_000).await;
    world.agrees().await;
    let rival = |habit| compete(habit, &stock, &events, Random::new(seed, "rival"));
    let audit = world.audit();
    let ours = ("ours", audit.books.clone());
    let (blind, last_sent) = (("blind", rival(Habit::Blind)), ("last sent", rival(Habit::LastSent)));
    Outcome { books: [ours, blind, last_sent], fingerprint: audit.fingerprint }
}
