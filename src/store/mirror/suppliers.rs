//! Suppliers.

use crate::store::{Result, Store};
use serde_json::Value;

impl Store {
    /// Lists the suppliers, also those that the platform no longer lists.
    pub(crate) async fn supplier_list(&self) -> Result<Vec<Value>> {
        let sql = "SELECT id, name, account_number, is_active, url AS supplier_url, \
                       strftime('%Y-%m-%dT%H:%M:%fZ', missing_since_ms / 1000.0, 'unixepoch') AS missing_since \
                   FROM supplier ORDER BY id";
        self.fetch_objects(sql, (), "list the suppliers").await
    }
}
