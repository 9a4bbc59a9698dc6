//! Suppliers.

use crate::store::{Result, Store};
use serde::Serialize;
use sqlx_macros::FromRow;

/// Supplier, as `supplier list` prints it.
#[derive(Clone, Debug, FromRow, Serialize)]
pub(crate) struct SupplierRow {
    pub id: i64,
    pub name: Option<String>,
    pub account_number: Option<String>,
    /// True if it is in use.
    pub is_active: Option<bool>,
    pub supplier_url: Option<String>,
    /// Time since which the platform no longer lists it, RFC 3339.
    pub missing_since: Option<String>,
}

impl Store {
    /// Lists the suppliers, also those that the platform no longer lists.
    pub(crate) async fn supplier_list(&self) -> Result<Vec<SupplierRow>> {
        let sql = "SELECT id, name, account_number, is_active, url AS supplier_url, \
                       strftime('%Y-%m-%dT%H:%M:%fZ', missing_since_ms / 1000.0, 'unixepoch') AS missing_since \
                   FROM supplier ORDER BY id";
        self.fetch_all(sql, (), "list the suppliers").await
    }
}
