//! Order lines and their allocation: *Get line items of a sales order* and *Get warehouse allocation of an
//! order line item*.

use super::codec::{DecodedAnswer, MalformedBody, decode_list, decode_list_once, lenient};
use crate::client::PlatformRequest;
use crate::model::{LineItemId, Operation, OrderId, OrderLine, ProductId, Sku, SupplierId, WarehouseId};
use serde::Deserialize;
use serde_json::json;

/// A line of a sales order (*Order line item*).
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct OrderLineItem {
    /// The line.
    #[serde(rename = "OrderLineItemId", deserialize_with = "lenient::req")]
    pub id: LineItemId,
    /// The order, repeated.
    #[serde(rename = "SalesOrderId", default, deserialize_with = "lenient::opt")]
    pub order_id: Option<OrderId>,
    /// The product.
    #[serde(rename = "ProductId", default, deserialize_with = "lenient::opt")]
    pub product_id: Option<ProductId>,
    /// The SKU sold.
    #[serde(rename = "SkuNumber", default, deserialize_with = "lenient::opt")]
    pub sku: Option<Sku>,
    /// The product's name.
    #[serde(rename = "ProductName", default, deserialize_with = "lenient::opt")]
    pub product_name: Option<String>,
    /// Units sold.
    #[serde(rename = "QuantitySold", deserialize_with = "lenient::req")]
    pub quantity_sold: i64,
    /// Units not yet in a shipment. May be missing in real answers, which does not mean zero.
    #[serde(rename = "QuantityNotTiedToShipment", default, deserialize_with = "lenient::strict")]
    pub quantity_left: Option<i64>,
    /// Price of one unit in the account's currency.
    #[serde(rename = "UnitPrice", default, deserialize_with = "lenient::opt")]
    pub unit_price: Option<f64>,
    /// Price of the line in the account's currency.
    #[serde(rename = "LineItemTotal", default, deserialize_with = "lenient::opt")]
    pub total: Option<f64>,
    /// Name under which the product was sold.
    #[serde(rename = "SoldAsName", default, deserialize_with = "lenient::opt")]
    pub sold_as_name: Option<String>,
    /// The supplier, for dropshipped lines.
    #[serde(rename = "SupplierId", default, deserialize_with = "lenient::opt")]
    pub supplier_id: Option<SupplierId>,
    /// The warehouse that serves the line.
    #[serde(rename = "WarehouseId", default, deserialize_with = "lenient::opt")]
    pub warehouse_id: Option<WarehouseId>,
    /// Name of that warehouse.
    #[serde(rename = "WarehouseName", default, deserialize_with = "lenient::opt")]
    pub warehouse_name: Option<String>,
}

impl OrderLineItem {
    /// Returns the line for decisions. `asked` is the order of the request.
    pub fn to_order_line(&self, asked: OrderId) -> OrderLine {
        OrderLine {
            order_id: self.order_id.unwrap_or(asked),
            line_item_id: self.id,
            sku: self.sku.clone(),
            product_id: self.product_id,
            quantity_sold: self.quantity_sold,
            quantity_left: self.quantity_left,
            unit_price: self.unit_price,
            warehouse_id: self.warehouse_id,
        }
    }
}

/// Units that one warehouse provides for an order line (*Order line item warehouse allocation*).
///
/// For a kit the allocations are of its components.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct LineAllocation {
    /// The allocation itself.
    #[serde(rename = "WarehouseAllocationId", default, deserialize_with = "lenient::opt")]
    pub id: Option<i64>,
    /// The product taken.
    #[serde(rename = "ProductId", default, deserialize_with = "lenient::opt")]
    pub product_id: Option<ProductId>,
    /// Its SKU.
    #[serde(rename = "SkuNumber", default, deserialize_with = "lenient::opt")]
    pub sku: Option<Sku>,
    /// Units taken.
    #[serde(rename = "QuantityAllocated", deserialize_with = "lenient::req")]
    pub quantity: i64,
    /// The warehouse they are taken from.
    #[serde(rename = "WarehouseId", deserialize_with = "lenient::req")]
    pub warehouse_id: WarehouseId,
}

/// Requests an order's lines (*Get line items of a sales order*). The operation has pages but no page
/// parameter.
pub fn get_order_line_items(order: OrderId) -> PlatformRequest {
    PlatformRequest::new(Operation::GetOrderLineItems).with_json(&json!({ "OrderId": order }))
}

/// Requests the allocation of a line (*Get warehouse allocation of an order line item*).
pub fn warehouse_allocation(order: OrderId, line: LineItemId) -> PlatformRequest {
    PlatformRequest::with_ids(Operation::WarehouseAllocation, &[order.0, line.0])
}

/// Reads the answer of *Get line items of a sales order*.
pub fn decode_order_line_items(body: &[u8]) -> Result<DecodedAnswer<OrderLineItem>, MalformedBody> {
    decode_list_once("the order's line items", body, |line: &OrderLineItem| line.id.0)
}

/// Reads the answer of *Get warehouse allocation of an order line item*.
pub fn decode_allocations(body: &[u8]) -> Result<DecodedAnswer<LineAllocation>, MalformedBody> {
    decode_list("the warehouse allocation", body)
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
        let decoded = decode_order_line_items(body).unwrap();
        let lines: Vec<OrderLine> =
            decoded.records.iter().map(|item| item.to_order_line(OrderId(9))).collect();
        let read: Vec<_> =
            lines.iter().map(|line| (line.order_id, line.quantity_left, line.unit_price)).collect();
        assert_eq!(read, [(OrderId(5), None, Some(9.99)), (OrderId(9), Some(0), None)]);
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
        let decoded = decode_order_line_items(body).unwrap();
        assert_eq!(decoded.records.iter().map(|line| line.id).collect::<Vec<_>>(), [LineItemId(2)]);
        let parked = decoded.parked.iter().map(|parked| (parked.index, parked.subject()));
        let named = |id: i64| Some(format!("OrderLineItemId {id}"));
        assert_eq!(parked.collect::<Vec<_>>(), [(4, named(3)), (0, named(1)), (2, named(1))]);
    }

    #[test]
    fn an_allocation_needs_its_warehouse_and_quantity() {
        let body =
            br#"{"data":[{"WarehouseId":7,"QuantityAllocated":2.0,"SkuNumber":"A"},{"WarehouseId":7}]}"#;
        let decoded = decode_allocations(body).unwrap();
        assert_eq!((decoded.records[0].warehouse_id, decoded.records[0].quantity), (WarehouseId(7), 2));
        assert_eq!(decoded.parked.len(), 1);
    }
}
