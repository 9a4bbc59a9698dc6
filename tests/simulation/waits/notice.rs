//! The notice of a person's decision that is committed while a run starts.

use crate::clock::START_MS;
use crate::seed;
use crate::world::{Amid, Plan, Saying, World};

#[tokio::test]
async fn a_retry_that_is_committed_behind_the_reads_of_a_starting_push_starts_another() {
    let mut world = World::open(Plan {
        seed: seed(),
        skus: 2,
        warehouses: 1,
        begins_ms: START_MS,
        config: String::new(),
        polls: Vec::new(),
        is_scheduled: false,
    })
    .await;
    let (level, units) = world.stock().await.into_iter().next().unwrap();
    let key = world.change_level("quantity.adjust", &level, "delta", -units - 1).await;
    world.settled(60_000).await;
    assert_eq!(world.fates().await[&key].0, "held", "it would be negative");
    world.enter(&level, units + 5).await;
    world.go_on_to(world.clock.now_ms() + 600_000).await;
    let now = world.clock.now_ms();
    world.say_later(now, Amid { key: key.clone(), saying: Saying::Retry, turns: 200 });
    world.kill().await;
    world.go_on_to(now + 60_000).await;
    assert_eq!(world.fates().await[&key].0, "applied");
}
