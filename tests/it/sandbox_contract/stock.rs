//! "Get product balances", "Get products by SKU or UPC", "Update quantity on hand".

use serde_json::{Value, json};

use super::support::{BALANCES, INVENTORY, PRODUCTS, Shop, UPDATE, assert_fields, id};

/// Returns the quantity of a SKU in a warehouse.
async fn cell(shop: &Shop, sku: &str, warehouse_id: i64) -> i64 {
    let found = shop.post(BALANCES, &json!({ "skus": [sku] })).await.ok();
    let levels = found[0]["Warehouses"].as_array().expect("cells").clone();
    let level = levels.iter().find(|level| level["WarehouseId"] == warehouse_id).expect("the cell");
    id(level, "QuantityOnHand")
}

fn sum_of_cells(balance: &Value) -> i64 {
    balance["Warehouses"].as_array().expect("cells").iter().map(|level| id(level, "QuantityOnHand")).sum()
}

#[tokio::test]
async fn a_balance_has_the_documented_fields_and_the_sum_of_its_warehouses() {
    let shop = Shop::open().await;
    let skus = shop.sandbox.all_skus().await.expect("skus");
    let balances = shop.post(BALANCES, &json!({ "skus": skus })).await.ok();
    let balances = balances.as_array().expect("a bare array");
    assert_eq!(balances.len(), skus.len());
    for (balance, sku) in balances.iter().zip(&skus) {
        assert_fields(balance, &["Id", "Sku", "QuantityOnHand", "UPC", "Warehouses"]);
        assert_eq!(balance["Sku"], **sku, "in the order of asking");
        assert_eq!(id(balance, "QuantityOnHand"), sum_of_cells(balance));
        assert_eq!(balance["Warehouses"].as_array().expect("cells").len(), 3);
        for level in balance["Warehouses"].as_array().expect("cells") {
            assert_fields(
                level,
                &[
                    "ProductId",
                    "WarehouseId",
                    "QuantityOnHand",
                    "WarehouseSKU",
                    "IsActive",
                    "IncludeInSyncBalance",
                ],
            );
            assert_eq!(level["ProductId"], balance["Id"]);
            assert!(level["IsActive"].is_boolean() && level["IncludeInSyncBalance"].is_boolean());
        }
    }
}

#[tokio::test]
async fn unknown_skus_are_not_returned_and_repeated_ones_once() {
    let shop = Shop::open().await;
    let sku = shop.sandbox.all_skus().await.expect("skus")[3].clone();
    let found = shop.post(BALANCES, &json!({ "skus": ["nobody's", sku, sku, ""] })).await.ok();
    assert_eq!(found.as_array().expect("balances").len(), 1);
    assert_eq!(shop.post(BALANCES, &json!({ "skus": [] })).await.ok(), json!([]));
}

#[tokio::test]
async fn the_exact_spelling_of_a_sku_wins_and_another_case_is_found_without_it() {
    let shop = Shop::open().await;
    for sku in ["twin-a", "TWIN-A", "Lonely"] {
        shop.post(INVENTORY, &json!({ "Sku": sku, "Name": sku })).await.data();
    }
    for (asked, found) in
        [("twin-a", "twin-a"), ("TWIN-A", "TWIN-A"), ("Twin-A", "twin-a"), ("LONELY", "Lonely")]
    {
        let balances = shop.post(BALANCES, &json!({ "skus": [asked] })).await.ok();
        assert_eq!(balances[0]["Sku"], found, "{asked}");
        assert_eq!(balances.as_array().expect("balances").len(), 1);
    }
}

#[tokio::test]
async fn a_thousand_skus_are_served_at_once() {
    let shop = Shop::open().await;
    let known = shop.sandbox.all_skus().await.expect("skus");
    let asked: Vec<String> =
        (0..1_000).map(|n| format!("unknown-{n}")).chain(known.iter().cloned()).collect();
    let found = shop.post(BALANCES, &json!({ "skus": asked })).await.ok();
    assert_eq!(found.as_array().expect("balances").len(), known.len());
}

