//! "List warehouses", "List suppliers", "List storefronts", "Create warehouse".

use serde_json::{Value, json};

use super::support::{BALANCES, Shop, WAREHOUSES, assert_fields, id};

#[tokio::test]
async fn warehouses_are_listed_with_their_fields_and_pagination() {
    let shop = Shop::open().await;
    let reply = shop.get(WAREHOUSES).await;
    let warehouses = reply.data();
    assert_eq!(
        reply.json()["pagination"],
        json!({ "CurrentPage": 1, "TotalNumberOfEntries": 3, "TotalNumberOfPages": 1 })
    );
    for warehouse in warehouses.as_array().expect("warehouses") {
        assert_fields(
            warehouse,
            &[
                "Id",
                "Name",
                "IsActive",
                "AccountNumber",
                "IsSystemGenerated",
                "Type",
                "Note",
                "ContactInformation",
            ],
        );
        assert_fields(
            &warehouse["ContactInformation"],
            &[
                "Id",
                "CompanyName",
                "FullName",
                "FirstName",
                "LastName",
                "EmailAddress",
                "BusinessPhone",
                "MobilePhone",
                "FaxNumber",
                "AddressId",
                "Address",
            ],
        );
        assert_eq!(
            warehouse["ContactInformation"]["AddressId"],
            warehouse["ContactInformation"]["Address"]["Id"]
        );
    }
}

#[tokio::test]
async fn pages_follow_each_other_without_gap_or_overlap() {
    let shop = Shop::open().await;
    let all = shop.get(WAREHOUSES).await.data();
    let mut paged = Vec::new();
    for number in 1..=3 {
        let reply = shop.get(&format!("{WAREHOUSES}?pageNumber={number}&resultsPerPage=1")).await;
        assert_eq!(
            reply.json()["pagination"],
            json!({ "CurrentPage": number, "TotalNumberOfEntries": 3, "TotalNumberOfPages": 3 })
        );
        paged.extend(reply.data().as_array().expect("a page").clone());
    }
    assert_eq!(json!(paged), all);
    assert_eq!(shop.get(&format!("{WAREHOUSES}?pageNumber=4&resultsPerPage=1")).await.data(), json!([]));
}

#[tokio::test]
async fn a_page_has_25_entries_unless_told_and_never_more_than_200() {
    let shop =
        Shop::with(crate::sandbox::SandboxOptions { calls_per_minute: 0, ..super::support::options() }).await;
    for number in 0..200 {
        shop.post(WAREHOUSES, &json!({ "Name": format!("Hall {number}") })).await.data();
    }
    let count = |reply: Value| reply.as_array().expect("a page").len();
    assert_eq!(count(shop.get(WAREHOUSES).await.data()), 25);
    assert_eq!(count(shop.get(&format!("{WAREHOUSES}?resultsPerPage=200")).await.data()), 200);
    assert_eq!(count(shop.get(&format!("{WAREHOUSES}?resultsPerPage=500")).await.data()), 200);
}

#[tokio::test]
async fn suppliers_are_listed() {
    let shop = Shop::open().await;
    let suppliers = shop.get("/api/Suppliers").await.data();
    assert!(suppliers.as_array().expect("suppliers").len() >= 2);
    assert_fields(&suppliers[0], &["Id", "Name", "AccountNumber", "IsActive", "SupplierUrl"]);
}

#[tokio::test]
async fn only_active_storefronts_are_listed() {
    let shop = Shop::open().await;
    let storefronts = shop.get("/api/storefronts").await.data();
    let storefronts = storefronts.as_array().expect("storefronts");
    assert_eq!(storefronts.len(), 2, "the third is not active");
    for storefront in storefronts {
        assert_fields(storefront, &["Id", "Name", "IsActive", "Type", "StorefrontProperties"]);
        assert_eq!(storefront["IsActive"], true);
        assert!(storefront["StorefrontProperties"].is_object());
    }
}

