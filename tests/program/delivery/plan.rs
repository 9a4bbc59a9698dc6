//! The requests that `tallyd plan` prints are those that the push then sends: in the same order, byte for
//! byte.

use super::creates::{product, storefront, update_of};
use super::support::{Dock, whole};
use serde_json::json;
use std::collections::BTreeSet;
use tallyd::journal::PackedBody;
use tallyd::model::JobKind;
use tallyd::push;
use tallyd::push::PushPreview;

async fn preview(dock: &Dock) -> PushPreview {
    let context = dock.daemon().context();
    push::preview_push(&context.store, &context.settings(), (context.now(), context.moment())).await.unwrap()
}

/// Returns method, path and query, and body of every planned request.
fn planned(preview: &PushPreview) -> Vec<(String, String)> {
    let shown = |planned: &push::PlannedRequest| {
        let request = &planned.request;
        let body = request.body.as_deref().map(|body| String::from_utf8(body.to_vec()).unwrap());
        (format!("{} {}", request.operation.method(), request.target()), body.unwrap_or_default())
    };
    preview.requests.iter().map(shown).collect()
}

/// Returns the same of every request that the journal has after `position`.
async fn sent(dock: &Dock, position: i64) -> Vec<(String, String)> {
    let sql = format!(
        "SELECT e.operation, e.target, b.packed, coalesce(b.size, 0) FROM exchange e LEFT JOIN body b ON b.id = e.request_body_id \
         WHERE e.id > {position} ORDER BY e.id"
    );
    let rows: Vec<(String, String, Option<Vec<u8>>, i64)> = dock.outsider().await.rows(&sql).await;
    let shown = |(operation, target, packed, size): (String, String, Option<Vec<u8>>, i64)| {
        let method = operation.split(' ').next().unwrap();
        let unpack = |packed: Vec<u8>| PackedBody::unpack(&packed, usize::try_from(size).unwrap()).unwrap();
        let body = packed.map(|packed| String::from_utf8(unpack(packed)).unwrap());
        (format!("{method} {target}"), body.unwrap_or_default())
    };
    rows.into_iter().map(shown).collect()
}

async fn position(dock: &Dock) -> i64 {
    dock.number("SELECT position FROM journal_sequence").await
}

/// Inserts changes of all eight kinds, with the facts that they depend on in the mirror.
async fn one_of_each(dock: &Dock) {
    let (a, b) = dock.two_skus().await;
    let (parcel, _) = dock.order(&[(&a, 2), (&b, 1)]).await;
    let (order, _) = dock.order(&[(&a, 1), (&b, 3)]).await;
    let made = product(dock, "UPD-1").await;
    dock.change("parcel", "shipment.create", json!({"order_id": parcel})).await;
    dock.push().await;
    dock.track_skus(&[&a, &b, "UPD-1"]).await;
    dock.track_orders(&[order]).await;
    for kind in [JobKind::Balances, JobKind::OrderLines, JobKind::Storefronts, JobKind::ListingTemplates] {
        dock.run(kind).await;
    }
    let warehouse = whole(&made["Warehouses"][0]["WarehouseId"]);
    let shipment = dock.made("parcel").await;
    let changes = [
        ("set", "quantity.set", json!({"sku": "UPD-1", "warehouse_id": warehouse, "quantity": 9})),
        ("adjust", "quantity.adjust", json!({"sku": a, "warehouse_id": warehouse, "delta": 2})),
        ("ship", "shipment.create", json!({"order_id": order})),
        (
            "track",
            "tracking.submit",
            json!({"shipment_id": shipment, "tracking_number": "1Z 9", "carrier_id": 3}),
        ),
        ("product", "product.create", json!({"Sku": "NEW-\u{e9}", "Name": "New \"one\""})),
        ("update", "product.update", update_of(&made, "After")),
        ("house", "warehouse.create", json!({"Name": "Dock 9", "Type": "Standard"})),
        (
            "template",
            "listing_template.create",
            json!({"StorefrontId": storefront(dock).await, "Name": "Spring sale", "Body": "<b>&</b>"}),
        ),
    ];
    for (key, kind, body) in changes {
        dock.change(key, kind, body).await;
    }
}

