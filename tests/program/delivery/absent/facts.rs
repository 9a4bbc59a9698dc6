//! Facts that an answer does not show.
//!
//! A fact is as old as the last answer that held it, and a SKU is gone only on proof.

use crate::delivery::between::{Level, Odd, Scene};
use crate::delivery::support::{A_MOMENT, BALANCES, UPDATE};
use crate::support::outsider::quoted;
use std::time::Duration;
use tallyd::journal::RunOutcome;
use tallyd::model::{JobKind, RunTrigger};

/// Longer than the distance of two checks that prove a SKU absent.
const MINUTES: Duration = Duration::from_secs(125);
/// For all further answers.
const ALWAYS: usize = usize::MAX;

/// Returns the ways in which an answer does not show a stock level.
fn unshown(level: &Level) -> [Odd; 4] {
    let (sku, warehouse) = (level.sku.clone(), level.warehouse);
    [
        Odd::Lacks(sku.clone()),
        Odd::Unreadable(sku.clone()),
        Odd::Null(sku.clone(), warehouse),
        Odd::Unlinked(sku, warehouse),
    ]
}

/// Sells ten units at the platform.
async fn sell_ten(scene: &Scene, level: &Level) {
    scene.sandbox.sell_units(&level.sku, level.warehouse, 10).await.unwrap();
}

/// Returns the time of observation of the stock level in the view `stock`.
async fn observed_at(scene: &Scene, level: &Level) -> Option<String> {
    let (sku, warehouse) = (quoted(&level.sku), level.warehouse);
    let sql = format!("SELECT observed_at FROM stock WHERE sku = {sku} AND warehouse_id = {warehouse}");
    let mut rows: Vec<(String,)> = scene.outsider().await.rows(&sql).await;
    assert!(rows.len() < 2, "{rows:?}");
    rows.pop().map(|(at,)| at)
}

async fn missing(scene: &Scene) -> i64 {
    scene.number("SELECT count(*) FROM product WHERE missing_since_ms IS NOT NULL").await
}

/// Runs a job and returns its outcome.
async fn outcome(scene: &Scene, kind: JobKind) -> RunOutcome {
    tallyd::daemon::run_job(scene.daemon().context(), kind, RunTrigger::Once).await.unwrap().outcome
}

#[tokio::test]
async fn an_answer_that_does_not_show_a_stock_level_makes_no_old_fact_fresh() {
    for way in 0..4 {
        let scene = Scene::open().await;
        let level = scene.levels().await.remove(0);
        sell_ten(&scene, &level).await;
        scene.odd(unshown(&level)[way].clone(), 1);
        scene.adjust("ours", &level, -1).await;
        scene.push().await;
        assert_eq!(scene.state("ours").await, "applied", "{way}: {:?}", scene.fate("ours").await);
        assert_eq!(scene.holds(&level).await, level.quantity - 11, "{way}");
    }
}

#[tokio::test]
async fn a_stock_level_that_no_answer_shows_is_held_and_goes_on_by_itself() {
    for way in 0..4 {
        let scene = Scene::open().await;
        let level = scene.levels().await.remove(0);
        sell_ten(&scene, &level).await;
        scene.odd(unshown(&level)[way].clone(), ALWAYS);
        scene.adjust("ours", &level, -1).await;
        let reads = scene.calls(BALANCES);
        scene.push().await;
        let (state, reason, detail) = scene.fate("ours").await;
        assert_eq!((state.as_str(), reason.as_str()), ("held", "not_shown"), "{way}: {detail}");
        assert!(detail.contains(&level.sku) && detail.contains("by itself"), "{way}: {detail}");
        assert_eq!((scene.calls(UPDATE), scene.holds(&level).await), (0, level.quantity - 10), "{way}");
        assert!(scene.calls(BALANCES) - reads <= 6, "{way}: {} reads", scene.calls(BALANCES) - reads);

        scene.later(A_MOMENT);
        scene.settle().await;
        scene.push().await;
        assert_eq!(scene.state("ours").await, "held", "{way}: the look showed as little");
        scene.even();
        scene.later(A_MOMENT * 2);
        scene.settle().await;
        scene.push().await;
        assert_eq!(scene.state("ours").await, "applied", "{way}: {:?}", scene.fate("ours").await);
        assert_eq!((scene.calls(UPDATE), scene.holds(&level).await), (1, level.quantity - 11), "{way}");
    }
}

