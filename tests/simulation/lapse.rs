//! A platform that fails for five minutes while the key lapses. Of a thousand changes none is rejected, and
//! each takes effect once afterwards.

use super::books::Level;
use super::clock::START_MS;
use super::random::Random;
use super::seed;
use super::wire::{Lapse, Way};
use super::world::{Plan, World};
use std::time::Duration;
use tallyd::model::JobKind;

/// Adjusts, and shipments with their trackings.
const MOVEMENTS: usize = 960;
const PARCELS: usize = 20;
/// Duration of the failure, in milliseconds.
const LAPSED_MS: i64 = 300_000;
/// Allowed answers of 400 in that time; the budget of a day is 500.
const BURNT_MAX: i64 = 20;

#[tokio::test]
async fn a_platform_that_answers_500_while_the_key_lapses_refuses_no_change() {
    lapsed(Way::ServerError).await;
}

#[tokio::test]
async fn a_platform_that_answers_404_while_the_key_lapses_refuses_no_change() {
    lapsed(Way::NotFound).await;
}

#[tokio::test]
async fn a_platform_that_answers_html_while_the_key_lapses_refuses_no_change() {
    lapsed(Way::Html).await;
}

#[tokio::test]
async fn a_platform_that_answers_empty_lists_while_the_key_lapses_refuses_no_change() {
    lapsed(Way::EmptyList).await;
}

#[tokio::test]
async fn a_platform_that_drops_the_line_while_the_key_lapses_refuses_no_change() {
    lapsed(Way::Dropped).await;
}

/// Answers every update, then every third call of any kind, as for a lapsed key.
async fn lapsed(way: Way) {
    for updates in [Lapse::Updates, Lapse::EveryThird] {
        five_minutes(way, updates).await;
    }
}

async fn five_minutes(way: Way, lapse: Lapse) {
    let polls =
        vec![(JobKind::Balances, Duration::from_secs(300)), (JobKind::WorkQueue, Duration::from_secs(60))];
    let plan = Plan {
        seed: seed(),
        skus: 370,
        warehouses: 3,
        // The facts stay fresh, so updates are sent without a read before each. Otherwise a failing read
        // would keep them from meeting the lapsed key.
        config: "[quantities]\nmax_fact_age = \"10m\"\n".into(),
        begins_ms: START_MS,
        polls,
        is_scheduled: false,
    };
    let mut world = World::open(plan).await;
    let mut random = Random::new(seed(), "lapse");
    let levels: Vec<Level> = world.stock().await.into_keys().collect();
    let (moved, sold) = levels.split_at(MOVEMENTS);
    for level in moved {
        let units = world.audit().books.moved(level, random.between(1, 6));
        world.change_level("quantity.adjust", level, "delta", units).await;
    }
    let mut parcels = Vec::new();
    while parcels.len() < PARCELS {
        parcels.extend(world.parcel(random.pick(sold)).await);
    }
    world.wire.change(|weather| weather.lapse = Some((way, lapse)));
    let until = world.clock.now_ms() + LAPSED_MS;
    world.go_on_to(until).await;
    let answer = format!("{way:?}, {lapse:?}");
    let refused = "SELECT count(*) FROM outbox WHERE state = 'rejected'";
    assert_eq!(world.number(refused).await, 0, "{answer}: so many are refused for good");
    let burnt = world.number("SELECT count(*) FROM exchange WHERE status = 400").await;
    assert!(burnt <= BURNT_MAX, "{answer}: {burnt} answers of 400");
    world.wire.change(|weather| weather.lapse = None);
    world.settled(2 * 3_600_000).await;
    world.looked_twice().await;
    let mut fates = world.fates().await;
    fates.retain(|_, (state, _)| state != "applied");
    assert!(fates.is_empty(), "{answer}: {fates:?}");
    let wrong: Vec<Level> = world.audit().books.wrong().into_iter().map(|(level, _)| level.clone()).collect();
    assert!(wrong.is_empty(), "{answer}: a change was lost or done twice in {wrong:?}");
    world.judge_parcels(&parcels).await;
}