#[tokio::test]
async fn what_is_planned_is_what_is_sent_byte_for_byte_for_every_kind() {
    let dock = Dock::open().await;
    one_of_each(&dock).await;
    let before = position(&dock).await;
    let preview = preview(&dock).await;
    assert_eq!((preview.changes_without_call.as_slice(), preview.reads.len()), (&[][..], 2));
    assert_eq!(position(&dock).await, before, "a plan writes nothing");
    dock.push().await;
    assert_eq!(planned(&preview), sent(&dock, before).await);
    let operations: BTreeSet<&str> =
        preview.requests.iter().map(|planned| planned.request.operation.as_str()).collect();
    assert_eq!(operations.len(), 13, "seven writes and six looks: {operations:?}");
    for key in ["set", "adjust", "ship", "track", "product", "update", "house", "template"] {
        assert_eq!(dock.fate(key).await.0, "applied", "{key}: {:?}", dock.fate(key).await);
    }
}

#[tokio::test]
async fn a_backlog_beyond_one_read_is_planned_as_it_is_sent() {
    let dock =
        Dock::open_with("[quantities]\nmax_fact_age = \"1h\"\n[jobs.balances]\nskus_per_call = 25\n").await;
    let mut stock = dock.sandbox.stock_levels().await.unwrap();
    stock.sort_by(|a, b| (a.quantity, &a.sku).cmp(&(b.quantity, &b.sku)));
    dock.track_skus(&stock.iter().map(|row| &row.sku).collect::<Vec<_>>()).await;
    dock.run(JobKind::Balances).await;
    for (n, row) in stock.iter().enumerate() {
        let body = json!({"sku": row.sku, "warehouse_id": row.warehouse_id, "delta": 1});
        dock.change(&format!("w{n}"), "quantity.adjust", body).await;
    }
    let before = position(&dock).await;
    let preview = preview(&dock).await;
    dock.push().await;
    // Three calls are in flight at once and begin in any order.
    let (mut planned, mut sent) = (planned(&preview), sent(&dock, before).await);
    planned.sort();
    sent.sort();
    assert_eq!(planned.len(), stock.len().div_ceil(25), "no call more than the lower bound");
    assert_eq!(planned, sent);
}

#[tokio::test]
async fn what_cannot_be_known_without_a_call_is_named_and_not_guessed() {
    let dock = Dock::open().await;
    let (a, _) = dock.two_skus().await;
    let warehouse = dock.sandbox.stock_levels().await.unwrap()[0].warehouse_id;
    let (order, lines) = dock.order(&[(&a, 4)]).await;
    let two = json!({"order_id": order, "lines": [{"line_item_id": lines[0], "quantity": 2}]});
    dock.change("unread", "quantity.adjust", json!({"sku": a, "warehouse_id": warehouse, "delta": 1})).await;
    dock.change("first", "shipment.create", two.clone()).await;
    dock.change("second", "shipment.create", two).await;
    dock.change("number", "tracking.submit", json!({"shipment_key": "first", "tracking_number": "T"})).await;
    dock.change("nonsense", "quantity.set", json!({"sku": a})).await;
    let preview = preview(&dock).await;
    let answer = |key: &str| {
        let of = |(id, _): &&(tallyd::model::ChangeId, String)| preview.change_keys[id] == key;
        preview.changes_without_call.iter().find(of).map_or("", |(_, how)| how.as_str())
    };
    assert!(answer("unread").starts_with("decided once"), "{}", answer("unread"));
    assert_eq!(answer("first"), "decided once its order was read");
    assert!(answer("second").starts_with("sent after the change `first`"), "{}", answer("second"));
    assert!(answer("number").starts_with("waits: the change `first`"), "{}", answer("number"));
    assert!(answer("nonsense").starts_with("rejected: `warehouse_id` is missing"), "{}", answer("nonsense"));
    assert_eq!(preview.reads.len(), 1);
    assert_eq!(planned(&preview).len(), 2, "the looks are all that is certain");
}

#[tokio::test]
async fn what_a_brake_would_hold_is_planned_as_held() {
    let dock = Dock::open().await;
    let stock = dock.sandbox.stock_levels().await.unwrap();
    dock.track_skus(&stock.iter().map(|row| &row.sku).collect::<Vec<_>>()).await;
    dock.run(JobKind::Balances).await;
    for (n, row) in stock.iter().enumerate() {
        let body = json!({"sku": row.sku, "warehouse_id": row.warehouse_id, "quantity": 0});
        dock.change(&format!("z{n}"), "quantity.set", body).await;
    }
    let preview = preview(&dock).await;
    dock.push().await;
    let held = preview.changes_without_call.iter().filter(|(_, how)| how.starts_with("held: ")).count();
    let expected = dock.number("SELECT count(*) FROM outbox WHERE state = 'held'").await;
    assert_eq!(i64::try_from(held).unwrap(), expected);
    assert!(expected >= 10);
}