#[tokio::test]
async fn a_warehouse_is_created_with_ids_on_contact_and_address() {
    let shop = Shop::open().await;
    let body = json!({
        "Name": "North Hall", "AccountNumber": "N-1", "Type": "FulfillmentCenter", "Note": "ring twice",
        "ContactInformation": {
            "CompanyName": "C", "FullName": "F L", "FirstName": "F", "LastName": "L", "EmailAddress": "e@example.com",
            "Phone": "1", "FaxNumber": "2",
            "Address": { "Street1": "S1", "City": "X", "ZipCode": "9", "IsResidential": true }
        }
    });
    let created = shop.post(WAREHOUSES, &body).await.data();
    assert_eq!(created["Name"], "North Hall");
    assert_eq!(created["Type"], "FulfillmentCenter");
    assert_eq!(created["Note"], "ring twice");
    assert_eq!(created["IsActive"], true);
    assert_eq!(created["IsSystemGenerated"], false);
    let contact = &created["ContactInformation"];
    assert_eq!((&contact["BusinessPhone"], &contact["FaxNumber"]), (&json!("1"), &json!("2")));
    assert_eq!(
        (&contact["Address"]["Street1"], &contact["Address"]["IsResidential"]),
        (&json!("S1"), &json!(true))
    );
    assert!(id(contact, "Id") > 0 && id(&contact["Address"], "Id") > 0);
    let listed = shop.get(WAREHOUSES).await.data();
    assert!(listed.as_array().expect("warehouses").contains(&created));
}

#[tokio::test]
async fn a_new_warehouse_is_connected_to_all_products_with_multi_warehousing() {
    let shop = Shop::open().await;
    let before = shop.product(0).await;
    let created = shop.post(WAREHOUSES, &json!({ "Name": "North Hall" })).await.data();
    let after = shop.product(0).await;
    assert_eq!(after["QuantityOnHand"], before["QuantityOnHand"]);
    let level = after["Warehouses"].as_array().expect("cells").last().expect("a cell").clone();
    assert_eq!((&level["WarehouseId"], &level["QuantityOnHand"]), (&created["Id"], &json!(0)));
}

#[tokio::test]
async fn a_warehouse_that_cannot_be_processed_is_a_400() {
    let shop = Shop::open().await;
    for body in [
        json!({}),
        json!({ "Name": "" }),
        json!({ "Name": null }),
        json!({ "Name": "x".repeat(101) }),
        json!({ "Name": "N", "AccountNumber": "x".repeat(256) }),
        json!({ "Name": "N", "Type": "Cellar" }),
        json!({ "Name": "N", "Colour": "red" }),
        json!({ "Name": "N", "ContactInformation": "somebody" }),
        json!({ "Name": "N", "ContactInformation": ["C", "F"] }),
        json!({ "Name": "N", "ContactInformation": { "Address": ["S1"] } }),
        json!(["N"]),
    ] {
        shop.post(WAREHOUSES, &body).await.message(400);
    }
    let longest = json!({ "Name": "ü".repeat(100), "AccountNumber": "x".repeat(255) });
    assert_eq!(shop.post(WAREHOUSES, &longest).await.data()["Name"], "ü".repeat(100));
}

#[tokio::test]
async fn lists_of_other_companies_are_their_own() {
    let shop = Shop::open().await;
    let other = shop.company(json!({ "Name": "Other", "Subscribed": true })).await;
    for path in [WAREHOUSES, "/api/Suppliers", "/api/storefronts"] {
        let (ours, theirs) = (shop.get(path).await.data(), shop.get_as(&other, path).await.data());
        let theirs = theirs.as_array().expect("theirs");
        assert!(!theirs.is_empty());
        assert!(
            theirs.iter().all(|record| ours
                .as_array()
                .expect("ours")
                .iter()
                .all(|own| own["Id"] != record["Id"]))
        );
    }
    assert_eq!(shop.post_as(&other, BALANCES, &json!({ "skus": [] })).await.ok(), json!([]));
}
