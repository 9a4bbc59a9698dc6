//! Kits and their components, and products that other answers mention.
//!
//! Balances do not name a product's type. A kit is known by the platform's word alone: its components, or the
//! type in a product answer (`product.type`). An allocation of other products suggests nothing, because the
//! platform may have sent a substitute.

use super::platform_lists::upsert_records;
use super::stock_levels::{json_rows, json_rows_by_key};
use crate::client::wire::Product;
use crate::model::{ExchangeId, ProductId, Timestamp};
use crate::store::{Result, Store, WriteTransaction};
use serde_json::{Value, json as value};

/// Type of a product that consists of other products.
pub(crate) const KIT_TYPE: &str = "Kit";

impl Store {
    /// Returns the known kits, those whose components were read longest ago first.
    pub(crate) async fn kit_ids(&self) -> Result<Vec<ProductId>> {
        let sql = "SELECT p.product_id FROM product p LEFT JOIN kit k ON k.product_id = p.product_id \
                   WHERE p.type = 'Kit' AND p.product_id IS NOT NULL \
                     AND p.missing_since_ms IS NULL GROUP BY k.exchange_id, p.product_id \
                   ORDER BY k.exchange_id NULLS FIRST, p.product_id";
        self.fetch_column(sql, (), "find the kits").await
    }

    /// Returns the platform's id of a product, by its SKU or by a spelling under which it was requested.
    pub(crate) async fn product_id_by_sku(&self, sku: &str) -> Result<Option<ProductId>> {
        let sql = "SELECT coalesce(p.product_id, a.product_id) FROM product p \
                   LEFT JOIN product a ON a.id = p.alias_of WHERE p.sku = $1";
        Ok(self.fetch_column(sql, (sku,), "find a product").await?.pop().flatten())
    }

    /// Returns the components of a kit, as `product components` prints them; empty if they were never read.
    pub(crate) async fn kit_components(&self, kit: ProductId) -> Result<Vec<Value>> {
        let sql = "SELECT c.component_id, c.sku, p.name, c.product_id, c.quantity, \
                       strftime('%Y-%m-%dT%H:%M:%fZ', k.observed_ms / 1000.0, 'unixepoch') AS observed_at \
                   FROM kit_component c JOIN kit k ON k.product_id = c.kit_id \
                   LEFT JOIN product p ON p.sku = c.sku \
                   WHERE c.kit_id = $1 AND c.missing_since_ms IS NULL ORDER BY c.component_id";
        self.fetch_objects(sql, (kit.0,), "read the components of a kit").await
    }
}

impl WriteTransaction {
    /// Records products that answers mention and returns the number of new or changed ones.
    ///
    /// Absent fields leave the stored values unchanged. A spelling that balances resolved to another product
    /// is not changed.
    pub(crate) async fn mirror_products(&mut self, products: &[&Product]) -> Result<u64> {
        let sql = "INSERT INTO product (sku, case_key, product_id, name, upc, type) \
                   SELECT value->>0, value->>1, CAST(value->>2 AS BIGINT), value->>3, value->>4, value->>5 \
                   FROM json_each($1) WHERE true \
                   ON CONFLICT (sku) DO UPDATE SET \
                       product_id = coalesce(excluded.product_id, product.product_id), \
                       name = coalesce(excluded.name, product.name), upc = coalesce(excluded.upc, product.upc), \
                       type = coalesce(excluded.type, product.type), digest = NULL \
                   WHERE product.alias_of IS NULL AND (excluded.type IS NOT NULL \
                       OR (product.product_id, product.name, product.upc) IS DISTINCT FROM ( \
                           coalesce(excluded.product_id, product.product_id), \
                           coalesce(excluded.name, product.name), coalesce(excluded.upc, product.upc)))";
        let row = |p: &&Product| value!([p.sku, p.sku.case_key(), p.id, p.name, p.upc(), p.kind]);
        let rows: Vec<Value> = products.iter().map(row).collect();
        let values = (json_rows_by_key(&rows, |row| row[0].to_string()),);
        self.execute_counting(sql, values, "record products that answers mention").await
    }

    /// Records a kit's components, JSON objects with the table's columns as keys, and returns the number of new,
    /// changed or removed ones. Of an incomplete answer none counts as removed.
    pub(crate) async fn mirror_kit(
        &mut self,
        (exchange, observed_at): (ExchangeId, Timestamp),
        kit: ProductId,
        components: &[Value],
        is_complete: bool,
    ) -> Result<u64> {
        let (key, columns) = ("kit_id, component_id", "product_id BIGINT, sku, quantity DOUBLE PRECISION");
        let sql = upsert_records("kit_component", "kit_id", key, columns);
        let of = (exchange, Some(kit.0));
        let action = "record the components of a kit";
        let mut changed = self.record_rows(sql, (components, "component_id"), of, action).await?;
        if is_complete && !components.is_empty() {
            let sql = "UPDATE kit_component SET missing_since_ms = $3 \
                       WHERE kit_id = $2 AND missing_since_ms IS NULL AND component_id NOT IN ( \
                           SELECT CAST(value->>'component_id' AS BIGINT) FROM json_each($1))";
            let values = (json_rows(components), kit, observed_at);
            changed += self.execute_counting(sql, values, "mark the missing components of a kit").await?;
        }
        let sql = "INSERT INTO kit (product_id, exchange_id, observed_ms) VALUES ($1, $2, $3) \
                   ON CONFLICT (product_id) DO UPDATE SET exchange_id = excluded.exchange_id, \
                       observed_ms = excluded.observed_ms";
        self.execute(sql, (kit, exchange, observed_at), "record a kit").await?;
        if !components.is_empty() {
            let sql = "UPDATE product SET type = 'Kit' WHERE product_id = $1";
            self.execute(sql, (kit,), "record that a product is a kit").await?;
        }
        Ok(changed)
    }
}
