//! A stock level: a SKU in a warehouse, the unit in which stock is kept and written.

use super::{Sku, WarehouseId};
use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StockLevel {
    /// SKU, in the platform's spelling if that is known.
    pub(crate) sku: Sku,
    pub warehouse_id: WarehouseId,
}

impl fmt::Display for StockLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in warehouse {}", self.sku, self.warehouse_id)
    }
}
