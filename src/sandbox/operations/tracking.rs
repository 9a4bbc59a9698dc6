//! Implements docs/interface.md, *Submit tracking info*, which changes the state of shipments.
//!
//! A tracking number makes an item shipped and confirmed. The state of the shipment follows from its items
//! (`Unshipped`, `PartiallyShipped`, `Shipped`). A shipped item takes the new number, so that a mistyped
//! number can be corrected; the caller must prevent accidental overwrites. Any carrier id is accepted,
//! because the list of carriers is not part of the interface. Entries are independent, and an entry with any
//! fault changes nothing.

use std::collections::HashSet;

use serde::Deserialize;
use serde_json::{Value, json};
use sqlx::SqliteConnection;

use crate::sandbox::clock::parse_date;
use crate::sandbox::http::answer::{HandlerResult, SandboxRefusal, list_envelope, split_refused_entry};
use crate::sandbox::http::request::{OperationCall, StrictObject, WholeNumber, non_blank};
use crate::sandbox::store::values;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct TrackingRequestBody {
    shipment_id: WholeNumber,
    shipped_date: Option<String>,
    line_items: Option<Vec<StrictObject<TrackingLineBody>>>,
    #[serde(flatten)]
    base: TrackingDetailsBody,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct TrackingLineBody {
    line_item_id: WholeNumber,
    #[serde(flatten)]
    own: TrackingDetailsBody,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct TrackingDetailsBody {
    carrier_id: Option<WholeNumber>,
    tracking_number: Option<String>,
    #[serde(rename = "TrackingURL")]
    tracking_url: Option<String>,
    estimated_delivery_date: Option<String>,
}

#[derive(Debug, PartialEq, Eq)]
struct ItemTracking<'a> {
    item_id: i64,
    carrier_id: Option<i64>,
    tracking_number: &'a str,
    tracking_url: Option<&'a str>,
    estimated_delivery_at_ms: Option<i64>,
}

/// A shipment item: its id, and true if it was shipped before.
type StoredShipmentItem = (i64, bool);

pub(super) async fn submit_tracking(call: &OperationCall, db: &mut SqliteConnection) -> HandlerResult {
    let mut results = Vec::new();
    for request in call.entries_body()? {
        let message = split_refused_entry(submit_shipment_tracking(call, db, &request).await)?.err();
        let succeeded = message.is_none();
        let messages = Vec::from_iter(message);
        results.push(json!({ "Request": request, "WasSuccessful": succeeded, "Messages": messages }));
    }
    Ok(list_envelope(&json!(results).to_string()))
}

async fn submit_shipment_tracking(
    call: &OperationCall,
    db: &mut SqliteConnection,
    request: &Value,
) -> Result<(), SandboxRefusal> {
    let request = TrackingRequestBody::deserialize(request)
        .map_err(|cause| format!("The request is not valid: {cause}."))?;
    let WholeNumber(shipment_id) = request.shipment_id;
    let state = "SELECT state FROM shipment_state WHERE company_id = ?1 AND id = ?2";
    match call.own_text(db, state, shipment_id).await?.as_deref() {
        None => return Err(format!("No shipment with the id {shipment_id} was found.").into()),
        Some("Cancelled") => return Err(format!("The shipment {shipment_id} is cancelled.").into()),
        Some(_) => {}
    }
    let items = "SELECT id, is_shipped FROM shipment_item WHERE shipment_id = ?1 ORDER BY id";
    let items: Vec<StoredShipmentItem> = sqlx::query_as(items).bind(shipment_id).fetch_all(&mut *db).await?;
    let tracked = tracked_items(&request, &items)?;
    let shipped_at_ms = date_field(request.shipped_date.as_deref(), "ShippedDate")?.unwrap_or(call.now_ms);
    let update = "UPDATE shipment_item
                     SET is_shipped = 1, carrier_id = ?2, tracking_number = ?3, tracking_url = ?4,
                         estimated_delivery_at_ms = ?5
                   WHERE id = ?1";
    for ItemTracking { item_id, carrier_id, tracking_number, tracking_url, estimated_delivery_at_ms } in
        tracked
    {
        let item = values!(item_id, carrier_id, tracking_number, tracking_url, estimated_delivery_at_ms);
        sqlx::query_with(update, item).execute(&mut *db).await?;
    }
    let update = "UPDATE shipment SET shipped_at_ms = ?2 WHERE id = ?1";
    sqlx::query(update).bind(shipment_id).bind(shipped_at_ms).execute(db).await?;
    Ok(())
}

fn tracked_items<'a>(
    request: &'a TrackingRequestBody,
    items: &[StoredShipmentItem],
) -> Result<Vec<ItemTracking<'a>>, String> {
    let base = &request.base;
    let lines = request.line_items.as_deref().unwrap_or_default();
    let mut seen = HashSet::new();
    let mut ids = lines.iter().map(|line| line.line_item_id);
    if let Some(WholeNumber(id)) = ids.find(|WholeNumber(id)| !seen.insert(*id)) {
        return Err(format!("The line item {id} appears more than once."));
    }
    if !lines.is_empty() {
        let tracked = |line: &'a StrictObject<TrackingLineBody>| {
            let WholeNumber(item_id) = line.line_item_id;
            if !items.iter().any(|(id, _)| *id == item_id) {
                return Err(format!("The line item {item_id} does not belong to the shipment."));
            }
            tracked_item(item_id, &line.own, base)
        };
        return lines.iter().map(tracked).collect();
    }
    let unshipped = items.iter().filter(|(_, is_shipped)| !is_shipped);
    let tracked: Vec<_> = unshipped.map(|(id, _)| tracked_item(*id, base, base)).collect::<Result<_, _>>()?;
    if tracked.is_empty() {
        return Err("All items of the shipment have been shipped already.".to_owned());
    }
    Ok(tracked)
}

