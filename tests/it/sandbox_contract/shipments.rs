//! "Create shipments", "Submit tracking info", "Get shipment line items", and the states of a shipment.

use serde_json::{Value, json};

use super::support::{CREATE_SHIPMENTS, ORDER_LINES, Shop, TRACKING, assert_fields, id};

/// Creates an order of two lines, five and two units; returns its id and its line ids.
async fn order(shop: &Shop) -> (i64, Vec<i64>) {
    let (first, second) = (shop.product(0).await, shop.product(1).await);
    let lines = json!([{ "Sku": first["Sku"], "Quantity": 5 }, { "Sku": second["Sku"], "Quantity": 2 }]);
    let order_id = shop.order(lines).await;
    let lines = shop.post(ORDER_LINES, &json!({ "OrderId": order_id })).await.data();
    (order_id, lines.as_array().expect("lines").iter().map(|line| id(line, "OrderLineItemId")).collect())
}

async fn untied(shop: &Shop, order_id: i64) -> Vec<i64> {
    let lines = shop.post(ORDER_LINES, &json!({ "OrderId": order_id })).await.data();
    lines.as_array().expect("lines").iter().map(|line| id(line, "QuantityNotTiedToShipment")).collect()
}

/// Returns the single result of a call with one entry.
async fn one(shop: &Shop, path: &str, entry: Value) -> Value {
    let data = shop.post(path, &json!([entry])).await.data();
    assert_eq!(data[0]["Request"], entry, "the request is echoed");
    data[0].clone()
}

/// Asserts that the single result is a failure with this text in its message.
async fn fails(shop: &Shop, path: &str, entry: Value, part: &str) {
    let result = one(shop, path, entry).await;
    assert_eq!(result["WasSuccessful"], false, "{result}");
    let message = result["Messages"][0].as_str().expect("a message");
    assert!(message.contains(part), "{message}");
}

async fn items(shop: &Shop, shipment_id: i64) -> Vec<Value> {
    let data = shop.get(&format!("/api/Shipments/{shipment_id}/LineItems")).await.data();
    data.as_array().expect("items").clone()
}

#[tokio::test]
async fn a_shipment_of_a_whole_order_ties_all_its_quantities() {
    let shop = Shop::open().await;
    let (order_id, line_ids) = order(&shop).await;
    let result = one(&shop, CREATE_SHIPMENTS, json!({ "OrderId": order_id })).await;
    assert_fields(&result, &["Request", "Shipment", "WasSuccessful", "Messages"]);
    assert_eq!(result["WasSuccessful"], true);
    let shipment = &result["Shipment"];
    assert_fields(
        shipment,
        &[
            "Id",
            "CompanyId",
            "EcomdashOrderId",
            "Comments",
            "FulfillmentAction",
            "FulfillmentOrderNumber",
            "FulfillmentStatus",
            "FulfillmentStatusDate",
            "FulfillmentWarehouseId",
            "ShipmentNumber",
            "ShippedDate",
            "Status",
            "StatusInd",
            "ShipToContactId",
            "ShipToContact",
            "Items",
            "Labels",
        ],
    );
    assert_eq!((&shipment["Status"], &shipment["StatusInd"]), (&json!("Unshipped"), &json!("U")));
    assert_eq!((&shipment["EcomdashOrderId"], &shipment["ShippedDate"]), (&json!(order_id), &Value::Null));
    assert_eq!(shipment["ShipToContact"]["Id"], shipment["ShipToContactId"]);
    let shipped: Vec<_> = shipment["Items"].as_array().expect("items").iter().collect();
    assert_eq!(shipped.len(), 2);
    assert_fields(
        shipped[0],
        &[
            "Id",
            "ShipmentId",
            "OrderLineItemId",
            "QuantityShipped",
            "IsShipped",
            "ShippedInd",
            "IsConfirmed",
            "Comments",
            "CompanyCarrier",
            "TrackingNumber",
            "TrackingURL",
            "CustomsValue",
            "EstimatedDeliveryDate",
            "ProductId",
            "ProductSku",
            "ProductName",
        ],
    );
    for (item, (line_id, quantity)) in shipped.iter().zip(line_ids.iter().zip([5, 2])) {
        assert_eq!((id(item, "OrderLineItemId"), id(item, "QuantityShipped")), (*line_id, quantity));
        assert_eq!((&item["IsShipped"], &item["ShippedInd"]), (&json!(false), &json!("N")));
        assert_ne!(id(item, "Id"), *line_id, "two id spaces");
    }
    assert_eq!(untied(&shop, order_id).await, [0, 0]);
}

