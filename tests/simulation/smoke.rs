use super::world::*;
use std::time::Duration;
use tallyd::model::JobKind;
#[tokio::test]
async fn smoke() {
    let plan = Plan { seed: 1, skus: 20, warehouses: 2, config: String::new(), polls: vec![(JobKind::Balances, Duration::from_secs(300))] };
    let t = std::time::Instant::now();
    let mut world = World::open(plan).await;
    println!("open {:?}", t.elapsed());
    let cell = world.stock().await.into_iter().find(|(_, n)| *n > 20).unwrap().0;
    let t = std::time::Instant::now();
    for _ in 0..50 {
        world.wish_cell("quantity.adjust", &cell, "delta", -1).await;
        let at = world.clock.now_ms() + 10_000;
        world.go_on_to(at).await;
    }
    println!("50 pushes {:?}", t.elapsed());
    world.settled(60_000).await;
    println!("{:?}", world.fates().await.values().next());
    let t = std::time::Instant::now();
    let at = world.clock.now_ms() + 86_400_000;
    world.go_on_to(at).await;
    println!("a day of polls {:?} calls {}", t.elapsed(), world.audit().calls.len());
}
