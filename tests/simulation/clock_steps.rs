//! A host whose calendar is set. A step ahead while a create is in doubt must not shorten its quiet time. A
//! step back must not make a fact fresh that is hours old by the monotonic clock.

use super::books::Level;
use super::clock::START_MS;
use super::seed;
use super::storm::{Mishap, Storm};
use super::wire::Weather;
use super::world::{Plan, World};
use tallyd::model::JobKind;

const HOUR_MS: i64 = 3_600_000;

/// A create in doubt is not sent again before its true quiet time has passed.
///
/// The call times out after 30 s, and the platform carries it out up to 29 s later. In between, the calendar
/// is set an hour ahead, so that by the calendar the quiet time of ten minutes is over.
#[tokio::test]
async fn a_calendar_set_ahead_ships_nothing_twice() {
    for seed in seed()..seed() + 6 {
        let polls = Vec::new();
        let config = String::new();
        let plan =
            Plan { seed, skus: 12, warehouses: 1, config, begins_ms: START_MS, polls, is_scheduled: false };
        let mut world = World::open(plan).await;
        let stock = world.stock().await;
        let (full, _): (Level, i64) =
            stock.into_iter().max_by_key(|(_, units)| *units).expect("a shop has goods");
        let always = Storm { writes: 100, reads: 0 };
        world.wire.change(|weather| {
            *weather = Weather { storm: always, only: Some(Mishap::Late), ..Weather::default() }
        });
        let parcel = world.parcel(&full).await.expect("it has enough of something");
        let at = world.clock.now_ms() + 31_000;
        world.go_on_to(at).await;
        world.wire.storm(Storm::default());
        world.set_calendar(HOUR_MS);
        for _ in 0..3 {
            world.run_now(JobKind::Settle).await;
            let at = world.clock.now_ms() + 5_000;
            world.go_on_to(at).await;
        }
        let at = world.clock.now_ms() + HOUR_MS;
        world.go_on_to(at).await;
        let shipped = world.audit().shipped.get(&parcel.order).cloned().unwrap_or_default();
        assert_eq!(shipped.len(), 1, "seed {seed}: {shipped:?}");
    }
}

/// A fact does not become fresh when the calendar shows the same time twice (seed 741 of the full world).
///
/// A write that rests on it would undo the sales since.
#[tokio::test]
async fn a_calendar_set_back_makes_no_old_fact_young() {
    let plan = Plan {
        seed: seed(),
        skus: 3,
        warehouses: 1,
        config: String::new(),
        begins_ms: START_MS,
        polls: Vec::new(),
        is_scheduled: false,
    };
    let mut world = World::open(plan).await;
    world.run_now(JobKind::Balances).await;
    let (level, units) = world.stock().await.pop_first().expect("a shop has goods");
    let at = world.clock.now_ms() + HOUR_MS;
    world.go_on_to(at).await;
    world.enter(&level, units + 20).await;
    world.set_calendar(-HOUR_MS);
    world.change_level("quantity.adjust", &level, "delta", 5).await;
    world.settled(HOUR_MS).await;
    assert_eq!(world.stock().await[&level], units + 25, "seed {}", seed());
}
