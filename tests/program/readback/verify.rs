//! `verify`: differences are reported, changes on their way explain them, and no fact changes.

use super::between::{Level, Odd, Scene};
use super::support::{BALANCES, Dock, UPDATE};
use serde_json::json;
use tallyd::daemon::{ControlError, ControlRequest, send_control_request};
use tallyd::model::{JobKind, RunId, RunTrigger};
use tallyd::store::Durability;
use tallyd::sync;
use tallyd::sync::VerifyReport;

/// Creates a dock that was read once, without its daemon.
async fn read_once() -> (Dock, Vec<Level>) {
    let mut dock = Dock::open().await;
    let stock = dock.sandbox.stock_levels().await.unwrap();
    let levels: Vec<Level> = stock
        .into_iter()
        .map(|row| Level { sku: row.sku, warehouse: row.warehouse_id, quantity: row.quantity })
        .collect();
    dock.track_skus(&levels.iter().map(|level| &level.sku).collect::<Vec<_>>()).await;
    dock.run(tallyd::model::JobKind::Balances).await;
    dock.leave();
    (dock, levels)
}

async fn verify(dock: &Dock, calls: usize) -> Result<VerifyReport, ControlError> {
    send_control_request(dock.config(), dock.clock(), &ControlRequest::Verify { calls }).await
}

#[tokio::test]
async fn what_was_sold_since_the_last_read_is_an_explained_difference_and_stays_one() {
    let (dock, levels) = read_once().await;
    assert!(verify(&dock, 3).await.unwrap().drift.is_empty());
    let sold = levels.iter().find(|level| level.quantity >= 5).unwrap();
    dock.sandbox.sell_units(&sold.sku, sold.warehouse, 2).await.unwrap();
    let facts = "SELECT CAST(sum(quantity * 31 + warehouse_id) AS BIGINT) FROM stock";
    let before = dock.number(facts).await;
    for _ in 0..2 {
        let verified = verify(&dock, 3).await.unwrap();
        assert_eq!(
            (verified.calls, verified.unexplained_count()),
            (1, 0),
            "one page is enough for this shop"
        );
        assert_eq!(i64::try_from(verified.levels_compared).unwrap(), verified.levels_known);
        let drift = &verified.drift[0];
        assert_eq!(
            (drift.sku.as_str(), drift.mirror, drift.difference),
            (sold.sku.as_str(), Some(sold.quantity), -2)
        );
        let why = drift.explained_by.as_deref().unwrap();
        assert!(
            why.starts_with(&format!("sold: 2 units of {} since the last read, at 20", sold.quantity)),
            "{why}"
        );
    }
    assert_eq!(dock.number(facts).await, before, "no fact changed");
    let journalled = "SELECT count(*) FROM exchange e JOIN run r ON r.id = e.run_id \
                      WHERE CAST(r.input->>'verify' AS BIGINT) = 3 AND e.verdict = 'accepted'";
    assert_eq!(dock.number(journalled).await, 3, "every call is in the journal, and told apart");
}

/// A kit's quantity follows from its components, in whichever warehouse they are.
#[tokio::test]
async fn a_kit_whose_component_was_emptied_or_filled_by_us_is_explained() {
    let (mut dock, levels) = read_once().await;
    dock.restart().await;
    let all = dock.sandbox.all_skus().await.unwrap();
    let kit =
        all.iter().find(|sku| levels.iter().all(|level| level.sku != **sku)).expect("the shop has a kit");
    dock.track_skus(&[kit]).await;
    dock.run(JobKind::Balances).await;
    dock.leave();
    let product = dock.number(&format!("SELECT product_id FROM product WHERE sku = '{kit}'")).await;
    dock.done(&["product", "components", kit]).await;
    let parts: Vec<String> = dock
        .outsider()
        .await
        .rows::<(String,)>(&format!("SELECT sku FROM kit_component WHERE kit_id = {product} ORDER BY sku"))
        .await
        .into_iter()
        .map(|(sku,)| sku)
        .collect();
    for (key, quantity) in [("empty", 0), ("fill", 90_000)] {
        dock.restart().await;
        for (n, level) in levels.iter().filter(|level| parts.contains(&level.sku)).enumerate() {
            let body = json!({"sku": level.sku, "warehouse_id": level.warehouse, "quantity": quantity});
            dock.change(&format!("{key}-{n}"), "quantity.set", body).await;
        }
        dock.push().await;
        dock.leave();
        let verified = verify(&dock, 3).await.unwrap();
        let drift: Vec<_> = verified.drift.iter().filter(|drift| drift.sku == *kit).collect();
        assert!(!drift.is_empty(), "the kit follows its components: {parts:?}");
        for difference in drift {
            let why = difference.explained_by.as_deref().unwrap_or_default();
            assert!(parts.iter().any(|part| why.contains(part.as_str())), "{key}: {difference:?}");
        }
        assert_eq!(verified.unexplained_count(), 0, "{:?}", verified.drift);
        dock.restart().await;
        dock.run(JobKind::Balances).await;
        dock.leave();
    }
}

