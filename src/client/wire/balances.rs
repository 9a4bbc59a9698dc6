//! Stock balances: *Get product balances* and *Get products by SKU or UPC*, which answer the same record.
//!
//! Texts are borrowed from the body, because this is the one list whose speed matters. Only `Warehouses[]`
//! holds facts of stock levels (docs/rules.md 7). The product's `QuantityOnHand` is their sum as computed by
//! the platform.

use super::codec::{ReadRecords, lenient, read_records_once};
use super::{DecodedAnswer, Envelope, MalformedBody};
use crate::client::PlatformRequest;
use crate::model::{Operation, ProductId, Sku, WarehouseId};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::borrow::Cow;
use std::collections::BTreeSet;

/// Balance of a product, from the wire to the mirror.
#[derive(Clone, Debug, PartialEq, Hash, Deserialize)]
pub(crate) struct ProductBalance<'a> {
    #[serde(rename = "Id", default, deserialize_with = "lenient::opt")]
    pub id: Option<ProductId>,
    /// The SKU in the platform's spelling.
    #[serde(rename = "Sku", deserialize_with = "lenient::req")]
    pub sku: Sku,
    /// Units over all warehouses, as computed by the platform.
    #[serde(rename = "QuantityOnHand", default, deserialize_with = "lenient::strict")]
    pub quantity_on_hand: Option<i64>,
    #[serde(borrow, rename = "UPC", default, deserialize_with = "lenient::strict")]
    pub upc: Option<Cow<'a, str>>,
    /// The product's warehouses. A record without the list is unreadable, because an empty list says that
    /// the product is in no warehouse.
    #[serde(borrow, rename = "Warehouses", deserialize_with = "lenient::list")]
    pub warehouses: Vec<WarehouseBalance<'a>>,
    /// True where the list may lack warehouses. None then counts as vanished, and a stock level that the record does not
    /// show keeps its age.
    #[serde(skip)]
    pub is_partial: bool,
}

/// A product's stock in one warehouse (*ProductBalance*, `Warehouses[]`).
#[derive(Clone, Debug, PartialEq, Hash, Deserialize)]
pub(crate) struct WarehouseBalance<'a> {
    #[serde(rename = "ProductId", default, deserialize_with = "lenient::opt")]
    pub product_id: Option<ProductId>,
    #[serde(rename = "WarehouseId", deserialize_with = "lenient::req")]
    pub warehouse_id: WarehouseId,
    /// Units: the fact of the stock level. May be negative.
    #[serde(rename = "QuantityOnHand", deserialize_with = "lenient::req")]
    pub quantity_on_hand: i64,
    #[serde(borrow, rename = "WarehouseSKU", default, deserialize_with = "lenient::strict")]
    pub warehouse_sku: Option<Cow<'a, str>>,
    /// True if the warehouse is active for the product.
    #[serde(rename = "IsActive", default, deserialize_with = "lenient::strict")]
    pub is_active: Option<bool>,
    /// True if the quantity counts in the stock shown by storefronts.
    #[serde(rename = "IncludeInSyncBalance", default, deserialize_with = "lenient::opt")]
    pub include_in_sync: Option<bool>,
}

/// Key of *Get products by SKU or UPC* (`idType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ProductKey {
    Sku,
    Upc,
}

pub(crate) fn get_product_balances(skus: &[Sku]) -> PlatformRequest {
    /// Written directly, because a `serde_json::Value` would copy each SKU three times.
    #[derive(Serialize)]
    struct BalancesBody<'a> {
        skus: &'a [Sku],
    }
    PlatformRequest::new(Operation::GetProductBalances).with_json(&BalancesBody { skus })
}

pub(crate) fn get_products(by: ProductKey, ids: &[String]) -> PlatformRequest {
    PlatformRequest::new(Operation::GetProducts).with_json(&json!({ "idType": by, "idList": ids }))
}

/// Reads the answer of *Get product balances*, a bare list.
pub(crate) fn decode_balances(body: &[u8]) -> Result<DecodedAnswer<ProductBalance<'_>>, MalformedBody> {
    let what = "the product balances";
    let list = std::str::from_utf8(body).map_err(|error| MalformedBody::new(what, error))?;
    let (records, parked) = read_balances(what, list)?;
    Ok(DecodedAnswer { records, parked, page: None })
}

/// Reads the answer of *Get products by SKU or UPC*, an envelope.
pub(crate) fn decode_products(body: &[u8]) -> Result<DecodedAnswer<ProductBalance<'_>>, MalformedBody> {
    let what = "the product lookup";
    let envelope = Envelope::read(what, body)?;
    let read = read_balances(what, envelope.list())?;
    Ok(envelope.into_answer(read))
}

