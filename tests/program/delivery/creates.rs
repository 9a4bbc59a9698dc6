//! Products, warehouses and templates: a preflight, one create, and the new id; and the full update of a
//! product.

use super::support::{A_MOMENT, Dock, LONG, PRODUCT, PRODUCT_PUT, TEMPLATE, UPDATE, WAREHOUSE, whole};
use super::told::{Rules, data_counted, told};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use tallyd::model::{JobKind, Operation};
use tallyd::reconcile::proof::ABSENCE_CHECKS_APART;

/// Creates a product as another program; returns the answer of *Create product*.
pub async fn product(dock: &Dock, sku: &str) -> Value {
    let body = json!({"Sku": sku, "Name": "Before", "Identifiers": {"UPC": "111"}});
    dock.data("POST", "/api/Inventory", &body.to_string()).await[0]["Product"].clone()
}

pub async fn storefront(dock: &Dock) -> i64 {
    whole(&dock.data("GET", "/api/storefronts", "").await[0]["Id"])
}

/// Creates a dock whose mirror has all data of the platform.
async fn known() -> (Dock, Rules) {
    let (dock, rules) = told().await;
    dock.track_all_skus().await;
    for kind in [JobKind::Balances, JobKind::Warehouses, JobKind::Storefronts, JobKind::ListingTemplates] {
        dock.run(kind).await;
    }
    (dock, rules)
}

#[tokio::test]
async fn a_product_is_made_once_and_learnt() {
    let dock = Dock::open().await;
    let body = json!({"Sku": "NEW-1", "Name": "New", "Identifiers": {"UPC": "123"}, "Type": "Product"});
    dock.change("p", "product.create", body.clone()).await;
    dock.change("again", "product.create", json!({"Sku": " new-1 ", "Name": "New"})).await;
    dock.push().await;
    assert_eq!(dock.state("p").await, "applied");
    let id = dock.made("p").await;
    assert_eq!(dock.number("SELECT product_id FROM product WHERE sku = 'NEW-1'").await, id);
    assert_eq!(
        dock.number("SELECT count(*) FROM tracked_sku WHERE sku = 'NEW-1' AND origin = 'learnt'").await,
        1
    );
    let listed = dock.done(&["sku", "list"]).await;
    assert!(listed.lines().any(|line| line.split_whitespace().eq(["NEW-1", "discovered"])), "{listed}");
    assert_eq!(dock.number("SELECT count(*) FROM stock WHERE sku = 'NEW-1' AND quantity = 0").await, 3);
    assert_eq!((dock.state("again").await, dock.reason("again").await), ("held".into(), "exists".into()));
    assert_eq!(dock.calls(PRODUCT), 1);
    assert!(dock.sandbox.all_skus().await.unwrap().contains(&"NEW-1".to_owned()));
}

#[tokio::test]
async fn a_count_of_a_product_that_is_about_to_be_made_waits_for_it() {
    let dock = Dock::open().await;
    let warehouse = dock.sandbox.stock_levels().await.unwrap()[0].warehouse_id;
    dock.change("p", "product.create", json!({"Sku": "NEW-2", "Name": "New"})).await;
    dock.change("q", "quantity.set", json!({"sku": "NEW-2", "warehouse_id": warehouse, "quantity": 7})).await;
    dock.push().await;
    assert_eq!((dock.state("p").await, dock.state("q").await), ("applied".into(), "applied".into()));
    assert_eq!(dock.level("NEW-2", warehouse).await, 7);
}

#[tokio::test]
async fn what_the_service_refuses_is_rejected_with_its_words() {
    let dock = Dock::open().await;
    let supplier = json!({"Sku": "NEW-3", "Name": "New", "SupplierInformation": {"SupplierId": 999_999}});
    dock.change("p", "product.create", supplier).await;
    dock.change("t", "listing_template.create", json!({"StorefrontId": 999_999, "Name": "n", "Body": "b"}))
        .await;
    dock.push().await;
    for (key, expected, words) in [
        ("p", ("rejected", "service_refused"), "no supplier"),
        // Its preflight was refused, which proves nothing about the create.
        ("t", ("held", "not_shown"), "StorefrontId"),
    ] {
        let (state, reason, detail) = dock.fate(key).await;
        assert_eq!((state.as_str(), reason.as_str()), expected, "{detail}");
        assert!(detail.contains(words), "{detail}");
    }
    assert!(!dock.daemon().context().limiter.is_refused(), "the id was meant, not the key");
}

