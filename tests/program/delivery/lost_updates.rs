//! Lost answers of updates and creates while other programs change the same records.

use super::support::{A_MOMENT, Dock, LONG, PRODUCT, PRODUCT_PUT, TEMPLATE};
use serde_json::{Value, json};
use std::time::Duration;
use tallyd::reconcile::proof::ABSENCE_CHECKS_APART;

/// Longer than the first retry delay.
const MINUTES: Duration = Duration::from_secs(ABSENCE_CHECKS_APART.as_secs() + 10);

/// Passes the quiet time and runs two checks.
async fn settled(dock: &Dock) {
    dock.settle_after(A_MOMENT).await;
}

/// Loses the answer of an update, after the effect or before it.
async fn lost_update(dock: &Dock, moment: &str, body: Value) {
    dock.fault(PRODUCT_PUT, json!({"Drop": moment})).await;
    dock.change("u", "product.update", body).await;
    dock.push().await;
    assert_eq!(dock.state("u").await, "in_doubt");
}

fn with_upc(product: &Value, upc: &str) -> Value {
    let mut body = super::creates::update_of(product, "After");
    body["Identifiers"]["UPC"] = upc.into();
    body
}

#[tokio::test]
async fn a_lost_update_that_shows_is_done_and_a_colleagues_change_after_it_stays() {
    let dock = Dock::open().await;
    let made = super::creates::product(&dock, "UPD-1").await;
    lost_update(&dock, "after", with_upc(&made, "222")).await;
    let mut theirs = with_upc(&made, "222");
    theirs["Name"] = "Theirs".into();
    for link in theirs["Warehouses"].as_array_mut().unwrap() {
        link["QuantityOnHand"] = 0.into();
    }
    dock.request("PUT", "/api/Inventory", &theirs.to_string()).await;
    settled(&dock).await;
    dock.push().await;
    assert_eq!(dock.state("u").await, "applied", "{:?}", dock.fate("u").await);
    assert_eq!(dock.calls(PRODUCT_PUT), 2, "ours and the colleague's");
    assert_eq!(dock.number("SELECT count(*) FROM stock_level_write WHERE ended IS NULL").await, 0);
}

#[tokio::test]
async fn a_lost_update_that_was_not_done_is_sent_again_with_growing_delays() {
    let dock = Dock::open().await;
    let made = super::creates::product(&dock, "UPD-2").await;
    lost_update(&dock, "before", with_upc(&made, "222")).await;
    settled(&dock).await;
    dock.push().await;
    assert_eq!((dock.state("u").await, dock.calls(PRODUCT_PUT)), ("pending".into(), 1));
    dock.later(MINUTES);
    dock.faults(json!([{"Operation": PRODUCT_PUT, "Status": 500, "Drop": "before"}])).await;
    // An hour of a platform that always fails this way.
    for _ in 0..60 {
        dock.push().await;
        dock.later(Duration::from_secs(30));
        dock.settle().await;
        dock.later(Duration::from_secs(30));
        dock.settle().await;
    }
    let calls = dock.calls(PRODUCT_PUT);
    assert!((3..=10).contains(&calls), "{calls} in an hour");
    dock.request("DELETE", "/_sandbox/faults", "").await;
    for _ in 0..5 {
        dock.later(LONG * 3);
        dock.settle().await;
        dock.push().await;
    }
    assert_eq!(dock.state("u").await, "applied", "{:?}", dock.fate("u").await);
    assert_eq!(dock.number("SELECT count(*) FROM quarantine").await, 0);
}

