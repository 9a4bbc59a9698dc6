//! Two spellings of one SKU are one stock level, whether or not the platform ignores case.

use super::support::{BALANCES, Dock, PRODUCT, UPDATE, whole};
use super::told::told;
use crate::support::outsider::quoted;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tallyd::client::{HttpTransport, PlatformRequest, SendFuture, Transport};
use tallyd::model::{JobKind, Operation};

/// A platform that returns a product only for its exact spelling.
struct Exact(HttpTransport);

impl Transport for Exact {
    fn send(&self, request: PlatformRequest) -> SendFuture<'_> {
        Box::pin(async move {
            let asked: Option<Value> = (request.operation == Operation::GetProductBalances)
                .then(|| serde_json::from_slice(request.body.as_deref().unwrap()).unwrap());
            let mut response = self.0.send(request).await?;
            if let Some(asked) = asked.filter(|_| response.status == 200) {
                let mut products: Vec<Value> = serde_json::from_slice(&response.body).unwrap();
                products.retain(|product| asked["skus"].as_array().unwrap().contains(&product["Sku"]));
                response.body = serde_json::to_vec(&products).unwrap();
            }
            Ok(response)
        })
    }
}

/// A platform that hides one SKU for a time: an answer that should hold it is empty.
struct Hides(HttpTransport, &'static str, Arc<AtomicBool>);

impl Transport for Hides {
    fn send(&self, request: PlatformRequest) -> SendFuture<'_> {
        Box::pin(async move {
            let asked = request.body.as_deref().map(|body| String::from_utf8_lossy(body).into_owned());
            let is_hidden = request.operation == Operation::GetProductBalances
                && asked.is_some_and(|asked| asked.contains(self.1))
                && self.2.load(Ordering::SeqCst);
            let mut response = self.0.send(request).await?;
            if is_hidden {
                response.body = b"[]".to_vec();
            }
            Ok(response)
        })
    }
}

async fn dock(case_keys: bool) -> Dock {
    match case_keys {
        true => Dock::open().await,
        false => Dock::open_over(|http| Some(Arc::new(Exact(http)))).await,
    }
}

/// Tracks and reads stock levels with enough stock, each of another SKU with letters of the other case.
async fn levels(dock: &Dock) -> Vec<(String, i64, i64)> {
    let mut stock = dock.sandbox.stock_levels().await.unwrap();
    stock.retain(|row| row.quantity >= 20 && row.sku.to_lowercase() != row.sku);
    stock.dedup_by(|a, b| a.sku == b.sku);
    dock.track_skus(&stock.iter().map(|row| &row.sku).collect::<Vec<_>>()).await;
    dock.run(JobKind::Balances).await;
    stock.into_iter().map(|row| (row.sku, row.warehouse_id, row.quantity)).collect()
}

/// Inserts changes (key, SKU, priority, rest of the body) for one warehouse in one transaction.
async fn changes(dock: &Dock, warehouse: i64, changes: &[(&str, &str, i64, Value)]) {
    let mut statements = String::from("BEGIN; ");
    for (key, sku, priority, rest) in changes {
        let kind = if rest.get("delta").is_some() { "quantity.adjust" } else { "quantity.set" };
        let mut body = rest.clone();
        body["sku"] = json!(sku);
        body["warehouse_id"] = json!(warehouse);
        let row = [key, kind, &body.to_string()].map(quoted).join(", ");
        statements += &format!("INSERT INTO outbox (key, kind, body, priority) VALUES ({row}, {priority}); ");
    }
    dock.done_sql(&(statements + "COMMIT")).await;
}

#[tokio::test]
async fn a_count_and_a_movement_in_two_spellings_are_one_write() {
    for case_keys in [true, false] {
        let dock = dock(case_keys).await;
        for (n, (sku, warehouse, _)) in levels(&dock).await.into_iter().take(5).enumerate() {
            let (count, more) = (format!("{n} count"), format!("{n} more"));
            let low = sku.to_lowercase();
            let both =
                [(&*count, &*sku, 0, json!({"quantity": 47})), (&*more, &*low, 1, json!({"delta": 5}))];
            changes(&dock, warehouse, &both).await;
            dock.push().await;
            assert_eq!(
                (dock.state(&count).await, dock.state(&more).await),
                ("applied".into(), "applied".into())
            );
            assert_eq!(dock.level(&sku, warehouse).await, 52, "{case_keys}");
        }
    }
}

