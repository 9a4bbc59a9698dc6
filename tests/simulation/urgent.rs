//! A person's count amid a backlog: how long from its insertion until its update is on the wire.
//!
//! docs/performance.md states the bound: one answer of the service and a tenth of a second, be it the answer to the read
//! that a stale fact needs or that of the call whose slot the update takes. Where answers come within half a second
//! that is G13's 0.6 s. The clock stands while the daemon computes, so this is what quota, lanes, slots and the line of the push
//! cost, not the processor.

use super::books::Cell;
use super::clock::START_MS;
use super::seed;
use super::world::{Plan, World};
use std::time::Duration;

/// One way through the network and the service's usual work, both ways: the longest answer of a service that is not slow.
const ANSWER_MS: i64 = 500;
/// What a wish may wait beside that answer: wishes that come one by one are gathered for 40 ms.
const BOUND_MS: i64 = 100;
/// Wishes, and how far apart: over more than a minute, so that the window is full in its course.
const WISHES: i64 = 10;
const APART_MS: i64 = 7_300;

/// Counts of a person every few seconds beside a backlog that fills every minute; the waits, sorted.
async fn waits(slowness: Duration, fresh: bool) -> Vec<i64> {
    let max_fact_age = if fresh { "1h" } else { "1s" };
    let config = format!("[quantities]\nmax_fact_age = \"{max_fact_age}\"\n");
    let mut world = World::open(Plan {
        seed: seed(),
        skus: 10,
        warehouses: 30,
        begins_ms: START_MS,
        config,
        polls: Vec::new(),
        is_scheduled: false,
    })
    .await;
    let cells: Vec<Cell> = world.stock().await.into_keys().collect();
    world.wire.slow(slowness);
    let (mut inserted, mut units) = (Vec::new(), 1_000);
    for n in 0..WISHES {
        // Each call carries a SKU once, so ten SKUs in thirty warehouses are thirty calls of ten.
        units += 1;
        for cell in cells.iter().skip(1).filter(|_| n % 2 == 0) {
            world.wish_cell("quantity.set", cell, "quantity", units).await;
        }
        let at = world.clock.now_ms() + APART_MS + n * 37;
        world.go_on_to(at).await;
        inserted.push((world.wish_urgently(&cells[0], units).await, at));
    }
    world.settled(3_600_000).await;
    let mut waits = Vec::new();
    for (key, at) in inserted {
        waits.push(world.sent_at(&key).await - at);
    }
    world.agrees().await;
    waits.sort_unstable();
    println!("seed {}: slowness {slowness:?}, fresh {fresh}: {waits:?}", seed());
    waits
}

#[tokio::test]
async fn a_persons_count_amid_a_backlog_waits_for_at_most_one_answer() {
    for (slowness_ms, fresh) in [(0, true), (0, false), (1_500, true), (1_500, false)] {
        let waits = waits(Duration::from_millis(slowness_ms), fresh).await;
        let answer = i64::try_from(slowness_ms).unwrap() + ANSWER_MS;
        let longest = waits[waits.len() - 1];
        assert!(longest <= answer + BOUND_MS, "{slowness_ms} ms, fresh {fresh}: {waits:?}");
    }
}
