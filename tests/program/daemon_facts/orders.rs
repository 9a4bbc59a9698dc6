//! Orders: the allocation of their lines, their shipments, their closing; and kits, which the daemon
//! discovers from them.

use super::support::{Shop, records};
use serde_json::{Value, json};

const LINES: &str = "POST /api/orders/getOrderLineItems";
const ALLOCATION: &str = "GET /api/orders/{orderId}/lineitems/{lineitemId}/warehouseallocation";
const ITEMS: &str = "GET /api/Shipments/{shipmentid}/LineItems";

/// Places and tracks an order of these SKUs; returns its id and its lines as the platform shows them.
async fn order(shop: &Shop, lines: &[(&str, i64)]) -> (i64, Value) {
    let order = shop.sandbox.place_order(lines).await.unwrap();
    let tracked = shop.cli(&["order", "track", &order.to_string()]).await;
    assert!(tracked.status.success(), "{tracked:?}");
    let served = shop.post("/api/orders/getOrderLineItems", json!({ "OrderId": order })).await;
    (order, served["data"].clone())
}

/// Returns two SKUs with enough stock.
async fn goods(shop: &Shop) -> [String; 2] {
    let mut stock = shop.sandbox.stock_levels().await.unwrap();
    stock.retain(|row| row.quantity >= 5);
    let first = stock[0].sku.clone();
    let other = stock.into_iter().map(|row| row.sku).find(|sku| *sku != first).unwrap();
    [first, other]
}

