//! Proof of success by reading back (docs/mutants.md, case 13).
//!
//! Read back are zeros, stock levels that have never followed a write, and a sample of the rest.

use super::between::{Level, Scene};
use super::support::{A_MOMENT, BALANCES, Dock};
use serde_json::json;
use std::time::Duration;
use tallyd::model::JobKind;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Time after which a check is due that no change waits for.
const PROOF: Duration = Duration::from_secs(11);
/// Longer than the distance of two answers that prove that a link is gone.
const MINUTES: Duration = Duration::from_secs(125);

/// Runs two checks, far enough from the write and from each other.
async fn look_twice(scene: &Scene) {
    scene.later(PROOF);
    scene.settle().await;
    scene.later(A_MOMENT);
    scene.settle().await;
}

/// Writes a quantity that shows, so that the stock level has followed a write once.
async fn proven(scene: &Scene) -> Level {
    let mut level = scene.levels().await.remove(0);
    scene.set("proof", &level, level.quantity + 1).await;
    scene.push().await;
    scene.later(PROOF);
    scene.settle().await;
    assert_eq!(scene.number("SELECT count(*) FROM stock_level_write WHERE is_proven").await, 1);
    level.quantity += 1;
    level
}

#[tokio::test]
async fn a_zero_that_does_not_show_twice_is_a_conflict_with_both_numbers() {
    let scene = Scene::open().await;
    let level = proven(&scene).await;
    scene.set("zero", &level, 0).await;
    scene.push().await;
    assert_eq!(scene.state("zero").await, "applied");
    scene.show(&level, Some(7));
    scene.later(PROOF);
    scene.settle().await;
    assert!(scene.conflicts().await.is_empty(), "one look may be a late replica's");
    scene.later(A_MOMENT);
    scene.settle().await;
    let conflicts = scene.conflicts().await;
    let (key, kind, mine, theirs, what_to_do) = conflicts[0].clone();
    assert_eq!(
        (key.as_str(), kind.as_str(), mine.as_str(), theirs.as_deref()),
        ("zero", "quantity.set", "0", Some("7"))
    );
    let command = format!("tallyd quantity set {} {} N", level.sku, level.warehouse);
    assert!(what_to_do.contains(&command) && what_to_do.contains("shows 0"), "{what_to_do}");
    assert_eq!(scene.number("SELECT count(*) FROM event WHERE kind = 'conflict.opened'").await, 1);
    assert_eq!(scene.fact(&level).await, 7, "what the platform shows is the fact");

    scene.show_all();
    scene.run(JobKind::Balances).await;
    assert!(scene.conflicts().await.is_empty(), "it closes by itself once the platform shows 0");
}

#[tokio::test]
async fn a_first_write_that_does_not_show_holds_movements_until_a_count_goes_through() {
    let scene = Scene::open().await;
    let level = scene.levels().await.remove(0);
    scene.adjust("first", &level, -3).await;
    scene.push().await;
    scene.show(&level, Some(level.quantity));
    look_twice(&scene).await;
    assert_eq!(scene.conflicts().await[0].0, "first");
    scene.adjust("next", &level, -1).await;
    scene.push().await;
    assert_eq!((scene.state("next").await, scene.reason("next").await), ("held".into(), "mismatch".into()));
    scene.show_all();
    scene.set("count", &level, 30).await;
    scene.show(&level, Some(level.quantity));
    scene.push().await;
    assert_eq!(
        (scene.state("count").await, scene.state("next").await),
        ("applied".into(), "cancelled".into())
    );
    assert!(scene.conflicts().await.is_empty(), "the next write that is accepted ends it");
    look_twice(&scene).await;
    assert_eq!(scene.conflicts().await[0].0, "count", "and is looked for itself");
    scene.set("as it is", &level, level.quantity).await;
    scene.push().await;
    assert_eq!(scene.state("as it is").await, "applied");
    assert!(scene.conflicts().await.is_empty(), "both sides say the same");
}

