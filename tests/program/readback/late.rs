//! A late replica: a first read after a write that shows the quantity before the write decides nothing
//! (docs/rules.md 3).

use super::between::Scene;
use super::support::{A_MOMENT, BALANCES, UPDATE};
use tallyd::model::JobKind;

#[tokio::test]
async fn a_late_replica_does_not_undo_the_last_adjust() {
    let scene = Scene::open().await;
    let level = scene.levels().await.remove(0);
    scene.adjust("first", &level, -3).await;
    scene.push().await;
    scene.show(&level, Some(level.quantity));
    scene.adjust("next", &level, -2).await;
    scene.push().await;
    assert_eq!(
        (scene.state("next").await, scene.calls(UPDATE)),
        ("pending".into(), 1),
        "nothing is decided on it"
    );
    let due = scene.look_due_in_ms().await.unwrap();
    assert!((1..=5_000).contains(&due), "{due}");
    scene.show_all();
    scene.later(A_MOMENT);
    scene.settle().await;
    scene.push().await;
    assert_eq!(
        (scene.state("next").await, scene.holds(&level).await),
        ("applied".into(), level.quantity - 5)
    );
    assert!(scene.conflicts().await.is_empty());
}

#[tokio::test]
async fn what_a_second_look_confirms_is_the_fact() {
    let scene = Scene::open().await;
    let level = scene.levels().await.remove(0);
    scene.adjust("ours", &level, -3).await;
    scene.push().await;
    // A person returns three units at the platform.
    scene.show(&level, Some(level.quantity));
    scene.run(JobKind::Balances).await;
    assert_eq!(scene.fact(&level).await, level.quantity - 3, "a poll's first look is not taken either");
    scene.run(JobKind::Balances).await;
    assert_eq!(scene.fact(&level).await, level.quantity - 3, "nor a second one at once");
    let reads = scene.calls(BALANCES);
    scene.later(A_MOMENT);
    scene.settle().await;
    assert_eq!((scene.fact(&level).await, scene.calls(BALANCES)), (level.quantity, reads + 1));
    assert_eq!(scene.look_due_in_ms().await, None);
}

#[tokio::test]
async fn what_was_sold_after_a_write_is_a_fact_at_once_and_no_conflict() {
    let scene = Scene::open().await;
    let level = scene.levels().await.remove(0);
    scene.adjust("ours", &level, -3).await;
    scene.push().await;
    scene.sandbox.sell_units(&level.sku, level.warehouse, 2).await.unwrap();
    scene.adjust("next", &level, -1).await;
    scene.push().await;
    assert_eq!(
        (scene.state("next").await, scene.holds(&level).await),
        ("applied".into(), level.quantity - 6)
    );
    scene.later(A_MOMENT * 2);
    scene.settle().await;
    assert_eq!(scene.fact(&level).await, level.quantity - 6);
    assert!(scene.conflicts().await.is_empty());
}

#[tokio::test]
async fn an_answer_that_lacks_the_product_does_not_keep_its_stock_level_waiting() {
    let scene = Scene::open().await;
    let level = scene.levels().await.remove(0);
    scene.adjust("first", &level, -3).await;
    scene.push().await;
    scene.show(&level, Some(level.quantity));
    scene.run(JobKind::Balances).await;
    scene.leave_out(&level);
    scene.later(A_MOMENT);
    scene.settle().await;
    assert_eq!(scene.look_due_in_ms().await, None, "it is not asked for again and again");
    assert_eq!(
        scene.number("SELECT count(*) FROM stock_level_write WHERE first_mismatch_ms IS NOT NULL").await,
        0
    );
}

#[tokio::test]
async fn a_poll_that_ends_a_doubt_wakes_the_push_whose_changes_waited_for_it() {
    let scene = Scene::open().await;
    let level = scene.levels().await.remove(0);
    scene.adjust("first", &level, -3).await;
    scene.push().await;
    scene.show(&level, Some(level.quantity));
    scene.adjust("next", &level, -2).await;
    scene.push().await;
    assert_eq!(scene.state("next").await, "pending", "nothing is decided on it");
    scene.show_all();
    scene.later(A_MOMENT);
    let poll =
        tallyd::daemon::run_job(scene.daemon().context(), JobKind::Balances, tallyd::model::RunTrigger::Once);
    assert_eq!(poll.await.unwrap().wakes, Some(JobKind::Push));
    scene.push().await;
    assert_eq!(
        (scene.state("next").await, scene.holds(&level).await),
        ("applied".into(), level.quantity - 5)
    );
    let poll =
        tallyd::daemon::run_job(scene.daemon().context(), JobKind::Balances, tallyd::model::RunTrigger::Once);
    assert_eq!(poll.await.unwrap().wakes, None, "nobody waits");
}
