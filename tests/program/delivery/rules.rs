//! Sequences of the rules that need a platform at the other end. `docs/rules.md` names the tests of each
//! rule.

use super::support::{A_MOMENT, Dock, LONG, SHIP, UPDATE};
use serde_json::{Value, json};

const WORK_QUEUE: &str = "GET /api/Company/WorkQueue";

/// Returns stock levels with enough stock, each of another SKU.
async fn levels(dock: &Dock) -> Vec<(String, i64, i64)> {
    let mut stock = dock.sandbox.stock_levels().await.unwrap();
    stock.retain(|row| row.quantity >= 20);
    stock.dedup_by(|a, b| a.sku == b.sku);
    stock.into_iter().map(|row| (row.sku, row.warehouse_id, row.quantity)).collect()
}

fn adjust(sku: &str, warehouse: i64, delta: i64) -> Value {
    json!({"sku": sku, "warehouse_id": warehouse, "delta": delta})
}

#[tokio::test]
async fn a_throttled_write_is_planned_anew_and_never_the_old_body() {
    let dock = Dock::open().await;
    let (sku, warehouse, quantity) = levels(&dock).await.remove(0);
    dock.fault(UPDATE, json!({"Status": 429, "RetryAfter": 1})).await;
    dock.change("taken", "quantity.adjust", adjust(&sku, warehouse, -3)).await;
    tokio::join!(dock.push(), async {
        while dock.calls(UPDATE) == 0 {
            tokio::task::yield_now().await;
        }
        dock.sandbox.sell_units(&sku, warehouse, 1).await.unwrap();
    });
    assert_eq!(dock.state("taken").await, "applied");
    assert_eq!((dock.level(&sku, warehouse).await, dock.calls(UPDATE)), (quantity - 4, 2));
}

#[tokio::test]
async fn a_sku_in_another_case_is_sent_as_the_service_spells_it() {
    let dock = Dock::open().await;
    let (sku, warehouse, quantity) = levels(&dock).await.remove(0);
    dock.change("low", "quantity.adjust", adjust(&sku.to_lowercase(), warehouse, 1)).await;
    dock.push().await;
    assert_eq!(dock.state("low").await, "applied", "{:?}", dock.fate("low").await);
    // The platform finds no SKU with a leading blank; the mirror has the SKU that is meant.
    dock.change("blank", "quantity.adjust", adjust(&format!(" {sku}"), warehouse, 1)).await;
    dock.push().await;
    assert_eq!(dock.state("blank").await, "applied", "{:?}", dock.fate("blank").await);
    dock.fault(UPDATE, json!({"Drop": "after"})).await;
    dock.change("lost", "quantity.adjust", adjust(&format!("  {sku}"), warehouse, 1)).await;
    dock.push().await;
    dock.settle().await;
    assert_eq!(dock.state("lost").await, "applied", "{:?}", dock.fate("lost").await);
    assert_eq!(dock.level(&sku, warehouse).await, quantity + 3);
}

#[tokio::test]
async fn a_call_refused_as_a_whole_is_halved_once_the_key_is_proved() {
    let dock = Dock::open().await;
    let levels = levels(&dock).await;
    dock.fault(UPDATE, json!({"Status": 400})).await;
    for (n, (sku, warehouse, _)) in levels.iter().take(4).enumerate() {
        dock.change(&format!("a{n}"), "quantity.adjust", adjust(sku, *warehouse, 1)).await;
    }
    dock.push().await;
    for n in 0..4 {
        assert_eq!(dock.state(&format!("a{n}")).await, "applied", "a{n}");
    }
    assert_eq!((dock.calls(UPDATE), dock.calls(WORK_QUEUE)), (3, 1));
}

#[tokio::test]
async fn a_400_that_means_the_key_judges_no_change() {
    let dock = Dock::open().await;
    let (sku, warehouse, quantity) = levels(&dock).await.remove(0);
    dock.faults(json!([
        {"Operation": UPDATE, "Status": 400, "Times": 1},
        {"Operation": WORK_QUEUE, "Status": 401, "Times": 1},
    ]))
    .await;
    dock.change("a", "quantity.adjust", adjust(&sku, warehouse, 1)).await;
    dock.push().await;
    assert_eq!((dock.state("a").await, dock.calls(UPDATE)), ("pending".into(), 1));
    assert!(dock.daemon().context().limiter.is_refused());
    assert_eq!(dock.level(&sku, warehouse).await, quantity);
}

