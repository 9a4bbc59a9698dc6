//! Stock balances: *Get product balances* and *Get products by SKU or UPC*, which answer the same record.
//!
//! Texts are borrowed from the body, because this is the one list whose speed matters. Only `Warehouses[]`
//! holds facts of stock levels (docs/rules.md 7). The product's `QuantityOnHand` is their sum as computed by
//! the platform.

use super::codec::lenient::{self, LenientObject};
use super::codec::{raw_records, read_list};
use super::{DecodedAnswer, Envelope, InvalidRequest, MalformedBody, ParkedRecord};
use crate::client::PlatformRequest;
use crate::model::{Operation, ProductId, Sku, WarehouseId};
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct ProductBalance<'a> {
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
    /// Number of parked warehouse entries. If it is not 0, a warehouse that is not listed may be one of them.
    #[serde(skip)]
    pub warehouses_parked: usize,
}

/// A product's stock in one warehouse (*ProductBalance*, `Warehouses[]`).
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct WarehouseBalance<'a> {
    #[serde(rename = "ProductId", default, deserialize_with = "lenient::opt")]
    product_id: Option<ProductId>,
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
pub enum ProductKey {
    Sku,
    Upc,
}

pub fn get_product_balances(skus: &[Sku]) -> Result<PlatformRequest, InvalidRequest> {
    let operation = Operation::GetProductBalances;
    if skus.is_empty() {
        return Err(InvalidRequest::new(operation, "skus", "is empty; name at least one SKU"));
    }
    /// Written directly, because a `serde_json::Value` would copy each SKU three times.
    #[derive(Serialize)]
    struct BalancesBody<'a> {
        skus: &'a [Sku],
    }
    Ok(PlatformRequest::new(operation).with_json(&BalancesBody { skus }))
}

pub fn get_products(by: ProductKey, ids: &[String]) -> Result<PlatformRequest, InvalidRequest> {
    let operation = Operation::GetProducts;
    if ids.is_empty() {
        return Err(InvalidRequest::new(operation, "idList", "is empty; name at least one SKU or UPC"));
    }
    if let Some(index) = ids.iter().position(|id| id.trim().is_empty()) {
        let field = format!("idList[{index}]");
        return Err(InvalidRequest::new(operation, field, "is blank; name a SKU or UPC"));
    }
    Ok(PlatformRequest::new(operation).with_json(&json!({ "idType": by, "idList": ids })))
}

/// Reads the answer of *Get product balances*, a bare list.
pub fn decode_balances(body: &[u8]) -> Result<DecodedAnswer<ProductBalance<'_>>, MalformedBody> {
    let what = "the product balances";
    let list = std::str::from_utf8(body).map_err(|error| MalformedBody::new(what, error))?;
    let (records, parked) = read_balances(what, list)?;
    Ok(DecodedAnswer { records, parked, page: None, messages: Vec::new() })
}

/// Reads the answer of *Get products by SKU or UPC*, an envelope.
pub fn decode_products(body: &[u8]) -> Result<DecodedAnswer<ProductBalance<'_>>, MalformedBody> {
    let what = "the product lookup";
    let envelope = Envelope::read(what, body)?;
    let (records, parked) = read_balances(what, envelope.list())?;
    Ok(envelope.into_answer(records, parked))
}

type BalanceRecords<'a> = (Vec<ProductBalance<'a>>, Vec<ParkedRecord>);

fn read_balances<'a>(what: &'static str, list: &'a str) -> Result<BalanceRecords<'a>, MalformedBody> {
    match read_list(list) {
        Some(records) if !hold_duplicates(&records) && !records.iter().any(names_another) => {
            Ok((records, Vec::new()))
        }
        _ => read_one_by_one(what, list),
    }
}

/// Returns true if two records have one SKU, or two entries of a record one warehouse.
fn hold_duplicates(records: &[ProductBalance<'_>]) -> bool {
    let holds_twice = |record: &ProductBalance<'_>| {
        let levels = &record.warehouses;
        let is_twin = |(at, level): (usize, &WarehouseBalance<'_>)| {
            levels[..at].iter().any(|other| other.warehouse_id == level.warehouse_id)
        };
        levels.iter().enumerate().any(is_twin)
    };
    // An ordinary answer is sorted as the request was.
    let are_in_step = || records.is_sorted_by(|one, next| one.sku.as_str() < next.sku.as_str());
    let mut seen = BTreeSet::new();
    let mut is_twice = || !records.iter().all(|record| seen.insert(record.sku.as_str()));
    records.iter().any(holds_twice) || (!are_in_step() && is_twice())
}