#[tokio::test]
async fn a_warehouse_is_made_once_and_stands_in_the_mirror() {
    let dock = Dock::open().await;
    dock.change(
        "w",
        "warehouse.create",
        json!({"Name": "Dock 9", "AccountNumber": "A9", "Type": "Standard"}),
    )
    .await;
    dock.push().await;
    assert_eq!(dock.state("w").await, "applied");
    let id = dock.made("w").await;
    assert_eq!(dock.number("SELECT id FROM warehouse WHERE name = 'Dock 9'").await, id);
    dock.change("again", "warehouse.create", json!({"Name": "dock 9"})).await;
    dock.push().await;
    assert_eq!(dock.reason("again").await, "exists");
    assert_eq!(dock.calls(WAREHOUSE), 1);
}

#[tokio::test]
async fn a_template_is_compared_by_its_whole_name() {
    let dock = Dock::open().await;
    let shop = storefront(&dock).await;
    for (key, name) in [("long", "Summer sale"), ("short", "Summer"), ("again", "SUMMER")] {
        let body = json!({"StorefrontId": shop, "Name": name, "Body": "<b>x</b>"});
        dock.change(key, "listing_template.create", body).await;
        dock.push().await;
    }
    assert_eq!((dock.state("long").await, dock.state("short").await), ("applied".into(), "applied".into()));
    assert_eq!(dock.reason("again").await, "exists");
    assert_eq!(dock.calls(TEMPLATE), 2);
}

/// Returns a full body for *Update product*, without its quantities.
pub fn update_of(product: &Value, name: &str) -> Value {
    let mut body = product.clone();
    body["Name"] = name.into();
    let fields = body.as_object_mut().unwrap();
    fields.remove("QuantityOnHand");
    fields.retain(|_, value| !value.is_null());
    for link in body["Warehouses"].as_array_mut().unwrap() {
        link.as_object_mut().unwrap().remove("QuantityOnHand");
    }
    body
}

#[tokio::test]
async fn an_update_undoes_no_sale_and_changes_no_quantity() {
    let dock = Dock::open().await;
    let made = product(&dock, "UPD-1").await;
    let warehouse = whole(&made["Warehouses"][0]["WarehouseId"]);
    dock.change("q", "quantity.set", json!({"sku": "UPD-1", "warehouse_id": warehouse, "quantity": 9})).await;
    dock.push().await;
    dock.sandbox.sell_units("UPD-1", warehouse, 2).await.unwrap();
    dock.change("u", "product.update", update_of(&made, "After")).await;
    dock.push().await;
    let (state, _, detail) = dock.fate("u").await;
    assert_eq!(state, "applied", "{detail}");
    assert_eq!(dock.level("UPD-1", warehouse).await, 7);
    assert_eq!(dock.number("SELECT count(*) FROM stock_level_write WHERE ended IS NULL").await, 0);
    assert_eq!(dock.number("SELECT count(*) FROM product WHERE sku = 'UPD-1' AND name = 'After'").await, 1);
    dock.change("d", "quantity.adjust", json!({"sku": "UPD-1", "warehouse_id": warehouse, "delta": -3}))
        .await;
    dock.push().await;
    assert_eq!(dock.level("UPD-1", warehouse).await, 4);
}

/// An update does not hide an emptied stock level from the brake.
///
/// An update writes the same quantities again, and that must not make room for another flood.
#[tokio::test]
async fn an_update_does_not_hide_an_emptied_stock_level_from_the_brake() {
    let dock = Dock::open().await;
    let made = product(&dock, "UPD-5").await;
    let own = whole(&made["Warehouses"][0]["WarehouseId"]);
    let set = async |key: &str, sku: &str, warehouse: i64, quantity: i64| {
        let body = json!({"sku": sku, "warehouse_id": warehouse, "quantity": quantity});
        dock.change(key, "quantity.set", body).await;
    };
    let mut levels = dock.sandbox.stock_levels().await.unwrap();
    levels.retain(|level| level.quantity > 0 && level.sku != "UPD-5");
    set("filled", "UPD-5", own, 9).await;
    dock.push().await;
    set("emptied", "UPD-5", own, 0).await;
    for level in &levels[..5] {
        set(&format!("{} {}", level.sku, level.warehouse_id), &level.sku, level.warehouse_id, 0).await;
    }
    dock.push().await;
    assert_eq!(dock.state("emptied").await, "applied");
    dock.change("u", "product.update", update_of(&made, "After")).await;
    dock.push().await;
    assert_eq!(dock.state("u").await, "applied");
    // With the six of this hour these are ten, and more than a fifth of all stock.
    for level in &levels[5..9] {
        set(&format!("{} {}", level.sku, level.warehouse_id), &level.sku, level.warehouse_id, 0).await;
    }
    let last = format!("{} {}", levels[8].sku, levels[8].warehouse_id);
    dock.push().await;
    assert_eq!((dock.state(&last).await, dock.reason(&last).await), ("held".into(), "brake".into()));
}

