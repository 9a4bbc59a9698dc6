//! Lists: all pages, nothing lost, nothing deleted.

use super::support::Shop;
use serde_json::json;
use tallyd::journal::RunOutcome;
use tallyd::model::JobKind;
use tallyd::sandbox::SandboxOptions;

#[tokio::test]
async fn every_list_of_the_mirror_is_the_services() {
    let shop = Shop::open().await;
    shop.good_once().await;
    let all = "?resultsPerPage=200";
    assert_eq!(
        shop.rows("id, name, account_number, is_active, url", "supplier ORDER BY id").await,
        shop.served(
            &format!("/api/Suppliers{all}"),
            &["Id", "Name", "AccountNumber", "IsActive", "SupplierUrl"]
        )
        .await
    );
    assert_eq!(
        shop.rows("id, name, is_active, type", "storefront ORDER BY id").await,
        shop.served(&format!("/api/storefronts{all}"), &["Id", "Name", "IsActive", "Type"]).await
    );
    let storefronts = shop.served("/api/storefronts", &["Id"]).await;
    let mut templates = Vec::new();
    for storefront in storefronts.as_array().unwrap() {
        let path = format!("/api/storefronts/{}/listingTemplates{all}", storefront[0].as_f64().unwrap());
        let served = shop.served(&path, &["Id", "StorefrontId", "Name", "Body"]).await;
        templates.extend(served.as_array().unwrap().clone());
    }
    assert!(storefronts.as_array().unwrap().len() >= 2 && !templates.is_empty(), "a test needs some");
    assert_eq!(
        shop.rows("id, storefront_id, name, body", "listing_template ORDER BY storefront_id, id").await,
        json!(templates)
    );
    let nothing_new = shop.good_once().await;
    let summary = |kind| &nothing_new.runs.iter().find(|run| run.kind == kind).unwrap().summary;
    for kind in [JobKind::Suppliers, JobKind::Storefronts, JobKind::ListingTemplates, JobKind::Warehouses] {
        assert!(summary(kind).contains(" 0 "), "{}", summary(kind));
    }
}

/// PostgreSQL stores no U+0000, and its JSON no escape of it.
#[tokio::test]
async fn a_text_with_u_0000_is_recorded_without_it() {
    let shop = Shop::open().await;
    let contact = json!({"FirstName": "C\u{0}D"});
    let warehouse = json!({"Name": "A\u{0}B", "ContactInformation": contact});
    let made = shop.post("/api/Warehouses", warehouse).await;
    let id = made["data"]["Id"].as_i64().unwrap_or_else(|| panic!("{made}"));
    shop.good_once().await;
    let rows = shop.rows("name, contact", &format!("warehouse WHERE id = {id}")).await;
    assert_eq!(rows[0][0], "A\u{FFFD}B");
    assert!(rows[0][1].as_str().unwrap().contains(r"C\ufffdD"), "{rows}");
}

#[tokio::test]
async fn a_list_is_read_to_its_last_page() {
    let shop = Shop::with(SandboxOptions { warehouses: 205, ..SandboxOptions::default() }).await;
    shop.good_once().await;
    assert_eq!(shop.rows("count(*)", "warehouse WHERE missing_since_ms IS NULL").await, json!([[205.0]]));
    assert_eq!(shop.calls_of("GET /api/Warehouses"), 2);
}

#[tokio::test]
async fn what_a_complete_list_no_longer_has_is_missing_and_never_deleted() {
    let shop = Shop::open().await;
    shop.good_once().await;
    shop.execute(
        "INSERT INTO supplier (id, name, exchange_id) VALUES (1, 'gone', 1);
         INSERT INTO storefront (id, name, exchange_id) VALUES (1, 'gone', 1);",
    )
    .await;
    shop.good_once().await;
    let gone = shop.rows("name, missing_since_ms IS NOT NULL", "supplier WHERE id = 1").await;
    assert_eq!(gone, json!([["gone", 1.0]]));
    let decisions = shop.rows("kind, subject, detail", "event ORDER BY position").await;
    assert_eq!(decisions, json!([["missing", "supplier", "[1]"], ["missing", "storefront", "[1]"]]));
    let kept = shop.rows("count(*)", "supplier WHERE missing_since_ms IS NULL").await;
    assert_eq!(kept, json!([[3.0]]));
}

#[tokio::test]
async fn an_empty_list_where_something_was_known_is_a_failure_and_changes_nothing() {
    let shop = Shop::open().await;
    let company = json!({"Name": "Without templates", "Subscribed": true});
    let made = shop.post("/_sandbox/companies", company).await;
    shop.take_key(made["IntegrationKey"].as_str().unwrap());
    shop.good_once().await;
    shop.execute(
        "INSERT INTO listing_template (id, storefront_id, name, exchange_id) SELECT 1, id, 'kept', 1 FROM storefront",
    )
    .await;
    let once = shop.once().await;
    let run = once.runs.iter().find(|run| run.kind == JobKind::ListingTemplates).unwrap();
    assert_eq!(run.outcome, RunOutcome::Partial, "{}", run.summary);
    assert!(run.summary.contains("but 1 were known"), "{}", run.summary);
    let kept = shop.rows("name, missing_since_ms", "listing_template").await;
    assert_eq!(kept, json!([["kept", null]]));
}