#[tokio::test]
async fn a_lost_update_that_nothing_shows_is_left_to_a_person() {
    let dock = Dock::open().await;
    let made = super::creates::product(&dock, "UPD-3").await;
    lost_update(&dock, "after", super::creates::update_of(&made, "After")).await;
    dock.settle().await;
    assert_eq!(dock.state("u").await, "in_doubt", "not before its quiet time");
    settled(&dock).await;
    dock.push().await;
    let (state, reason, detail) = dock.fate("u").await;
    assert_eq!((state.as_str(), reason.as_str()), ("held", "undecided"), "{detail}");
    assert!(detail.contains("UPD-3"), "{detail}");
    let open = dock.number("SELECT count(*) FROM stock_level_write WHERE ended IS NULL").await;
    assert_eq!(open, 0, "the product's quantities wait for no person");
    dock.done(&["outbox", "resolve", "u", "--not-done"]).await;
    dock.push().await;
    assert_eq!((dock.state("u").await, dock.calls(PRODUCT_PUT)), ("applied".into(), 2));
}

#[tokio::test]
async fn a_lost_update_of_a_product_that_others_changed_too_is_left_to_a_person() {
    let dock = Dock::open().await;
    let made = super::creates::product(&dock, "UPD-4").await;
    lost_update(&dock, "after", with_upc(&made, "222")).await;
    let mut theirs = with_upc(&made, "333");
    for link in theirs["Warehouses"].as_array_mut().unwrap() {
        link["QuantityOnHand"] = 0.into();
    }
    dock.request("PUT", "/api/Inventory", &theirs.to_string()).await;
    settled(&dock).await;
    dock.push().await;
    let (state, reason, detail) = dock.fate("u").await;
    assert_eq!((state.as_str(), reason.as_str()), ("held", "undecided"), "{detail}");
    assert_eq!(dock.calls(PRODUCT_PUT), 2, "the colleague's stands");
}

#[tokio::test]
async fn a_namesake_with_fields_that_we_did_not_send_is_not_taken_for_ours() {
    let dock = Dock::open().await;
    let shop = super::creates::storefront(&dock).await;
    let house = dock.sandbox.stock_levels().await.unwrap()[0].warehouse_id;
    let changes = [
        (
            "product.create",
            PRODUCT,
            json!({"Sku": "MINE-1", "Name": "n"}),
            "/api/Inventory".to_owned(),
            vec![
                json!({"Sku": "MINE-1", "Name": "n", "Identifiers": {"UPC": "998"}}),
                json!({"Sku": "MINE-1", "Name": "n", "Warehouses": [{"WarehouseId": house, "QuantityOnHand": 7}]}),
            ],
        ),
        (
            "warehouse.create",
            super::support::WAREHOUSE,
            json!({"Name": "Mine"}),
            "/api/Warehouses".to_owned(),
            vec![
                json!({"Name": "Mine", "AccountNumber": "A9"}),
                json!({"Name": "Mine", "Note": "theirs"}),
                json!({"Name": "Mine", "Type": "Dropship"}),
            ],
        ),
        (
            "listing_template.create",
            TEMPLATE,
            json!({"StorefrontId": shop, "Name": "Mine", "Body": "b"}),
            format!("/api/storefronts/{shop}/listingTemplates"),
            vec![json!({"Name": "Mine", "Body": "theirs"})],
        ),
    ];
    for (kind, operation, body, path, namesakes) in changes {
        for (n, namesake) in namesakes.into_iter().enumerate() {
            let key = format!("{kind} {n}");
            let unlike = |text: &Value| json!(format!("{} {n}", text.as_str().unwrap()));
            let named = |mut value: Value| {
                let name = if value["Sku"].is_null() { "Name" } else { "Sku" };
                value[name] = unlike(&value[name].clone());
                value
            };
            dock.fault(operation, json!({"Drop": "before"})).await;
            dock.change(&key, kind, named(body.clone())).await;
            dock.push().await;
            assert_eq!(dock.state(&key).await, "in_doubt", "{key}");
            dock.request("POST", &path, &named(namesake.clone()).to_string()).await;
            dock.settle().await;
            let (state, reason, detail) = dock.fate(&key).await;
            assert_eq!((state.as_str(), reason.as_str()), ("held", "undecided"), "{namesake}: {detail}");
        }
    }
}