#[tokio::test]
async fn an_update_that_wants_a_quantity_is_pointed_to_a_count() {
    let dock = Dock::open().await;
    let made = product(&dock, "UPD-2").await;
    let mut body = update_of(&made, "After");
    body["Warehouses"][0]["QuantityOnHand"] = 5.into();
    dock.change("u", "product.update", body).await;
    dock.push().await;
    assert_eq!((dock.state("u").await, dock.reason("u").await), ("rejected".into(), "bad_body".into()));
    assert_eq!(dock.calls(PRODUCT_PUT), 0);
}

#[tokio::test]
async fn an_update_waits_while_a_stock_level_of_its_product_is_in_doubt() {
    let dock = Dock::open().await;
    let made = product(&dock, "UPD-3").await;
    let warehouse = whole(&made["Warehouses"][0]["WarehouseId"]);
    dock.fault(UPDATE, json!({"Drop": "after"})).await;
    dock.change("q", "quantity.set", json!({"sku": "UPD-3", "warehouse_id": warehouse, "quantity": 9})).await;
    dock.push().await;
    assert_eq!(dock.state("q").await, "in_doubt");
    dock.change("u", "product.update", update_of(&made, "After")).await;
    dock.push().await;
    assert_eq!((dock.state("u").await, dock.reason("u").await), ("pending".into(), "awaits_other".into()));
    dock.settle().await;
    dock.push().await;
    assert_eq!((dock.state("q").await, dock.state("u").await), ("applied".into(), "applied".into()));
    assert_eq!(dock.level("UPD-3", warehouse).await, 9);
}

#[tokio::test]
async fn a_lost_update_is_sent_again_once_the_first_cannot_come_any_more() {
    let dock = Dock::open().await;
    let made = product(&dock, "UPD-4").await;
    dock.fault(PRODUCT_PUT, json!({"Drop": "before"})).await;
    let mut body = update_of(&made, "After");
    body["Identifiers"]["UPC"] = "222".into();
    dock.change("u", "product.update", body).await;
    dock.push().await;
    assert_eq!(dock.state("u").await, "in_doubt");
    dock.settle().await;
    assert_eq!(dock.state("u").await, "in_doubt", "not before its quiet time");
    dock.settle_after(A_MOMENT).await;
    dock.later(super::support::LONG);
    dock.push().await;
    assert_eq!(dock.state("u").await, "applied");
    assert_eq!(dock.number("SELECT count(*) FROM stock_level_write WHERE ended IS NULL").await, 0);
}

