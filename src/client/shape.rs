//! Outer shape that a 2xx body must have for its operation.
//!
//! Proxies and maintenance pages answer 200 with HTML, unframed bodies may end early, and an envelope may
//! have the status `Failure`. The whole body is checked for well-formed JSON. Records are not checked here:
//! the decoders reject single records, because one invalid record should not lose a page.

use super::wire::Envelope;
use crate::model::{CallEffect, Operation};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::HashMap;

/// Checks that a body has the shape of an answer to `operation`. The error is text for an operator.
pub(super) fn check_shape(operation: Operation, body: &[u8]) -> Result<(), String> {
    match (operation, operation.effect()) {
        (Operation::GetProductBalances, _) => scan_as::<Vec<IgnoredAny>>(body, "a list").map(drop),
        // A write's decoder checks its envelope, because the call was carried out and answered.
        (Operation::WorkQueue, _) | (_, CallEffect::Write) => {
            scan_as::<HashMap<String, IgnoredAny>>(body, "an object").map(drop)
        }
        (_, CallEffect::Read) => check_list(
            &Envelope::from_body(body).map_err(|error| describe_mismatch(body, "an envelope", &error))?,
        ),
    }
}

fn scan_as<'a, T: Deserialize<'a>>(body: &'a [u8], expected: &str) -> Result<T, String> {
    serde_json::from_slice(body).map_err(|error| describe_mismatch(body, expected, &error))
}

fn describe_mismatch(body: &[u8], expected: &str, error: &serde_json::Error) -> String {
    match body.trim_ascii_start().first() {
        None => format!("the body is empty where {expected} was expected"),
        Some(b'<') => format!("the body is HTML or XML where {expected} in JSON was expected"),
        Some(_) => format!("the body is not {expected} in JSON: {error}"),
    }
}

fn check_list(envelope: &Envelope<'_>) -> Result<(), String> {
    if envelope.is_failure() {
        let status = envelope.status.as_deref().unwrap_or_default();
        return Err(format!("the answer's status is `{status}`: {}", envelope.messages.join("; ")));
    }
    match envelope.data.map(|data| data.get().as_bytes()) {
        None => Err("the envelope has no `data`".to_owned()),
        Some([b'[', ..] | b"null") => Ok(()),
        Some(_) => Err("the envelope's `data` is no list".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_answers_its_operation_only_in_its_shape() {
        use Operation::*;
        let cases: &[(Operation, &str, bool)] = &[
            (GetProductBalances, "[]", true),
            (GetProductBalances, r#"[{"Sku":1}]"#, true),
            (GetProductBalances, r#"{"data":[]}"#, false),
            (GetProductBalances, r#"[{"Sku":"A""#, false),
            (GetProductBalances, "[] trailing", false),
            (GetProductBalances, "", false),
            (WorkQueue, "{}", true),
            (WorkQueue, "[]", false),
            (ListWarehouses, r#"{"status":"Success","messages":[],"data":[]}"#, true),
            (ListWarehouses, r#"{"data":null}"#, true),
            (ListWarehouses, r#"{"status":"Success"}"#, false),
            (ListWarehouses, r#"{"Message":"wait"}"#, false),
            (ListWarehouses, r#"{"status":"Success","data":"none"}"#, false),
            (ListWarehouses, r#"{"status":"Failure","data":[]}"#, false),
            (GetProducts, r#"{"status":"Error","messages":["idType"],"data":[]}"#, false),
            (UpdateQuantityOnHand, r#"{"status":"Failure","messages":["Index 0: no"]}"#, true),
            (UpdateQuantityOnHand, "\"done\"", false),
            (CreateListingTemplate, "<html></html>", false),
        ];
        for (operation, body, answered) in cases {
            assert_eq!(check_shape(*operation, body.as_bytes()).is_ok(), *answered, "{operation}: {body}");
        }
    }

    #[test]
    fn a_body_cut_anywhere_is_no_answer() {
        let cases = [
            (Operation::GetProductBalances, r#"[{"Sku":"A","Warehouses":[{"WarehouseId":7}]},{"Sku":"B"}]"#),
            (Operation::ListWarehouses, r#"{"status":"Success","data":[{"Id":7},{"Id":8}],"messages":[]}"#),
            (Operation::UpdateQuantityOnHand, r#"{"status":"Success","messages":["a"],"data":""}"#),
            (Operation::WorkQueue, r#"{"OpenWorkOrders":3}"#),
        ];
        for (operation, body) in cases {
            assert_eq!(check_shape(operation, body.as_bytes()), Ok(()));
            for end in 0..body.len() {
                let cut = &body[..end];
                assert!(check_shape(operation, cut.as_bytes()).is_err(), "{operation}: {cut}");
            }
        }
    }
}