#[tokio::test]
async fn what_a_person_shipped_is_not_taken_for_ours() {
    let dock = Dock::open().await;
    let (sku, ..) = levels(&dock).await.remove(0);
    let (order, lines) = dock.order(&[(&sku, 5)]).await;
    let two = json!({"line_item_id": lines[0], "quantity": 2});
    dock.fault(SHIP, json!({"Drop": "before"})).await;
    dock.change("ours", "shipment.create", json!({"order_id": order, "lines": [two]})).await;
    dock.push().await;
    let theirs = json!([{"OrderId": order, "LineItems": [{"LineItemId": lines[0], "Quantity": 2}]}]);
    dock.request("POST", "/api/Shipments/Create", &theirs.to_string()).await;
    assert_eq!(dock.left(order).await, [3]);
    dock.settle_after(LONG).await;
    dock.push().await;
    let (state, reason, detail) = dock.fate("ours").await;
    assert_eq!((state.as_str(), reason.as_str()), ("in_doubt", "landed_or_another"), "{detail}");
    assert!(detail.contains("5 were left, 2 were to be shipped, 3 are left"), "{detail}");
    assert_eq!(dock.calls(SHIP), 2, "ours and the person's");
}

#[tokio::test]
async fn a_dribble_of_zeroings_is_counted_over_the_hour() {
    let dock = Dock::open_with("[quantities]\nmax_fact_age = \"0s\"\nmax_zeroing_fraction = 0.05\n").await;
    let levels = levels(&dock).await;
    dock.track_all_skus().await;
    dock.run(tallyd::model::JobKind::Balances).await;
    let zero = async |from: usize, to: usize| {
        for (n, (sku, warehouse, _)) in levels.iter().enumerate().take(to).skip(from) {
            let body = json!({"sku": sku, "warehouse_id": warehouse, "quantity": 0});
            dock.change(&format!("z{n}"), "quantity.set", body).await;
        }
        dock.push().await;
    };
    zero(0, 6).await;
    assert_eq!(dock.state("z5").await, "applied", "six of so many are ordinary");
    zero(6, 12).await;
    assert_eq!((dock.state("z6").await, dock.reason("z11").await), ("held".into(), "brake".into()));
    dock.later(LONG * 6);
    zero(12, 18).await;
    assert_eq!(dock.state("z12").await, "applied", "the first six are more than an hour ago");
}

#[tokio::test]
async fn a_flood_over_several_batches_trips_its_brake_once() {
    let dock =
        Dock::open_with("[quantities]\nmax_zeroing_fraction = 0.05\n[jobs.balances]\nskus_per_call = 3\n")
            .await;
    let levels = levels(&dock).await;
    dock.track_all_skus().await;
    dock.run(tallyd::model::JobKind::Balances).await;
    for (n, (sku, warehouse, _)) in levels.iter().enumerate().take(15) {
        let body = json!({"sku": sku, "warehouse_id": warehouse, "quantity": 0});
        dock.change(&format!("z{n}"), "quantity.set", body).await;
    }
    dock.push().await;
    assert_eq!((dock.reason("z0").await, dock.reason("z14").await), ("brake".into(), "brake".into()));
    let trips = dock.daemon().context().store.brake_trip_list().await.unwrap();
    assert_eq!(trips.iter().map(|trip| trip.held).collect::<Vec<_>>(), [15]);
    let written: i64 = dock.outsider().await.value("SELECT count(*) FROM brake_trip").await;
    assert_eq!(written, 1, "a trip that holds nothing is none");
}

#[tokio::test]
async fn a_released_change_is_read_again_and_merged_before_it_is_sent() {
    let dock = Dock::open_with("[quantities]\nmax_fact_age = \"0s\"\nmax_quantity_jump = 5\n").await;
    let (sku, warehouse, quantity) = levels(&dock).await.remove(0);
    dock.track_skus(&[&sku]).await;
    dock.run(tallyd::model::JobKind::Balances).await;
    dock.change("jump", "quantity.adjust", adjust(&sku, warehouse, 9)).await;
    dock.push().await;
    assert_eq!((dock.reason("jump").await, dock.calls(UPDATE)), ("brake".into(), 0));
    dock.sandbox.sell_units(&sku, warehouse, 4).await.unwrap();
    dock.later(A_MOMENT);
    let mut write = dock.daemon().context().store.begin_write(tallyd::store::Durability::Full).await.unwrap();
    assert_eq!(write.brake_release(&[], dock.daemon().context().now()).await.unwrap(), 1);
    write.commit().await.unwrap();
    dock.push().await;
    assert_eq!(dock.state("jump").await, "applied");
    assert_eq!(dock.level(&sku, warehouse).await, quantity + 5);
}
