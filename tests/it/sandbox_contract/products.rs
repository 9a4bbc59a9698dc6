//! "Create product", "Update product", "Get kit components".

use serde_json::{Value, json};

use super::support::{BALANCES, INVENTORY, Shop, WAREHOUSES, assert_fields, id, keys};

const PRODUCT_FIELDS: [&str; 18] = [
    "Id",
    "CompanyId",
    "Sku",
    "Name",
    "Type",
    "QuantityOnHand",
    "Identifiers",
    "IsActive",
    "IsAutoSyncEnabled",
    "IsDiscontinued",
    "IsDropshipped",
    "IsFireArm",
    "IsVariation",
    "IsParent",
    "GlobalListingAttributes",
    "Images",
    "Warehouses",
    "SupplierInformation",
];

async fn created(shop: &Shop, body: &Value) -> Value {
    let data = shop.post(INVENTORY, body).await.data();
    assert_fields(&data, &["Product", "WasSuccessful", "Messages"]);
    assert_eq!(data["WasSuccessful"], true);
    data["Product"].clone()
}

#[tokio::test]
async fn a_product_gets_the_documented_defaults_and_all_warehouses() {
    let shop = Shop::open().await;
    let product = created(&shop, &json!({ "Sku": "NEW", "Name": "New thing", "QuantityOnHand": 9 })).await;
    assert_fields(&product, &PRODUCT_FIELDS);
    for (field, value) in [
        ("Type", json!("Product")),
        ("QuantityOnHand", json!(0)),
        ("IsActive", json!(true)),
        ("IsAutoSyncEnabled", json!(true)),
        ("IsDiscontinued", json!(false)),
        ("IsDropshipped", json!(false)),
        ("IsFireArm", json!(false)),
        ("IsVariation", json!(false)),
        ("IsParent", json!(false)),
        ("Images", json!([])),
        ("SupplierInformation", Value::Null),
    ] {
        assert_eq!(product[field], value, "{field}");
    }
    let links = product["Warehouses"].as_array().expect("links");
    assert_eq!(links.len(), 3);
    assert_fields(
        &links[0],
        &[
            "Id",
            "ProductId",
            "WarehouseId",
            "Name",
            "Aisle",
            "Bin",
            "QuantityOnHand",
            "SKU",
            "IsActive",
            "IsDefault",
            "IncludeInSyncBalance",
        ],
    );
    assert!(links.iter().all(|link| link["SKU"] == "NEW" && link["ProductId"] == product["Id"]));
    assert_eq!(links.iter().filter(|link| link["IsDefault"] == true).count(), 1);
}

