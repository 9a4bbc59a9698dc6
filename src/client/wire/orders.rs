//! Order lines and their allocation: *Get line items of a sales order* and *Get warehouse allocation of an
//! order line item*.

use super::codec::{DecodedAnswer, MalformedBody, decode_list, decode_list_once, lenient};
use crate::client::PlatformRequest;
use crate::model::{LineItemId, Operation, OrderId, OrderLine, ProductId, Sku, SupplierId, WarehouseId};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// A line of a sales order (*Order line item*), with the fields in use.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct OrderLineItem {
    #[serde(rename = "OrderLineItemId", deserialize_with = "lenient::req")]
    pub id: LineItemId,
    #[serde(rename = "SalesOrderId", default, deserialize_with = "lenient::opt")]
    pub order_id: Option<OrderId>,
    #[serde(rename = "ProductId", default, deserialize_with = "lenient::opt")]
    pub product_id: Option<ProductId>,
    #[serde(rename = "SkuNumber", default, deserialize_with = "lenient::opt")]
    pub sku: Option<Sku>,
    #[serde(rename = "QuantitySold", deserialize_with = "lenient::req")]
    pub quantity_sold: i64,
    /// Units not yet in a shipment. May be missing in real answers, which does not mean zero.
    #[serde(rename = "QuantityNotTiedToShipment", default, deserialize_with = "lenient::strict")]
    pub quantity_left: Option<i64>,
    /// Price of one unit in the account's currency.
    #[serde(rename = "UnitPrice", default, deserialize_with = "lenient::opt")]
    pub unit_price: Option<f64>,
    #[serde(rename = "SupplierId", default, deserialize_with = "lenient::opt")]
    pub supplier_id: Option<SupplierId>,
    /// The warehouse that serves the line.
    #[serde(rename = "WarehouseId", default, deserialize_with = "lenient::opt")]
    pub warehouse_id: Option<WarehouseId>,
}

impl OrderLineItem {
    pub(crate) fn to_order_line(&self, order_id: OrderId) -> OrderLine {
        OrderLine {
            order_id,
            line_item_id: self.id,
            sku: self.sku.clone(),
            product_id: self.product_id,
            quantity_sold: self.quantity_sold,
            // Below zero nothing is left, and nothing of another line is hidden.
            quantity_left: self.quantity_left.map(|left| left.max(0)),
            unit_price: self.unit_price,
            // 0 is how the platform writes no supplier.
            supplier_id: self.supplier_id.filter(|supplier| supplier.0 > 0),
            warehouse_id: self.warehouse_id,
        }
    }
}

/// Units that one warehouse provides for an order line (*Order line item warehouse allocation*). For a kit
/// the allocations are of its components. The mirror stores them under the names of the fields.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub(crate) struct LineAllocation {
    #[serde(rename(deserialize = "OrderLineItemId"), default, deserialize_with = "lenient::opt")]
    line_item_id: Option<LineItemId>,
    #[serde(rename(deserialize = "WarehouseAllocationId"), default, deserialize_with = "lenient::opt")]
    pub allocation_id: Option<i64>,
    #[serde(rename(deserialize = "ProductId"), default, deserialize_with = "lenient::opt")]
    pub product_id: Option<ProductId>,
    #[serde(rename(deserialize = "SkuNumber"), default, deserialize_with = "lenient::opt")]
    pub sku: Option<Sku>,
    #[serde(rename(deserialize = "QuantityAllocated"), deserialize_with = "lenient::req")]
    pub quantity: i64,
    /// The warehouse they are taken from.
    #[serde(rename(deserialize = "WarehouseId"), deserialize_with = "lenient::req")]
    pub warehouse_id: WarehouseId,
}

/// Requests an order's lines (*Get line items of a sales order*). The operation
/// has pages but no page parameter.
pub(crate) fn get_order_line_items(order: OrderId) -> PlatformRequest {
    PlatformRequest::new(Operation::GetOrderLineItems).with_json(&json!({ "OrderId": order }))
}

pub(crate) fn warehouse_allocation(order: OrderId, line: LineItemId) -> PlatformRequest {
    PlatformRequest::with_ids(Operation::WarehouseAllocation, &[order.0, line.0])
}

pub(crate) fn decode_order_line_items(
    body: &[u8],
    asked: OrderId,
) -> Result<DecodedAnswer<OrderLineItem>, MalformedBody> {
    let is_asked = |line: &OrderLineItem| line.order_id.is_none_or(|order| order == asked);
    decode_list_once("the order's line items", body, |line| &line.id, is_asked)
}

