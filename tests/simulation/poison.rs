//! An entry that fails every call that names it, in each form of failure. It is isolated after few calls,
//! other changes go on, and it is retried by itself until it succeeds.

use super::books::Level;
use super::clock::START_MS;
use super::odd::{How, Poison};
use super::seed;
use super::world::{Plan, World};
use serde_json::json;
use std::collections::BTreeSet;
use std::time::Duration;
use tallyd::model::{JobKind, Operation};

const READ: Operation = Operation::GetProductBalances;
const UPDATE: Operation = Operation::UpdateQuantityOnHand;
const EACH_WAY: [How; 10] = [
    How::Status(500),
    How::Status(404),
    How::Status(422),
    How::Status(413),
    How::Status(403),
    How::Html,
    How::Empty,
    How::Cut,
    How::Dropped,
    How::Silent,
];
/// Adjusts of other stock levels.
const OTHERS: usize = 30;
/// Time within which the others must be applied.
const AT_ONCE_MS: i64 = 10_000;
const HOUR_MS: i64 = 3_600_000;
/// Calls that the failing entry may cost in an hour.
const SPENT_MAX: usize = 60;
/// The longest delay between two attempts, the quiet time of the last one, and the duration of the calls.
const HEALED_WITHIN_MS: i64 = 33 * 60_000;

/// Opens a mirrored world of 400 SKUs of which one fails; returns its stock level and those of others.
async fn shop(operation: Operation, how: How) -> (World, Level, Vec<Level>) {
    let mut world = World::open(Plan {
        seed: seed(),
        skus: 400,
        warehouses: 1,
        begins_ms: START_MS,
        config: String::new(),
        polls: vec![(JobKind::Balances, Duration::from_secs(300))],
        is_scheduled: false,
    })
    .await;
    world.idle().await;
    let mut levels: Vec<Level> =
        world.stock().await.into_iter().filter(|(_, units)| *units > 5).map(|(level, _)| level).collect();
    let bad = levels.remove(137);
    world.wire.poison(vec![Poison { operation, entry: format!("\"{}\"", bad.0), how }]);
    (world, bad, levels)
}

/// Returns the keys of the changes that are not applied, with their states.
async fn open(world: &mut World, keys: &BTreeSet<String>) -> Vec<(String, (String, String))> {
    let fates = world.fates().await.into_iter();
    fates.filter(|(key, (state, _))| keys.contains(key) && state != "applied").collect()
}

/// Adjusts the others and the failing stock level, one at a time; returns the others' keys and the failing
/// one's.
async fn move_all(world: &mut World, bad: &Level, others: &[Level]) -> (BTreeSet<String>, String) {
    let mut keys = BTreeSet::new();
    let mut of_bad = String::new();
    for (n, level) in others.iter().take(OTHERS).enumerate() {
        if n == OTHERS / 3 {
            of_bad = world.change_level("quantity.adjust", bad, "delta", 1).await;
        }
        keys.insert(world.change_level("quantity.adjust", level, "delta", 1).await);
    }
    (keys, of_bad)
}

/// Asserts that the failing entry is retried by itself, rarely, and is applied once it no longer fails.
async fn heals(world: &mut World, how: How, from_ms: i64, of_bad: &str) {
    let now = world.clock.now_ms();
    world.go_on_to((from_ms + HOUR_MS).max(now)).await;
    let spent = world.wire.poisoned().iter().filter(|at| **at < from_ms + HOUR_MS).count();
    println!("{how:?}: {spent} calls named the bad one in an hour");
    assert!((2..=SPENT_MAX).contains(&spent), "{how:?}: {spent} calls in an hour");
    assert_ne!(world.fates().await[of_bad].0, "rejected", "{how:?}: its movement is not lost");
    world.wire.poison(Vec::new());
    let healed = world.clock.now_ms();
    world.go_on_to(healed + HEALED_WITHIN_MS).await;
    assert_eq!(world.fates().await[of_bad].0, "applied", "{how:?}");
    world.run_now(JobKind::Balances).await;
    let quarantined = world.number("SELECT count(*) FROM quarantine").await;
    assert_eq!(quarantined, 0, "{how:?}: what succeeds is taken back");
}

