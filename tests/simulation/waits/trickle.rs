//! Adjusts that never stop: a few each second, over random stock levels. They share calls, and their waits
//! are bounded.
//!
//! docs/performance.md states the bounds. A single change, many at once and a person's change begin at once.

use crate::books::Level;
use crate::clock::START_MS;
use crate::random::Random;
use crate::seed;
use crate::world::{Amid, Plan, Saying, World};
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;
use tallyd::limiter::LimiterSettings;

const MINUTE_MS: i64 = 60_000;
/// The platform's processing time of a call, beside the network's 0.05 to 0.5 s.
const SLOWNESS_MS: (i64, i64) = (250, 1_000);
/// Two answers of a fast platform, and the window in which changes inserted one by one are collected.
const AT_ONCE_MS: i64 = 2 * 500 + 100;
/// The answer to a read under way, the answer to the changes' own read, and the pacing of their calls.
const MANY_MS: i64 = 3_000;

/// A world with adjusts, and the auditor's record of them.
struct Shop {
    world: World,
    random: Random,
    levels: Vec<Level>,
    /// Time of insertion of each adjust, by key.
    inserted: BTreeMap<String, i64>,
}

impl Shop {
    /// Opens a world of 400 SKUs in three warehouses, with every fact too old for a write.
    ///
    /// The facts are two minutes old.
    async fn open() -> Self {
        let mut world = World::open(Plan {
            seed: seed(),
            skus: 400,
            warehouses: 3,
            begins_ms: START_MS,
            config: String::new(),
            polls: Vec::new(),
            is_scheduled: false,
        })
        .await;
        let levels = world.stock().await.into_keys().collect();
        let begins = world.clock.now_ms() + 2 * MINUTE_MS;
        world.go_on_to(begins).await;
        Self { world, random: Random::new(seed(), "trickle"), levels, inserted: BTreeMap::new() }
    }

    /// Adjusts a stock level by one unit.
    async fn moves(&mut self, level: &Level) -> String {
        let key = self.world.change_level("quantity.adjust", level, "delta", 1).await;
        self.inserted.insert(key.clone(), self.world.clock.now_ms());
        key
    }

    /// Inserts adjusts at a rate for a time, while the platform is slow.
    async fn trickle(&mut self, a_second: i64, lasts_ms: i64, slowness_ms: (i64, i64)) {
        let ends = self.world.clock.now_ms() + lasts_ms;
        while self.world.clock.now_ms() < ends {
            let slowness = self.random.between(slowness_ms.0, slowness_ms.1);
            self.world.wire.slow(Duration::from_millis(slowness.unsigned_abs()));
            let level = self.random.pick(&self.levels).clone();
            self.moves(&level).await;
            let next = self.world.clock.now_ms() + self.random.between(1, 2_000 / a_second - 1);
            self.world.go_on_to(next).await;
        }
    }

    /// Waits until all adjusts are applied, each once; returns the time each took.
    async fn waits(&mut self, before: &BTreeMap<Level, i64>) -> BTreeMap<String, i64> {
        self.world.settled(MINUTE_MS).await;
        let units = |stock: &BTreeMap<Level, i64>| stock.values().sum::<i64>();
        let moved = units(&self.world.stock().await) - units(before);
        assert_eq!(usize::try_from(moved).unwrap(), self.inserted.len(), "each once");
        self.world.agrees().await;
        let applied = "SELECT key, state_changed_ms FROM outbox WHERE state = 'applied'";
        let applied: Vec<(String, i64)> = self.world.outsider.rows(applied).await;
        let waits = applied.into_iter().map(|(key, at)| (at - self.inserted[&key], key));
        let waits: BTreeMap<String, i64> = waits.map(|(wait, key)| (key, wait)).collect();
        assert_eq!(waits.len(), self.inserted.len());
        waits
    }

    /// Returns the calls of pushes in the fullest minute.
    async fn calls(&mut self) -> i64 {
        let calls = "SELECT max(calls) FROM (SELECT count(*) calls FROM exchange e JOIN run r ON r.id = e.run_id \
                     WHERE r.job = 'push' GROUP BY e.sent_ms / 60000)";
        self.world.number(calls).await
    }
}

