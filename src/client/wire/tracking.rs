//! *Submit tracking info*: items handed to a carrier.
//!
//! Lines are always named, because a submission without lines would ship all that is left of the shipment.

use super::codec::decode_list;
use super::{DecodedAnswer, MalformedBody, WriteAnswer, WriteOutcome};
use crate::client::PlatformRequest;
use crate::model::{Operation, ShipmentId, ShipmentItemId};
use serde::Serialize;
use serde::de::IgnoredAny;

/// Tracking of one shipment. Dates are texts, sent as given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct TrackingSubmission {
    #[serde(rename = "ShipmentId")]
    pub shipment_id: ShipmentId,
    /// The company's carrier, for lines without their own.
    #[serde(rename = "CarrierId", skip_serializing_if = "Option::is_none")]
    pub carrier_id: Option<i64>,
    /// Tracking number, for lines without their own.
    #[serde(rename = "TrackingNumber", skip_serializing_if = "Option::is_none")]
    pub tracking_number: Option<String>,
    #[serde(rename = "TrackingURL", skip_serializing_if = "Option::is_none")]
    pub tracking_url: Option<String>,
    #[serde(rename = "ShippedDate", skip_serializing_if = "Option::is_none")]
    pub shipped_date: Option<String>,
    #[serde(rename = "LineItems")]
    pub lines: Vec<ShipmentItemTracking>,
}

/// Tracking of one item. A missing carrier, number or page falls back to the submission's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ShipmentItemTracking {
    #[serde(rename = "LineItemId")]
    pub item_id: ShipmentItemId,
    #[serde(rename = "CarrierId", skip_serializing_if = "Option::is_none")]
    pub carrier_id: Option<i64>,
    #[serde(rename = "TrackingNumber", skip_serializing_if = "Option::is_none")]
    pub tracking_number: Option<String>,
    #[serde(rename = "TrackingURL", skip_serializing_if = "Option::is_none")]
    pub tracking_url: Option<String>,
    #[serde(rename = "EstimatedDeliveryDate", skip_serializing_if = "Option::is_none")]
    pub estimated_delivery_date: Option<String>,
}

/// Requests the storage of tracking (*Submit tracking info*).
pub(crate) fn submit_tracking(submissions: &[TrackingSubmission]) -> PlatformRequest {
    PlatformRequest::new(Operation::SubmitTracking).with_json(&submissions)
}

/// The answer about one shipment, which holds no record.
pub(crate) type TrackingAnswer = WriteAnswer<IgnoredAny>;

impl TrackingAnswer {
    /// Returns the shipment of the echoed request. An answer without it matches no change.
    pub(crate) fn shipment_id(&self) -> Option<ShipmentId> {
        self.request.as_ref()?.shipment_id
    }

    pub(crate) fn submission_outcome(&self) -> WriteOutcome {
        WriteOutcome::from_flag(self.was_successful, true)
    }
}

/// Reads the answer of *Submit tracking info*: one record per shipment.
pub(crate) fn decode_tracking_answers(body: &[u8]) -> Result<DecodedAnswer<TrackingAnswer>, MalformedBody> {
    decode_list("the tracking submission", body, |_| true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn submission(shipment: i64, number: Option<&str>, lines: &[(i64, Option<&str>)]) -> TrackingSubmission {
        let line = |&(item, number): &(i64, Option<&str>)| ShipmentItemTracking {
            item_id: ShipmentItemId(item),
            carrier_id: None,
            tracking_number: number.map(str::to_owned),
            tracking_url: None,
            estimated_delivery_date: None,
        };
        TrackingSubmission {
            shipment_id: ShipmentId(shipment),
            carrier_id: Some(4),
            tracking_number: number.map(str::to_owned),
            tracking_url: None,
            shipped_date: Some("2026-01-31".into()),
            lines: lines.iter().map(line).collect(),
        }
    }

    #[test]
    fn a_call_names_its_items_and_leaves_out_what_is_missing() {
        let request = submit_tracking(&[submission(1, Some("T"), &[(2, None)])]);
        let expected = br#"[{"ShipmentId":1,"CarrierId":4,"TrackingNumber":"T","ShippedDate":"2026-01-31","LineItems":[{"LineItemId":2}]}]"#;
        assert_eq!(request.body.unwrap(), expected);
    }

    #[test]
    fn an_answer_is_matched_by_its_echo() {
        let body = br#"{"status":"Success","pagination":null,"data":[
            {"Request":{"ShipmentId":1.0,"LineItems":[]},"WasSuccessful":true,"Messages":null},
            {"Request":{"ShipmentId":2},"WasSuccessful":false,"Messages":["no such shipment"]},{"WasSuccessful":true},{}]}"#;
        let answers = decode_tracking_answers(body).unwrap().records;
        let found: Vec<_> =
            answers.iter().map(|answer| (answer.shipment_id(), answer.submission_outcome())).collect();
        let expected = [
            (Some(ShipmentId(1)), WriteOutcome::Done),
            (Some(ShipmentId(2)), WriteOutcome::Refused),
            (None, WriteOutcome::Done),
            (None, WriteOutcome::Unclear),
        ];
        assert_eq!(found, expected);
    }
}
