//! Order lines, as decisions need them.

use super::{LineItemId, OrderId, ProductId, Sku, SupplierId, WarehouseId};
use serde::{Deserialize, Serialize};

/// A line of a tracked order (`Order line item`).
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub(crate) struct OrderLine {
    pub order_id: OrderId,
    pub line_item_id: LineItemId,
    /// Sold SKU; the platform may omit it.
    pub sku: Option<Sku>,
    /// Product, if the platform states it.
    pub product_id: Option<ProductId>,
    pub quantity_sold: i64,
    /// Units not yet in any shipment (`QuantityNotTiedToShipment`), 0 or more; some answers omit them.
    pub quantity_left: Option<i64>,
    /// Price of a unit in the account's currency, for display only.
    pub unit_price: Option<f64>,
    /// Supplier that ships the line, of a dropshipped line.
    pub supplier_id: Option<SupplierId>,
    pub warehouse_id: Option<WarehouseId>,
}