#[tokio::test]
async fn a_lines_allocation_is_read_once_and_a_kit_that_was_asked_for_is_known() {
    let shop = Shop::open().await;
    let (kit, product, components) = shop.kit().await;
    let (order, lines) = order(&shop, &[(&kit, 2), (&goods(&shop).await[1], 1)]).await;
    shop.cli_json(&["product", "components", &kit]).await;
    shop.good_once().await;
    for line in lines.as_array().unwrap() {
        let line = line["OrderLineItemId"].as_i64().unwrap();
        let path = format!("/api/orders/{order}/lineitems/{line}/warehouseallocation");
        let fields = ["WarehouseAllocationId", "ProductId", "SkuNumber", "WarehouseId", "QuantityAllocated"];
        assert_eq!(
            shop.rows(
                "allocation_id, product_id, sku, warehouse_id, quantity",
                &format!("order_line_allocation WHERE line_item_id = {line} ORDER BY ordinal")
            )
            .await,
            shop.served(&path, &fields).await
        );
    }
    assert_eq!(
        shop.rows("component_id, product_id, sku, quantity", "kit_component WHERE kit_id > 0").await,
        components
    );
    let types = shop.rows("product_id, type", "product WHERE type IN ('Kit', 'Product') ORDER BY type").await;
    assert_eq!(types, json!([[product as f64, "Kit"], [components[0][1], "Product"]]));
    let learnt = shop.rows("origin", "tracked_sku WHERE sku IN (SELECT sku FROM kit_component)").await;
    assert_eq!(learnt, json!([["learnt"]]));
    let read = shop.calls_of(ALLOCATION);
    shop.good_once().await;
    assert_eq!(shop.calls_of(ALLOCATION), read, "known, and not asked for again");

    let change = format!(r#"{{"sku":"{kit}","warehouse_id":1,"quantity":3}}"#);
    shop.execute(&format!(
        "INSERT INTO outbox (key, kind, body) VALUES ('count', 'quantity.set', '{change}')"
    ))
    .await;
    shop.good_once().await;
    assert_eq!(shop.rows("state, reason", "outbox").await, json!([["rejected", "kit"]]));
}

#[tokio::test]
async fn an_order_the_service_does_not_find_is_a_fact_that_is_not_asked_for_at_once_again() {
    let shop = Shop::open().await;
    let [sku, _] = goods(&shop).await;
    order(&shop, &[(&sku, 1)]).await;
    shop.post("/_sandbox/faults", json!([{"Operation": ALLOCATION, "Status": 404, "Times": 1}])).await;
    shop.good_once().await;
    shop.good_once().await;
    assert_eq!(shop.calls_of(ALLOCATION), 1);
    assert_eq!(shop.rows("is_found", "allocation_read").await, json!([[0.0]]));
    shop.execute("UPDATE allocation_read SET observed_ms = observed_ms - 86400000").await;
    shop.good_once().await;
    assert_eq!(shop.rows("is_found", "allocation_read").await, json!([[1.0]]), "found a day later");
}

#[tokio::test]
async fn an_order_is_closed_when_nothing_is_left_and_its_known_shipments_are_on_their_way() {
    let shop = Shop::open().await;
    let [one, two] = goods(&shop).await;
    let (order, _) = order(&shop, &[(&one, 2), (&two, 1)]).await;
    let created = shop.post("/api/Shipments/Create", json!([{ "OrderId": order }])).await;
    let shipment = created["data"][0]["Shipment"]["Id"].as_i64().unwrap();
    shop.execute(&format!("INSERT INTO shipment (id, exchange_id, observed_ms) VALUES ({shipment}, 1, 1)"))
        .await;

    shop.good_once().await;
    let left = shop.rows("sum(quantity_left)", &format!("order_line WHERE order_id = {order}")).await;
    assert_eq!(left, json!([[0.0]]));
    let closed = "closed_ms IS NOT NULL";
    assert_eq!(
        shop.rows(closed, "sales_order").await,
        json!([[0.0]]),
        "its shipment stands in the warehouse"
    );
    same_items(&shop, shipment).await;
    assert_eq!(shop.rows("order_id", "shipment").await, json!([[order as f64]]), "seen from its lines");

    let tracking = json!([{"ShipmentId": shipment, "CarrierId": 2, "TrackingNumber": "1Z 9"}]);
    shop.post("/api/Shipments/submitTrackingInfo", tracking).await;
    shop.good_once().await;
    same_items(&shop, shipment).await;
    let item = shop.rows("is_shipped, is_confirmed, carrier_id, tracking_number", "shipment_item").await;
    assert_eq!(item[0], json!([1.0, 1.0, 2.0, "1Z 9"]));
    assert_eq!(shop.rows(closed, "sales_order").await, json!([[1.0]]));

    let calls = (shop.calls_of(ITEMS), shop.calls_of(LINES));
    shop.good_once().await;
    assert_eq!((shop.calls_of(ITEMS), shop.calls_of(LINES)), calls, "both are done with");
}

/// Asserts that the view shows the shipment's items as the platform does.
async fn same_items(shop: &Shop, shipment: i64) {
    let served = shop.get(&format!("/api/Shipments/{shipment}/LineItems")).await;
    let fields = ["Id", "OrderLineItemId", "ProductSku", "QuantityShipped", "IsShipped", "TrackingNumber"];
    let columns = "item_id, line_item_id, sku, quantity, is_shipped, tracking_number";
    let mirrored =
        shop.rows(columns, &format!("shipment_item WHERE shipment_id = {shipment} ORDER BY item_id")).await;
    assert_eq!(mirrored, records(&served["data"], &fields));
}

#[tokio::test]
async fn an_order_that_said_nothing_new_for_days_is_read_daily_and_listed_as_stale() {
    let shop = Shop::open().await;
    let [sku, _] = goods(&shop).await;
    order(&shop, &[(&sku, 1)]).await;
    shop.good_once().await;
    let day = 86_400_000_i64;
    let age =
        |days: i64, column: &str| format!("UPDATE sales_order SET {column} = observed_ms - {}", days * day);
    shop.execute(&age(4, "changed_ms")).await;
    let read = shop.calls_of(LINES);
    shop.good_once().await;
    assert_eq!(shop.calls_of(LINES), read, "quiet, and read today");
    assert_eq!(shop.cli_json(&["order", "list"]).await[0]["stale"], true);
    shop.execute(&age(2, "observed_ms")).await;
    shop.good_once().await;
    assert_eq!(shop.calls_of(LINES), read + 1, "read yesterday");
}
