//! Tests of the answers about a product.

use super::super::WriteOutcome::{Done, Refused, Unclear};
use super::*;

#[test]
fn a_product_is_done_only_with_the_flag_and_the_record() {
    let cases = [
        (
            r#"{"status":"Success","data":{"Product":{"Id":1,"Sku":"A"},"WasSuccessful":true,"Messages":[]}}"#,
            Done,
        ),
        (r#"{"status":"Success","data":{"Product":null,"WasSuccessful":false,"Messages":["no"]}}"#, Refused),
        (r#"{"status":"Failure","messages":["no"],"data":null}"#, Refused),
        (r#"{"status":"Success","messages":["odd"],"data":{"WasSuccessful":true}}"#, Unclear),
        (r#"{"status":"Success","data":"done"}"#, Unclear),
        ("{}", Unclear),
    ];
    for (body, outcome) in cases {
        assert_eq!(decode_product_answer(body.as_bytes()).unwrap().outcome(), outcome, "{body}");
    }
}

#[test]
fn messages_of_the_envelope_and_of_the_item_are_kept_once() {
    let body =
        br#"{"status":"Failure","messages":["a","b"],"data":{"WasSuccessful":false,"Messages":["b"]}}"#;
    assert_eq!(decode_product_answer(body).unwrap().messages, ["b", "a"]);
}

#[test]
fn a_product_is_read_with_what_makes_sense_of_it() {
    let body = br#"{"data":{"WasSuccessful":true,"Product":{"Id":1,"Sku":"A","Type":"Kit","Identifiers":{"UPC":40063},
        "GlobalListingAttributes":"none","SupplierInformation":{"SupplierId":4.0,"Price":1.5},"IsActive":true,
        "Warehouses":[{"Id":5,"WarehouseId":7,"QuantityOnHand":3.0,"SKU":"A-7"}]}}}"#;
    let product = decode_product_answer(body).unwrap().record.unwrap();
    assert_eq!(product.kind.as_deref(), Some("Kit"));
    assert_eq!(product.identifiers.unwrap().upc.as_deref(), Some("40063"));
    assert_eq!(product.warehouses[0].quantity_on_hand, Some(3));
}

#[test]
fn a_component_is_kept_without_its_product_but_not_without_its_quantity() {
    let body = br#"{"data":[{"Id":1.0,"QuantityForKit":2.0,"Product":{"Id":3,"Sku":"A","ReorderLevel":5.5}},
        {"Id":2,"QuantityForKit":1,"Product":{"Id":"?"}},{"Id":4}]}"#;
    let decoded = decode_kit_components(body).unwrap();
    assert_eq!(decoded.records[0].product.as_ref().unwrap().sku.as_str(), "A");
    assert_eq!((decoded.records[1].id, &decoded.records[1].product), (2, &None));
    assert_eq!(decoded.parked[0].index, 2);
    assert_eq!(kit_components(ProductId(9)).path, "/api/Inventory/9/kitcomponents");
}