#[tokio::test]
async fn lines_are_required_once_the_order_has_a_shipment() {
    let shop = Shop::open().await;
    let (order_id, line_ids) = order(&shop).await;
    let part = json!({ "OrderId": order_id, "LineItems": [{ "LineItemId": line_ids[0], "Quantity": 3 }] });
    assert_eq!(one(&shop, CREATE_SHIPMENTS, part).await["WasSuccessful"], true);
    assert_eq!(untied(&shop, order_id).await, [2, 2]);
    fails(&shop, CREATE_SHIPMENTS, json!({ "OrderId": order_id }), "LineItems is required").await;
    let rest = json!({ "OrderId": order_id, "LineItems": [{ "LineItemId": line_ids[0] }, { "LineItemId": line_ids[1] }] });
    let result = one(&shop, CREATE_SHIPMENTS, rest).await;
    let quantities: Vec<i64> = result["Shipment"]["Items"]
        .as_array()
        .expect("items")
        .iter()
        .map(|item| id(item, "QuantityShipped"))
        .collect();
    assert_eq!(quantities, [2, 2], "without a quantity all that is left");
    assert_eq!(untied(&shop, order_id).await, [0, 0]);
}

#[tokio::test]
async fn a_request_that_cannot_be_done_fails_alone() {
    let shop = Shop::open().await;
    let (order_id, line_ids) = order(&shop).await;
    let requests = json!([
        { "OrderId": 1 },
        { "OrderId": order_id, "LineItems": [{ "LineItemId": line_ids[0], "Quantity": 6 }] },
        { "OrderId": order_id, "LineItems": [{ "LineItemId": 1 }] },
        { "LineItems": [] },
        { "OrderId": order_id, "LineItems": [{ "LineItemId": line_ids[1], "Quantity": 2.0 }] },
        7,
        { "OrderId": order_id, "LineItems": [{ "LineItemId": line_ids[1] }] },
    ]);
    let results = shop.post(CREATE_SHIPMENTS, &requests).await.data();
    let successes: Vec<&Value> =
        results.as_array().expect("results").iter().map(|result| &result["WasSuccessful"]).collect();
    assert_eq!(json!(successes), json!([false, false, false, false, true, false, false]));
    for (index, result) in results.as_array().expect("results").iter().enumerate() {
        assert_eq!(result["Request"], requests[index]);
        let failed = result["WasSuccessful"] == false;
        assert_eq!(result["Shipment"].is_null(), failed);
        assert_eq!(result["Messages"].as_array().expect("messages").is_empty(), !failed);
    }
    assert_eq!(untied(&shop, order_id).await, [5, 0]);
}

#[tokio::test]
async fn orders_and_shipments_of_other_companies_are_unknown() {
    let shop = Shop::open().await;
    let other = shop.company(json!({ "Name": "Other", "Subscribed": true })).await;
    let (order_id, _) = order(&shop).await;
    let theirs = shop.post_as(&other, CREATE_SHIPMENTS, &json!([{ "OrderId": order_id }])).await.data();
    assert_eq!(theirs[0]["WasSuccessful"], false);
    let ours = one(&shop, CREATE_SHIPMENTS, json!({ "OrderId": order_id })).await;
    let shipment_id = id(&ours["Shipment"], "Id");
    let tracking = json!([{ "ShipmentId": shipment_id, "TrackingNumber": "X" }]);
    assert_eq!(shop.post_as(&other, TRACKING, &tracking).await.data()[0]["WasSuccessful"], false);
    let listed = shop.get_as(&other, &format!("/api/Shipments/{shipment_id}/LineItems")).await.ok();
    assert_eq!(listed["data"], json!([]));
    assert_eq!(items(&shop, shipment_id).await[0]["TrackingNumber"], Value::Null);
}

