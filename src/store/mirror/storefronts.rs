//! Active storefronts and their listing templates.

use crate::model::StorefrontId;
use crate::store::{Result, Store};
use serde_json::Value;

impl Store {
    /// Lists the storefronts, also those that the platform no longer lists.
    pub(crate) async fn storefront_list(&self) -> Result<Vec<Value>> {
        let sql = "SELECT id, name, type, is_active, properties, \
                       strftime('%Y-%m-%dT%H:%M:%fZ', missing_since_ms / 1000.0, 'unixepoch') AS missing_since \
                   FROM storefront ORDER BY id";
        self.fetch_objects(sql, (), "list the storefronts").await
    }

    /// Returns the storefronts that the platform lists.
    pub(crate) async fn storefront_ids(&self) -> Result<Vec<StorefrontId>> {
        let sql = "SELECT id FROM storefront WHERE missing_since_ms IS NULL ORDER BY id";
        self.fetch_column(sql, (), "read the storefronts").await
    }

    /// Lists the listing templates of a storefront or of all, also those that the platform no longer lists.
    pub(crate) async fn template_list(&self, of: Option<StorefrontId>) -> Result<Vec<Value>> {
        let sql = "SELECT id, storefront_id, name, body, \
                       strftime('%Y-%m-%dT%H:%M:%fZ', missing_since_ms / 1000.0, 'unixepoch') AS missing_since \
                   FROM listing_template WHERE CAST($1 AS BIGINT) IS NULL OR storefront_id = $1 \
                   ORDER BY storefront_id, id";
        self.fetch_objects(sql, (of,), "list the listing templates").await
    }

    /// Returns id and name of the listing templates that the platform lists for a storefront.
    pub(crate) async fn template_names(&self, of: StorefrontId) -> Result<Vec<(i64, Option<String>)>> {
        let sql = "SELECT id, name FROM listing_template WHERE storefront_id = $1 AND missing_since_ms IS NULL \
                   ORDER BY id";
        self.fetch_all(sql, (of,), "read the listing templates of a storefront").await
    }
}
