//! Lost answers, with and without effect: no change takes effect twice, and each effect is recognised.

use super::support::{
    A_MOMENT, BALANCES, Dock, LONG, PRODUCT, SHIP, TEMPLATE, TRACK, UPDATE, WAREHOUSE, whole,
};
use super::told::{data_counted, told};
use serde_json::{Value, json};
use std::time::Duration;
use tallyd::model::Operation;
use tallyd::reconcile::proof::ABSENCE_CHECKS_APART;

/// Returns the ways to lose an answer after the effect.
fn after_the_deed() -> [Value; 3] {
    [json!({"Drop": "after"}), json!({"Status": 500, "Drop": "after"}), json!({"Truncate": true})]
}

/// Returns a stock level with enough stock.
async fn level(dock: &Dock) -> (String, i64, i64) {
    let stock = dock.sandbox.stock_levels().await.unwrap();
    let row = stock.into_iter().find(|row| row.quantity >= 20).unwrap();
    (row.sku, row.warehouse_id, row.quantity)
}

/// Creates a dock whose update by −2, the change `lost`, was dropped before or after the effect.
async fn lost(drop: &str) -> (Dock, (String, i64, i64)) {
    let dock = Dock::open().await;
    let (sku, warehouse, quantity) = level(&dock).await;
    dock.fault(UPDATE, json!({"Drop": drop})).await;
    dock.change("lost", "quantity.adjust", adjust(&sku, warehouse, -2)).await;
    dock.push().await;
    (dock, (sku, warehouse, quantity))
}

fn adjust(sku: &str, warehouse: i64, delta: i64) -> Value {
    json!({"sku": sku, "warehouse_id": warehouse, "delta": delta})
}

#[tokio::test]
async fn a_lost_adjust_is_applied_once_and_known_to_be() {
    let dock = Dock::open().await;
    let (sku, warehouse, quantity) = level(&dock).await;
    for (n, fault) in after_the_deed().into_iter().enumerate() {
        dock.fault(UPDATE, fault.clone()).await;
        let key = format!("a{n}");
        dock.change(&key, "quantity.adjust", adjust(&sku, warehouse, -2)).await;
        dock.push().await;
        assert_eq!(dock.state(&key).await, "in_doubt", "{fault}");
        dock.settle().await;
        assert_eq!(dock.state(&key).await, "applied", "landed is decided at once: {fault}");
        let expected = quantity - 2 * (i64::try_from(n).unwrap() + 1);
        assert_eq!(dock.level(&sku, warehouse).await, expected);
    }
    let ours = format!(
        "SELECT own_delta FROM balance b JOIN product p ON p.id = b.product WHERE sku = '{sku}' \
         AND warehouse_id = {warehouse}"
    );
    assert_eq!(dock.number(&ours).await, -6, "our own writes are no drift");
    assert_eq!(dock.calls(UPDATE), 3);
}

#[tokio::test]
async fn what_was_not_done_is_done_after_two_looks_and_once() {
    let (dock, (sku, warehouse, quantity)) = lost("before").await;
    dock.settle().await;
    assert_eq!(dock.state("lost").await, "in_doubt", "it may still be carried out");
    dock.change("next", "quantity.adjust", adjust(&sku, warehouse, -1)).await;
    dock.push().await;
    assert_eq!(dock.state("next").await, "pending", "later changes of the stock level wait");
    dock.later(A_MOMENT);
    dock.settle().await;
    assert_eq!(dock.state("lost").await, "in_doubt", "one look after the quiet time is not enough");
    dock.later(A_MOMENT);
    dock.settle().await;
    assert_eq!(
        (dock.state("lost").await, dock.reason("lost").await),
        ("pending".into(), "not_landed".into())
    );
    dock.push().await;
    assert_eq!((dock.state("lost").await, dock.state("next").await), ("applied".into(), "applied".into()));
    assert_eq!(dock.level(&sku, warehouse).await, quantity - 3);
}

