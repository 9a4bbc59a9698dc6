//! An order's line, as far as decisions look at it.

use super::{LineItemId, OrderId, ProductId, Sku, WarehouseId};

/// One line of a tracked order (`Order line item`).
#[derive(Clone, Debug, PartialEq)]
pub struct OrderLine {
    /// The order.
    pub order_id: OrderId,
    /// The line within it.
    pub line_item_id: LineItemId,
    /// What was sold; the service may leave it out.
    pub sku: Option<Sku>,
    /// The product, where the service says it.
    pub product_id: Option<ProductId>,
    /// Units sold.
    pub quantity_sold: i64,
    /// Units not yet in any shipment (`QuantityNotTiedToShipment`); missing in real answers.
    pub quantity_left: Option<i64>,
    /// Price of one unit in the account's currency; shown, never computed with.
    pub unit_price: Option<f64>,
    /// Where the line is served from.
    pub warehouse_id: Option<WarehouseId>,
}