#[tokio::test]
async fn the_later_count_counts_whatever_it_spells() {
    for case_keys in [true, false] {
        let dock = dock(case_keys).await;
        let (sku, warehouse, _) = levels(&dock).await.remove(0);
        let low = sku.to_lowercase();
        let both = [("old", &*sku, 0, json!({"quantity": 60})), ("new", &*low, 1, json!({"quantity": 67}))];
        changes(&dock, warehouse, &both).await;
        dock.push().await;
        assert_eq!(dock.level(&sku, warehouse).await, 67, "{case_keys}");
        assert_eq!(
            (dock.state("new").await, dock.reason("old").await),
            ("applied".into(), "superseded".into())
        );
        let earlier = json!({"quantity": 9, "counted_at": "2001-01-01T00:00:00Z"});
        changes(&dock, warehouse, &[("earlier", &*sku, 0, earlier)]).await;
        dock.push().await;
        assert_eq!(dock.reason("earlier").await, "superseded", "{case_keys}");
        assert_eq!(dock.level(&sku, warehouse).await, 67);
    }
}

#[tokio::test]
async fn two_movements_in_two_spellings_are_both_done_and_nothing_waits_for_the_next_change() {
    for case_keys in [true, false] {
        let dock = dock(case_keys).await;
        for (n, (sku, warehouse, quantity)) in levels(&dock).await.into_iter().take(8).enumerate() {
            let (less, more, low) = (format!("{n} less"), format!("{n} more"), sku.to_lowercase());
            let both = [(&*less, &*sku, 0, json!({"delta": -3})), (&*more, &*low, 0, json!({"delta": 5}))];
            changes(&dock, warehouse, &both).await;
            dock.push().await;
            assert_eq!(
                (dock.state(&less).await, dock.state(&more).await),
                ("applied".into(), "applied".into())
            );
            assert_eq!(dock.level(&sku, warehouse).await, quantity + 2, "{case_keys}");
        }
    }
}

#[tokio::test]
async fn a_count_in_another_spelling_stands_on_the_fact_at_its_insertion() {
    for case_keys in [true, false] {
        let dock = dock(case_keys).await;
        let (sku, warehouse, quantity) = levels(&dock).await.remove(0);
        let low = sku.to_lowercase();
        for (n, sold) in [(0, 2), (1, 3)] {
            let before = dock.level(&sku, warehouse).await;
            let count = format!("{n}");
            changes(&dock, warehouse, &[(&*count, &*low, 0, json!({"quantity": before - 1}))]).await;
            dock.sandbox.sell_units(&sku, warehouse, sold).await.unwrap();
            dock.push().await;
            assert_eq!(dock.state(&count).await, "applied", "{case_keys}: {:?}", dock.fate(&count).await);
            assert_eq!(
                dock.level(&sku, warehouse).await,
                before - 1 - sold,
                "{case_keys}: the sales still count"
            );
        }
        assert_eq!(dock.level(&sku, warehouse).await, quantity - 2 - 5);
    }
}

#[tokio::test]
async fn what_is_pending_in_another_spelling_shows_in_the_stock_view() {
    let dock = dock(true).await;
    let (sku, warehouse, quantity) = levels(&dock).await.remove(0);
    let low = sku.to_lowercase();
    changes(&dock, warehouse, &[("known", &*low, 0, json!({"delta": 1}))]).await;
    dock.push().await;
    let more = [("a", &*low, 0, json!({"quantity": 40})), ("b", &*sku, 0, json!({"delta": 2}))];
    changes(&dock, warehouse, &more).await;
    let level = format!("sku = {} AND warehouse_id = {warehouse}", quoted(&sku));
    let pending = dock.number(&format!("SELECT pending_quantity FROM stock WHERE {level}")).await;
    assert_eq!((pending, dock.level(&sku, warehouse).await), (42, quantity + 1));
    let answer = dock.done(&["explain", &sku, &warehouse.to_string()]).await;
    assert!(answer.contains("`a`") && answer.contains("`b`"), "{answer}");
}

/// Creates a product with 50 units in the warehouse.
async fn product(dock: &Dock, sku: &str, warehouse: i64) {
    let link = json!([{"WarehouseId": warehouse, "QuantityOnHand": 50, "IsActive": true}]);
    let body = json!({"Sku": sku, "Name": sku, "Type": "Product", "Warehouses": link});
    let made = dock.request("POST", "/api/Inventory", &body.to_string()).await;
    assert!(whole(&made["data"]["Product"]["Id"]) > 0, "{PRODUCT}: {made}");
}

