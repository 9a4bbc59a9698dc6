//! Active storefronts and their listing templates.

use crate::model::StorefrontId;
use crate::store::{Result, Store};
use serde::Serialize;
use sqlx_macros::FromRow;

/// Storefront, as `storefront list` prints it.
#[derive(Clone, Debug, FromRow, Serialize)]
pub(crate) struct StorefrontRow {
    pub id: i64,
    pub name: Option<String>,
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// True if it is in use.
    pub is_active: Option<bool>,
    /// Free-form properties, as the JSON received.
    pub properties: Option<String>,
    /// Time since which the platform no longer lists it, RFC 3339.
    pub missing_since: Option<String>,
}

/// Listing template, as `template list` prints it.
#[derive(Clone, Debug, FromRow, Serialize)]
pub(crate) struct TemplateRow {
    pub id: i64,
    pub storefront_id: i64,
    pub name: Option<String>,
    pub body: Option<String>,
    /// Time since which the platform no longer lists it, RFC 3339.
    pub missing_since: Option<String>,
}

impl Store {
    /// Lists the storefronts, also those that the platform no longer lists.
    pub(crate) async fn storefront_list(&self) -> Result<Vec<StorefrontRow>> {
        let sql = "SELECT id, name, type AS kind, is_active, properties, \
                       strftime('%Y-%m-%dT%H:%M:%fZ', missing_since_ms / 1000.0, 'unixepoch') AS missing_since \
                   FROM storefront ORDER BY id";
        self.fetch_all(sql, (), "list the storefronts").await
    }

    /// Returns the storefronts that the platform lists.
    pub(crate) async fn storefront_ids(&self) -> Result<Vec<StorefrontId>> {
        let sql = "SELECT id FROM storefront WHERE missing_since_ms IS NULL ORDER BY id";
        self.fetch_column(sql, (), "read the storefronts").await
    }

    /// Lists the listing templates of a storefront or of all, also those that the platform no longer lists.
    pub(crate) async fn template_list(&self, of: Option<StorefrontId>) -> Result<Vec<TemplateRow>> {
        let sql = "SELECT id, storefront_id, name, body, \
                       strftime('%Y-%m-%dT%H:%M:%fZ', missing_since_ms / 1000.0, 'unixepoch') AS missing_since \
                   FROM listing_template WHERE CAST($1 AS BIGINT) IS NULL OR storefront_id = $1 \
                   ORDER BY storefront_id, id";
        self.fetch_all(sql, (of.map(|id| id.0),), "list the listing templates").await
    }
}