#[tokio::test]
async fn tracking_moves_a_shipment_from_unshipped_over_partially_shipped_to_shipped() {
    let shop = Shop::open().await;
    let (order_id, _) = order(&shop).await;
    let created = one(&shop, CREATE_SHIPMENTS, json!({ "OrderId": order_id })).await;
    let shipment_id = id(&created["Shipment"], "Id");
    let item_ids: Vec<i64> =
        created["Shipment"]["Items"].as_array().expect("items").iter().map(|item| id(item, "Id")).collect();
    let first = json!({
        "ShipmentId": shipment_id, "CarrierId": 2, "ShippedDate": "2026-11-20", "EstimatedDeliveryDate": "2026-11-25T12:00:00",
        "LineItems": [{ "LineItemId": item_ids[0], "TrackingNumber": "T-1", "TrackingURL": "https://t.example/1" }]
    });
    let result = one(&shop, TRACKING, first).await;
    assert_fields(&result, &["Request", "WasSuccessful", "Messages"]);
    assert_eq!(result["WasSuccessful"], true);
    let after = items(&shop, shipment_id).await;
    assert_eq!((&after[0]["IsShipped"], &after[0]["IsConfirmed"]), (&json!(true), &json!(true)));
    assert_eq!(
        (&after[0]["TrackingNumber"], &after[0]["TrackingURL"]),
        (&json!("T-1"), &json!("https://t.example/1"))
    );
    assert_eq!(after[0]["CompanyCarrier"], json!({ "Id": 2, "Name": "FedEx" }), "the base's carrier");
    assert_eq!(after[0]["EstimatedDeliveryDate"], "2026-11-25T12:00:00");
    assert_eq!((&after[1]["IsShipped"], &after[1]["TrackingNumber"]), (&json!(false), &Value::Null));

    // Without lines, the base's number goes to all remaining items, and shipped items stay as they are.
    let rest = json!({ "ShipmentId": shipment_id, "TrackingNumber": "T-2", "CarrierId": 987 });
    assert_eq!(one(&shop, TRACKING, rest).await["WasSuccessful"], true);
    let after = items(&shop, shipment_id).await;
    assert_eq!((&after[0]["TrackingNumber"], &after[1]["TrackingNumber"]), (&json!("T-1"), &json!("T-2")));
    assert_eq!(after[1]["CompanyCarrier"]["Id"], 987, "any carrier id is taken");
    fails(&shop, TRACKING, json!({ "ShipmentId": shipment_id, "TrackingNumber": "T-3" }), "shipped already")
        .await;
}

#[tokio::test]
async fn tracking_that_cannot_be_taken_fails_alone_and_changes_nothing() {
    let shop = Shop::open().await;
    let (order_id, line_ids) = order(&shop).await;
    let created = one(&shop, CREATE_SHIPMENTS, json!({ "OrderId": order_id })).await;
    let shipment_id = id(&created["Shipment"], "Id");
    let item_id = id(&created["Shipment"]["Items"][0], "Id");
    for (entry, part) in [
        (json!({ "ShipmentId": 1, "TrackingNumber": "T" }), "No shipment"),
        (json!({ "TrackingNumber": "T" }), "not valid"),
        (json!({ "ShipmentId": shipment_id }), "TrackingNumber is required"),
        (
            json!({ "ShipmentId": shipment_id, "LineItems": [{ "LineItemId": item_id }] }),
            "TrackingNumber is required",
        ),
        (
            json!({ "ShipmentId": shipment_id, "TrackingNumber": "T", "LineItems": [{ "LineItemId": line_ids[0] }] }),
            "does not belong",
        ),
        (
            json!({ "ShipmentId": shipment_id, "TrackingNumber": "T", "ShippedDate": "yesterday" }),
            "ShippedDate",
        ),
        (
            json!({
                "ShipmentId": shipment_id, "TrackingNumber": "T",
                "LineItems": [{ "LineItemId": item_id }, { "LineItemId": 1 }]
            }),
            "does not belong",
        ),
    ] {
        fails(&shop, TRACKING, entry, part).await;
    }
    assert!(items(&shop, shipment_id).await.iter().all(|item| item["IsShipped"] == false));
}