#[tokio::test]
async fn products_are_found_by_sku_and_by_upc_in_the_envelope() {
    let shop = Shop::open().await;
    let product = shop.product(2).await;
    let by_sku = shop.post(PRODUCTS, &json!({ "idType": "sku", "idList": [product["Sku"]] })).await;
    assert_eq!(by_sku.data(), json!([product]));
    assert_fields(&by_sku.json(), &["status", "messages", "pagination", "data"]);
    assert_eq!(by_sku.json()["pagination"], Value::Null);
    let by_upc =
        shop.post(PRODUCTS, &json!({ "idType": "upc", "idList": [product["UPC"], "000", ""] })).await;
    assert_eq!(by_upc.data(), json!([product]));
}

#[tokio::test]
async fn another_id_type_is_an_error_inside_the_200() {
    let shop = Shop::open().await;
    for id_type in ["ean", "SKU", ""] {
        let answer = shop.post(PRODUCTS, &json!({ "idType": id_type, "idList": ["A"] })).await.ok();
        assert_eq!(answer["status"], "Error");
        assert_eq!(answer["messages"].as_array().expect("messages").len(), 1);
        assert_eq!(answer["data"], json!([]));
    }
}

#[tokio::test]
async fn other_companies_records_are_never_returned() {
    let shop = Shop::open().await;
    let other = shop.company(json!({ "Name": "Other", "Subscribed": true, "MultiWarehousing": true })).await;
    let product = shop.product(0).await;
    let sku = json!({ "skus": [product["Sku"]] });
    assert_eq!(shop.post_as(&other, BALANCES, &sku).await.ok(), json!([]));
    let entry = json!([{ "Sku": product["Sku"], "Quantity": 1, "WarehouseId": product["Warehouses"][0]["WarehouseId"] }]);
    assert_eq!(shop.post_as(&other, UPDATE, &entry).await.ok()["status"], "Failure");
    assert_eq!(shop.product(0).await, product);
    // The SKU is another product in that account.
    shop.post_as(&other, INVENTORY, &json!({ "Sku": product["Sku"], "Name": "Theirs" })).await.data();
    let theirs = shop.post_as(&other, BALANCES, &sku).await.ok();
    assert_ne!(theirs[0]["Id"], product["Id"]);
}

#[tokio::test]
async fn quantities_are_set_absolutely_per_warehouse() {
    let shop = Shop::open().await;
    let product = shop.product(1).await;
    let (sku, levels) =
        (product["Sku"].as_str().expect("a SKU"), product["Warehouses"].as_array().expect("cells"));
    let warehouse_id = id(&levels[1], "WarehouseId");
    let answer =
        shop.post(UPDATE, &json!([{ "Sku": sku, "Quantity": 77, "WarehouseId": warehouse_id }])).await.ok();
    assert_eq!(answer["status"], "Success");
    assert_eq!(answer["messages"], json!([]));
    assert!(answer["data"].is_string());
    assert_eq!(cell(&shop, sku, warehouse_id).await, 77);
    let after = shop.product(1).await;
    assert_eq!(id(&after, "QuantityOnHand"), sum_of_cells(&after));
    assert_eq!(after["Warehouses"][0], product["Warehouses"][0], "other cells stay");
    assert_eq!(after["Warehouses"][2], product["Warehouses"][2], "other cells stay");
}

#[tokio::test]
async fn each_failed_entry_is_named_by_its_index() {
    let shop = Shop::open().await;
    let product = shop.product(1).await;
    let warehouse_id = id(&product["Warehouses"][0], "WarehouseId");
    let (good, kit) = (product["Sku"].as_str().expect("a SKU"), "KIT-0001");
    let entries = json!([
        { "Sku": "nobody's", "Quantity": 1, "WarehouseId": warehouse_id },
        { "Sku": good, "Quantity": 5.0, "WarehouseId": warehouse_id },
        { "Sku": kit, "Quantity": 1, "WarehouseId": warehouse_id },
        { "Sku": shop.product(2).await["Sku"], "Quantity": 1, "WarehouseId": 1 },
        { "Sku": shop.product(3).await["Sku"], "Quantity": -1, "WarehouseId": warehouse_id },
        { "Sku": shop.product(4).await["Sku"], "WarehouseId": warehouse_id },
    ]);
    let answer = shop.post(UPDATE, &entries).await.ok();
    assert_eq!(answer["status"], "Partial Success");
    let messages: Vec<&str> = answer["messages"]
        .as_array()
        .expect("messages")
        .iter()
        .map(|message| message.as_str().expect("text"))
        .collect();
    let expected = [
        (0, "No active product"),
        (2, "kit"),
        (3, "no warehouse"),
        (4, "not between"),
        (5, "Quantity is required"),
    ];
    assert_eq!(messages.len(), expected.len(), "{messages:?}");
    for (message, (index, part)) in messages.iter().zip(expected) {
        assert!(message.starts_with(&format!("Index {index}: ")) && message.contains(part), "{message}");
    }
    assert_eq!(cell(&shop, good, warehouse_id).await, 5, "the good entry was done");
}