#[tokio::test]
async fn a_count_undoes_no_sale_where_one_answer_leaves_out_its_warehouse() {
    let scene = Scene::open().await;
    let level = scene.levels().await.remove(0);
    scene.set("count", &level, level.quantity).await;
    sell_ten(&scene, &level).await;
    scene.odd(Odd::Unlinked(level.sku.clone(), level.warehouse), 1);
    scene.push().await;
    assert_eq!(scene.state("count").await, "applied", "{:?}", scene.fate("count").await);
    assert_eq!(scene.holds(&level).await, level.quantity - 10);
}

#[tokio::test]
async fn a_count_waits_for_a_warehouse_link_that_was_shown_before() {
    let scene = Scene::open().await;
    let levels = scene.levels().await;
    scene.set("count", &levels[0], levels[0].quantity).await;
    scene.adjust("adjust", &levels[1], -1).await;
    sell_ten(&scene, &levels[0]).await;
    for level in &levels[..2] {
        scene.odd(Odd::Unlinked(level.sku.clone(), level.warehouse), ALWAYS);
    }
    let reads = scene.calls(BALANCES);
    scene.push().await;
    assert!(scene.calls(BALANCES) - reads <= 4, "{} reads", scene.calls(BALANCES) - reads);
    for wait in [A_MOMENT, MINUTES / 2, MINUTES, MINUTES] {
        for key in ["count", "adjust"] {
            let (state, _, detail) = scene.fate(key).await;
            assert_eq!((state.as_str(), scene.calls(UPDATE)), ("held", 0), "{key}: {detail}");
            assert!(detail.contains("no longer names warehouse"), "{key}: {detail}");
        }
        scene.later(wait);
        scene.settle().await;
        scene.push().await;
        assert_eq!(scene.reason("adjust").await, "not_shown");
    }
    scene.even();
    scene.later(MINUTES * 10);
    scene.settle().await;
    scene.push().await;
    assert_eq!(scene.state("count").await, "applied", "{:?}", scene.fate("count").await);
    assert_eq!(scene.holds(&levels[0]).await, levels[0].quantity - 10);
}

#[tokio::test]
async fn a_number_is_as_old_as_the_last_answer_that_held_it() {
    for way in 0..3 {
        let scene = Scene::open().await;
        let levels = scene.levels().await;
        let before = observed_at(&scene, &levels[0]).await;
        let other = observed_at(&scene, &levels[1]).await;
        scene.odd(unshown(&levels[0])[way].clone(), ALWAYS);
        for _ in 0..2 {
            scene.later(A_MOMENT);
            scene.run(JobKind::Balances).await;
        }
        assert_eq!(observed_at(&scene, &levels[0]).await, before, "{way}");
        assert!(observed_at(&scene, &levels[1]).await > other, "{way}: the others were read");
        scene.even();
        scene.later(A_MOMENT);
        scene.run(JobKind::Balances).await;
        assert!(observed_at(&scene, &levels[0]).await > before, "{way}: shown again");
        scene.later(A_MOMENT);
        let shown = observed_at(&scene, &levels[0]).await;
        scene.run(JobKind::Balances).await;
        assert!(observed_at(&scene, &levels[0]).await > shown, "{way}: the same answer again");
    }
}

#[tokio::test]
async fn an_unreadable_record_is_not_absence_and_refuses_nothing() {
    let scene = Scene::open().await;
    let level = scene.levels().await.remove(4);
    scene.odd(Odd::Unreadable(level.sku.clone()), ALWAYS);
    for _ in 0..3 {
        scene.later(MINUTES);
        scene.run(JobKind::Balances).await;
    }
    assert_eq!(missing(&scene).await, 0);
    for key in ["a", "b", "c"] {
        scene.adjust(key, &level, -1).await;
        scene.push().await;
        assert_eq!(scene.state(key).await, "held", "{:?}", scene.fate(key).await);
    }
    scene.even();
    scene.later(A_MOMENT);
    scene.settle().await;
    scene.push().await;
    for key in ["a", "b", "c"] {
        assert_eq!(scene.state(key).await, "applied", "{:?}", scene.fate(key).await);
    }
    assert_eq!(scene.holds(&level).await, level.quantity - 3);
}