/// A create with a lost answer is not sent again while checks show neither its record nor others that exist.
#[tokio::test]
async fn what_a_sick_platform_leaves_out_of_its_answers_is_not_made_again() {
    let (dock, rules) = known().await;
    let old = json!({"StorefrontId": storefront(&dock).await, "Name": "Old", "Body": "b"});
    dock.change("old", "listing_template.create", old.clone()).await;
    dock.push().await;
    dock.run(JobKind::ListingTemplates).await;
    let mut template = old;
    template["Name"] = "New".into();
    let changes = [
        ("p", "product.create", json!({"Sku": "NEW-9", "Name": "New"}), PRODUCT),
        ("w", "warehouse.create", json!({"Name": "Dock 9"}), WAREHOUSE),
        ("t", "listing_template.create", template, TEMPLATE),
    ];
    for (key, kind, body, operation) in changes {
        dock.fault(operation, json!({"Drop": "after"})).await;
        dock.change(key, kind, body).await;
        dock.push().await;
        assert_eq!(dock.state(key).await, "in_doubt", "{:?}", dock.fate(key).await);
        let calls = dock.calls(operation);
        for read in [Operation::GetProducts, Operation::ListWarehouses, Operation::ListListingTemplates] {
            rules.say(read, |_, response| {
                data_counted(response, |records| {
                    let is_new = |record: &Value| {
                        record["Sku"] == "NEW-9" || record["Name"] == "Dock 9" || record["Name"] == "New"
                    };
                    records.retain(|record| !is_new(record));
                    records.pop();
                });
            });
        }
        for _ in 0..3 {
            dock.settle_after(LONG).await;
            dock.push().await;
            assert_eq!(
                (dock.state(key).await.as_str(), dock.calls(operation)),
                ("in_doubt", calls),
                "{:?}",
                dock.fate(key).await
            );
        }
        rules.clear();
        dock.later(ABSENCE_CHECKS_APART);
        dock.settle().await;
        assert_eq!(
            (dock.state(key).await.as_str(), dock.calls(operation)),
            ("applied", calls),
            "{:?}",
            dock.fate(key).await
        );
    }
}

/// A record of the name proves the create, even if the answer lacks other records.
#[tokio::test]
async fn a_record_under_the_name_proves_a_create_whatever_else_the_answer_lacks() {
    let (dock, rules) = known().await;
    let template = json!({"StorefrontId": storefront(&dock).await, "Name": "New", "Body": "b"});
    let changes = [
        ("p", "product.create", json!({"Sku": "NEW-9", "Name": "New"}), PRODUCT, Operation::GetProducts),
        ("w", "warehouse.create", json!({"Name": "Dock 9"}), WAREHOUSE, Operation::ListWarehouses),
        ("t", "listing_template.create", template, TEMPLATE, Operation::ListListingTemplates),
    ];
    for (key, kind, body, operation, read) in changes {
        dock.fault(operation, json!({"Drop": "after"})).await;
        dock.change(key, kind, body).await;
        dock.push().await;
        assert_eq!(dock.state(key).await, "in_doubt", "{:?}", dock.fate(key).await);
        let shows_it = AtomicBool::new(true);
        rules.say(read, move |_, response| {
            let shows_it = shows_it.fetch_xor(true, Ordering::SeqCst);
            let is_new = |record: &Value| {
                record["Sku"] == "NEW-9" || record["Name"] == "Dock 9" || record["Name"] == "New"
            };
            data_counted(response, |records| match records.iter().position(|record| !is_new(record)) {
                Some(other) if !shows_it => drop(records.remove(other)),
                _ => records.retain(|record| !is_new(record)),
            });
        });
        dock.settle_after(LONG).await;
        assert_eq!(dock.state(key).await, "applied", "{:?}", dock.fate(key).await);
        rules.clear();
    }
}

/// A record without a name or id, or with an unreadable field, may be the one that a create in doubt made.
#[tokio::test]
async fn a_lacking_or_unreadable_field_decides_nothing_about_a_create() {
    let (dock, rules) = known().await;
    let product = json!({"Sku": "NEW-9", "Name": "New", "Identifiers": {"UPC": "4006381333931"}});
    let warehouse = json!({"Name": "Dock 9", "AccountNumber": "A9"});
    let template = json!({"StorefrontId": storefront(&dock).await, "Name": "New", "Body": "b"});
    let changes = [
        ("product.create", product, PRODUCT, Operation::GetProducts, ["Id", "Id", "UPC"]),
        (
            "warehouse.create",
            warehouse,
            WAREHOUSE,
            Operation::ListWarehouses,
            ["Name", "Name", "AccountNumber"],
        ),
        (
            "listing_template.create",
            template,
            TEMPLATE,
            Operation::ListListingTemplates,
            ["Name", "Name", "Body"],
        ),
    ];
    for (kind, body, operation, read, fields) in changes {
        dock.fault(operation, json!({"Drop": "after"})).await;
        dock.change(kind, kind, body).await;
        dock.push().await;
        let calls = dock.calls(operation);
        for (field, value) in fields.into_iter().zip([json!(null), json!({"odd": 1}), json!({"odd": 1})]) {
            rules.clear();
            rules.say(read, move |_, response| {
                data_counted(response, |records| {
                    let is_new = |record: &&mut Value| {
                        record["Sku"] == "NEW-9" || record["Name"] == "Dock 9" || record["Name"] == "New"
                    };
                    records.iter_mut().filter(is_new).for_each(|record| record[field] = value.clone());
                });
            });
            // Two checks that found nothing would be proof.
            for _ in 0..2 {
                dock.settle_after(LONG).await;
                dock.push().await;
            }
            let now = (dock.state(kind).await, dock.calls(operation));
            assert_eq!(now, ("in_doubt".into(), calls), "{field}: {:?}", dock.fate(kind).await);
        }
        rules.clear();
        dock.settle_after(LONG).await;
        assert_eq!(dock.state(kind).await, "applied", "{:?}", dock.fate(kind).await);
        assert!(dock.made(kind).await > 0 && dock.calls(operation) == calls);
    }
}

