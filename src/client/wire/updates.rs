//! *Update quantity on hand*: at most 25 absolute quantities, each SKU once, answered entry by entry.

use super::{Envelope, InvalidRequest, MalformedBody};
use crate::client::PlatformRequest;
use crate::model::{Operation, Quantity, Sku, UPDATE_MAX_ENTRIES, WarehouseId};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// An entry of a call: the target quantity of a stock level.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct QuantityUpdate {
    /// The SKU in the platform's spelling.
    pub sku: Sku,
    /// Units, from 0 to the platform's int32 maximum.
    pub quantity: Quantity,
    pub warehouse_id: WarehouseId,
}

/// Requests new quantities (*Update quantity on hand*). Refuses an empty call, more than 25 entries, a
/// quantity that cannot be written, and two SKUs with one case key (docs/rules.md 8).
pub fn update_quantity_on_hand(updates: &[QuantityUpdate]) -> Result<PlatformRequest, InvalidRequest> {
    let invalid =
        |field: String, why: String| InvalidRequest::new(Operation::UpdateQuantityOnHand, field, why);
    if updates.is_empty() || updates.len() > UPDATE_MAX_ENTRIES {
        let why = format!("has {} entries; a call has 1 to {UPDATE_MAX_ENTRIES}", updates.len());
        return Err(invalid("the list".into(), why));
    }
    let mut seen = HashMap::new();
    for (index, update) in updates.iter().enumerate() {
        if !update.quantity.is_writable() {
            let why = format!("is {}; it must be 0 to {}", update.quantity, Quantity::MAX);
            return Err(invalid(format!("[{index}].Quantity"), why));
        }
        if let Some(first) = seen.insert(update.sku.case_key(), index) {
            let why = format!("`{}` is the SKU of entry {first} again; put it into another call", update.sku);
            return Err(invalid(format!("[{index}].Sku"), why));
        }
    }
    Ok(PlatformRequest::new(Operation::UpdateQuantityOnHand).with_json(&updates))
}

/// Status of the call as a whole (*Quantity-update result `status`*).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpdateStatus {
    Success,
    /// Some entries were applied; `messages` names the others.
    PartialSuccess,
    Failure,
    /// An undocumented code; empty if the status is missing.
    Unknown(String),
}

/// The answer of *Update quantity on hand*.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdateAnswer {
    /// Status of the call as a whole.
    pub status: UpdateStatus,
    /// Failed entries and their reasons; see [`attribute_messages`](super::attribute_messages).
    pub messages: Vec<String>,
}

/// Reads the answer of *Update quantity on hand*. Its `data` carries no information and is not read.
pub fn decode_update(body: &[u8]) -> Result<UpdateAnswer, MalformedBody> {
    let envelope = Envelope::read("the quantity update", body)?;
    let code = envelope.status.unwrap_or_default().into_owned();
    let letters: String = code.chars().filter(|c| c.is_alphanumeric()).collect();
    let status = match letters.to_ascii_lowercase().as_str() {
        "success" => UpdateStatus::Success,
        "partialsuccess" => UpdateStatus::PartialSuccess,
        "failure" => UpdateStatus::Failure,
        _ => UpdateStatus::Unknown(code),
    };
    Ok(UpdateAnswer { status, messages: envelope.messages })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn update(sku: &str, quantity: i64) -> QuantityUpdate {
        QuantityUpdate {
            sku: Sku::new(sku).unwrap(),
            quantity: Quantity(quantity),
            warehouse_id: WarehouseId(7),
        }
    }

    #[test]
    fn a_call_is_written_as_the_document_shows_it() {
        let request = update_quantity_on_hand(&[update("A", 3)]).unwrap();
        assert_eq!(request.path, "/api/inventory/updateQuantityOnHand");
        assert_eq!(request.body.unwrap(), br#"[{"Sku":"A","Quantity":3,"WarehouseId":7}]"#);
    }

    #[test]
    fn what_would_be_answered_400_is_not_sent() {
        let many: Vec<_> = (0..26).map(|n| update(&format!("S{n}"), 1)).collect();
        assert!(update_quantity_on_hand(&many[..25]).is_ok());
        let cases = [
            (vec![], "the list"),
            (many, "the list"),
            (vec![update("A", 1), update("B", 1), update("A", 2)], "[2].Sku"),
            (vec![update("Ä", 1), update(" ä ", 1)], "[1].Sku"),
            (vec![update("A", -1)], "[0].Quantity"),
            (vec![update("A", 1 << 31)], "[0].Quantity"),
        ];
        for (updates, field) in cases {
            assert_eq!(update_quantity_on_hand(&updates).unwrap_err().field, field, "{updates:?}");
        }
    }

    #[test]
    fn the_status_is_read_however_it_is_spelled() {
        let cases = [
            (r#"{"status":"Success","messages":[],"data":"ok"}"#, UpdateStatus::Success, 0),
            (r#"{"status":"Partial Success","messages":["Index 0: no"]}"#, UpdateStatus::PartialSuccess, 1),
            (r#"{"status":"PartialSuccess","messages":null}"#, UpdateStatus::PartialSuccess, 0),
            (r#"{"status":"failure","messages":"all"}"#, UpdateStatus::Failure, 1),
            (r#"{"status":"Queued"}"#, UpdateStatus::Unknown("Queued".into()), 0),
            ("{}", UpdateStatus::Unknown(String::new()), 0),
        ];
        for (body, status, messages) in cases {
            let answer = decode_update(body.as_bytes()).unwrap();
            assert_eq!((answer.status, answer.messages.len()), (status, messages), "{body}");
        }
        assert!(decode_update(b"<html>").is_err());
    }
}