/// A write to a renamed product is left to a person, because no check can show it.
#[tokio::test]
async fn a_write_whose_product_is_not_returned_any_more_is_left_to_a_person_after_a_few_looks() {
    let (dock, (sku, ..)) = lost("before").await;
    let asked = json!({"idType": "sku", "idList": [sku]});
    let found = dock.request("POST", "/api/inventory/getProducts", &asked.to_string()).await;
    let renamed = json!({"Id": found["data"][0]["Id"], "Sku": "RENAMED", "Name": "Renamed"});
    dock.request("PUT", "/api/Inventory", &renamed.to_string()).await;
    let looks = dock.calls(BALANCES);
    for _ in 0..20 {
        dock.settle().await;
        dock.later(A_MOMENT);
    }
    dock.later(ABSENCE_CHECKS_APART);
    dock.settle().await;
    assert!(dock.calls(BALANCES) - looks <= 4, "{} looks", dock.calls(BALANCES) - looks);
    let (state, reason, detail) = dock.fate("lost").await;
    assert_eq!((state.as_str(), reason.as_str()), ("held", "undecided"), "{detail}");
    assert!(detail.contains("no longer shows this stock level"), "{detail}");
    assert_eq!(tallyd::settle::next_check_at(dock.daemon().context()).await.unwrap(), None);
}

#[tokio::test]
async fn a_settle_that_is_not_due_makes_no_call() {
    let (dock, _) = lost("before").await;
    dock.settle().await;
    let looks = dock.calls(BALANCES);
    for _ in 0..3 {
        dock.settle().await;
    }
    assert_eq!(dock.calls(BALANCES), looks);
    let due = tallyd::settle::next_check_at(dock.daemon().context()).await.unwrap().unwrap();
    let wait = due.duration_since(dock.daemon().context().now());
    assert!(wait > Duration::from_secs(3) && wait <= Duration::from_secs(5), "{wait:?}");
}

#[tokio::test]
async fn a_stock_level_that_others_moved_too_is_held_with_its_numbers_until_a_person_says() {
    let (dock, (sku, warehouse, quantity)) = lost("after").await;
    dock.sandbox.sell_units(&sku, warehouse, 5).await.unwrap();
    dock.settle().await;
    assert_eq!(dock.state("lost").await, "in_doubt");
    dock.settle_after(A_MOMENT).await;
    let (state, reason, detail) = dock.fate("lost").await;
    assert_eq!((state.as_str(), reason.as_str()), ("held", "undecided"));
    let numbers = format!("{quantity} was to become {} and is {}", quantity - 2, quantity - 7);
    assert!(detail.contains(&numbers), "{detail}");
    dock.change("next", "quantity.adjust", adjust(&sku, warehouse, -1)).await;
    dock.push().await;
    assert_eq!(dock.state("next").await, "pending", "later changes wait for the person too");
}

#[tokio::test]
async fn the_other_entries_of_a_call_speak_for_one_that_was_sold_from() {
    let dock = Dock::open().await;
    let stock = dock.sandbox.stock_levels().await.unwrap();
    let mut levels: Vec<_> = stock.into_iter().filter(|row| row.quantity >= 20).collect();
    levels.dedup_by(|a, b| a.sku == b.sku);
    for (n, row) in levels.iter().take(4).enumerate() {
        dock.change(&format!("a{n}"), "quantity.adjust", adjust(&row.sku, row.warehouse_id, -2)).await;
    }
    dock.fault(UPDATE, json!({"Drop": "after"})).await;
    dock.push().await;
    dock.sandbox.sell_units(&levels[0].sku, levels[0].warehouse_id, 5).await.unwrap();
    dock.settle().await;
    // The call can be decided once all its entries were checked.
    dock.settle().await;
    for n in 0..4 {
        assert_eq!(dock.state(&format!("a{n}")).await, "applied", "a{n}");
    }
    dock.run(tallyd::model::JobKind::Balances).await;
    dock.change("set", "quantity.adjust", adjust(&levels[0].sku, levels[0].warehouse_id, 1)).await;
    dock.push().await;
    assert_eq!(dock.level(&levels[0].sku, levels[0].warehouse_id).await, levels[0].quantity - 6);
}

