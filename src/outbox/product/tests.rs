//! Tests of product bodies, and of the quantities filled into a full PUT.

use super::super::body::tests::assert_details;
use super::super::{ChangeBody, parse_body};
use super::*;
use serde_json::json;

fn whole() -> Value {
    json!({
        "Id": 10, "CompanyId": 2, "Sku": "A", "Name": "Lamp", "Type": "Product",
        "Identifiers": {"ProductId": 10, "UPC": "1"},
        "IsAutoSyncEnabled": true, "IsDiscontinued": false, "IsDropshipped": false, "IsFireArm": false,
        "IsVariation": false, "IsParent": false,
        "Images": [{"Id": 5, "Url": "https://example.org/a.png"}],
        "Warehouses": [{"Id": 8, "WarehouseId": 1}, {"Id": 9, "WarehouseId": 2}],
    })
}

/// Returns the smallest product with other fields beside.
fn lamp(mut fields: Value) -> Value {
    fields["Sku"] = json!("A");
    fields["Name"] = json!("Lamp");
    fields
}

fn update(body: &Value) -> Result<ProductUpdate, ChangeRejection> {
    parse_body("product.update", &body.to_string()).map(|body| match body {
        ChangeBody::ProductUpdate(update) => update,
        other => panic!("{other:?}"),
    })
}

fn facts(quantities: &[(i64, i64)]) -> BTreeMap<WarehouseId, Quantity> {
    quantities.iter().map(|(id, quantity)| (WarehouseId(*id), Quantity(*quantity))).collect()
}

#[test]
fn a_product_needs_a_sku_and_a_name_and_keeps_the_documents_rules() {
    let cases = [
        (lamp(json!({})), ""),
        (lamp(json!({"Type": "Kit", "Notes": "passed on"})), ""),
        (lamp(json!({"IsVariation": true, "IsParent": false})), ""),
        (lamp(json!({"Images": vec![json!({"Url": "x"}); 13]})), ""),
        (json!({"Name": "Lamp"}), "`Sku` is missing"),
        (json!({"Sku": "A"}), "`Name` is missing"),
        (json!({"Sku": "A", "Name": " "}), "`Name` is \" \""),
        (json!({"Sku": 5, "Name": "Lamp"}), "`Sku` is 5"),
        (json!({"sku": "A", "Name": "Lamp"}), "`sku` must be spelled `Sku`"),
        (lamp(json!({"quantityOnHand": 5})), "must be spelled `QuantityOnHand`"),
        (lamp(json!({"Type": "Bundle"})), "one of Product, Kit, Built"),
        (lamp(json!({"IsVariation": true, "IsParent": true})), "both true"),
        (lamp(json!({"IsDropshipped": "yes"})), "`IsDropshipped` is \"yes\""),
        (lamp(json!({"QuantityOnHand": -1})), "`QuantityOnHand` is -1"),
        (lamp(json!({"Warehouses": [{}]})), "`Warehouses[0].WarehouseId` is missing"),
        (lamp(json!({"Warehouses": [1]})), "`Warehouses[0]` is 1"),
        (
            lamp(json!({"Warehouses": [{"WarehouseId": 1}, {"WarehouseId": 1.0}]})),
            "`Warehouses` names 1 twice",
        ),
        (
            lamp(json!({"GlobalListingAttributes": {"Condition": "Mint"}})),
            "`GlobalListingAttributes.Condition`",
        ),
        (lamp(json!({"Identifiers": {"UPC": 12}})), "`Identifiers.UPC` is 12"),
        (lamp(json!({"IsActive": 0})), "`IsActive` is 0"),
        (lamp(json!({"Id": "10"})), "`Id` is \"10\""),
        (lamp(json!({"SupplierInformation": {"IsOutOfStock": "no"}})), "`SupplierInformation.IsOutOfStock`"),
        (lamp(json!({"Identifiers": {"ProductId": "x"}})), "`Identifiers.ProductId`"),
        (lamp(json!({"Images": [{"Id": 1.5}]})), "`Images[0].Id` is 1.5"),
    ];
    assert_details("product.create", cases);
}

#[test]
fn a_whole_update_is_taken_and_each_part_left_out_is_named() {
    assert_eq!(update(&whole()).unwrap().product_id, ProductId(10));
    for name in REQUIRED_IN_UPDATE.iter().chain(&FLAG_FIELDS).chain(&["Sku", "Name"]) {
        let mut body = whole();
        body.as_object_mut().unwrap().remove(*name);
        let detail = update(&body).unwrap_err().detail;
        assert!(detail.contains(name), "{name}: {detail}");
    }
}

#[test]
fn an_update_without_the_ids_of_its_parts_is_refused() {
    for (part, id, expected) in [
        ("/Images/0", "Id", "`Images[0].Id` is missing"),
        ("/Warehouses/0", "Id", "`Warehouses[0].Id` is missing"),
        ("/Identifiers", "ProductId", "`Identifiers.ProductId` is missing"),
    ] {
        let mut body = whole();
        body.pointer_mut(part).unwrap().as_object_mut().unwrap().remove(id);
        assert!(update(&body).unwrap_err().detail.contains(expected), "{part}");
    }
}

#[test]
fn an_update_is_sent_with_the_quantities_just_read() {
    let body = update(&whole()).unwrap().with_quantities(&facts(&[(1, 5), (2, 7)]), Quantity(12)).unwrap();
    let body = Value::Object(body);
    assert_eq!(body["QuantityOnHand"], 12);
    assert_eq!(body["Warehouses"][0]["QuantityOnHand"], 5);
    assert_eq!(body["Warehouses"][1]["QuantityOnHand"], 7);
    assert_eq!(body["Name"], "Lamp");
}

#[test]
fn an_update_that_wants_another_quantity_is_sent_to_quantity_set() {
    let known = facts(&[(1, 5), (2, 7)]);
    let mut body = whole();
    body["Warehouses"][0]["QuantityOnHand"] = json!(5.0);
    assert!(update(&body).unwrap().with_quantities(&known, Quantity(12)).is_ok());
    body["Warehouses"][0]["QuantityOnHand"] = json!(6);
    let rejection = update(&body).unwrap().with_quantities(&known, Quantity(12)).unwrap_err();
    assert_eq!(rejection.reason, Reason::BadBody);
    assert!(rejection.detail.contains("`quantity.set`"), "{}", rejection.detail);
}

#[test]
fn an_update_names_exactly_the_links_the_service_knows() {
    let update = update(&whole()).unwrap();
    let unknown = update.with_quantities(&facts(&[(1, 5)]), Quantity(5)).unwrap_err();
    assert_eq!(unknown.reason, Reason::NotShown);
    let left_out = update.with_quantities(&facts(&[(1, 5), (2, 7), (3, 0)]), Quantity(12)).unwrap_err();
    assert!(left_out.detail.contains("warehouse 3"), "{}", left_out.detail);
}