#[tokio::test]
async fn every_script_that_unicode_folds_is_folded() {
    let dock = dock(true).await;
    let (_, warehouse, _) = levels(&dock).await.remove(0);
    for (n, (sku, other)) in
        [("ÄRMEL-1", "ärmel-1"), ("ΚΑΦΕΣ", "καφες"), ("ЧАЙ-7", " чай-7 "), ("ŠÁLEK", "šálek")]
            .into_iter()
            .enumerate()
    {
        product(&dock, sku, warehouse).await;
        let (first, count, more) = (format!("{n} first"), format!("{n} count"), format!("{n} more"));
        changes(&dock, warehouse, &[(&*first, sku, 0, json!({"delta": 20}))]).await;
        dock.push().await;
        let both = [(&*count, sku, 0, json!({"quantity": 47})), (&*more, other, 1, json!({"delta": 5}))];
        changes(&dock, warehouse, &both).await;
        dock.push().await;
        assert_eq!((dock.state(&count).await, dock.state(&more).await), ("applied".into(), "applied".into()));
        assert_eq!(dock.level(sku, warehouse).await, 52, "{sku}");
    }
}

#[tokio::test]
async fn two_products_that_differ_in_case_have_a_stock_level_each_and_a_third_spelling_is_held() {
    let dock = dock(true).await;
    let (_, warehouse, _) = levels(&dock).await.remove(0);
    product(&dock, "Twin-1", warehouse).await;
    product(&dock, "TWIN-1", warehouse).await;
    let all = [
        ("a", "Twin-1", 0, json!({"delta": -3})),
        ("b", "TWIN-1", 0, json!({"delta": 5})),
        ("c", "twin-1", 0, json!({"delta": 100})),
    ];
    changes(&dock, warehouse, &all).await;
    dock.push().await;
    dock.push().await;
    assert_eq!((dock.level("Twin-1", warehouse).await, dock.level("TWIN-1", warehouse).await), (47, 55));
    assert_eq!(dock.reason("c").await, "ambiguous_sku", "{:?}", dock.fate("c").await);
}

#[tokio::test]
async fn a_spelling_never_asked_for_is_asked_for_before_it_is_taken_for_another() {
    let dock = dock(true).await;
    let (_, warehouse, _) = levels(&dock).await.remove(0);
    product(&dock, "Twin-1", warehouse).await;
    changes(&dock, warehouse, &[("a", "Twin-1", 0, json!({"delta": -3}))]).await;
    dock.push().await;
    product(&dock, "TWIN-1", warehouse).await;
    changes(&dock, warehouse, &[("b", "TWIN-1", 0, json!({"quantity": 7}))]).await;
    dock.push().await;
    assert_eq!((dock.level("Twin-1", warehouse).await, dock.level("TWIN-1", warehouse).await), (47, 7));
}

#[tokio::test]
async fn a_stock_level_in_flight_by_one_spelling_waits_for_it_by_the_other() {
    for case_keys in [true, false] {
        let dock = dock(case_keys).await;
        let (sku, warehouse, quantity) = levels(&dock).await.remove(0);
        let low = sku.to_lowercase();
        changes(&dock, warehouse, &[("known", &*low, 0, json!({"delta": 1}))]).await;
        dock.push().await;
        dock.fault(UPDATE, json!({"LatencyMs": 400})).await;
        changes(&dock, warehouse, &[("first", &*sku, 0, json!({"delta": -3}))]).await;
        tokio::join!(dock.push(), async {
            while dock.calls(UPDATE) < 2 {
                tokio::task::yield_now().await;
            }
            changes(&dock, warehouse, &[("second", &*low, 1, json!({"delta": 5}))]).await;
            dock.daemon().context().notify_changes();
        });
        assert_eq!(
            (dock.state("first").await, dock.state("second").await),
            ("applied".into(), "applied".into())
        );
        assert_eq!(dock.level(&sku, warehouse).await, quantity + 3, "{case_keys}");
        assert!(dock.calls(BALANCES) > 0);
    }
}

/// A dock whose platform hides a SKU until it recovers, and a warehouse with other stock.
async fn hiding(sku: &'static str) -> (Dock, Arc<AtomicBool>, i64) {
    let is_sick = Arc::new(AtomicBool::new(true));
    let hides = is_sick.clone();
    let dock = Dock::open_over(|http| Some(Arc::new(Hides(http, sku, hides)))).await;
    let (_, warehouse, _) = levels(&dock).await.remove(0);
    (dock, is_sick, warehouse)
}