#[tokio::test]
async fn a_shipped_item_takes_a_corrected_number() {
    let shop = Shop::open().await;
    let (order_id, _) = order(&shop).await;
    let created = one(&shop, CREATE_SHIPMENTS, json!({ "OrderId": order_id })).await;
    let (shipment_id, item_id) = (id(&created["Shipment"], "Id"), id(&created["Shipment"]["Items"][0], "Id"));
    for number in ["WRONG", "RIGHT"] {
        let entry = json!({ "ShipmentId": shipment_id, "LineItems": [{ "LineItemId": item_id, "TrackingNumber": number }] });
        assert_eq!(one(&shop, TRACKING, entry).await["WasSuccessful"], true);
    }
    assert_eq!(items(&shop, shipment_id).await[0]["TrackingNumber"], "RIGHT");
}

#[tokio::test]
async fn shipment_items_are_paged() {
    let shop = Shop::open().await;
    let (order_id, _) = order(&shop).await;
    let created = one(&shop, CREATE_SHIPMENTS, json!({ "OrderId": order_id })).await;
    let path = format!("/api/Shipments/{}/LineItems", created["Shipment"]["Id"]);
    let reply = shop.get(&format!("{path}?pageNumber=2&resultsPerPage=1")).await;
    assert_eq!(
        reply.json()["pagination"],
        json!({ "CurrentPage": 2, "TotalNumberOfEntries": 2, "TotalNumberOfPages": 2 })
    );
    assert_eq!(reply.data(), json!([created["Shipment"]["Items"][1]]));
    for unknown in ["/api/Shipments/1/LineItems", "/api/Shipments/abc/LineItems"] {
        assert_eq!(shop.get(unknown).await.ok()["data"], json!([]));
    }
}

#[tokio::test]
async fn empty_lists_of_requests_are_answered_with_empty_lists() {
    let shop = Shop::open().await;
    for path in [CREATE_SHIPMENTS, TRACKING] {
        assert_eq!(shop.post(path, &json!([])).await.data(), json!([]));
        let too_many = vec![json!({}); 1_001];
        shop.post(path, &json!(too_many)).await.message(400);
    }
}

#[tokio::test]
async fn a_cancelled_shipment_is_a_shipment_too_and_lines_are_required() {
    let shop = Shop::open().await;
    let mut refused = 0;
    for order_id in shop.sandbox.order_ids().await.expect("orders") {
        let lines = shop.post(ORDER_LINES, &json!({ "OrderId": order_id })).await.data();
        let whole = |line: &Value| line["QuantityNotTiedToShipment"] == line["QuantitySold"];
        if lines.as_array().expect("lines").iter().all(whole) {
            let result = one(&shop, CREATE_SHIPMENTS, json!({ "OrderId": order_id })).await;
            refused += usize::from(result["Messages"][0].to_string().contains("LineItems is required"));
        }
    }
    assert!(refused > 0, "the generated shop has orders whose only shipment was cancelled");
}

#[tokio::test]
async fn an_entry_that_is_an_array_is_no_request() {
    let shop = Shop::open().await;
    let (order_id, _) = order(&shop).await;
    for path in [CREATE_SHIPMENTS, TRACKING] {
        fails(&shop, path, json!([order_id, null]), "not valid").await;
    }
    assert_eq!(untied(&shop, order_id).await, [5, 2]);
}