/// Returns true if an entry of the record names another product.
fn names_another(record: &ProductBalance<'_>) -> bool {
    record.warehouses.iter().any(|level| is_of_another(record.id, level))
}

fn is_of_another(product: Option<ProductId>, level: &WarehouseBalance<'_>) -> bool {
    product.zip(level.product_id).is_some_and(|(product, named)| product != named)
}

/// Reads an odd answer record by record. Equal records of one SKU count once; differing ones are parked.
fn read_one_by_one<'a>(what: &'static str, list: &'a str) -> Result<BalanceRecords<'a>, MalformedBody> {
    let raws = raw_records(what, list)?;
    let mut parked = Vec::new();
    let mut of_sku: BTreeMap<Sku, Vec<(usize, Option<ProductBalance<'a>>)>> = BTreeMap::new();
    for (index, raw) in raws.iter().enumerate() {
        let (record, parts) = read_balance(index, raw);
        let named = parts.first().and_then(|part| part.sku.clone());
        if let Some(sku) = record.as_ref().map(|record| record.sku.clone()).or(named) {
            of_sku.entry(sku).or_default().push((index, record));
        }
        parked.extend(parts);
    }
    let mut records = Vec::new();
    for same_sku in of_sku.into_values() {
        let mut levels = same_sku.iter().map(|(_, record)| record.as_ref().map(quantities));
        let first = levels.next();
        if levels.all(|other| Some(other) == first) {
            records.extend(same_sku.into_iter().next());
            continue;
        }
        for (index, record) in same_sku {
            let why = "the answer holds this SKU twice, and the records differ";
            if let Some(record) = record {
                let sku = Some(record.sku);
                parked.push(ParkedRecord { sku, ..ParkedRecord::new(index, why, raws[index]) });
            }
        }
    }
    records.sort_by_key(|(index, _)| *index);
    Ok((records.into_iter().filter_map(|(_, record)| record).collect(), parked))
}

/// Returns the part of a record in which records of one SKU must agree.
fn quantities(record: &ProductBalance<'_>) -> (Option<ProductId>, BTreeMap<WarehouseId, i64>, usize) {
    let levels = record.warehouses.iter().map(|level| (level.warehouse_id, level.quantity_on_hand));
    (record.id, levels.collect(), record.warehouses_parked)
}

#[derive(Deserialize)]
struct RawBalance<'a> {
    #[serde(rename = "Id", default, deserialize_with = "lenient::opt")]
    id: Option<ProductId>,
    #[serde(rename = "Sku", deserialize_with = "lenient::req")]
    sku: Sku,
    #[serde(rename = "QuantityOnHand", default, deserialize_with = "lenient::strict")]
    quantity_on_hand: Option<i64>,
    #[serde(borrow, rename = "UPC", default)]
    upc: Option<&'a RawValue>,
    #[serde(borrow, rename = "Warehouses")]
    warehouses: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct Upc<'a>(#[serde(borrow, deserialize_with = "lenient::strict")] Option<Cow<'a, str>>);

/// Reads a balance. Unreadable entries of `Warehouses[]` and an unreadable UPC are parked one by one.
fn read_balance<'a>(index: usize, raw: &'a RawValue) -> (Option<ProductBalance<'a>>, Vec<ParkedRecord>) {
    let product: RawBalance<'a> = match serde_json::from_str(raw.get()) {
        Ok(LenientObject(product)) => product,
        Err(error) => return (None, vec![ParkedRecord::new(index, error, raw)]),
    };
    let mut warehouses: Vec<WarehouseBalance<'a>> = Vec::with_capacity(product.warehouses.len());
    let (mut parked, mut differing) = (Vec::new(), BTreeSet::new());
    for (at, entry) in product.warehouses.into_iter().enumerate() {
        let why = match serde_json::from_str(entry.get()) {
            Ok(LenientObject(warehouse)) if is_of_another(product.id, &warehouse) => {
                format!("Warehouses[{at}]: it names another product than its record")
            }
            Ok(LenientObject(warehouse)) => match add_entry(&mut warehouses, &mut differing, warehouse) {
                Ok(()) => continue,
                Err(id) => format!("Warehouses[{at}]: warehouse {id} occurs twice with different quantities"),
            },
            Err(error) => format!("Warehouses[{at}]: {error}"),
        };
        let sku = Some(product.sku.clone());
        parked.push(ParkedRecord { sku, ..ParkedRecord::new(index, why, entry) });
    }
    let mut balance = ProductBalance {
        id: product.id,
        sku: product.sku,
        quantity_on_hand: product.quantity_on_hand,
        upc: None,
        warehouses,
        warehouses_parked: parked.len(),
    };
    match product.upc.map(|upc| serde_json::from_str(upc.get())).transpose() {
        Ok(upc) => balance.upc = upc.and_then(|Upc(upc)| upc),
        Err(error) => {
            let sku = Some(balance.sku.clone());
            parked.push(ParkedRecord { sku, ..ParkedRecord::new(index, format!("UPC: {error}"), raw) });
        }
    }
    (Some(balance), parked)
}