#[tokio::test]
async fn a_crash_between_claim_and_answer_is_settled_like_a_lost_answer() {
    let mut dock = Dock::open().await;
    let (sku, warehouse, quantity) = level(&dock).await;
    dock.change("lost", "quantity.adjust", adjust(&sku, warehouse, -2)).await;
    dock.fault(UPDATE, json!({"LatencyMs": 500})).await;
    tokio::select! {
        _ = dock.push() => panic!("answered"),
        () = async { while dock.calls(UPDATE) == 0 { tokio::task::yield_now().await; } } => {}
    }
    dock.restart().await;
    assert_eq!(dock.state("lost").await, "in_doubt");
    while dock.level(&sku, warehouse).await == quantity {
        tokio::task::yield_now().await;
    }
    dock.settle().await;
    assert_eq!(dock.state("lost").await, "applied");
    assert_eq!(dock.level(&sku, warehouse).await, quantity - 2);
}

#[tokio::test]
async fn a_lost_shipment_is_never_shipped_again_and_its_tracking_waits() {
    for fault in after_the_deed() {
        let dock = Dock::open().await;
        let (a, b) = dock.two_skus().await;
        let (order, _) = dock.order(&[(&a, 5), (&b, 2)]).await;
        dock.fault(SHIP, fault.clone()).await;
        dock.change("s", "shipment.create", json!({"order_id": order})).await;
        dock.change("t", "tracking.submit", json!({"shipment_key": "s", "tracking_number": "T"})).await;
        dock.push().await;
        assert_eq!(dock.state("s").await, "in_doubt", "{fault}");
        dock.settle().await;
        dock.settle_after(LONG).await;
        dock.push().await;
        let (state, reason, detail) = dock.fate("s").await;
        assert_eq!((state.as_str(), reason.as_str()), ("in_doubt", "landed_or_another"), "{fault}");
        assert!(detail.contains("5 were left, 5 were to be shipped, 0 are left"), "{detail}");
        assert_eq!((dock.calls(SHIP), dock.calls(TRACK)), (1, 0), "{fault}");
        assert_eq!(dock.state("t").await, "pending");
    }
}

#[tokio::test]
async fn a_shipment_that_was_not_made_is_made_after_ten_quiet_minutes_and_two_looks() {
    let dock = Dock::open().await;
    let (a, _) = dock.two_skus().await;
    let (order, _) = dock.order(&[(&a, 5)]).await;
    dock.fault(SHIP, json!({"Drop": "before"})).await;
    dock.change("s", "shipment.create", json!({"order_id": order})).await;
    dock.push().await;
    dock.settle_after(Duration::from_secs(60)).await;
    assert_eq!(dock.state("s").await, "in_doubt");
    dock.settle_after(LONG).await;
    assert_eq!(dock.state("s").await, "pending");
    dock.push().await;
    assert_eq!(dock.state("s").await, "applied");
    assert_eq!(dock.left(order).await, [0]);
}

#[tokio::test]
async fn one_in_doubt_holds_up_its_order_and_no_other() {
    let dock = Dock::open().await;
    let (a, _) = dock.two_skus().await;
    let (first, lines) = dock.order(&[(&a, 3)]).await;
    let (second, _) = dock.order(&[(&a, 1)]).await;
    let part = json!({"order_id": first, "lines": [{"line_item_id": lines[0], "quantity": 1}]});
    dock.fault(SHIP, json!({"Drop": "after"})).await;
    dock.change("lost", "shipment.create", part).await;
    dock.push().await;
    dock.change("same", "shipment.create", json!({"order_id": first})).await;
    dock.change("other", "shipment.create", json!({"order_id": second})).await;
    dock.push().await;
    assert_eq!(dock.state("lost").await, "in_doubt");
    assert_eq!((dock.state("same").await, dock.state("other").await), ("pending".into(), "applied".into()));
}