/// Reads balances. Of a record, all entries are facts or none is.
fn read_balances<'a>(
    what: &'static str,
    list: &'a str,
) -> Result<ReadRecords<ProductBalance<'a>>, MalformedBody> {
    let (mut records, parked) = read_records_once(what, list, |record| &record.sku, is_consistent)?;
    for record in &mut records {
        if twins(&record.warehouses).next().is_some() {
            let mut seen = BTreeSet::new();
            record.warehouses.retain(|level| seen.insert(level.warehouse_id));
        }
    }
    Ok((records, parked))
}

/// Returns false if an entry of the record names another product, or two entries of one warehouse differ.
fn is_consistent(record: &ProductBalance<'_>) -> bool {
    let mut named = record.warehouses.iter().filter_map(|level| record.id.zip(level.product_id));
    let is_of_product = named.all(|(product, named)| product == named);
    is_of_product
        && twins(&record.warehouses).all(|(one, other)| one.quantity_on_hand == other.quantity_on_hand)
}

/// Returns the pairs of entries of one warehouse.
fn twins<'r, 'a>(
    levels: &'r [WarehouseBalance<'a>],
) -> impl Iterator<Item = (&'r WarehouseBalance<'a>, &'r WarehouseBalance<'a>)> {
    let pairs = |(at, level)| levels[..at].iter().map(move |other| (level, other));
    let all = levels.iter().enumerate().flat_map(pairs);
    all.filter(|(one, other)| one.warehouse_id == other.warehouse_id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skus(texts: &[&str]) -> Vec<Sku> {
        texts.iter().map(|text| Sku::new(*text).unwrap()).collect()
    }

    #[test]
    fn requests_are_written_as_the_document_shows_them() {
        let request = get_product_balances(&skus(&["A", "B \"2\""]));
        assert_eq!(request.path, "/api/product/getProductBalances");
        assert_eq!(request.body.unwrap(), br#"{"skus":["A","B \"2\""]}"#);
        let request = get_products(ProductKey::Upc, &["40063".into()]);
        assert_eq!(request.body.unwrap(), br#"{"idList":["40063"],"idType":"upc"}"#);
    }

    #[test]
    fn a_whole_balance_is_read() {
        let body = br#"[{"Id":9007199254740993,"Sku":"A","QuantityOnHand":28.0,"UPC":"40063","New":{"x":[1]},
            "Warehouses":[{"ProductId":9007199254740993,"WarehouseId":7.0,"QuantityOnHand":-2,"WarehouseSKU":"A-7",
            "IsActive":true,"IncludeInSyncBalance":false}]}]"#;
        let decoded = decode_balances(body).unwrap();
        let expected = ProductBalance {
            id: Some(ProductId(9_007_199_254_740_993)),
            sku: Sku::new("A").unwrap(),
            quantity_on_hand: Some(28),
            upc: Some("40063".into()),
            warehouses: vec![WarehouseBalance {
                product_id: Some(ProductId(9_007_199_254_740_993)),
                warehouse_id: WarehouseId(7),
                quantity_on_hand: -2,
                warehouse_sku: Some("A-7".into()),
                is_active: Some(true),
                include_in_sync: Some(false),
            }],
            is_partial: false,
        };
        assert_eq!(decoded.records, [expected]);
        assert!(decoded.parked.is_empty());
    }

    /// Rows: a record, and the number of warehouses read; `None`: the record is parked.
    #[test]
    fn a_record_that_makes_no_sense_is_parked_alone() {
        let cases = [
            (r#"{"Sku":"A"}"#, None),
            (r#"{"Sku":"A","Warehouses":null}"#, None),
            (r#"{"Sku":"A","warehouses":[{"WarehouseId":7,"QuantityOnHand":3}]}"#, None),
            (r#"{"Sku":"A","Warehouses":[],"UPC":null,"Id":"x"}"#, Some(0)),
            (r#"{"Sku":"A","Warehouses":[],"Id":1e999}"#, Some(0)),
            (r#"{"Sku":"A","Warehouses":[{"WarehouseId":"7","QuantityOnHand":"3"}]}"#, Some(1)),
            (
                r#"{"Sku":"A","Warehouses":[{"WarehouseId":7,"QuantityOnHand":2.5},{"WarehouseId":8,"QuantityOnHand":1}]}"#,
                None,
            ),
            (r#"{"Sku":"A","Warehouses":[{"QuantityOnHand":1},{"WarehouseId":8},null]}"#, None),
            (r#"{"Sku":"A","UPC":{},"Warehouses":[{"WarehouseId":7,"QuantityOnHand":3}]}"#, None),
            (r#"{"Sku":"A","Warehouses":[{"WarehouseId":7,"QuantityOnHand":3,"IsActive":"maybe"}]}"#, None),
            (r#"{"Sku":"A","Warehouses":[{"WarehouseId":7,"QuantityOnHand":3,"WarehouseSKU":[]}]}"#, None),
            (r#"{"Id":5,"Sku":"A","Warehouses":[{"ProductId":6,"WarehouseId":7,"QuantityOnHand":3}]}"#, None),
            (r#"{"Sku":"A","Warehouses":[{"ProductId":6,"WarehouseId":7,"QuantityOnHand":3}]}"#, Some(1)),
            (r#"{"Sku":"A","Warehouses":"many"}"#, None),
            (r#"{"Sku":"A","QuantityOnHand":2.5,"Warehouses":[]}"#, None),
            (r#"{"Sku":" ","Warehouses":[]}"#, None),
            (r#"{"Sku":17,"Warehouses":[]}"#, None),
            (r#"{"Id":1,"Warehouses":[]}"#, None),
            ("null", None),
        ];
        for (record, warehouses) in cases {
            let body =
                format!(r#"[{{"Sku":"first","Warehouses":[]}},{record},{{"Sku":"last","Warehouses":[]}}]"#);
            let decoded = decode_balances(body.as_bytes()).unwrap();
            let read =
                decoded.records.iter().filter(|balance| !["first", "last"].contains(&balance.sku.as_str()));
            assert_eq!(read.map(|balance| balance.warehouses.len()).next(), warehouses, "{record}");
            let parked: Vec<usize> = decoded.parked.iter().map(|parked| parked.index).collect();
            assert_eq!(parked, if warehouses.is_none() { vec![1] } else { vec![] }, "{record}");
            assert_eq!(decoded.records.len(), 2 + usize::from(warehouses.is_some()));
        }
    }

    /// Rows: the records, the SKUs read with their numbers of stock levels, and the number of parked records.
    #[test]
    fn what_stands_twice_and_differs_is_parked_and_what_agrees_is_one() {
        let level = |id: i64, quantity: i64| format!(r#"{{"WarehouseId":{id},"QuantityOnHand":{quantity}}}"#);
        let product = |sku: &str, levels: &[String]| {
            format!(r#"{{"Sku":"{sku}","Warehouses":[{}]}}"#, levels.join(","))
        };
        let a = product("A", &[level(7, 1), level(8, 2)]);
        let other = product("A", &[level(7, 1), level(8, 3)]);
        let senseless = r#"{"Sku":"A","Warehouses":"many"}"#.to_owned();
        let b = product("B", &[level(7, 1)]);
        type BalanceRead<'a> = &'a [(&'a str, usize)];
        let cases: &[(&[&String], BalanceRead<'_>, usize)] = &[
            (&[&a, &b], &[("A", 2), ("B", 1)], 0),
            (&[&b, &a], &[("B", 1), ("A", 2)], 0),
            (&[&a, &b, &a], &[("A", 2), ("B", 1)], 0),
            (&[&a, &b, &other], &[("B", 1)], 2),
            (&[&a, &a, &other], &[], 3),
            (&[&senseless, &b], &[("B", 1)], 1),
            (&[&product("A", &[level(7, 1), level(8, 2), level(7, 1)])], &[("A", 2)], 0),
            (&[&product("A", &[level(7, 1), level(8, 2), level(7, 9)])], &[], 1),
            (&[&product("A", &[level(7, 1), level(7, 2), level(7, 1)]), &b], &[("B", 1)], 1),
        ];
        for (records, read, parked) in cases {
            let records: Vec<&str> = records.iter().map(|record| record.as_str()).collect();
            let list = format!("[{}]", records.join(","));
            let enveloped = format!(r#"{{"status":"Success","data":{list}}}"#);
            let both = [decode_balances(list.as_bytes()), decode_products(enveloped.as_bytes())];
            for decoded in both.map(Result::unwrap) {
                let found: Vec<(&str, usize)> =
                    decoded.records.iter().map(|r| (r.sku.as_str(), r.warehouses.len())).collect();
                assert_eq!((found.as_slice(), decoded.parked.len()), (*read, *parked), "{list}");
                assert!(
                    decoded.parked.iter().all(|parked| parked.sku.as_ref().map(Sku::as_str) == Some("A")),
                    "{list}"
                );
            }
        }
    }
}
