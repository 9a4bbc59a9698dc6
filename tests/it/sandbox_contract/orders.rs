//! "Get line items of a sales order", "Get warehouse allocation of an order line item".

use serde_json::json;

use super::support::{BALANCES, ORDER_LINES, Shop, assert_fields, id};

#[tokio::test]
async fn line_items_have_the_documented_fields() {
    let shop = Shop::open().await;
    let product = shop.product(0).await;
    let order_id = shop.order(json!([{ "Sku": product["Sku"], "Quantity": 2 }])).await;
    let reply = shop.post(ORDER_LINES, &json!({ "OrderId": order_id })).await;
    let lines = reply.data();
    assert_eq!(
        reply.json()["pagination"],
        json!({ "CurrentPage": 1, "TotalNumberOfEntries": 1, "TotalNumberOfPages": 1 })
    );
    let line = &lines[0];
    assert_fields(
        line,
        &[
            "OrderLineItemId",
            "SalesOrderId",
            "ProductId",
            "SkuNumber",
            "ProductName",
            "SoldAsName",
            "QuantitySold",
            "QuantityNotTiedToShipment",
            "UnitPrice",
            "LineItemTotal",
            "EcommerceLineItemId",
            "EcommerceTransactionId",
            "EcommerceShipmentId",
            "SupplierId",
            "SupplierName",
            "WarehouseId",
            "WarehouseName",
        ],
    );
    assert_eq!(id(line, "SalesOrderId"), order_id);
    assert_eq!(line["ProductId"], product["Id"]);
    assert_eq!((id(line, "QuantitySold"), id(line, "QuantityNotTiedToShipment")), (2, 2));
    let (unit, total) =
        (line["UnitPrice"].as_f64().expect("a price"), line["LineItemTotal"].as_f64().expect("a total"));
    assert!((unit * 2.0 - total).abs() < 0.005);
}

#[tokio::test]
async fn an_order_of_somebody_else_has_no_lines() {
    let shop = Shop::open().await;
    let other = shop.company(json!({ "Name": "Other", "Subscribed": true })).await;
    let order_id = shop.sandbox.order_ids().await.expect("orders")[0];
    for reply in [
        shop.post_as(&other, ORDER_LINES, &json!({ "OrderId": order_id })).await,
        shop.post(ORDER_LINES, &json!({ "OrderId": 1 })).await,
        shop.post(ORDER_LINES, &json!({ "OrderId": -1 })).await,
    ] {
        let answer = reply.ok();
        assert_eq!(answer["data"], json!([]));
        assert_eq!(answer["pagination"]["TotalNumberOfEntries"], 0);
        assert_eq!(answer["messages"].as_array().expect("messages").len(), 1);
    }
}

#[tokio::test]
async fn an_order_lowers_the_stock_of_the_default_warehouse_first() {
    let shop = Shop::open().await;
    let before = shop.product(0).await;
    let first = id(&before["Warehouses"][0], "QuantityOnHand");
    let sold = first + 1;
    assert!(id(&before, "QuantityOnHand") > sold, "the shop holds enough");
    let order_id = shop.order(json!([{ "Sku": before["Sku"], "Quantity": sold }])).await;
    let after = shop.product(0).await;
    assert_eq!(id(&after, "QuantityOnHand"), id(&before, "QuantityOnHand") - sold);
    assert_eq!(id(&after["Warehouses"][0], "QuantityOnHand"), 0);

    let line = shop.post(ORDER_LINES, &json!({ "OrderId": order_id })).await.data()[0].clone();
    let path = format!("/api/orders/{order_id}/lineitems/{}/warehouseallocation", line["OrderLineItemId"]);
    let reply = shop.get(&path).await;
    let allocations = reply.data();
    assert_eq!(reply.json()["pagination"]["TotalNumberOfEntries"], 2);
    assert_fields(
        &allocations[0],
        &[
            "WarehouseAllocationId",
            "OrderLineItemId",
            "ProductId",
            "QuantityAllocated",
            "WarehouseId",
            "SkuNumber",
            "ProductName",
            "WarehouseName",
        ],
    );
    assert_eq!(
        (id(&allocations[0], "QuantityAllocated"), id(&allocations[1], "QuantityAllocated")),
        (first, 1)
    );
    assert_eq!(allocations[0]["WarehouseId"], before["Warehouses"][0]["WarehouseId"]);
}

#[tokio::test]
async fn a_kit_line_is_allocated_by_its_components() {
    let shop = Shop::open().await;
    let (first, second) = (shop.product(0).await, shop.product(1).await);
    let components = json!([{ "Sku": first["Sku"], "Quantity": 2 }, { "Sku": second["Sku"], "Quantity": 1 }]);
    shop.control("/_sandbox/kits", &json!({ "Sku": "SET", "Name": "Set", "Components": components })).await;
    let order_id = shop.order(json!([{ "Sku": "SET", "Quantity": 3 }])).await;
    let line = shop.post(ORDER_LINES, &json!({ "OrderId": order_id })).await.data()[0].clone();
    assert_eq!(line["SkuNumber"], "SET");
    let path = format!("/api/orders/{order_id}/lineitems/{}/warehouseallocation", line["OrderLineItemId"]);
    let allocations = shop.get(&path).await.data();
    let taken = |sku: &serde_json::Value| -> i64 {
        let of_sku = allocations.as_array().expect("allocations").iter().filter(|a| a["SkuNumber"] == *sku);
        of_sku.map(|allocation| id(allocation, "QuantityAllocated")).sum()
    };
    assert_eq!((taken(&first["Sku"]), taken(&second["Sku"]), taken(&json!("SET"))), (6, 3, 0));
    let found = shop.post(BALANCES, &json!({ "skus": [first["Sku"], second["Sku"]] })).await.ok();
    assert_eq!(id(&found[0], "QuantityOnHand"), id(&first, "QuantityOnHand") - 6);
    assert_eq!(id(&found[1], "QuantityOnHand"), id(&second, "QuantityOnHand") - 3);
}

#[tokio::test]
async fn an_allocation_of_an_unknown_order_is_a_404() {
    let shop = Shop::open().await;
    let other = shop.company(json!({ "Name": "Other", "Subscribed": true })).await;
    let orders = shop.sandbox.order_ids().await.expect("orders");
    let line =
        shop.post(ORDER_LINES, &json!({ "OrderId": orders[0] })).await.data()[0]["OrderLineItemId"].clone();
    let path = |order: &str| format!("/api/orders/{order}/lineitems/{line}/warehouseallocation");
    assert_eq!(shop.get(&path(&orders[0].to_string())).await.status, 200);
    for order in ["1", "0", "abc", "99999999999999999999", &orders[1].to_string()] {
        shop.get(&path(order)).await.message(404);
    }
    shop.get_as(&other, &path(&orders[0].to_string())).await.message(404);
}