fn tracked_item<'a>(
    item_id: i64,
    own: &'a TrackingDetailsBody,
    base: &'a TrackingDetailsBody,
) -> Result<ItemTracking<'a>, String> {
    let number = non_blank(&own.tracking_number).or(non_blank(&base.tracking_number));
    let estimated = non_blank(&own.estimated_delivery_date).or(non_blank(&base.estimated_delivery_date));
    Ok(ItemTracking {
        item_id,
        carrier_id: own.carrier_id.or(base.carrier_id).map(|WholeNumber(id)| id),
        tracking_number: number
            .ok_or_else(|| format!("TrackingNumber is required (line item {item_id})."))?,
        tracking_url: non_blank(&own.tracking_url).or(non_blank(&base.tracking_url)),
        estimated_delivery_at_ms: date_field(estimated, "EstimatedDeliveryDate")?,
    })
}

fn date_field(text: Option<&str>, field: &str) -> Result<Option<i64>, String> {
    let Some(text) = text.filter(|text| !text.is_empty()) else { return Ok(None) };
    parse_date(text).map(Some).ok_or_else(|| format!("{field} '{text}' is neither a date nor a date-time."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::assert_outcome;

    fn request(fields: &str) -> TrackingRequestBody {
        serde_json::from_str(&format!(r#"{{"ShipmentId":9,{fields}}}"#)).expect("a request")
    }

    #[test]
    fn a_line_falls_back_to_the_base_and_names_items_of_its_own_shipment() {
        let items = [(1, true), (2, false), (3, false)];
        for (fields, expected) in [
            (r#""TrackingNumber":"B""#, Ok(vec![(2, "B"), (3, "B")])),
            (r#""TrackingNumber":"B","LineItems":[]"#, Ok(vec![(2, "B"), (3, "B")])),
            (r#""TrackingNumber":"B","LineItems":[{"LineItemId":3}]"#, Ok(vec![(3, "B")])),
            (
                r#""LineItems":[{"LineItemId":1.0,"TrackingNumber":"X"},{"LineItemId":2,"TrackingNumber":"Y"}]"#,
                Ok(vec![(1, "X"), (2, "Y")]),
            ),
            (
                r#""TrackingNumber":"B","LineItems":[{"LineItemId":2},{"LineItemId":2.0}]"#,
                Err("more than once"),
            ),
            (r#""LineItems":null"#, Err("TrackingNumber is required")),
            (r#""TrackingNumber":" ""#, Err("TrackingNumber is required")),
            (r#""LineItems":[{"LineItemId":2}]"#, Err("TrackingNumber is required")),
            (r#""TrackingNumber":"B","LineItems":[{"LineItemId":4}]"#, Err("does not belong")),
            (r#""TrackingNumber":"B","EstimatedDeliveryDate":"soon""#, Err("neither a date")),
        ] {
            let parsed = request(fields);
            let tracked = tracked_items(&parsed, &items)
                .map(|items| items.iter().map(|item| (item.item_id, item.tracking_number)).collect());
            assert_outcome(tracked, expected, fields);
        }
    }

    #[test]
    fn a_shipment_without_anything_left_is_not_shipped_again() {
        assert!(tracked_items(&request(r#""TrackingNumber":"B""#), &[(1, true)]).is_err());
    }
}