#[tokio::test]
async fn an_adopted_shipment_must_be_the_one_that_was_sent() {
    let dock = Dock::open().await;
    let (a, _) = dock.two_skus().await;
    let (order, lines) = dock.order(&[(&a, 5)]).await;
    let ours = json!({"order_id": order, "lines": [{"line_item_id": lines[0], "quantity": 2}]});
    dock.fault(SHIP, json!({"Drop": "after"})).await;
    dock.change("s", "shipment.create", ours).await;
    dock.change("t", "tracking.submit", json!({"shipment_key": "s", "tracking_number": "T"})).await;
    dock.push().await;
    dock.settle().await;
    let theirs = json!([{"OrderId": order, "LineItems": [{"LineItemId": lines[0], "Quantity": 3}]}]);
    let theirs = dock.data("POST", "/api/Shipments/Create", &theirs.to_string()).await;
    let theirs = whole(&theirs[0]["Shipment"]["Id"]);
    let adopt = async |shipment: i64| {
        let row = dock.daemon().context().store.outbox_show("s").await.unwrap().unwrap();
        let mut write =
            dock.daemon().context().store.begin_write(tallyd::store::Durability::Full).await.unwrap();
        write.adoption_request(row.id, shipment.into()).await.unwrap();
        write.commit().await.unwrap();
        dock.settle().await;
    };
    for wrong in [theirs, 999_999] {
        adopt(wrong).await;
        let (state, _, detail) = dock.fate("s").await;
        assert_eq!(state, "in_doubt");
        assert!(detail.contains(&format!("shipment {wrong} was not adopted")), "{detail}");
    }
    adopt(theirs - 1).await;
    assert_eq!((dock.state("s").await, dock.made("s").await), ("applied".into(), theirs - 1));
    dock.push().await;
    assert_eq!(dock.state("t").await, "applied");
    assert_eq!(dock.items(theirs - 1).await[0]["TrackingNumber"], "T");
    assert_ne!(dock.items(theirs).await[0]["TrackingNumber"], "T", "what others shipped keeps what it had");
}

#[tokio::test]
async fn a_lost_tracking_is_seen_in_its_shipment() {
    let dock = Dock::open().await;
    let (a, _) = dock.two_skus().await;
    for (n, fault) in after_the_deed().into_iter().chain([json!({"Drop": "before"})]).enumerate() {
        let (order, _) = dock.order(&[(&a, 1)]).await;
        let (ship, track) = (format!("s{n}"), format!("t{n}"));
        dock.change(&ship, "shipment.create", json!({"order_id": order})).await;
        dock.change(&track, "tracking.submit", json!({"shipment_key": ship, "tracking_number": track})).await;
        dock.fault(TRACK, fault.clone()).await;
        dock.push().await;
        assert_eq!(dock.state(&track).await, "in_doubt", "{fault}");
        dock.settle().await;
        let done = fault["Drop"] != "before";
        assert_eq!(dock.state(&track).await == "applied", done, "{fault}");
        if !done {
            dock.settle_after(A_MOMENT).await;
            dock.push().await;
            assert_eq!(dock.state(&track).await, "applied");
        }
        assert_eq!(dock.items(dock.made(&ship).await).await[0]["TrackingNumber"], track.as_str());
    }
    assert_eq!(dock.calls(TRACK), 5);
}

/// An unreadable number may be the one that was sent.
#[tokio::test]
async fn an_unreadable_tracking_number_decides_nothing() {
    let (dock, rules) = told().await;
    let (a, _) = dock.two_skus().await;
    let (order, _) = dock.order(&[(&a, 1)]).await;
    dock.change("s", "shipment.create", json!({"order_id": order})).await;
    dock.change("t", "tracking.submit", json!({"shipment_key": "s", "tracking_number": "T"})).await;
    dock.fault(TRACK, json!({"Drop": "after"})).await;
    dock.push().await;
    let calls = dock.calls(TRACK);
    rules.say(Operation::ShipmentLineItems, |_, response| {
        data_counted(response, |items| {
            items.iter_mut().for_each(|item| item["TrackingNumber"] = json!({"odd": 1}));
        });
    });
    for _ in 0..3 {
        dock.settle_after(LONG).await;
        dock.push().await;
        let now = (dock.state("t").await, dock.calls(TRACK));
        assert_eq!(now, ("in_doubt".into(), calls), "{:?}", dock.fate("t").await);
    }
    rules.clear();
    dock.settle_after(LONG).await;
    assert_eq!((dock.state("t").await, dock.calls(TRACK)), ("applied".into(), calls));
}

