//! A thousand quiet days, and one feed gone wrong. A brake never trips in ordinary trade and always in a
//! flood, and health reports no problem while there is none.

use super::books::Level;
use super::clock::START_MS;
use super::random::Random;
use super::shop::{Trade, events};
use super::world::{Plan, World};
use super::{days, seed};
use std::time::Duration;
use tallyd::health;
use tallyd::health::{DaemonState, Finding, FindingCode, HealthInputs};
use tallyd::limiter;
use tallyd::model::{Clock, JobKind};
use tallyd::store::Durability;

const DAY_MS: i64 = 86_400_000;

/// Ordinary trade: sixty sales a day, deliveries and withdrawals, counts that agree, stock that sells out bit
/// by bit.
const QUIET: Trade = Trade {
    lasts_ms: DAY_MS,
    sale_ms: 600_000,
    moved_ms: 2_400_000,
    colleague_ms: 36_000_000,
    count_ms: 7_200_000,
    pick_ms: 1_800_000,
    delivery: 12,
    open_hours: (7, 18),
};

/// Time between two health checks, each at an arbitrary point of the work.
const LOOK_MS: i64 = 3_600_000;

/// Asserts that no problem needs a person. Jobs that this world does not run are late; the others are not.
async fn is_well(world: &World) {
    let look = HealthInputs {
        daemon: DaemonState::Running,
        host: "here".into(),
        keys: Default::default(),
        metrics_file: None,
        is_metrics_old: false,
        at_once: false,
        call_timeout: Duration::from_secs(30),
        limits: limiter::LimiterSettings::default(),
        boot_id: "simulated".into(),
        now: world.clock.now(),
        moment: world.clock.moment(),
    };
    let health = health::check_health(world.store(), &look).await.unwrap();
    let is_left_out = |found: &Finding| match found.code {
        FindingCode::Stale => found.subjects != ["balances"],
        code => code == FindingCode::BackupOld,
    };
    let alarms: Vec<&Finding> =
        health.findings.iter().filter(|found| found.needs_operator() && !is_left_out(found)).collect();
    assert!(alarms.is_empty(), "seed {}, {}: {alarms:#?}", seed(), world.clock.now());
}

#[tokio::test]
async fn no_brake_trips_in_quiet_days() {
    let polls = vec![(JobKind::Balances, Duration::from_secs(600))];
    let plan = Plan {
        seed: seed(),
        skus: 40,
        warehouses: 2,
        config: String::new(),
        begins_ms: START_MS,
        polls,
        is_scheduled: false,
    };
    let mut world = World::open(plan).await;
    let levels: Vec<Level> = world.stock().await.into_keys().collect();
    let trade = Trade { lasts_ms: days() * DAY_MS, ..QUIET };
    let events = events(&trade, &levels, &mut Random::new(seed(), "quiet"));
    for hour in events.chunk_by(|(one, _), (two, _)| one / LOOK_MS == two / LOOK_MS) {
        world.live(hour).await;
        is_well(&world).await;
    }
    world.go_on_to(START_MS + trade.lasts_ms).await;
    world.settled(120_000).await;
    is_well(&world).await;
    world.agrees().await;
    assert_eq!(world.number("SELECT count(*) FROM brake_trip").await, 0, "seed {}", seed());
    assert_eq!(world.number("SELECT count(*) FROM outbox WHERE state = 'held'").await, 0, "seed {}", seed());
    let (changes, audit) = (world.changes(), world.audit());
    let sold_out = audit.books.levels.values().filter(|real| real.listed == 0).count();
    println!(
        "{} days, seed {}: {} events, {} units sold, {changes} changes, {} writes, {} calls, {sold_out} of {} stock levels \
         sold out, {} units oversold by writes, no trip",
        days(),
        seed(),
        events.len(),
        audit.books.sold,
        audit.books.writes,
        audit.calls.len(),
        levels.len(),
        audit.books.undone
    );
}

#[tokio::test]
async fn a_feed_that_zeroes_the_shop_is_held_whole_and_released_once() {
    let plan = Plan {
        seed: seed(),
        skus: 211,
        warehouses: 2,
        config: String::new(),
        begins_ms: START_MS,
        polls: Vec::new(),
        is_scheduled: false,
    };
    let mut world = World::open(plan).await;
    let before = world.stock().await;
    for level in before.keys() {
        world.change_level("quantity.set", level, "quantity", 0).await;
    }
    world.settled(600_000).await;
    assert_eq!(world.stock().await, before, "nothing is zeroed");
    let full = before.values().filter(|quantity| **quantity > 0).count() as i64;
    let held = "SELECT count(*) FROM outbox WHERE state = 'held' AND reason = 'brake'";
    assert_eq!(world.number(held).await, full, "each change that would empty a stock level is held");

    let mut write = world.store().begin_write(Durability::Full).await.unwrap();
    let released = write.brake_release(&[], world.clock.now()).await.unwrap();
    write.commit().await.unwrap();
    assert_eq!(i64::try_from(released).unwrap(), full);
    world.run_now(JobKind::Push).await;
    world.settled(600_000).await;
    assert!(world.stock().await.values().all(|quantity| *quantity == 0), "one release is enough");
    assert_eq!(world.number("SELECT count(*) FROM brake_trip").await, 1, "and no brake trips again");
    world.agrees().await;
}

/// A brake counts a call that has begun before its claim, while changes arrive one by one.
#[tokio::test]
async fn a_feed_that_dribbles_in_empties_no_more_than_the_brake_allows() {
    let plan = Plan {
        seed: seed(),
        skus: 211,
        warehouses: 2,
        begins_ms: START_MS,
        config: String::new(),
        polls: Vec::new(),
        is_scheduled: false,
    };
    let mut world = World::open(plan).await;
    let before = world.stock().await;
    for level in before.keys() {
        let next = world.clock.now_ms() + 20;
        world.go_on_to(next).await;
        world.change_level("quantity.set", level, "quantity", 0).await;
    }
    world.settled(600_000).await;
    let full = before.values().filter(|quantity| **quantity > 0).count();
    let left = world.stock().await.values().filter(|quantity| **quantity > 0).count();
    assert!((full - left) * 5 <= full, "seed {}: {} of {full} were emptied", seed(), full - left);
    assert!(world.number("SELECT count(*) FROM brake_trip").await > 0);
    world.agrees().await;
}