#[tokio::test]
async fn a_record_whose_sku_is_a_number_proves_the_absence_of_no_sku() {
    let scene = Scene::open().await;
    let level = scene.some_levels(8).await.remove(0);
    scene.odd(Odd::Numbered(level.sku.clone()), ALWAYS);
    scene.run(JobKind::Balances).await;
    scene.later(MINUTES);
    scene.adjust("ours", &level, -1).await;
    scene.push().await;
    assert_eq!(missing(&scene).await, 0);
    assert_eq!(scene.state("ours").await, "held", "{:?}", scene.fate("ours").await);
    scene.even();
    scene.later(A_MOMENT);
    scene.settle().await;
    scene.push().await;
    assert_eq!(scene.state("ours").await, "applied", "{:?}", scene.fate("ours").await);
    assert_eq!(scene.holds(&level).await, level.quantity - 1);
}

#[tokio::test]
async fn an_answer_that_is_empty_where_all_were_known_decides_nothing_in_a_small_shop() {
    let scene = Scene::open().await;
    let levels = scene.some_levels(8).await;
    let before = observed_at(&scene, &levels[0]).await;
    scene.skip_pauses();
    scene.odd(Odd::Silent(usize::MAX), ALWAYS);
    for (n, level) in levels.iter().take(4).enumerate() {
        scene.adjust(&format!("w{n}"), level, -1).await;
    }
    for _ in 0..3 {
        assert_eq!(outcome(&scene, JobKind::Balances).await, RunOutcome::Failed);
        assert_eq!(outcome(&scene, JobKind::Push).await, RunOutcome::Failed);
        scene.later(MINUTES);
    }
    assert_eq!((missing(&scene).await, scene.calls(UPDATE)), (0, 0));
    assert_eq!(observed_at(&scene, &levels[0]).await, before);
    scene.even();
    scene.push().await;
    for (n, level) in levels.iter().take(4).enumerate() {
        assert_eq!(scene.state(&format!("w{n}")).await, "applied", "w{n}");
        assert_eq!(scene.holds(level).await, level.quantity - 1);
    }
}

#[tokio::test]
async fn small_reads_that_are_answered_with_nothing_decide_nothing_in_a_large_shop() {
    let scene = Scene::open().await;
    let levels = scene.levels().await;
    sell_ten(&scene, &levels[0]).await;
    scene.odd(Odd::Silent(9), ALWAYS);
    for key in ["a", "b", "c"] {
        scene.adjust(key, &levels[0], -1).await;
        scene.push().await;
        assert!(
            ["pending", "held"].contains(&scene.state(key).await.as_str()),
            "{:?}",
            scene.fate(key).await
        );
        scene.later(MINUTES);
    }
    assert_eq!((missing(&scene).await, scene.calls(UPDATE)), (0, 0));
    scene.even();
    scene.settle().await;
    scene.push().await;
    for key in ["a", "b", "c"] {
        assert_eq!(scene.state(key).await, "applied", "{:?}", scene.fate(key).await);
    }
    assert_eq!(scene.holds(&levels[0]).await, levels[0].quantity - 13);
}

#[tokio::test]
async fn in_a_shop_of_one_sku_an_empty_answer_holds_its_changes_for_a_person() {
    let scene = Scene::open().await;
    let level = scene.some_levels(1).await.remove(0);
    scene.odd(Odd::Silent(usize::MAX), ALWAYS);
    scene.adjust("ours", &level, -1).await;
    scene.push().await;
    let (state, reason, detail) = scene.fate("ours").await;
    assert_eq!((state.as_str(), reason.as_str()), ("held", "not_shown"), "{detail}");
    assert!(detail.contains("returns no record of"), "{detail}");
    for _ in 0..3 {
        scene.later(MINUTES);
        assert_eq!(outcome(&scene, JobKind::Balances).await, RunOutcome::Failed);
        scene.settle().await;
        scene.push().await;
    }
    assert_eq!((missing(&scene).await, scene.state("ours").await), (0, "held".into()));
    scene.even();
    scene.later(MINUTES * 4);
    scene.settle().await;
    scene.push().await;
    assert_eq!(
        (scene.state("ours").await, scene.holds(&level).await),
        ("applied".into(), level.quantity - 1)
    );
}

