//! Shipments and their items: *Get shipment line items* and *Create shipments*.
//!
//! Without lines or quantities *Create shipments* would ship all that is left of an order. Requests name both, because
//! the remainder may have changed since it was read, or the whole of an order that has no shipment (docs/rules.md 14).

use super::codec::{decode_list, decode_list_once, lenient};
use super::{DecodedAnswer, MalformedBody, PageParams, WriteAnswer};
use crate::client::PlatformRequest;
use crate::model::{
    LineItemId, Operation, OrderId, ProductId, ShipmentId, ShipmentItemId, Timestamp, WarehouseId,
};
use serde::{Deserialize, Serialize};

/// A shipment (*Shipment*), with the fields in use.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct Shipment {
    #[serde(rename = "Id", deserialize_with = "lenient::req")]
    pub id: ShipmentId,
    #[serde(rename = "EcomdashOrderId", default, deserialize_with = "lenient::opt")]
    service_order_id: Option<OrderId>,
    #[serde(rename = "OrderId", default, deserialize_with = "lenient::opt")]
    order_id: Option<OrderId>,
    /// Number of the shipment for people.
    #[serde(rename = "ShipmentNumber", default, deserialize_with = "lenient::opt")]
    pub number: Option<String>,
    #[serde(rename = "Status", default, deserialize_with = "lenient::opt")]
    status: Option<String>,
    #[serde(rename = "StatusInd", default, deserialize_with = "lenient::opt")]
    status_indicator: Option<String>,
    #[serde(rename = "FulfillmentWarehouseId", default, deserialize_with = "lenient::opt")]
    pub fulfillment_warehouse_id: Option<WarehouseId>,
    #[serde(rename = "Items", default, deserialize_with = "lenient::opt_list")]
    pub items: Vec<ShipmentItem>,
}

impl Shipment {
    /// Returns the order of the shipment, from either of the interface's two field names.
    pub(crate) fn order_id(&self) -> Option<OrderId> {
        self.service_order_id.or(self.order_id)
    }

    /// Returns the state (*States and transitions*) from `Status` or the short `StatusInd`; `None` if both are missing.
    pub(crate) fn status(&self) -> Option<&str> {
        let code = self.status.as_deref().or(self.status_indicator.as_deref())?.trim();
        let short = [("C", "Cancelled"), ("P", "PartiallyShipped"), ("S", "Shipped"), ("U", "Unshipped")];
        let named = short
            .iter()
            .find(|(short, name)| [short, name].iter().any(|known| code.eq_ignore_ascii_case(known)));
        Some(named.map_or(code, |(_, name)| name))
    }
}

/// An item of a shipment (*Shipment item*).
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct ShipmentItem {
    /// Id of the item, in another id space than the order's lines.
    #[serde(rename = "Id", deserialize_with = "lenient::req")]
    pub id: ShipmentItemId,
    #[serde(rename = "ShipmentId", default, deserialize_with = "lenient::opt")]
    pub shipment_id: Option<ShipmentId>,
    /// The order line that the item serves.
    #[serde(rename = "OrderLineItemId", deserialize_with = "lenient::req")]
    pub line_item_id: LineItemId,
    /// Units in the shipment, shipped or not.
    #[serde(rename = "QuantityShipped", deserialize_with = "lenient::req")]
    pub quantity: i64,
    #[serde(rename = "IsShipped", default, deserialize_with = "lenient::strict")]
    is_shipped: Option<bool>,
    #[serde(rename = "ShippedInd", default, deserialize_with = "lenient::strict")]
    shipped_indicator: Option<bool>,
    /// True if the storefront was notified.
    #[serde(rename = "IsConfirmed", default, deserialize_with = "lenient::opt")]
    pub is_confirmed: Option<bool>,
    #[serde(rename = "CompanyCarrier", default, deserialize_with = "lenient::nested")]
    pub carrier: Option<Carrier>,
    #[serde(rename = "TrackingNumber", default, deserialize_with = "lenient::strict")]
    pub tracking_number: Option<String>,
    #[serde(rename = "TrackingURL", default, deserialize_with = "lenient::opt")]
    pub tracking_url: Option<String>,
    #[serde(rename = "EstimatedDeliveryDate", default, deserialize_with = "lenient::opt")]
    pub estimated_delivery: Option<Timestamp>,
    #[serde(rename = "ProductId", default, deserialize_with = "lenient::opt")]
    pub product_id: Option<ProductId>,
    #[serde(rename = "ProductSku", default, deserialize_with = "lenient::opt")]
    pub sku: Option<String>,
}

impl ShipmentItem {
    /// Returns false if the item names another shipment.
    pub(crate) fn is_of(&self, shipment: ShipmentId) -> bool {
        self.shipment_id.is_none_or(|named| named == shipment)
    }

    /// Returns the shipped flag from `IsShipped` or the short `ShippedInd`; `None` if both are missing.
    pub(crate) fn is_shipped(&self) -> Option<bool> {
        self.is_shipped.or(self.shipped_indicator)
    }
}