/// A full page that does not state the number of pages may be the first of several.
#[tokio::test]
async fn a_name_on_a_later_page_is_found_where_no_page_states_their_number() {
    let (dock, rules) = told().await;
    rules.say(Operation::ListListingTemplates, |request, response| {
        let page = request.query.iter().find(|(name, _)| name == "pageNumber").map(|(_, page)| page.clone());
        let named = |id: i64, name: &str| json!({"Id": id, "Name": name, "Body": "b"});
        let records: Vec<Value> = match page.as_deref() {
            None | Some("1") => (1..=200).map(|id| named(id, "New, of another")).collect(),
            _ => vec![named(201, "New")],
        };
        let pagination = json!({"CurrentPage": 1, "TotalNumberOfPages": "many"});
        let answer = json!({"status": "Success", "messages": [], "pagination": pagination, "data": records});
        response.body = answer.to_string().into_bytes();
    });
    let template = json!({"StorefrontId": storefront(&dock).await, "Name": "New", "Body": "b"});
    dock.change("t", "listing_template.create", template).await;
    dock.push().await;
    let (state, reason, detail) = dock.fate("t").await;
    assert_eq!((state.as_str(), reason.as_str(), dock.calls(TEMPLATE)), ("held", "exists", 0), "{detail}");
}

/// Nothing is created on a list that counts more records than it shows, because the name may be taken.
#[tokio::test]
async fn nothing_is_made_on_a_list_that_counts_more_than_it_shows() {
    let (dock, rules) = told().await;
    dock.run(JobKind::Storefronts).await;
    let template = json!({"StorefrontId": storefront(&dock).await, "Name": "New", "Body": "b"});
    dock.change("first", "listing_template.create", template.clone()).await;
    dock.push().await;
    assert_eq!((dock.state("first").await.as_str(), dock.calls(TEMPLATE)), ("applied", 1));
    rules.say(Operation::ListListingTemplates, |_, response| {
        let mut answer: Value = serde_json::from_slice(&response.body).unwrap();
        answer["data"] = json!([]);
        response.body = answer.to_string().into_bytes();
    });
    dock.change("second", "listing_template.create", template).await;
    dock.push().await;
    assert_eq!((dock.state("second").await.as_str(), dock.calls(TEMPLATE)), ("pending", 1));
    rules.clear();
    dock.settle_after(LONG).await;
    dock.push().await;
    assert_eq!((dock.state("second").await.as_str(), dock.calls(TEMPLATE)), ("held", 1));
}

/// An answer that lacks a link does not remove the link: the update waits for an answer that shows it.
#[tokio::test]
async fn an_update_with_a_link_that_an_answer_leaves_out_is_held_and_goes_on_by_itself() {
    let (dock, rules) = known().await;
    let made = product(&dock, "UPD-9").await;
    rules.say(Operation::GetProductBalances, |_, response| {
        let mut products: Value = serde_json::from_slice(&response.body).unwrap();
        if let [only] = products.as_array_mut().unwrap().as_mut_slice() {
            only["Warehouses"].as_array_mut().unwrap().pop();
        }
        response.body = products.to_string().into_bytes();
    });
    dock.change("u", "product.update", update_of(&made, "After")).await;
    dock.push().await;
    assert_eq!(dock.reason("u").await, "not_shown", "{:?}", dock.fate("u").await);
    rules.clear();
    dock.later(super::support::A_MOMENT);
    dock.settle().await;
    dock.push().await;
    assert_eq!(dock.state("u").await, "applied", "{:?}", dock.fate("u").await);
}