#[tokio::test]
async fn a_change_that_is_on_its_way_explains_its_stock_level() {
    let (mut dock, levels) = read_once().await;
    let level = levels.iter().find(|level| level.quantity >= 5).unwrap();
    dock.restart().await;
    dock.fault(UPDATE, json!({"Drop": "after"})).await;
    let body = json!({"sku": level.sku, "warehouse_id": level.warehouse, "delta": -2});
    dock.change("lost", "quantity.adjust", body).await;
    dock.push().await;
    assert_eq!(dock.state("lost").await, "in_doubt");
    dock.leave();
    let verified = verify(&dock, 1).await.unwrap();
    assert_eq!((verified.drift.len(), verified.unexplained_count()), (1, 0));
    assert!(verified.drift[0].explained_by.as_ref().unwrap().contains("lost"));
    assert_eq!(dock.state("lost").await, "in_doubt", "verify settles nothing");
}

#[tokio::test]
async fn a_service_that_does_not_answer_costs_no_more_than_the_calls_allowed() {
    let (dock, _) = read_once().await;
    let reads = dock.calls(BALANCES);
    dock.faults(json!([{"Operation": BALANCES, "Status": 500}])).await;
    let refused = verify(&dock, 3).await.unwrap_err().to_string();
    assert!(refused.contains("the balances to compare"), "{refused}");
    assert_eq!(dock.calls(BALANCES), reads + 3);
}

#[tokio::test]
async fn beside_a_daemon_the_daemon_compares() {
    let mut dock = Dock::open().await;
    dock.run(JobKind::Balances).await;
    let levels = dock.number("SELECT count(*) FROM balance").await;
    let _at_work = dock.work();
    let verified = verify(&dock, 3).await.unwrap();
    assert_eq!((verified.levels_known, verified.unexplained_count()), (levels, 0), "{verified:?}");
    let sessions = dock.number("SELECT count(*) FROM session WHERE ended_ms IS NULL").await;
    assert_eq!(sessions, 1, "by the one that holds the lock");
}

/// Begins a run for a control request, as the daemon does.
async fn begun(scene: &Scene) -> RunId {
    let context = scene.daemon().context();
    let mut write = context.store.begin_write(Durability::Normal).await.unwrap();
    let run =
        write.run_begin(context.session_id, JobKind::Balances, RunTrigger::Operator, context.now()).await;
    write.commit().await.unwrap();
    run.unwrap()
}

/// An answer that lacks a SKU is no difference; the missing SKU is reported.
#[tokio::test]
async fn what_an_answer_does_not_show_is_no_difference() {
    let scene = Scene::open().await;
    let levels = scene.levels().await;
    for (odd, expected) in [
        (Odd::Unreadable(levels[0].sku.clone()), levels[0].sku.as_str()),
        (Odd::Null(levels[1].sku.clone(), levels[1].warehouse), levels[1].sku.as_str()),
        (Odd::Silent(usize::MAX), "no readable record"),
    ] {
        scene.odd(odd, usize::MAX);
        let verified = sync::verify_mirror(scene.daemon().context(), begun(&scene).await, 3).await.unwrap();
        assert!(verified.drift.is_empty(), "{:?}", verified.drift);
        let trouble = verified.trouble.unwrap();
        assert!(trouble.contains(expected), "{trouble}");
        scene.even();
    }
}
