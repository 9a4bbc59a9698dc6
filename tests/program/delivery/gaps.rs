//! Properties that no other test held until a seeded bug showed it (docs/mutants.md).

use super::gate::gated;
use super::support::{A_MOMENT, BALANCES, Dock, UPDATE};
use serde_json::{Value, json};
use tallyd::exec;
use tallyd::limiter::HoldReason;
use tallyd::model::{JobKind, Operation};
use tallyd::store::Durability;

const SUPPLIERS: &str = "GET /api/Suppliers";

/// Tracks every SKU and reads all of them.
async fn read_all(dock: &Dock) {
    dock.track_all_skus().await;
    dock.run(JobKind::Balances).await;
}

/// Returns stock levels with enough stock, each of another SKU: SKU, warehouse, quantity.
async fn levels(dock: &Dock) -> Vec<(String, i64, i64)> {
    let mut stock = dock.sandbox.stock_levels().await.unwrap();
    stock.retain(|row| row.quantity >= 20);
    stock.dedup_by(|one, other| one.sku == other.sku);
    stock.into_iter().map(|row| (row.sku, row.warehouse_id, row.quantity)).collect()
}

async fn adjust(dock: &Dock, key: &str, sku: &str, warehouse: i64, delta: i64) {
    dock.change(key, "quantity.adjust", json!({"sku": sku, "warehouse_id": warehouse, "delta": delta})).await;
}

/// Creates a kit of two that the mirror does not know as a kit; returns its product's id.
async fn kit(dock: &Dock, component: &str) -> i64 {
    let kit = json!({"Sku": "KIT-OF-TWO", "Name": "Two of them",
                     "Components": [{"Sku": component, "Quantity": 2}]});
    dock.request("POST", "/_sandbox/kits", &kit.to_string()).await["ProductId"].as_i64().unwrap()
}

/// A release applies to the changes it names: a flood beside a released change that still waits trips again.
#[tokio::test]
async fn a_second_flood_beside_a_released_change_trips_again() {
    let dock = Dock::open_with("[quantities]\nmax_fact_age = \"0s\"\nmax_quantity_jump = 5\n").await;
    read_all(&dock).await;
    let mut levels = dock.sandbox.stock_levels().await.unwrap();
    levels.retain(|row| row.quantity > 0);
    let jump = levels.remove(0);
    adjust(&dock, "jump", &jump.sku, jump.warehouse_id, 9).await;
    dock.push().await;
    assert_eq!(dock.reason("jump").await, "brake");
    let context = dock.daemon().context();
    let mut write = context.store.begin_write(Durability::Full).await.unwrap();
    assert_eq!(write.brake_release(&["jump".into()], context.now()).await.unwrap(), 1);
    write.commit().await.unwrap();
    for (n, row) in levels.iter().enumerate() {
        let body = json!({"sku": row.sku, "warehouse_id": row.warehouse_id, "quantity": 0});
        dock.change(&format!("z{n}"), "quantity.set", body).await;
    }
    dock.push().await;
    assert_eq!(dock.state("jump").await, "applied");
    assert_eq!((dock.state("z0").await, dock.reason("z0").await), ("held".into(), "brake".into()));
    assert_eq!(dock.calls(UPDATE), 1, "the released one alone");
}

/// A change of a known kit is rejected without a call, because its quantity follows from its components.
#[tokio::test]
async fn a_change_for_a_known_kit_is_rejected_before_the_send() {
    let mut dock = Dock::open().await;
    let component = dock.sandbox.stock_levels().await.unwrap().remove(0);
    let product = kit(&dock, &component.sku).await;
    read_all(&dock).await;
    dock.leave();
    dock.done(&["product", "components", "KIT-OF-TWO"]).await;
    dock.restart().await;
    let kind = format!("SELECT type FROM product WHERE product_id = {product}");
    assert_eq!(dock.outsider().await.value::<String>(&kind).await, "Kit");
    let body = json!({"sku": "KIT-OF-TWO", "warehouse_id": component.warehouse_id, "quantity": 3});
    dock.change("kit", "quantity.set", body).await;
    dock.push().await;
    assert_eq!((dock.state("kit").await, dock.reason("kit").await), ("rejected".into(), "kit".into()));
    assert_eq!(dock.calls(UPDATE), 0);
    assert!(dock.calls(BALANCES) > 0, "it was read");
}

/// Of three entries, the second is refused by its index; the other two are applied.
#[tokio::test]
async fn of_a_partial_success_the_named_entry_alone_is_refused() {
    let dock = Dock::open().await;
    let levels = levels(&dock).await;
    kit(&dock, &levels[5].0).await;
    adjust(&dock, "first", &levels[0].0, levels[0].1, 1).await;
    let body = json!({"sku": "KIT-OF-TWO", "warehouse_id": levels[5].1, "quantity": 3});
    dock.change("kit", "quantity.set", body).await;
    adjust(&dock, "last", &levels[1].0, levels[1].1, 1).await;
    dock.push().await;
    let (state, reason, detail) = dock.fate("kit").await;
    assert_eq!((state.as_str(), reason.as_str()), ("rejected", "service_refused"), "{detail}");
    assert_eq!((dock.state("first").await, dock.state("last").await), ("applied".into(), "applied".into()));
    assert_eq!(dock.calls(UPDATE), 1);
}