#[tokio::test]
async fn everything_that_is_sent_comes_back() {
    let shop = Shop::open().await;
    let warehouses = shop.get(WAREHOUSES).await.data();
    let supplier = shop.get("/api/Suppliers").await.data()[0].clone();
    let body = json!({
        "Sku": "FULL", "Name": "Full", "Type": "Built", "QuantityOnHand": 1,
        "Identifiers": { "UPC": "1", "EAN": "2", "ISBN": "3", "GTIN": "4" },
        "IsAutoSyncEnabled": false, "IsDiscontinued": true, "IsDropshipped": true, "IsFireArm": true, "IsVariation": true,
        "GlobalListingAttributes": {
            "SoldAsName": "S", "ShortDescription": "sd", "LongDescription": "<b>ld</b>", "Price": 12.345, "Condition": "Used"
        },
        "Images": [{ "MIMEType": "image/png", "Url": "https://i.example/1.png", "DisplayOrder": 4 }],
        "Warehouses": [
            { "WarehouseId": warehouses[0]["Id"], "QuantityOnHand": 3, "Aisle": "a", "Bin": "b", "SKU": "W-SKU" },
            { "WarehouseId": warehouses[1]["Id"], "QuantityOnHand": 4, "IsActive": false },
        ],
        "SupplierInformation": { "SupplierId": supplier["Id"], "Sku": "SUP", "Price": 0.0125 },
    });
    let product = created(&shop, &body).await;
    assert_eq!(product["QuantityOnHand"], 7, "the sum of the warehouses, whatever was sent");
    for field in ["UPC", "EAN", "ISBN", "GTIN"] {
        assert_eq!(product["Identifiers"][field], body["Identifiers"][field]);
    }
    for field in ["Type", "IsAutoSyncEnabled", "IsDiscontinued", "IsDropshipped", "IsFireArm", "IsVariation"]
    {
        assert_eq!(product[field], body[field], "{field}");
    }
    for field in ["SoldAsName", "ShortDescription", "LongDescription", "Price", "Condition"] {
        assert_eq!(
            product["GlobalListingAttributes"][field], body["GlobalListingAttributes"][field],
            "{field}"
        );
    }
    for field in ["MIMEType", "Url", "DisplayOrder"] {
        assert_eq!(product["Images"][0][field], body["Images"][0][field], "{field}");
    }
    let links = &product["Warehouses"];
    assert_eq!(
        (&links[0]["SKU"], &links[0]["Aisle"], &links[0]["Bin"]),
        (&json!("W-SKU"), &json!("a"), &json!("b"))
    );
    assert_eq!((&links[1]["SKU"], &links[1]["IsActive"]), (&json!("FULL"), &json!(false)));
    let supply = &product["SupplierInformation"];
    assert_fields(
        supply,
        &["ProductId", "SupplierId", "Name", "Sku", "Price", "IsOutOfStock", "IsOrderedByCase"],
    );
    assert_eq!(
        (&supply["Name"], &supply["Sku"], &supply["Price"]),
        (&supplier["Name"], &json!("SUP"), &json!(0.0125))
    );
}

#[tokio::test]
async fn a_product_that_cannot_be_created_is_a_400() {
    let shop = Shop::open().await;
    let taken = shop.sandbox.all_skus().await.expect("skus")[0].clone();
    let other = shop.company(json!({ "Name": "Other", "Subscribed": true })).await;
    let theirs = shop.get_as(&other, WAREHOUSES).await.data()[0]["Id"].clone();
    for (body, part) in [
        (json!({ "Name": "n" }), "Sku is required"),
        (json!({ "Sku": "s" }), "Name is required"),
        (json!({ "Sku": "", "Name": "n" }), "Sku is required"),
        (
            json!({ "Sku": "s", "Name": "n", "IsVariation": true, "IsParent": true }),
            "IsVariation and IsParent",
        ),
        (json!({ "Sku": taken, "Name": "n" }), "exists already"),
        (
            json!({ "Sku": "s", "Name": "n", "Warehouses": [{ "QuantityOnHand": 1 }] }),
            "WarehouseId is required",
        ),
        (json!({ "Sku": "s", "Name": "n", "Warehouses": [{ "WarehouseId": 1 }] }), "no warehouse"),
        (json!({ "Sku": "s", "Name": "n", "Warehouses": [{ "WarehouseId": theirs }] }), "no warehouse"),
        (json!({ "Sku": "s", "Name": "n", "SupplierInformation": { "SupplierId": 1 } }), "no supplier"),
        (json!({ "Sku": "s", "Name": "n", "Type": "Bundle" }), "not valid"),
        (json!({ "Sku": "s", "Name": "n", "QuantityOnHand": -1 }), "not valid"),
        (json!({ "Sku": "s", "Name": "n", "IsActive": "yes" }), "not valid"),
        (json!({ "Sku": "s", "Name": "n", "GlobalListingAttributes": { "Condition": "Worn" } }), "not valid"),
    ] {
        let message = shop.post(INVENTORY, &body).await.message(400);
        assert!(message.contains(part), "{body}: {message}");
    }
    assert_eq!(shop.post(BALANCES, &json!({ "skus": ["s"] })).await.ok(), json!([]), "nothing was made");
}