#[tokio::test]
async fn a_sku_is_gone_by_two_looks_minutes_apart_that_showed_others() {
    let scene = Scene::open().await;
    let level = scene.levels().await.remove(0);
    scene.odd(Odd::Lacks(level.sku.clone()), ALWAYS);
    scene.adjust("ours", &level, -1).await;
    scene.push().await;
    assert_eq!(scene.state("ours").await, "held", "an answer without any record proves nothing");
    scene.run(JobKind::Balances).await;
    assert_eq!(missing(&scene).await, 0);
    scene.later(Duration::from_secs(100));
    scene.run(JobKind::Balances).await;
    assert_eq!(missing(&scene).await, 0, "not two minutes yet");
    scene.later(Duration::from_secs(25));
    scene.run(JobKind::Balances).await;
    assert_eq!(missing(&scene).await, 1);
    scene.settle().await;
    scene.push().await;
    assert_eq!((scene.state("ours").await, scene.reason("ours").await), ("held".into(), "not_shown".into()));
    assert_eq!((scene.calls(UPDATE), observed_at(&scene, &level).await), (0, None));
}

/// The first page has one SKU, so the answer for one that is gone has no records and proves nothing.
///
/// The other SKUs are read all the same, and the SKU is recognised as gone by larger pages.
#[tokio::test]
async fn a_sku_that_is_gone_keeps_no_other_from_being_read_in_pages_of_one() {
    let scene = Scene::open_with("[jobs.balances]\nskus_per_call = 1\n").await;
    let levels = scene.some_levels(6).await;
    scene.odd(Odd::Lacks(levels[0].sku.clone()), ALWAYS);
    for expected in [0, 1] {
        let before = observed_at(&scene, &levels[5]).await;
        scene.later(MINUTES);
        assert_eq!(outcome(&scene, JobKind::Balances).await, RunOutcome::Ok);
        assert!(observed_at(&scene, &levels[5]).await > before);
        assert_eq!(missing(&scene).await, expected);
    }
}

#[tokio::test]
async fn a_change_for_a_sku_that_was_gone_is_judged_by_a_fresh_look() {
    let scene = Scene::open().await;
    let level = scene.levels().await.remove(0);
    scene.odd(Odd::Lacks(level.sku.clone()), ALWAYS);
    for _ in 0..2 {
        scene.run(JobKind::Balances).await;
        scene.later(MINUTES);
    }
    assert_eq!(missing(&scene).await, 1);
    scene.even();
    scene.adjust("back", &level, -1).await;
    scene.push().await;
    assert_eq!(
        (scene.state("back").await, scene.holds(&level).await),
        ("applied".into(), level.quantity - 1)
    );
}

#[tokio::test]
async fn a_sku_nobody_ever_saw_is_held() {
    let scene = Scene::open().await;
    scene.levels().await;
    let typo = Level { sku: "NO-SUCH".into(), warehouse: 5201, quantity: 0 };
    scene.odd(Odd::Silent(1), ALWAYS);
    scene.adjust("typo", &typo, 1).await;
    scene.push().await;
    assert_eq!((scene.state("typo").await, scene.reason("typo").await), ("held".into(), "not_shown".into()));
}

#[tokio::test]
async fn what_stands_twice_and_differs_is_no_fact_and_what_agrees_is_one() {
    for way in 0..2 {
        let scene = Scene::open().await;
        let levels = scene.levels().await;
        let (level, other) = (&levels[0], &levels[1]);
        let odd = |level: &Level, by: i64| match way {
            0 => Odd::Twice(level.sku.clone(), by),
            _ => Odd::LevelTwice(level.sku.clone(), level.warehouse, by),
        };
        let before = observed_at(&scene, level).await;
        scene.odd(odd(level, -17), ALWAYS);
        scene.odd(odd(other, 0), ALWAYS);
        scene.later(A_MOMENT);
        scene.run(JobKind::Balances).await;
        assert_eq!(
            (scene.fact(level).await, observed_at(&scene, level).await),
            (level.quantity, before.clone())
        );
        assert!(observed_at(&scene, other).await > before, "{way}: both say the same");
        assert!(scene.number("SELECT count(*) FROM parked WHERE why LIKE '%twice%'").await > 0, "{way}");
        scene.adjust("ours", level, -1).await;
        scene.adjust("theirs", other, -1).await;
        scene.push().await;
        assert_eq!(
            (scene.state("ours").await, scene.state("theirs").await),
            ("held".into(), "applied".into())
        );
        assert_eq!(scene.holds(level).await, level.quantity);
    }
}
