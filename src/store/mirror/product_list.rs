//! Products with their stock levels, as `product find` shows them.

use super::stock_levels::json_rows;
use crate::model::case_key;
use crate::store::{Store, StoreError};
use serde::{Deserialize, Serialize};

/// Product with its stock levels.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct ProductRow {
    /// SKU, in the platform's spelling.
    pub sku: String,
    /// Product id at the platform.
    pub product_id: Option<i64>,
    /// Name, where an answer held it; balances do not.
    pub name: Option<String>,
    /// UPC.
    pub upc: Option<String>,
    /// `Product`, `Kit`, `Built` or a type that this version does not know, where an answer held it.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// Units over all warehouses, as the platform sums them.
    pub quantity: Option<i64>,
    /// Stock levels.
    pub warehouses: Vec<WarehouseQuantity>,
    /// Time of the last answer that showed the product, RFC 3339.
    pub observed_at: Option<String>,
}

/// Stock level of a product.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct WarehouseQuantity {
    /// Warehouse.
    pub warehouse_id: i64,
    /// Quantity, the fact.
    pub quantity: i64,
}

const PRODUCT_LIST: &str = "SELECT json_object('sku', p.sku, 'product_id', p.product_id, 'name', p.name, 'upc', p.upc, \
    'type', p.type, 'quantity', p.total, 'warehouses', json(( \
        SELECT json_group_array(json_object('warehouse_id', b.warehouse_id, 'quantity', b.quantity)) \
        FROM balance b WHERE b.product = p.id AND b.unlinked_ms IS NULL)), \
    'observed_at', strftime('%Y-%m-%dT%H:%M:%fZ', iif(p.lack IS NULL, r.observed_ms, \
        (SELECT max(b.fact_ms) FROM balance b WHERE b.product = p.id)) / 1000.0, 'unixepoch')) \
    FROM product p LEFT JOIN read_batch r ON r.id = p.read_batch_id \
    WHERE p.product_id IS NOT NULL AND (CASE ?2 WHEN 'upc' THEN p.upc ELSE p.sku END) \
        IN (SELECT value FROM json_each(?1)) ORDER BY p.sku";

impl Store {
    /// Returns the known products with these SKUs, in the platform's spelling.
    pub async fn product_list(&self, skus: &[String]) -> Result<Vec<ProductRow>, StoreError> {
        self.product_list_by(skus, "sku").await
    }

    /// Returns the known products with these UPCs.
    pub async fn product_list_by_upc(&self, upcs: &[String]) -> Result<Vec<ProductRow>, StoreError> {
        self.product_list_by(upcs, "upc").await
    }

    async fn product_list_by(&self, ids: &[String], by: &str) -> Result<Vec<ProductRow>, StoreError> {
        let rows: Vec<(String,)> =
            self.fetch_all(PRODUCT_LIST, (json_rows(ids), by), "read products").await?;
        let read = |(row,): (String,)| {
            serde_json::from_str(&row)
                .map_err(|_| StoreError::UnknownValue { value_kind: "a product", value: row })
        };
        rows.into_iter().map(read).collect()
    }
}

impl ProductRow {
    /// Returns true if `id` has the product's case key or equals its UPC.
    pub fn is_named_by(&self, id: &str) -> bool {
        case_key(&self.sku) == case_key(id) || self.upc.as_deref().is_some_and(|upc| upc.trim() == id.trim())
    }
}
