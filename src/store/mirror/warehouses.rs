//! Warehouses.

use crate::model::WarehouseId;
use crate::store::{Result, Store};
use serde::Serialize;
use sqlx_macros::FromRow;

/// Warehouse, as `warehouse list` prints it.
#[derive(Clone, Debug, FromRow, Serialize)]
pub(crate) struct WarehouseRow {
    pub id: i64,
    pub name: String,
    /// `Standard`, `Dropship`, `FulfillmentCenter`, or a type that this version does not know.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// True if it is in use.
    pub is_active: Option<bool>,
    pub account_number: Option<String>,
    /// True if the platform created it by itself.
    pub is_system_generated: Option<bool>,
    /// Time since which the platform no longer lists it, RFC 3339.
    pub missing_since: Option<String>,
}

impl Store {
    /// Lists the warehouses, also those that the platform no longer lists.
    pub(crate) async fn warehouse_list(&self) -> Result<Vec<WarehouseRow>> {
        let sql = "SELECT id, name, type AS kind, is_active, account_number, is_system_generated, \
                       strftime('%Y-%m-%dT%H:%M:%fZ', missing_since_ms / 1000.0, 'unixepoch') AS missing_since \
                   FROM warehouse ORDER BY id";
        self.fetch_all(sql, (), "list the warehouses").await
    }

    /// Returns the ids of the warehouses that the platform lists.
    pub async fn warehouse_ids(&self) -> Result<Vec<WarehouseId>> {
        let sql = "SELECT id FROM warehouse WHERE missing_since_ms IS NULL ORDER BY id";
        self.fetch_column(sql, (), "read the warehouses").await
    }
}