#[tokio::test]
async fn failure_means_that_no_product_was_updated() {
    let shop = Shop::open().await;
    let before = shop.sandbox.stock_levels().await.expect("stock");
    let entries = json!([{ "Sku": "nobody's", "Quantity": 1, "WarehouseId": 1 }]);
    let answer = shop.post(UPDATE, &entries).await.ok();
    assert_eq!(
        (&answer["status"], answer["messages"].as_array().expect("messages").len()),
        (&json!("Failure"), 1)
    );
    assert_eq!(shop.sandbox.stock_levels().await.expect("stock"), before);
}

#[tokio::test]
async fn an_inactive_product_is_not_updated() {
    let shop = Shop::open().await;
    let created = shop.post(INVENTORY, &json!({ "Sku": "SLEEPER", "Name": "Sleeper" })).await.data();
    let mut product = created["Product"].clone();
    product["IsActive"] = json!(false);
    assert_eq!(shop.put(INVENTORY, &product).await.data()["Product"]["IsActive"], false);
    let warehouse_id = id(&product["Warehouses"][0], "WarehouseId");
    let answer = shop
        .post(UPDATE, &json!([{ "Sku": "SLEEPER", "Quantity": 1, "WarehouseId": warehouse_id }]))
        .await
        .ok();
    assert_eq!(answer["status"], "Failure");
}

#[tokio::test]
async fn twenty_five_entries_are_taken_and_twenty_six_refused_whole() {
    let shop = Shop::open().await;
    let product = shop.product(0).await;
    let warehouse_id = id(&product["Warehouses"][0], "WarehouseId");
    let entry = |sku: String| json!({ "Sku": sku, "Quantity": 9, "WarehouseId": warehouse_id });
    let mut entries: Vec<Value> = (0..24).map(|n| entry(format!("unknown-{n}"))).collect();
    entries.push(entry(product["Sku"].as_str().expect("a SKU").to_owned()));
    let before = cell(&shop, product["Sku"].as_str().expect("a SKU"), warehouse_id).await;
    let too_many = [entries.clone(), vec![entry("one-more".to_owned())]].concat();
    let reply = shop.post(UPDATE, &json!(too_many)).await;
    reply.message(400);
    assert_fields(&reply.json(), &["Message", "ExceptionMessage", "ExceptionType", "StackTrace"]);
    assert_eq!(cell(&shop, product["Sku"].as_str().expect("a SKU"), warehouse_id).await, before);
    assert_eq!(shop.post(UPDATE, &json!(entries)).await.ok()["status"], "Partial Success");
}

#[tokio::test]
async fn a_sku_twice_refuses_the_whole_call_also_in_another_warehouse_or_case() {
    let shop = Shop::open().await;
    let product = shop.product(0).await;
    let sku = product["Sku"].as_str().expect("a SKU");
    let before = shop.sandbox.stock_levels().await.expect("stock");
    for twin in [sku.to_owned(), sku.to_lowercase()] {
        let entries = json!([
            { "Sku": sku, "Quantity": 1, "WarehouseId": product["Warehouses"][0]["WarehouseId"] },
            { "Sku": twin, "Quantity": 1, "WarehouseId": product["Warehouses"][1]["WarehouseId"] },
        ]);
        shop.post(UPDATE, &entries).await.message(400);
    }
    assert_eq!(shop.sandbox.stock_levels().await.expect("stock"), before);
}

#[tokio::test]
async fn an_empty_update_succeeds_with_nothing_done() {
    let shop = Shop::open().await;
    assert_eq!(shop.post(UPDATE, &json!([])).await.ok()["status"], "Success");
}