#[tokio::test]
async fn a_count_of_a_stock_level_that_is_not_linked_is_read_back() {
    let scene = Scene::open().await;
    let level = scene.stocked().await.remove(0);
    scene.show(&level, None);
    scene.levels().await;
    scene.set("new", &level, 5).await;
    scene.push().await;
    assert_eq!(scene.state("new").await, "applied");
    look_twice(&scene).await;
    let (key, _, mine, theirs, _) = scene.conflicts().await[0].clone();
    assert_eq!((key.as_str(), mine.as_str(), theirs), ("new", "5", None));
}

#[tokio::test]
async fn first_writes_share_a_read_and_few_of_the_later_ones_are_looked_for() {
    let scene = Scene::open().await;
    let levels = scene.levels().await;
    let some = &levels[..6];
    for (round, delta) in [(0, -1), (1, -1), (2, 1)] {
        for (n, level) in some.iter().enumerate() {
            scene.adjust(&format!("{round}.{n}"), level, delta).await;
        }
        scene.push().await;
        let reads = scene.calls(BALANCES);
        let looked_for =
            scene.number("SELECT count(*) FROM stock_level_write WHERE check_due_ms IS NOT NULL").await;
        assert!(looked_for == if round == 0 { 6 } else { looked_for.min(2) }, "{round}: {looked_for}");
        scene.settle().await;
        assert_eq!(scene.calls(BALANCES), reads, "not before five seconds have passed");
        scene.later(PROOF);
        scene.settle().await;
        assert_eq!(scene.calls(BALANCES), reads + usize::from(looked_for > 0), "all of them in one read");
    }
    assert!(scene.conflicts().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_look_outlives_a_crash_and_the_daemon_makes_it_by_itself() {
    let mut dock = Dock::open().await;
    let row = dock.sandbox.stock_levels().await.unwrap().into_iter().find(|row| row.quantity >= 20).unwrap();
    let body = json!({"sku": row.sku, "warehouse_id": row.warehouse_id, "delta": -1});
    dock.change("w", "quantity.adjust", body).await;
    dock.push().await;
    dock.restart().await;
    dock.later(PROOF);
    let (stop, (_changed, reload)) = (CancellationToken::new(), mpsc::channel(1));
    let working = tokio::spawn(dock.take_daemon().run(stop.clone(), reload));
    let proven = async {
        while dock
            .number("SELECT count(*) FROM stock_level_write WHERE is_proven AND check_due_ms IS NULL")
            .await
            == 0
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), proven).await.unwrap();
    stop.cancel();
    working.await.unwrap().unwrap();
}

/// A read of one warehouse proves nothing about the SKU's other warehouses (docs/mutants.md, case 11).
#[tokio::test]
async fn each_warehouse_of_a_sku_is_proved_by_itself() {
    let scene = Scene::open().await;
    let stock = scene.sandbox.stock_levels().await.unwrap();
    let plenty: Vec<Level> = stock
        .into_iter()
        .filter(|row| row.quantity >= 10)
        .map(|row| Level { sku: row.sku, warehouse: row.warehouse_id, quantity: row.quantity })
        .collect();
    let twin =
        |one: &Level| plenty.iter().find(|other| other.sku == one.sku && other.warehouse > one.warehouse);
    let (shown, hidden) = plenty.iter().find_map(|one| Some((one, twin(one)?))).unwrap();
    scene.adjust("shown", shown, -1).await;
    scene.adjust("hidden", hidden, -1).await;
    scene.push().await;
    scene.show(hidden, Some(hidden.quantity));
    scene.later(PROOF);
    scene.settle().await;
    scene.adjust("goes on", shown, -1).await;
    scene.adjust("waits", hidden, -1).await;
    scene.push().await;
    assert_eq!(
        (scene.state("goes on").await, scene.state("waits").await),
        ("applied".into(), "pending".into())
    );
}