pub(crate) fn decode_allocations(
    body: &[u8],
    asked: LineItemId,
) -> Result<DecodedAnswer<LineAllocation>, MalformedBody> {
    let is_asked = |taken: &LineAllocation| taken.line_item_id.is_none_or(|line| line == asked);
    decode_list("the warehouse allocation", body, is_asked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_written_as_the_document_shows_them() {
        let request = get_order_line_items(OrderId(5));
        assert_eq!(request.path, "/api/orders/getOrderLineItems");
        assert_eq!(request.body.unwrap(), br#"{"OrderId":5}"#);
        let request = warehouse_allocation(OrderId(5), LineItemId(6));
        assert_eq!(
            (request.path.as_str(), request.body),
            ("/api/orders/5/lineitems/6/warehouseallocation", None)
        );
    }

    #[test]
    fn a_line_without_the_quantity_left_is_a_line_and_not_zero() {
        let body = br#"{"status":"Success","data":[
            {"OrderLineItemId":1.0,"SalesOrderId":5.0,"QuantitySold":3.0,"SkuNumber":"A","UnitPrice":9.99},
            {"OrderLineItemId":2,"QuantitySold":3,"QuantityNotTiedToShipment":0.0,"EcommerceShipmentId":null},
            {"OrderLineItemId":3,"QuantitySold":2.5},
            {"OrderLineItemId":4,"QuantitySold":2,"QuantityNotTiedToShipment":0.5}]}"#;
        let decoded = decode_order_line_items(body, OrderId(5)).unwrap();
        let read: Vec<_> = decoded.records.iter().map(|line| (line.quantity_left, line.unit_price)).collect();
        assert_eq!(read, [(None, Some(9.99)), (Some(0), None)]);
        assert_eq!(decoded.parked.iter().map(|parked| parked.index).collect::<Vec<_>>(), [2, 3]);
    }

    #[test]
    fn a_line_that_stands_twice_and_differs_is_parked_and_what_agrees_is_one() {
        let body = br#"{"data":[
            {"OrderLineItemId":1,"QuantitySold":3,"QuantityNotTiedToShipment":3},
            {"OrderLineItemId":2,"QuantitySold":3},
            {"OrderLineItemId":1,"QuantitySold":3,"QuantityNotTiedToShipment":10},
            {"OrderLineItemId":2.0,"QuantitySold":3},
            {"OrderLineItemId":3,"QuantitySold":"x"}]}"#;
        let decoded = decode_order_line_items(body, OrderId(5)).unwrap();
        assert_eq!(decoded.records.iter().map(|line| line.id).collect::<Vec<_>>(), [LineItemId(2)]);
        let parked = decoded.parked.iter().map(|parked| (parked.index, parked.subject()));
        let named = |id: i64| Some(format!("OrderLineItemId {id}"));
        assert_eq!(parked.collect::<Vec<_>>(), [(0, named(1)), (2, named(1)), (4, named(3))]);
    }

    #[test]
    fn an_allocation_needs_its_warehouse_and_quantity() {
        let body =
            br#"{"data":[{"WarehouseId":7,"QuantityAllocated":2.0,"SkuNumber":"A"},{"WarehouseId":7}]}"#;
        let decoded = decode_allocations(body, LineItemId(6)).unwrap();
        assert_eq!((decoded.records[0].warehouse_id, decoded.records[0].quantity), (WarehouseId(7), 2));
        assert_eq!(decoded.parked.len(), 1);
    }

    #[test]
    fn nothing_is_left_below_zero_and_no_supplier_has_the_id_0() {
        let body = br#"{"data":[
            {"OrderLineItemId":1,"QuantitySold":3,"QuantityNotTiedToShipment":-3,"SupplierId":0},
            {"OrderLineItemId":2,"QuantitySold":3,"QuantityNotTiedToShipment":3,"SupplierId":"12"}]}"#;
        let decoded = decode_order_line_items(body, OrderId(5)).unwrap();
        let lines = decoded.records.iter().map(|line| line.to_order_line(OrderId(5)));
        let read: Vec<_> = lines.map(|line| (line.quantity_left, line.supplier_id)).collect();
        assert_eq!(read, [(Some(0), None), (Some(3), Some(SupplierId(12)))]);
    }

    #[test]
    fn a_record_of_another_order_or_line_is_parked() {
        let body = br#"{"data":[
            {"OrderLineItemId":1,"SalesOrderId":6,"QuantitySold":3},
            {"OrderLineItemId":2,"SalesOrderId":"5","QuantitySold":3},
            {"OrderLineItemId":3,"QuantitySold":3}]}"#;
        let decoded = decode_order_line_items(body, OrderId(5)).unwrap();
        assert_eq!(decoded.records.iter().map(|line| line.id.0).collect::<Vec<_>>(), [2, 3]);
        assert_eq!(decoded.parked.iter().map(|parked| parked.index).collect::<Vec<_>>(), [0]);
        let body = br#"{"data":[
            {"OrderLineItemId":7,"WarehouseId":1,"QuantityAllocated":1},
            {"OrderLineItemId":6.0,"WarehouseId":1,"QuantityAllocated":2}]}"#;
        let decoded = decode_allocations(body, LineItemId(6)).unwrap();
        assert_eq!(decoded.records.iter().map(|taken| taken.quantity).collect::<Vec<_>>(), [2]);
        assert_eq!(decoded.parked.len(), 1);
    }

    #[test]
    fn a_field_that_decides_nothing_costs_no_line() {
        let fields = [
            r#""ProductName":"mug \ud83d""#,
            r#""SoldAsName":"\udc00\ud800""#,
            r#""WarehouseName":"a\u0000b""#,
            r#""UnitPrice":1e999"#,
            r#""LineItemTotal":-1E+400"#,
            r#""ProductId":28e99"#,
            r#""SkuNumber":"\ud83d""#,
            r#""SalesOrderId":[5]"#,
        ];
        for field in fields {
            let body = format!(r#"{{"data":[{{"OrderLineItemId":1,"QuantitySold":3,{field}}}]}}"#);
            let decoded = decode_order_line_items(body.as_bytes(), OrderId(5)).unwrap();
            assert_eq!((decoded.records.len(), decoded.parked.len()), (1, 0), "{field}");
        }
    }
}