#[tokio::test]
async fn a_trickle_takes_a_third_of_the_quota_and_waits_twelve_seconds_at_most() {
    let quota = i64::from(LimiterSettings::default().calls_per_minute);
    for (a_second, minutes) in [(6, 4), (1, 2)] {
        let mut shop = Shop::open().await;
        let before = shop.world.stock().await;
        shop.trickle(a_second, minutes * MINUTE_MS, SLOWNESS_MS).await;
        let (waits, calls) = (shop.waits(&before).await, shop.calls().await);
        let (longest, all) = (*waits.values().max().unwrap(), i64::try_from(waits.len()).unwrap());
        println!(
            "seed {}, {a_second} a second: {all} movements, {calls} calls in the fullest minute, waits of {} ms, the \
             longest {longest} ms",
            seed(),
            waits.values().sum::<i64>() / all
        );
        assert!(calls * 3 <= quota, "{calls} calls in a minute");
        assert!(longest < 12_000, "one waited {longest} ms");
    }
}

#[tokio::test]
async fn a_change_that_comes_alone_waits_for_nobody() {
    let mut shop = Shop::open().await;
    let before = shop.world.stock().await;
    for level in shop.levels.clone().iter().step_by(60) {
        shop.moves(level).await;
        let next = shop.world.clock.now_ms() + 9_000;
        shop.world.go_on_to(next).await;
    }
    let waits = shop.waits(&before).await;
    assert!(waits.values().all(|wait| *wait <= AT_ONCE_MS), "{waits:?}");
}

#[tokio::test]
async fn many_at_once_and_a_persons_count_do_not_wait_with_a_trickle() {
    let mut shop = Shop::open().await;
    let before = shop.world.stock().await;
    for round in 0..5 {
        shop.trickle(6, 18_000 + i64::try_from(round).unwrap() * 1_300, (0, 0)).await;
        let inserted = shop.world.clock.now_ms();
        for level in shop.levels.clone().iter().skip(60 * round).take(60) {
            shop.moves(level).await;
        }
        let newest = i64::try_from(shop.world.changes()).unwrap();
        shop.trickle(6, MANY_MS, (0, 0)).await;
        let (oldest, until) = (newest - 59, inserted + MANY_MS);
        let sent = format!(
            "SELECT count(*) FROM outbox o JOIN exchange e ON e.id = o.exchange_id \
             WHERE o.id BETWEEN {oldest} AND {newest} AND e.sent_ms BETWEEN {inserted} AND {until}"
        );
        let sent = shop.world.number(&sent).await;
        // Some wait for the trickle's calls, or are sent with them.
        assert!(sent >= 30, "round {round}: {sent} of 60 were sent within {MANY_MS} ms");
    }
    shop.waits(&before).await;
    for at_ms in [15_000, 16_700, 18_300] {
        shop.trickle(6, at_ms, (0, 0)).await;
        let inserted = shop.world.clock.now_ms();
        let level = shop.random.pick(&shop.levels).clone();
        let count = shop.world.change_urgently(&level, 1_000 + at_ms).await;
        shop.trickle(6, 5_000, (0, 0)).await;
        let sent = shop.world.sent_at(&count).await - inserted;
        assert!(sent <= AT_ONCE_MS, "a person waited {sent} ms");
    }
}

/// Rate at which the calls of a push never end.
const ENDLESS: i64 = 30;

#[tokio::test]
async fn a_change_that_a_person_retries_amid_endless_pushes_waits_no_longer_than_the_others() {
    let mut shop = Shop::open().await;
    let level = shop.levels.remove(0);
    let units = shop.world.stock().await[&level];
    let key = shop.world.change_level("quantity.adjust", &level, "delta", -units - 1).await;
    shop.world.settled(MINUTE_MS).await;
    assert_eq!(shop.world.fates().await[&key].0, "held", "it would be negative");
    shop.world.enter(&level, units + 5).await;
    shop.trickle(ENDLESS, 20_000, SLOWNESS_MS).await;
    let retried = shop.world.clock.now_ms();
    shop.world.say_later(retried, Amid { key: key.clone(), saying: Saying::Retry, turns: 0 });
    shop.trickle(ENDLESS, 20_000, SLOWNESS_MS).await;
    assert_eq!(shop.world.fates().await[&key].0, "applied");
    let waited = shop.world.sent_at(&key).await - retried;
    assert!(waited < 12_000, "it waited {waited} ms");
}

#[tokio::test]
async fn a_product_amid_endless_pushes_waits_two_minutes_at_most() {
    let mut shop = Shop::open().await;
    shop.trickle(ENDLESS, 20_000, SLOWNESS_MS).await;
    let product = json!({"Sku": "AMID-1", "Name": "Amid pushes", "Warehouses": []});
    let key = shop.world.change("product.create", &product).await;
    shop.trickle(ENDLESS, 2 * MINUTE_MS, SLOWNESS_MS).await;
    assert_eq!(shop.world.fates().await[&key].0, "applied");
}
