//! The calls of a backlog beside their lower bound.
//!
//! - A call writes 25 stock levels and each SKU once. C stock levels, at most W of them of one SKU, take at least
//!   max(⌈C / 25⌉, W) updates.
//! - A read shows `skus_per_call` SKUs, and a write rests on a read that is at most `max_fact_age` old. With F calls in
//!   that time, the read among them, S SKUs with old facts take at least max(⌈S / `skus_per_call`⌉, ⌈C / (25 · (F - 1))⌉)
//!   reads.

use crate::books::Level;
use crate::clock::START_MS;
use crate::seed;
use crate::world::{Plan, World};
use std::collections::BTreeMap;

const SKUS_PER_CALL: usize = 200;
/// Calls in the 10 s of `max_fact_age`, of 120 a minute.
const CALLS_IN_FACT_AGE: usize = 20;

/// Adjusts so many stock levels whose facts are old; returns the calls of the push and their lower bound.
async fn calls(changes: usize, warehouses: usize) -> (usize, usize) {
    // One SKU in twenty is a kit, which has no stock.
    let skus = changes / warehouses * 11 / 10 + 20;
    let mut world = World::open(Plan {
        seed: seed(),
        skus: u32::try_from(skus).unwrap(),
        warehouses: u32::try_from(warehouses).unwrap(),
        begins_ms: START_MS,
        config: format!("[jobs.balances]\nskus_per_call = {SKUS_PER_CALL}\n"),
        polls: Vec::new(),
        is_scheduled: false,
    })
    .await;
    let levels: Vec<Level> = world.stock().await.into_keys().take(changes).collect();
    let mut per_sku = BTreeMap::<&str, usize>::new();
    levels.iter().for_each(|(sku, _)| *per_sku.entry(sku).or_default() += 1);
    assert_eq!((levels.len(), per_sku.len()), (changes, changes.div_ceil(warehouses)));
    let old = world.clock.now_ms() + 600_000;
    world.go_on_to(old).await;
    for level in &levels {
        world.change_level("quantity.adjust", level, "delta", 1).await;
    }
    world.settled(3_600_000).await;
    world.agrees().await;
    let most = *per_sku.values().max().unwrap();
    let reads = per_sku.len().div_ceil(SKUS_PER_CALL).max(changes.div_ceil(25 * (CALLS_IN_FACT_AGE - 1)));
    let bound = reads + changes.div_ceil(25).max(most);
    let calls = "SELECT count(*) FROM exchange e JOIN run r ON r.id = e.run_id WHERE r.job = 'push'";
    (usize::try_from(world.number(calls).await).unwrap(), bound)
}

/// Asserts that the calls are at most a twentieth more than the bound, over one and several warehouses.
async fn takes_few_calls(changes: usize) {
    for warehouses in [1, 3] {
        let (calls, bound) = calls(changes, warehouses).await;
        println!("{changes} stock levels in {warehouses} warehouses: {calls} calls, at least {bound}");
        assert!(calls <= bound + bound / 20, "{changes} in {warehouses}: {calls} calls, {bound} suffice");
    }
}

#[tokio::test]
async fn a_backlog_takes_its_fewest_calls_and_a_twentieth_more_at_most() {
    for changes in [10, 100, 1_000] {
        takes_few_calls(changes).await;
    }
}

/// Ignored by default: `cargo test --release --test simulation -- --ignored a_backlog_of_10_000 --nocapture`.
#[tokio::test]
#[ignore = "takes minutes in a debug build"]
async fn a_backlog_of_10_000_takes_its_fewest_calls_and_a_twentieth_more_at_most() {
    takes_few_calls(10_000).await;
}
