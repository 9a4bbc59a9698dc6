//! *Create shipments*: the units of each line that become a shipment.
//!
//! Without lines or quantities the platform would ship all that is left of an order. Requests always name
//! both, because the remainder may have changed since it was read (docs/rules.md 23).

use super::codec::envelope::{DecodedAnswer, MalformedBody, decode_list};
use super::codec::lenient;
use super::codec::write_answer::RequestEcho;
use super::{InvalidRequest, Shipment, WriteOutcome};
use crate::client::PlatformRequest;
use crate::model::{LineItemId, Operation, OrderId};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;

/// Units to ship of one order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShipmentOrder {
    /// The order.
    #[serde(rename = "OrderId")]
    pub order_id: OrderId,
    /// Its lines, at least one.
    #[serde(rename = "LineItems")]
    pub lines: Vec<ShipmentOrderLine>,
}

/// Units to ship of one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct ShipmentOrderLine {
    /// The line.
    pub line_item_id: LineItemId,
    /// Units, at least one.
    pub quantity: i64,
}

/// Requests shipments (*Create shipments*).
///
/// Refuses an empty call, an order without lines, a quantity below one, and an order or line that occurs
/// twice.
pub fn create_shipments(orders: &[ShipmentOrder]) -> Result<PlatformRequest, InvalidRequest> {
    let invalid = |field: String, why: &str| InvalidRequest::new(Operation::CreateShipments, field, why);
    if orders.is_empty() {
        return Err(invalid("the list".into(), "is empty; name at least one order"));
    }
    let mut seen = HashSet::new();
    for (index, order) in orders.iter().enumerate() {
        if !seen.insert(order.order_id) {
            return Err(invalid(format!("[{index}].OrderId"), "occurs twice; put it into another call"));
        }
        if order.lines.is_empty() {
            let field = format!("[{index}].LineItems");
            return Err(invalid(field, "is empty; name the lines and their quantities"));
        }
        let mut lines = HashSet::new();
        for (at, line) in order.lines.iter().enumerate() {
            let path = format!("[{index}].LineItems[{at}]");
            if line.quantity < 1 {
                return Err(invalid(format!("{path}.Quantity"), "is below one; leave the line out instead"));
            }
            if !lines.insert(line.line_item_id) {
                return Err(invalid(format!("{path}.LineItemId"), "occurs twice; add the quantities up"));
            }
        }
    }
    Ok(PlatformRequest::new(Operation::CreateShipments).with_json(&orders))
}

/// Result for one order of a call.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct CreatedShipment {
    #[serde(rename = "Request", default, deserialize_with = "lenient::nested")]
    request: Option<RequestEcho>,
    /// The shipment, if the platform returned a readable one.
    #[serde(rename = "Shipment", default, deserialize_with = "lenient::nested")]
    pub shipment: Option<Shipment>,
    #[serde(rename = "WasSuccessful", default, deserialize_with = "lenient::opt")]
    was_successful: Option<bool>,
    /// Reasons for a refusal, or remarks.
    #[serde(rename = "Messages", default, deserialize_with = "lenient::texts")]
    pub messages: Vec<String>,
}

impl CreatedShipment {
    /// Returns the order of the echoed request. An answer without it matches no change.
    pub fn order_id(&self) -> Option<OrderId> {
        self.request.as_ref()?.order_id
    }

    /// Returns the effect of the create. A success needs both the flag and the shipment.
    pub fn outcome(&self) -> WriteOutcome {
        WriteOutcome::from_flag(self.was_successful, self.shipment.is_some())
    }
}

/// Reads the answer of *Create shipments*: one record per order.
pub fn decode_created_shipments(body: &[u8]) -> Result<DecodedAnswer<CreatedShipment>, MalformedBody> {
    decode_list("the new shipments", body)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(id: i64, lines: &[(i64, i64)]) -> ShipmentOrder {
        let line =
            |&(id, quantity): &(i64, i64)| ShipmentOrderLine { line_item_id: LineItemId(id), quantity };
        ShipmentOrder { order_id: OrderId(id), lines: lines.iter().map(line).collect() }
    }

    #[test]
    fn a_call_names_lines_and_quantities() {
        let request = create_shipments(&[order(5, &[(6, 2)])]).unwrap();
        assert_eq!(request.body.unwrap(), br#"[{"OrderId":5,"LineItems":[{"LineItemId":6,"Quantity":2}]}]"#);
    }

    #[test]
    fn a_call_that_leaves_something_open_is_not_sent() {
        let cases = [
            (vec![], "the list"),
            (vec![order(5, &[])], "[0].LineItems"),
            (vec![order(5, &[(6, 1)]), order(5, &[(7, 1)])], "[1].OrderId"),
            (vec![order(5, &[(6, 1), (6, 1)])], "[0].LineItems[1].LineItemId"),
            (vec![order(5, &[(6, 0)])], "[0].LineItems[0].Quantity"),
        ];
        for (orders, field) in cases {
            assert_eq!(create_shipments(&orders).unwrap_err().field, field);
        }
    }

    #[test]
    fn an_answer_is_matched_by_its_echo_and_done_only_with_its_shipment() {
        use WriteOutcome::{Done, Refused, Unclear};
        let cases = [
            (
                r#"{"Request":{"OrderId":5.0},"Shipment":{"Id":1,"EcomdashOrderId":5},"WasSuccessful":true,"Messages":null}"#,
                Some(5),
                Done,
            ),
            (
                r#"{"Request":{"OrderId":5},"Shipment":null,"WasSuccessful":false,"Messages":["closed"]}"#,
                Some(5),
                Refused,
            ),
            (r#"{"Request":{"OrderId":5},"Shipment":{},"WasSuccessful":true}"#, Some(5), Unclear),
            (r#"{"Request":null,"Shipment":{"Id":1},"WasSuccessful":true}"#, None, Done),
            ("{}", None, Unclear),
        ];
        for (record, order, outcome) in cases {
            let body = format!(r#"{{"status":"Success","data":[{record}]}}"#);
            let created = decode_created_shipments(body.as_bytes()).unwrap().records.remove(0);
            assert_eq!((created.order_id(), created.outcome()), (order.map(OrderId), outcome), "{record}");
        }
    }
}