async fn recovers(dock: &Dock, is_sick: &AtomicBool) {
    is_sick.store(false, Ordering::SeqCst);
    dock.later(Duration::from_secs(3600));
    dock.settle().await;
    dock.push().await;
}

#[tokio::test]
async fn two_spellings_that_no_answer_shows_go_on_together() {
    let (dock, is_sick, warehouse) = hiding("HID-1").await;
    product(&dock, "HID-1", warehouse).await;
    let both = [("right", "HID-1", 0, json!({"delta": -3})), ("other", "hid-1 ", 0, json!({"delta": 5}))];
    changes(&dock, warehouse, &both).await;
    for _ in 0..4 {
        dock.push().await;
        for key in ["right", "other"] {
            assert_eq!(dock.state(key).await, "held", "{:?}", dock.fate(key).await);
        }
        dock.later(Duration::from_secs(125));
        dock.settle().await;
    }
    recovers(&dock, &is_sick).await;
    assert_eq!((dock.state("right").await, dock.state("other").await), ("applied".into(), "applied".into()));
    assert_eq!(dock.level("HID-1", warehouse).await, 52);
}

/// A person tracks a product that no poll has read yet, and a program names it in another spelling. The
/// product may be left out of an answer that shows the others.
#[tokio::test]
async fn a_change_in_a_spelling_goes_on_once_a_tracked_one_of_it_is_read() {
    for left_out in [0, 1] {
        let (dock, rules) = told().await;
        let asked_for = AtomicUsize::new(0);
        rules.say(Operation::GetProductBalances, move |request, response| {
            let asked: Value = serde_json::from_slice(request.body.as_deref().unwrap()).unwrap();
            let is_asked = |sku: &Value| asked["skus"].as_array().unwrap().contains(sku);
            let is_left_out =
                is_asked(&json!("ÉTÉ-1")) && asked_for.fetch_add(1, Ordering::SeqCst) < left_out;
            let mut products: Vec<Value> = serde_json::from_slice(&response.body).unwrap();
            products
                .retain(|product| is_asked(&product["Sku"]) && !(is_left_out && product["Sku"] == "ÉTÉ-1"));
            response.body = serde_json::to_vec(&products).unwrap();
        });
        let (_, warehouse, _) = levels(&dock).await.remove(0);
        product(&dock, "ÉTÉ-1", warehouse).await;
        dock.done_sql("INSERT INTO tracked_sku (sku) VALUES ('ÉTÉ-1'), ('ÉTÉ-2')").await;
        let both = [("other", "été-1 ", 0, json!({"delta": 5})), ("none", "été-2", 0, json!({"delta": 5}))];
        changes(&dock, warehouse, &both).await;
        dock.push().await;
        assert_eq!(dock.reason("other").await, "not_shown", "{:?}", dock.fate("other").await);
        for _ in 0..=left_out {
            dock.run(JobKind::Balances).await;
            dock.later(Duration::from_secs(125));
        }
        dock.settle().await;
        dock.push().await;
        assert_eq!(dock.state("other").await, "applied", "{left_out}: {:?}", dock.fate("other").await);
        assert_eq!(dock.level("ÉTÉ-1", warehouse).await, 55);
        assert_eq!(dock.reason("none").await, "not_shown", "{:?}", dock.fate("none").await);
    }
}

#[tokio::test]
async fn an_empty_answer_takes_no_spelling_for_another_product() {
    let (dock, is_sick, warehouse) = hiding("TWIN-1").await;
    product(&dock, "Twin-1", warehouse).await;
    changes(&dock, warehouse, &[("known", "Twin-1", 0, json!({"delta": -3}))]).await;
    dock.push().await;
    product(&dock, "TWIN-1", warehouse).await;
    changes(&dock, warehouse, &[("other", "TWIN-1", 0, json!({"delta": -4}))]).await;
    for _ in 0..3 {
        dock.push().await;
        assert_eq!(dock.level("Twin-1", warehouse).await, 47, "{:?}", dock.fate("other").await);
        dock.later(Duration::from_secs(125));
        dock.settle().await;
    }
    recovers(&dock, &is_sick).await;
    assert_eq!((dock.level("Twin-1", warehouse).await, dock.level("TWIN-1", warehouse).await), (47, 46));
}