/// Returns the three creates that are identified by a name: operation, kind, body.
async fn creates(dock: &Dock, n: usize) -> [(&'static str, &'static str, Value); 3] {
    let shop = whole(&dock.data("GET", "/api/storefronts", "").await[0]["Id"]);
    let name = format!("New {n}");
    [
        (PRODUCT, "product.create", json!({"Sku": name, "Name": "n", "Identifiers": {"UPC": "1"}})),
        (WAREHOUSE, "warehouse.create", json!({"Name": name, "Type": "Dropship"})),
        (
            TEMPLATE,
            "listing_template.create",
            json!({"StorefrontId": shop, "Name": name, "Body": "<i>b</i>"}),
        ),
    ]
}

#[tokio::test]
async fn a_lost_create_is_found_by_its_name_and_made_once() {
    let dock = Dock::open().await;
    for (n, fault) in after_the_deed().into_iter().enumerate() {
        for (operation, kind, body) in creates(&dock, n).await {
            dock.fault(operation, fault.clone()).await;
            let key = format!("{kind}-{n}");
            dock.change(&key, kind, body).await;
            dock.push().await;
            assert_eq!(dock.state(&key).await, "in_doubt", "{kind} {fault}");
            dock.settle().await;
            let (state, _, detail) = dock.fate(&key).await;
            assert_eq!(state, "applied", "{kind} {fault}: {detail}");
            assert!(dock.made(&key).await > 0);
            assert_eq!(dock.calls(operation), n + 1, "{kind} {fault}");
        }
    }
    let made =
        dock.number("SELECT count(*) FROM outbox WHERE kind = 'product.create' AND state = 'applied'").await;
    assert_eq!(
        dock.number("SELECT count(*) FROM tracked_sku l JOIN outbox o ON o.body->>'Sku' = l.sku").await,
        made
    );
}

#[tokio::test]
async fn a_create_that_was_not_done_is_done_after_the_quiet_time_and_once() {
    let dock = Dock::open().await;
    for (operation, kind, body) in creates(&dock, 0).await {
        dock.fault(operation, json!({"Drop": "before"})).await;
        dock.change(kind, kind, body).await;
        dock.push().await;
        dock.settle().await;
        dock.push().await;
        assert_eq!((dock.state(kind).await.as_str(), dock.calls(operation)), ("in_doubt", 1), "{kind}");
        dock.settle_after(LONG).await;
        dock.push().await;
        let now = (dock.state(kind).await, dock.calls(operation));
        assert_eq!(now, ("in_doubt".to_owned(), 1), "{kind}: two looks seconds apart prove nothing");
        dock.later(ABSENCE_CHECKS_APART);
        dock.settle().await;
        dock.push().await;
        assert_eq!((dock.state(kind).await.as_str(), dock.calls(operation)), ("applied", 2), "{kind}");
    }
}

#[tokio::test]
async fn somebody_elses_thing_of_the_same_name_is_not_taken_for_ours() {
    let dock = Dock::open().await;
    dock.fault(WAREHOUSE, json!({"Drop": "before"})).await;
    dock.change("w", "warehouse.create", json!({"Name": "Dock 7", "AccountNumber": "ours"})).await;
    dock.push().await;
    dock.request("POST", "/api/Warehouses", r#"{"Name":"Dock 7","AccountNumber":"theirs"}"#).await;
    dock.settle().await;
    assert_eq!((dock.state("w").await, dock.reason("w").await), ("held".into(), "undecided".into()));
}
