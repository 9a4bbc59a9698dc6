//! Products as `product find` shows them: what was said of each, and its cells.

use super::cells::json;
use super::error::Doing;
use super::{Store, StoreError};
use crate::model::fold;
use serde::{Deserialize, Serialize};

/// A product and its cells.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct ProductRow {
    /// In the service's spelling.
    pub sku: String,
    /// The product's id at the service.
    pub product_id: Option<i64>,
    /// Its name, where an answer said it; balances do not.
    pub name: Option<String>,
    /// Its UPC.
    pub upc: Option<String>,
    /// `Product`, `Kit`, `Built` or a word this version does not know, where an answer said it.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// Units over all warehouses, as the service sums them.
    pub quantity: Option<i64>,
    /// Its cells.
    pub warehouses: Vec<ProductCell>,
    /// Time of the last answer that showed it, RFC 3339.
    pub observed_at: Option<String>,
}

/// A product in one warehouse.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct ProductCell {
    /// The warehouse.
    pub warehouse_id: i64,
    /// The fact.
    pub quantity: i64,
}

const PRODUCTS: &str = "SELECT json_object('sku', p.sku, 'product_id', p.product_id, 'name', p.name, 'upc', p.upc, \
    'type', p.type, 'quantity', p.total, 'warehouses', json(( \
        SELECT json_group_array(json_object('warehouse_id', b.warehouse_id, 'quantity', b.quantity)) \
        FROM balance b WHERE b.product = p.id AND b.unlinked_ms IS NULL)), \
    'observed_at', strftime('%Y-%m-%dT%H:%M:%fZ', iif(p.lack IS NULL, r.observed_ms, \
        (SELECT max(b.fact_ms) FROM balance b WHERE b.product = p.id)) / 1000.0, 'unixepoch')) \
    FROM product p LEFT JOIN read_batch r ON r.id = p.read_batch_id \
    WHERE p.product_id IS NOT NULL AND (CASE ?2 WHEN 'upc' THEN p.upc ELSE p.sku END) \
        IN (SELECT value FROM json_each(?1)) ORDER BY p.sku";

impl Store {
    /// The products the service knows, out of these SKUs in its own spelling.
    pub async fn product_list(&self, skus: &[String]) -> Result<Vec<ProductRow>, StoreError> {
        self.products(skus, "sku").await
    }

    /// The known products with these UPCs.
    pub async fn product_list_by_upc(&self, upcs: &[String]) -> Result<Vec<ProductRow>, StoreError> {
        self.products(upcs, "upc").await
    }

    async fn products(&self, ids: &[String], by: &str) -> Result<Vec<ProductRow>, StoreError> {
        let query = sqlx::query_scalar(PRODUCTS).bind(json(ids)).bind(by);
        let rows: Vec<String> = query.fetch_all(&mut *self.read().await?).await.doing("read products")?;
        let read = |row: &String| {
            serde_json::from_str(row)
                .map_err(|_| StoreError::Foreign { what: "a product", value: row.to_owned() })
        };
        rows.iter().map(read).collect()
    }
}

impl ProductRow {
    /// Whether a person may mean this product by a SKU or UPC.
    pub fn answers_to(&self, id: &str) -> bool {
        fold(&self.sku) == fold(id) || self.upc.as_deref().is_some_and(|upc| upc.trim() == id.trim())
    }
}
