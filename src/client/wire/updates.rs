//! *Update quantity on hand*: at most 25 absolute quantities, each SKU once, answered entry by entry.

use super::{Envelope, MalformedBody};
use crate::client::PlatformRequest;
use crate::model::{Operation, Quantity, Sku, WarehouseId};
use serde::{Deserialize, Serialize};

/// An entry of a call: the target quantity of a stock level.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct QuantityUpdate {
    /// The SKU in the platform's spelling.
    pub sku: Sku,
    /// Units, from 0 to the platform's int32 maximum.
    pub quantity: Quantity,
    pub warehouse_id: WarehouseId,
}

/// Requests new quantities (*Update quantity on hand*).
pub(crate) fn update_quantity_on_hand(updates: &[QuantityUpdate]) -> PlatformRequest {
    PlatformRequest::new(Operation::UpdateQuantityOnHand).with_json(&updates)
}

/// Status of the call as a whole (*Quantity-update result `status`*).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum UpdateStatus {
    Success,
    /// Some entries were applied; `messages` names the others.
    PartialSuccess,
    Failure,
    /// An undocumented code; empty if the status is missing.
    Unknown(String),
}

/// The answer of *Update quantity on hand*.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UpdateAnswer {
    /// Status of the call as a whole.
    pub status: UpdateStatus,
    /// Failed entries and their reasons; see [`attribute_messages`](super::attribute_messages).
    pub messages: Vec<String>,
}

/// Reads the answer of *Update quantity on hand*. Its `data` carries no information and is not read.
pub(crate) fn decode_update(body: &[u8]) -> Result<UpdateAnswer, MalformedBody> {
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
        let request = update_quantity_on_hand(&[update("A", 3)]);
        assert_eq!(request.path, "/api/inventory/updateQuantityOnHand");
        assert_eq!(request.body.unwrap(), br#"[{"Sku":"A","Quantity":3,"WarehouseId":7}]"#);
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
