//! A cell: one SKU in one warehouse, the unit in which stock is kept and written.

use super::{Sku, WarehouseId};
use std::fmt;

/// One SKU in one warehouse.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cell {
    /// The SKU, in the service's spelling where that is known.
    pub sku: Sku,
    /// The warehouse.
    pub warehouse_id: WarehouseId,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in warehouse {}", self.sku, self.warehouse_id)
    }
}