/// A carrier of the company, with the documented fields.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Carrier {
    /// Id of the carrier: the `CarrierId` of *Submit tracking info*.
    #[serde(rename = "Id", deserialize_with = "lenient::req")]
    pub id: i64,
    #[serde(rename = "Name", default, deserialize_with = "lenient::opt")]
    pub name: Option<String>,
}

pub(crate) fn shipment_line_items(shipment: ShipmentId, paging: PageParams) -> PlatformRequest {
    PlatformRequest::with_ids(Operation::ShipmentLineItems, &[shipment.0]).with_page(paging)
}

pub(crate) fn decode_shipment_line_items(
    body: &[u8],
    asked: ShipmentId,
) -> Result<DecodedAnswer<ShipmentItem>, MalformedBody> {
    let is_asked = |item: &ShipmentItem| item.is_of(asked);
    decode_list_once("the shipment's line items", body, |item| &item.id, is_asked)
}

/// Units to ship of one order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ShipmentOrder {
    #[serde(rename = "OrderId")]
    pub order_id: OrderId,
    /// Its lines, at least one; `None`: the whole order, which the platform refuses if a shipment exists.
    #[serde(rename = "LineItems", skip_serializing_if = "Option::is_none")]
    pub lines: Option<Vec<ShipmentOrderLine>>,
}

/// Units to ship of one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct ShipmentOrderLine {
    pub line_item_id: LineItemId,
    pub quantity: i64,
}

/// Requests shipments (*Create shipments*).
pub(crate) fn create_shipments(orders: &[ShipmentOrder]) -> PlatformRequest {
    PlatformRequest::new(Operation::CreateShipments).with_json(&orders)
}

/// Reads the answer of *Create shipments*: one record per order.
pub(crate) fn decode_created_shipments(
    body: &[u8],
) -> Result<DecodedAnswer<WriteAnswer<Shipment>>, MalformedBody> {
    decode_list("the new shipments", body, |_| true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_is_read_from_the_status_and_from_the_indicator() {
        let cases = [
            (r#""Status":"PartiallyShipped""#, Some("PartiallyShipped")),
            (r#""Status":"Shipped","StatusInd":"U""#, Some("Shipped")),
            (r#""StatusInd":"U""#, Some("Unshipped")),
            (r#""Status":null,"StatusInd":"C""#, Some("Cancelled")),
            (r#""Status":"Lost""#, Some("Lost")),
            (r#""Comments":"""#, None),
        ];
        for (field, expected) in cases {
            let shipment: Shipment = serde_json::from_str(&format!(r#"{{"Id":1,{field}}}"#)).unwrap();
            assert_eq!(shipment.status(), expected, "{field}");
        }
    }

    #[test]
    fn items_are_read_with_what_they_have() {
        let body = br#"{"status":"Success","pagination":{"CurrentPage":1,"TotalNumberOfPages":3},"data":[
            {"Id":1,"OrderLineItemId":2.0,"QuantityShipped":3.0,"ShippedInd":"N","TrackingNumber":"",
             "CompanyCarrier":{"Id":4,"Name":"Post"},"EstimatedDeliveryDate":"2020-01-09T16:57:08"},
            {"Id":2,"OrderLineItemId":2,"QuantityShipped":3,"IsShipped":true,"ShippedInd":"N","CompanyCarrier":"Post"},
            {"Id":3,"OrderLineItemId":2},
            {"Id":4,"ShipmentId":9,"OrderLineItemId":2,"QuantityShipped":3}]}"#;
        let decoded = decode_shipment_line_items(body, ShipmentId(8)).unwrap();
        let [first, second] = decoded.records.as_slice() else { panic!("two items make sense") };
        assert_eq!((first.is_shipped(), &first.tracking_number), (Some(false), &None));
        assert_eq!(first.carrier.as_ref().map(|carrier| carrier.id), Some(4));
        assert_eq!(first.estimated_delivery.unwrap().to_rfc3339(), "2020-01-09T16:57:08.000Z");
        assert_eq!((second.is_shipped(), &second.carrier), (Some(true), &None));
        assert_eq!((decoded.parked.len(), decoded.has_more()), (2, true));
        assert_eq!(shipment_line_items(ShipmentId(8), PageParams::FIRST).path, "/api/Shipments/8/LineItems");
    }

    fn order(id: i64, lines: &[(i64, i64)]) -> ShipmentOrder {
        let line =
            |&(id, quantity): &(i64, i64)| ShipmentOrderLine { line_item_id: LineItemId(id), quantity };
        ShipmentOrder { order_id: OrderId(id), lines: Some(lines.iter().map(line).collect()) }
    }

    #[test]
    fn a_call_names_lines_and_quantities_or_the_whole_order() {
        let request = create_shipments(&[order(5, &[(6, 2)])]);
        assert_eq!(request.body.unwrap(), br#"[{"OrderId":5,"LineItems":[{"LineItemId":6,"Quantity":2}]}]"#);
        let whole = ShipmentOrder { lines: None, ..order(5, &[]) };
        assert_eq!(create_shipments(&[whole]).body.unwrap(), br#"[{"OrderId":5}]"#);
    }

    #[test]
    fn an_answer_is_matched_by_its_echo_and_done_only_with_its_shipment() {
        use super::super::WriteOutcome::{Done, Refused, Unclear};
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
