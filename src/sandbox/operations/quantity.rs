//! Implements docs/interface.md, *Update quantity on hand*: absolute quantities for up to 25 SKUs.
//!
//! Causes for a 400 of the whole call: more than 25 entries, a SKU twice, an inactive key, a body that is no
//! array of entries. Any other fault fails its entry alone, with a message that names the entry's index. The
//! SKUs of a call are compared without case, so that a call cannot set a product twice under two spellings.

use std::collections::HashSet;

use serde::Deserialize;
use serde_json::{Number, Value};
use sqlx::SqliteConnection;

use crate::sandbox::http::answer::{HandlerResult, SandboxRefusal, list_envelope_with, split_refused_entry};
use crate::sandbox::http::request::{
    INT32_MAX, OperationCall, StrictObject, WholeNumber, non_blank, parse_json,
};
use crate::sandbox::store::values;

const ENTRIES_MAX: usize = 25;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct QuantityEntryBody {
    sku: Option<String>,
    quantity: Option<Number>,
    warehouse_id: Option<WholeNumber>,
}

pub(super) async fn update_quantities(call: &OperationCall, db: &mut SqliteConnection) -> HandlerResult {
    let entries: Vec<StrictObject<QuantityEntryBody>> = call.json_body()?;
    check_whole_call(&entries)?;
    let mut messages = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        if let Err(why) = split_refused_entry(update_entry(db, call.company_id, entry).await)? {
            messages.push(format!("Index {index}: {why}"));
        }
    }
    let updated = entries.len() - messages.len();
    let status = match (updated, messages.len()) {
        (_, 0) => "Success",
        (0, _) => "Failure",
        _ => "Partial Success",
    };
    let data = format!("\"{updated} of {} products were updated.\"", entries.len());
    Ok(list_envelope_with(status, &messages, &Value::Null, &data))
}

fn check_whole_call(entries: &[StrictObject<QuantityEntryBody>]) -> Result<(), SandboxRefusal> {
    if entries.len() > ENTRIES_MAX {
        let sent = entries.len();
        return Err(format!("{sent} updates were sent; at most {ENTRIES_MAX} are allowed.").into());
    }
    let mut seen = HashSet::new();
    for sku in entries.iter().filter_map(|entry| entry.sku.as_deref()) {
        if !seen.insert(sku.trim().to_lowercase()) {
            return Err(format!("The SKU '{sku}' appears more than once.").into());
        }
    }
    Ok(())
}

async fn update_entry(
    db: &mut SqliteConnection,
    company_id: i64,
    entry: &QuantityEntryBody,
) -> Result<(), SandboxRefusal> {
    let (sku, quantity, warehouse_id) = checked_entry(entry)?;
    let link = "SELECT p.type, l.id
                  FROM product p LEFT JOIN link l ON l.product_id = p.id AND l.warehouse_id = ?3
                 WHERE p.company_id = ?1 AND p.is_active AND p.sku = ?2 COLLATE NOCASE
                 ORDER BY p.sku = ?2 DESC, p.id LIMIT 1";
    let link = sqlx::query_as_with(link, values!(company_id, sku, warehouse_id));
    let found: Option<(String, Option<i64>)> = link.fetch_optional(&mut *db).await?;
    let Some((kind, link_id)) = found else {
        return Err(format!("No active product with the SKU '{sku}' was found.").into());
    };
    if kind == "Kit" {
        return Err(format!("The SKU '{sku}' is a kit; its quantity follows from its components.").into());
    }
    let link_id = link_id.ok_or_else(|| {
        format!("The product with the SKU '{sku}' is in no warehouse with the id {warehouse_id}.")
    })?;
    let update = "UPDATE link SET quantity = ?2 WHERE id = ?1";
    Ok(sqlx::query(update).bind(link_id).bind(quantity).execute(db).await.map(drop)?)
}

/// Returns SKU, quantity and warehouse of an entry.
fn checked_entry(entry: &QuantityEntryBody) -> Result<(&str, i64, i64), String> {
    let sku = non_blank(&entry.sku).ok_or("Sku is required.")?;
    let sent = entry.quantity.as_ref().ok_or_else(|| format!("Quantity is required (SKU '{sku}')."))?;
    let WholeNumber(quantity) = parse_json(sent.to_string().as_bytes())
        .map_err(|_| format!("The quantity {sent} is not a whole number (SKU '{sku}')."))?;
    if !(0..=INT32_MAX).contains(&quantity) {
        return Err(format!("The quantity {quantity} is not between 0 and {INT32_MAX} (SKU '{sku}')."));
    }
    let WholeNumber(warehouse_id) =
        entry.warehouse_id.ok_or_else(|| format!("WarehouseId is required (SKU '{sku}')."))?;
    Ok((sku, quantity, warehouse_id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::assert_outcome;

    fn entry(json: &str) -> StrictObject<QuantityEntryBody> {
        serde_json::from_str(json).expect("an entry")
    }

    #[test]
    fn an_entry_is_judged_by_itself() {
        for (json, expected) in [
            (r#"{"Sku":"A","Quantity":3,"WarehouseId":1}"#, Ok(3)),
            (r#"{"Sku":"A","Quantity":3.0,"WarehouseId":1.0}"#, Ok(3)),
            (r#"{"Sku":"A","Quantity":0,"WarehouseId":1}"#, Ok(0)),
            (r#"{"Sku":"A","Quantity":-1,"WarehouseId":1}"#, Err("not between 0")),
            (r#"{"Sku":"A","Quantity":2147483648,"WarehouseId":1}"#, Err("not between 0")),
            (r#"{"Sku":"A","Quantity":1.5,"WarehouseId":1}"#, Err("not a whole number")),
            (r#"{"Sku":" ","Quantity":1,"WarehouseId":1}"#, Err("Sku is required")),
            (r#"{"Sku":"A","WarehouseId":1}"#, Err("Quantity is required")),
            (r#"{"Sku":"A","Quantity":1,"WarehouseId":null}"#, Err("WarehouseId is required")),
        ] {
            let quantity = checked_entry(&entry(json)).map(|(_, quantity, _)| quantity);
            assert_outcome(quantity, expected, json);
        }
    }

    #[test]
    fn a_call_has_at_most_25_entries_and_each_sku_once() {
        let miscased_skus = [entry(r#"{"Sku":"ab-1"}"#), entry(r#"{"Sku":"AB-1"}"#)];
        assert!(check_whole_call(&miscased_skus).is_err());
        assert!(check_whole_call(&miscased_skus[..1]).is_ok());
        let many: Vec<_> = (0..26).map(|n| entry(&format!(r#"{{"Sku":"{n}"}}"#))).collect();
        assert!(check_whole_call(&many).is_err());
        assert!(check_whole_call(&many[1..]).is_ok());
    }
}