async fn mirrors_the_others(how: How) {
    let (mut world, bad, others) = shop(READ, how).await;
    let from = world.clock.now_ms();
    for level in &others {
        world.core.sell_units(&level.0, level.1, 1).await.unwrap();
    }
    world.run_now(JobKind::Balances).await;
    let (mut mirror, mut stock) = (world.mirror().await, world.stock().await);
    mirror.remove(&bad);
    stock.remove(&bad);
    let missed = stock.iter().filter(|(level, units)| mirror.get(level) != Some(units)).count();
    assert_eq!(missed, 0, "{how:?}: all others are mirrored within one pass");
    println!("{how:?}: {} calls to find the culprit", world.wire.poisoned().len());

    let moved_at = world.clock.now_ms();
    let (keys, of_bad) = move_all(&mut world, &bad, &others).await;
    world.go_on_to(moved_at + AT_ONCE_MS).await;
    assert_eq!(open(&mut world, &keys).await, [], "{how:?}: movements of others");
    heals(&mut world, how, from, &of_bad).await;
}

/// Quiet time of a lost answer, the time-out again, two checks 5 s apart, and their calls.
const QUIET_MS: i64 = 60_000 + 5_000 + 2_000;

async fn pushes_the_others(how: How) {
    let (mut world, bad, others) = shop(UPDATE, how).await;
    let from = world.clock.now_ms();
    let (keys, of_bad) = move_all(&mut world, &bad, &others).await;
    world.go_on_to(from + AT_ONCE_MS).await;
    let left = open(&mut world, &keys).await;
    let unknown = !matches!(how, How::Status(400..=499));
    assert!(left.len() <= if unknown { 24 } else { 0 }, "{how:?}: {left:?}");
    let is_silent = if how == How::Silent { 30_000 } else { 0 };
    world.go_on_to(from + QUIET_MS.max(is_silent) + AT_ONCE_MS).await;
    assert_eq!(open(&mut world, &keys).await, [], "{how:?}: those that shared a call of unknown outcome");
    // Others go on while the failing entry waits.
    let at = world.clock.now_ms();
    let (keys, _) = move_all(&mut world, &bad, &others[OTHERS..]).await;
    world.go_on_to(at + AT_ONCE_MS).await;
    assert_eq!(open(&mut world, &keys).await, [], "{how:?}: movements that came later");
    heals(&mut world, how, from, &of_bad).await;
}

#[tokio::test]
async fn a_sku_that_cannot_be_read_keeps_nobody_from_being_mirrored_and_pushed() {
    for how in EACH_WAY {
        mirrors_the_others(how).await;
    }
}

#[tokio::test]
async fn a_sku_that_cannot_be_written_keeps_nobody_from_being_pushed() {
    for how in EACH_WAY {
        pushes_the_others(how).await;
    }
}

/// Quiet time of a create, two checks 5 s apart, and their calls.
const QUIET_CREATE_MS: i64 = 600_000 + 5_000 + 5_000;

/// Opens a world with orders of which the last fails; returns all of them.
async fn with_orders(operation: Operation, how: How, orders: usize) -> (World, Vec<i64>, Level) {
    let world = World::open(Plan {
        seed: seed(),
        skus: 20,
        warehouses: 1,
        begins_ms: START_MS,
        config: String::new(),
        polls: Vec::new(),
        is_scheduled: false,
    })
    .await;
    let levels = world.stock().await.into_iter().filter(|(_, units)| *units > 20);
    let levels: Vec<Level> = levels.map(|(level, _)| level).collect();
    let mut placed = Vec::new();
    for _ in 0..orders {
        placed.push(world.core.place_order(&[(levels[0].0.as_str(), 2)]).await.unwrap());
    }
    let bad = placed[orders - 1];
    let end = if operation == Operation::GetOrderLineItems { '}' } else { ',' };
    world.wire.poison(vec![Poison { operation, entry: format!("\"OrderId\":{bad}{end}"), how }]);
    (world, placed, levels[1].clone())
}

