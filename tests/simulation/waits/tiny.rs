//! A quota of two calls a minute delivers changes beside polls.

use crate::books::Level;
use crate::clock::START_MS;
use crate::seed;
use crate::world::{Plan, World};
use std::time::Duration;
use tallyd::model::JobKind;

#[tokio::test]
async fn two_calls_a_minute_write_a_change_amid_polls() {
    let mut world = World::open(Plan {
        seed: seed(),
        skus: 10,
        warehouses: 1,
        begins_ms: START_MS,
        config: "[limits]\ncalls_per_minute = 2\nreserved_calls = 0\n".into(),
        polls: vec![
            (JobKind::Balances, Duration::from_secs(60)),
            (JobKind::WorkQueue, Duration::from_secs(90)),
        ],
        is_scheduled: false,
    })
    .await;
    let levels: Vec<Level> = world.stock().await.into_keys().collect();
    for n in 0..4 {
        let at = world.clock.now_ms() + 137_000 + n * 13_000;
        world.go_on_to(at).await;
        let key =
            world.change_level("quantity.adjust", &levels[usize::try_from(n).unwrap()], "delta", 1).await;
        world.go_on_to(at + 300_000).await;
        let waited = world.sent_at(&key).await - at;
        println!("waited {waited} ms");
        assert_eq!(world.fates().await[&key].0, "applied");
    }
}