/// Adds an entry, unless the record has its warehouse with another quantity. Then neither entry is used.
fn add_entry<'a>(
    warehouses: &mut Vec<WarehouseBalance<'a>>,
    differing: &mut BTreeSet<WarehouseId>,
    entry: WarehouseBalance<'a>,
) -> Result<(), WarehouseId> {
    let id = entry.warehouse_id;
    match warehouses.iter().position(|other| other.warehouse_id == id) {
        Some(at) if warehouses[at].quantity_on_hand == entry.quantity_on_hand => Ok(()),
        Some(at) => {
            warehouses.remove(at);
            differing.insert(id);
            Err(id)
        }
        None if differing.contains(&id) => Err(id),
        None => {
            warehouses.push(entry);
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skus(texts: &[&str]) -> Vec<Sku> {
        texts.iter().map(|text| Sku::new(*text).unwrap()).collect()
    }

    #[test]
    fn requests_are_written_as_the_document_shows_them() {
        let request = get_product_balances(&skus(&["A", "B \"2\""])).unwrap();
        assert_eq!(request.path, "/api/product/getProductBalances");
        assert_eq!(request.body.unwrap(), br#"{"skus":["A","B \"2\""]}"#);
        let request = get_products(ProductKey::Upc, &["40063".into()]).unwrap();
        assert_eq!(request.body.unwrap(), br#"{"idList":["40063"],"idType":"upc"}"#);
    }

    #[test]
    fn a_request_for_nothing_is_not_sent() {
        assert_eq!(get_product_balances(&[]).unwrap_err().field, "skus");
        assert_eq!(get_products(ProductKey::Sku, &[]).unwrap_err().field, "idList");
        assert_eq!(get_products(ProductKey::Sku, &["A".into(), " ".into()]).unwrap_err().field, "idList[1]");
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
            warehouses_parked: 0,
        };
        assert_eq!(decoded.records, [expected]);
        assert!(decoded.parked.is_empty());
    }

    /// Rows: a record, the number of warehouses read, and the number of parked parts; `None`: the whole
    /// record.
    #[test]
    fn only_what_makes_no_sense_is_parked() {
        let cases = [
            (r#"{"Sku":"A"}"#, None, 1),
            (r#"{"Sku":"A","Warehouses":null}"#, None, 1),
            (r#"{"Sku":"A","warehouses":[{"WarehouseId":7,"QuantityOnHand":3}]}"#, None, 1),
            (r#"{"Sku":"A","Warehouses":[],"UPC":null,"Id":"x"}"#, Some(0), 0),
            (r#"{"Sku":"A","Warehouses":[],"Id":1e999}"#, Some(0), 0),
            (r#"{"Sku":"A","Warehouses":[{"WarehouseId":"7","QuantityOnHand":"3"}]}"#, Some(1), 0),
            (
                r#"{"Sku":"A","Warehouses":[{"WarehouseId":7,"QuantityOnHand":2.5},{"WarehouseId":8,"QuantityOnHand":1}]}"#,
                Some(1),
                1,
            ),
            (r#"{"Sku":"A","Warehouses":[{"QuantityOnHand":1},{"WarehouseId":8},null]}"#, Some(0), 3),
            (r#"{"Sku":"A","UPC":{},"Warehouses":[{"WarehouseId":7,"QuantityOnHand":3}]}"#, Some(1), 1),
            (
                r#"{"Sku":"A","Warehouses":[{"WarehouseId":7,"QuantityOnHand":3,"IsActive":"maybe"}]}"#,
                Some(0),
                1,
            ),
            (
                r#"{"Sku":"A","Warehouses":[{"WarehouseId":7,"QuantityOnHand":3,"WarehouseSKU":[]}]}"#,
                Some(0),
                1,
            ),
            (
                r#"{"Id":5,"Sku":"A","Warehouses":[{"ProductId":6,"WarehouseId":7,"QuantityOnHand":3}]}"#,
                Some(0),
                1,
            ),
            (r#"{"Sku":"A","Warehouses":[{"ProductId":6,"WarehouseId":7,"QuantityOnHand":3}]}"#, Some(1), 0),
            (r#"{"Sku":"A","Warehouses":"many"}"#, None, 1),
            (r#"{"Sku":"A","QuantityOnHand":2.5,"Warehouses":[]}"#, None, 1),
            (r#"{"Sku":" ","Warehouses":[]}"#, None, 1),
            (r#"{"Sku":17,"Warehouses":[]}"#, None, 1),
            (r#"{"Id":1,"Warehouses":[]}"#, None, 1),
            ("null", None, 1),
        ];
        for (record, warehouses, parked) in cases {
            let body =
                format!(r#"[{{"Sku":"first","Warehouses":[]}},{record},{{"Sku":"last","Warehouses":[]}}]"#);
            let decoded = decode_balances(body.as_bytes()).unwrap();
            let read =
                decoded.records.iter().filter(|balance| !["first", "last"].contains(&balance.sku.as_str()));
            assert_eq!(read.map(|balance| balance.warehouses.len()).next(), warehouses, "{record}");
            assert_eq!(decoded.parked.len(), parked, "{record}");
            assert!(decoded.parked.iter().all(|parked| parked.index == 1));
            assert_eq!(decoded.records.len(), 2 + usize::from(warehouses.is_some()));
        }
    }

    /// Rows: the records, the SKUs read with their numbers of stock levels, and the number of parked parts.
    #[test]
    fn what_stands_twice_and_differs_is_parked_and_what_agrees_is_one() {
        let level = |id: i64, quantity: i64| format!(r#"{{"WarehouseId":{id},"QuantityOnHand":{quantity}}}"#);
        let product = |sku: &str, levels: &[String]| {
            format!(r#"{{"Sku":"{sku}","Warehouses":[{}]}}"#, levels.join(","))
        };
        let a = product("A", &[level(7, 1), level(8, 2)]);
        let other = product("A", &[level(7, 1), level(8, 3)]);
        let turned = product("A", &[level(8, 2), level(7, 1)]);
        let senseless = r#"{"Sku":"A","Warehouses":"many"}"#.to_owned();
        let b = product("B", &[level(7, 1)]);
        type BalanceRead<'a> = &'a [(&'a str, usize)];
        let cases: &[(&[&String], BalanceRead<'_>, usize)] = &[
            (&[&a, &b], &[("A", 2), ("B", 1)], 0),
            (&[&b, &a], &[("B", 1), ("A", 2)], 0),
            (&[&a, &b, &a], &[("A", 2), ("B", 1)], 0),
            (&[&a, &turned], &[("A", 2)], 0),
            (&[&a, &b, &other], &[("B", 1)], 2),
            (&[&a, &a, &other], &[], 3),
            (&[&a, &senseless, &b], &[("B", 1)], 2),
            (&[&senseless, &b], &[("B", 1)], 1),
            (&[&product("A", &[level(7, 1), level(8, 2), level(7, 1)])], &[("A", 2)], 0),
            (&[&product("A", &[level(7, 1), level(8, 2), level(7, 9)])], &[("A", 1)], 1),
            (&[&product("A", &[level(7, 1), level(7, 2), level(7, 1)])], &[("A", 0)], 2),
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
                let partly = decoded.records.iter().filter(|r| r.warehouses_parked > 0).count();
                assert_eq!(partly, usize::from(*parked > 0 && read.len() == 1 && read[0].0 == "A"), "{list}");
                assert!(
                    decoded.parked.iter().all(|parked| parked.sku.as_ref().map(Sku::as_str) == Some("A")),
                    "{list}"
                );
            }
        }
    }

    #[test]
    fn a_parked_part_names_its_sku_and_only_a_parked_warehouse_marks_its_balance() {
        let body = br#"[{"Sku":"A","UPC":[],"Warehouses":[{"WarehouseId":7}]}]"#;
        let decoded = decode_balances(body).unwrap();
        let parts = decoded.parked.iter().zip(["Warehouses[0]: missing field", "UPC: expected a text"]);
        for (parked, why) in parts {
            assert_eq!(parked.sku.as_ref().map(Sku::as_str), Some("A"));
            assert!(parked.why.starts_with(why), "{}", parked.why);
        }
        assert_eq!(decoded.parked.len(), 2);
        assert_eq!(decoded.records[0].warehouses_parked, 1);
    }
}