#[tokio::test]
async fn twelve_images_are_attached_and_those_without_a_url_are_not() {
    let shop = Shop::open().await;
    let mut images: Vec<Value> =
        (0..14).map(|n| json!({ "Url": format!("https://i.example/{n}.png") })).collect();
    images.insert(2, json!({ "Url": "no url at all" }));
    let product = created(&shop, &json!({ "Sku": "PICS", "Name": "n", "Images": images })).await;
    let attached = product["Images"].as_array().expect("images");
    assert_eq!(attached.len(), 12);
    assert_eq!(attached[2]["Url"], "https://i.example/2.png");
    assert!(attached.iter().all(|image| image["Id"].is_i64() && image["ProductId"] == product["Id"]));
}

#[tokio::test]
async fn a_price_comes_back_as_a_number_or_is_refused() {
    let shop = Shop::open().await;
    let body = |sku: &str, price: &str| {
        format!(r#"{{"Sku":"{sku}","Name":"n","GlobalListingAttributes":{{"Price":{price}}}}}"#).into_bytes()
    };
    for (sku, price) in [("CHEAP", "0.01"), ("DEAR", "1e12")] {
        let answer = shop.send("POST", INVENTORY, &keys(), &body(sku, price)).await.data();
        let price: f64 = price.parse().expect("a number");
        assert_eq!(answer["Product"]["GlobalListingAttributes"]["Price"], price, "{answer}");
    }
    for price in ["1.1e12", "-1.1e12", "1.7976931348623157e308"] {
        shop.send("POST", INVENTORY, &keys(), &body("BEYOND", price)).await.message(400);
    }
}

#[tokio::test]
async fn without_multi_warehousing_the_quantity_that_is_sent_counts() {
    let shop = Shop::open().await;
    let key = shop.company(json!({ "Name": "Single", "Subscribed": true })).await;
    let body = json!({ "Sku": "ONE", "Name": "n", "QuantityOnHand": 12 });
    let product = shop.post_as(&key, INVENTORY, &body).await.data()["Product"].clone();
    assert_eq!(product["QuantityOnHand"], 12);
    assert_eq!(product["Warehouses"].as_array().expect("links").len(), 1);
    assert_eq!(product["Warehouses"][0]["QuantityOnHand"], 12);
}

#[tokio::test]
async fn an_update_replaces_the_fields_and_keeps_what_is_not_spoken_of() {
    let shop = Shop::open().await;
    let images = json!([{ "Url": "https://i.example/1.png" }, { "Url": "https://i.example/2.png" }]);
    let mut product =
        created(&shop, &json!({ "Sku": "UPD", "Name": "old", "IsFireArm": true, "Images": images })).await;
    product["Name"] = json!("new");
    product["Warehouses"][1]["QuantityOnHand"] = json!(8);
    product["Images"] = json!([product["Images"][1]]);
    let updated = shop.put(INVENTORY, &product).await.data();
    assert_eq!(updated["WasSuccessful"], true);
    let updated = updated["Product"].clone();
    assert_eq!((&updated["Name"], &updated["QuantityOnHand"]), (&json!("new"), &json!(8)));
    assert_eq!(updated["IsFireArm"], true);
    assert_eq!(updated["Images"], product["Images"], "the image keeps its id");

    let short = json!({ "Id": updated["Id"], "Sku": "UPD-2", "Name": "newer" });
    let after = shop.put(INVENTORY, &short).await.data()["Product"].clone();
    assert_eq!((&after["Sku"], &after["IsFireArm"]), (&json!("UPD-2"), &json!(false)));
    assert_eq!((&after["QuantityOnHand"], &after["Images"]), (&json!(8), &updated["Images"]));
}

#[tokio::test]
async fn an_update_that_is_not_valid_is_a_200_without_success() {
    let shop = Shop::open().await;
    let product = created(&shop, &json!({ "Sku": "VAL", "Name": "n" })).await;
    let taken = shop.sandbox.all_skus().await.expect("skus")[0].clone();
    let other = shop.company(json!({ "Name": "Other", "Subscribed": true })).await;
    let with = |field: &str, value: Value| {
        let mut changed = product.clone();
        changed[field] = value;
        changed
    };
    for body in [
        with("Name", json!("")),
        with("Sku", json!(taken)),
        with("Id", json!(1)),
        with("CompanyId", json!(1)),
        with("Identifiers", json!({ "ProductId": 1 })),
        with("Warehouses", json!([{ "WarehouseId": 1 }])),
        with("Type", json!("Kit")),
    ] {
        let answer = shop.put(INVENTORY, &body).await.ok();
        assert_eq!(answer["data"]["WasSuccessful"], false, "{body}");
        assert!(!answer["data"]["Messages"].as_array().expect("messages").is_empty());
        assert_eq!(answer["data"]["Product"], Value::Null);
    }
    let theirs =
        shop.send("PUT", INVENTORY, &super::support::keys_of(&other), product.to_string().as_bytes()).await;
    assert_eq!(theirs.ok()["data"]["WasSuccessful"], false, "a product of another company");
    shop.put(INVENTORY, &json!({ "Sku": "VAL", "Name": "n" })).await.message(400);
    shop.put(INVENTORY, &with("Id", json!("x"))).await.message(400);
}

#[tokio::test]
async fn kit_components_carry_the_extra_product_fields() {
    let shop = Shop::open().await;
    let component = shop.product(0).await;
    let components = json!([{ "Sku": component["Sku"], "Quantity": 3 }]);
    let kit = shop
        .control("/_sandbox/kits", &json!({ "Sku": "SET", "Name": "Set", "Components": components }))
        .await;
    let answer = shop.get(&format!("/api/Inventory/{}/kitcomponents", kit["ProductId"])).await.data();
    assert_eq!(answer.as_array().expect("components").len(), 1);
    assert_fields(&answer[0], &["Id", "QuantityForKit", "Product"]);
    assert_eq!(answer[0]["QuantityForKit"], 3);
    assert_eq!(answer[0]["Product"]["Id"], component["Id"]);
    let extra = [
        "Notes",
        "ParentSku",
        "ChildSku",
        "TargetInventoryLevel",
        "AverageCost",
        "AverageLandedCost",
        "ReorderLevel",
        "ReserveLevel",
    ];
    assert_fields(&answer[0]["Product"], &[PRODUCT_FIELDS.as_slice(), extra.as_slice()].concat());
}

#[tokio::test]
async fn a_kits_quantity_follows_from_its_scarcest_component() {
    let shop = Shop::open().await;
    let (first, second) = (shop.product(0).await, shop.product(1).await);
    let components = json!([{ "Sku": first["Sku"], "Quantity": 2 }, { "Sku": second["Sku"], "Quantity": 5 }]);
    shop.control("/_sandbox/kits", &json!({ "Sku": "SET", "Name": "Set", "Components": components })).await;
    let kit = shop.post(BALANCES, &json!({ "skus": ["SET"] })).await.ok()[0].clone();
    let expected = (id(&first, "QuantityOnHand") / 2).min(id(&second, "QuantityOnHand") / 5);
    assert!(expected > 0);
    assert_eq!(id(&kit, "QuantityOnHand"), expected);
    let links = kit["Warehouses"].as_array().expect("links");
    assert_eq!(links.iter().map(|link| id(link, "QuantityOnHand")).sum::<i64>(), expected);
}

#[tokio::test]
async fn components_of_what_is_no_kit_of_the_company_are_a_403() {
    let shop = Shop::open().await;
    let other = shop.company(json!({ "Name": "Other", "Subscribed": true })).await;
    let product = shop.product(0).await["Id"].clone();
    let kit = shop.post(BALANCES, &json!({ "skus": ["KIT-0001"] })).await.ok()[0]["Id"].clone();
    let path = |id: &Value| format!("/api/Inventory/{id}/kitcomponents");
    assert!(!shop.get(&path(&kit)).await.data().as_array().expect("components").is_empty());
    for id in [product, json!(1), json!(0)] {
        shop.get(&path(&id)).await.message(403);
    }
    shop.get("/api/Inventory/abc/kitcomponents").await.message(403);
    shop.get_as(&other, &path(&kit)).await.message(403);
}