async fn ship(world: &mut World, order: i64) -> String {
    world.change("shipment.create", &json!({"order_id": order})).await
}

async fn ships_the_others(how: How) {
    let (mut world, orders, _) = with_orders(Operation::CreateShipments, how, 8).await;
    let from = world.clock.now_ms();
    let mut keys = BTreeSet::new();
    for order in &orders[..7] {
        keys.insert(ship(&mut world, *order).await);
    }
    let of_bad = ship(&mut world, orders[7]).await;
    let is_silent = if how == How::Silent { 30_000 } else { 0 };
    let unknown = !matches!(how, How::Status(400..=499));
    let quiet = if unknown { QUIET_CREATE_MS } else { 0 };
    world.go_on_to(from + quiet + is_silent + 2 * AT_ONCE_MS).await;
    assert_eq!(open(&mut world, &keys).await, [], "{how:?}");
    let now = world.clock.now_ms();
    world.go_on_to((from + HOUR_MS).max(now)).await;
    let spent = world.wire.poisoned().len();
    println!("{how:?}: {spent} creates named the bad order in an hour");
    assert!((2..=SPENT_MAX).contains(&spent), "{how:?}: {spent} calls in an hour");
    world.wire.poison(Vec::new());
    let healed = world.clock.now_ms();
    world.go_on_to(healed + QUIET_CREATE_MS + HEALED_WITHIN_MS).await;
    let fates = world.fates().await;
    assert_eq!(fates[&of_bad].0, "applied", "{how:?}: {fates:?}");
    assert_eq!(world.audit().shipped.len(), 8, "{how:?}");
    assert!(world.audit().shipped.values().all(|made| made.len() == 1), "{how:?}: each once");
}

#[tokio::test]
async fn an_order_that_cannot_be_shipped_keeps_no_other_from_being_shipped() {
    for how in EACH_WAY {
        ships_the_others(how).await;
    }
}

/// Ten shipments of which one order cannot be read do not delay an adjust inserted a second later.
async fn reads_no_order_in_front_of_others(how: How) {
    let (mut world, orders, level) = with_orders(Operation::GetOrderLineItems, how, 10).await;
    let from = world.clock.now_ms();
    let of_bad = ship(&mut world, orders[9]).await;
    let mut keys = BTreeSet::new();
    for order in &orders[..9] {
        keys.insert(ship(&mut world, *order).await);
    }
    world.go_on_to(from + 1_000).await;
    let mut moved = Vec::new();
    for n in 0..5 {
        moved.push((world.change_level("quantity.adjust", &level, "delta", 1).await, world.clock.now_ms()));
        world.go_on_to(from + 1_000 + (n + 1) * 3_000).await;
    }
    let silent = if how == How::Silent { 60_000 } else { 0 };
    world.go_on_to(from + AT_ONCE_MS * 2 + silent).await;
    for (key, at) in &moved {
        let waited = world.sent_at(key).await - at;
        assert!(waited <= 1_500, "{how:?}: {key} waited {waited} ms for the trouble of an order");
    }
    assert_eq!(open(&mut world, &keys).await, [], "{how:?}: the other parcels");
    let now = world.clock.now_ms();
    world.go_on_to((from + HOUR_MS).max(now)).await;
    let spent = world.wire.poisoned().len();
    println!("{how:?}: {spent} reads of the bad order in an hour");
    assert!((2..=SPENT_MAX).contains(&spent), "{how:?}: {spent} calls in an hour");
    world.wire.poison(Vec::new());
    let healed = world.clock.now_ms();
    world.go_on_to(healed + HEALED_WITHIN_MS).await;
    let fates = world.fates().await;
    assert_eq!(fates[&of_bad].0, "applied", "{how:?}: {fates:?}");
}

#[tokio::test]
async fn an_order_that_cannot_be_read_delays_no_stock_and_no_other_parcel() {
    for how in EACH_WAY.into_iter().filter(|how| !matches!(how, How::Status(400..=499) | How::Empty)) {
        reads_no_order_in_front_of_others(how).await;
    }
}