/// Two adjusts in one entry are both final with it, because one left pending would be applied a second time.
#[tokio::test]
async fn movements_of_one_stock_level_go_in_one_entry_and_once() {
    let dock = Dock::open().await;
    let (sku, warehouse, quantity) = levels(&dock).await.remove(0);
    adjust(&dock, "three", &sku, warehouse, -3).await;
    adjust(&dock, "two", &sku, warehouse, -2).await;
    dock.push().await;
    assert_eq!((dock.state("three").await, dock.state("two").await), ("applied".into(), "applied".into()));
    assert_eq!((dock.level(&sku, warehouse).await, dock.calls(UPDATE)), (quantity - 5, 1));
}

#[tokio::test]
async fn a_page_before_a_push_that_is_too_large_is_asked_for_in_halves() {
    let dock = Dock::open().await;
    dock.fault(BALANCES, json!({"Status": 500})).await;
    for (n, (sku, warehouse, _)) in levels(&dock).await.iter().take(4).enumerate() {
        adjust(&dock, &format!("w{n}"), sku, *warehouse, 1).await;
    }
    dock.push().await;
    for n in 0..4 {
        assert_eq!(dock.state(&format!("w{n}")).await, "applied", "w{n}");
    }
    assert!(dock.calls(BALANCES) > 2, "four at once, then two and two");
}

/// A call is planned when it has its reservation, not when it begins to wait for one (docs/rules.md 2).
#[tokio::test]
async fn what_is_sold_while_a_call_waits_for_its_place_still_counts() {
    let dock = Dock::open().await;
    let (sku, warehouse, quantity) = levels(&dock).await.remove(0);
    let limiter = dock.daemon().context().limiter.clone();
    // The call waits for its slot then, until the clock goes on.
    dock.fault(UPDATE, json!({"Status": 429})).await;
    adjust(&dock, "taken", &sku, warehouse, -3).await;
    let sell = async {
        while dock.calls(UPDATE) == 0 || limiter.quota_usage().bulk_waiting == 0 {
            tokio::task::yield_now().await;
        }
        dock.sandbox.sell_units(&sku, warehouse, 1).await.unwrap();
        loop {
            if limiter.quota_usage().bulk_waiting > 0 {
                dock.later(A_MOMENT);
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        _ = dock.push() => {}
        () = sell => {}
    }
    assert_eq!((dock.level(&sku, warehouse).await, dock.calls(UPDATE)), (quantity - 4, 2));
}

#[tokio::test]
async fn a_read_that_is_refused_is_not_sent_again_in_its_run() {
    let dock = Dock::open().await;
    dock.fault(SUPPLIERS, json!({"Status": 404})).await;
    let summary = dock.run(JobKind::Suppliers).await;
    assert_eq!(dock.calls(SUPPLIERS), 1, "{summary}");
}

#[tokio::test]
async fn a_wait_that_the_service_ordered_outlives_the_program() {
    let mut dock = Dock::open().await;
    dock.fault(SUPPLIERS, json!({"Status": 429, "RetryAfter": 600})).await;
    let kept = "SELECT count(*) FROM limiter_state WHERE state LIKE '%\"rate\"%'";
    tokio::select! {
        summary = dock.run(JobKind::Suppliers) => panic!("it did not wait: {summary}"),
        () = async { while dock.number(kept).await == 0 {} } => {}
    }
    dock.restart().await;
    let holds = dock.daemon().context().limiter.quota_usage().holds;
    assert!(holds.iter().any(|hold| hold.reason == HoldReason::Rate), "{holds:?}");

    let context = dock.daemon().context();
    let lifted = exec::lift_wait(&context.store, context.now()).await.unwrap();
    assert!(lifted.is_some_and(|wait| wait.reason == HoldReason::Rate), "a person ends it");
    assert_eq!(exec::lift_wait(&context.store, context.now()).await.unwrap(), None);
    dock.restart().await;
    assert_eq!(dock.daemon().context().limiter.quota_usage().holds, []);
}

/// The product is sent in the platform's spelling, and the plan shows that spelling.
#[tokio::test]
async fn a_change_in_another_spelling_is_planned_in_the_services() {
    let dock = Dock::open().await;
    read_all(&dock).await;
    let (sku, warehouse, _) = levels(&dock).await.remove(0);
    // A spelling that was never read may be a product of its own, so it is read first.
    adjust(&dock, "first", &sku.to_lowercase(), warehouse, 1).await;
    dock.push().await;
    adjust(&dock, "low", &sku.to_lowercase(), warehouse, 1).await;
    let plan: Value = serde_json::from_str(&dock.done(&["plan", "--json"]).await).unwrap();
    let body = plan["calls"][0]["body"].as_str().unwrap();
    assert!(body.contains(&format!("\"{sku}\"")), "{body}");
}

/// The begin of a call is committed before the send.
///
/// Otherwise a crash would forget a used reservation, and the open transaction would block every other
/// writer.
#[tokio::test]
async fn no_call_leaves_before_the_journal_has_it() {
    let (dock, mut gate) = gated().await;
    let (sku, warehouse, _) = levels(&dock).await.remove(0);
    adjust(&dock, "w", &sku, warehouse, 1).await;
    gate.close();
    let mut known = Vec::new();
    tokio::select! {
        _ = dock.push() => {}
        () = async {
            loop {
                let leaving = gate.leaving().await;
                let operation = leaving.operation;
                let sql = format!("SELECT count(*) FROM exchange WHERE operation = '{operation}' AND answered_ms IS NULL");
                known.push((operation, dock.number(&sql).await));
                leaving.go();
            }
        } => {}
    }
    assert_eq!(known, [(Operation::GetProductBalances, 1), (Operation::UpdateQuantityOnHand, 1)]);
    gate.open();
}
