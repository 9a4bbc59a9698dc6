//! Kits and their components, and products that other answers mention.
//!
//! Balances do not name a product's type. A kit is known by the platform's word alone: its components, or the
//! type in a product answer (`product.type`). An allocation of other products suggests nothing, because the
//! platform may have sent a substitute.

use super::platform_lists::upsert_records;
use super::stock_levels::{json_rows, json_rows_by_key};
use crate::model::{ExchangeId, ProductId, Sku, Timestamp};
use crate::store::{Result, Store, WriteTransaction};
use serde::Serialize;
use serde_json::{Value, json as value};
use sqlx_macros::FromRow;

/// Type of a product that consists of other products.
pub(crate) const KIT_TYPE: &str = "Kit";
/// Product of an answer other than balances (*Product*).
#[derive(Clone, Debug)]
pub(crate) struct ProductFact {
    /// `Sku`.
    pub sku: Sku,
    /// `Id`.
    pub product_id: Option<ProductId>,
    /// `Name`.
    pub name: Option<String>,
    /// `Identifiers.UPC`.
    pub upc: Option<String>,
    /// `Type`, possibly one that this version does not know.
    pub kind: Option<String>,
}

/// Component of an answer (*Get kit components*).
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ComponentFact {
    /// `Id`.
    pub component_id: i64,
    /// `Product.Id`.
    pub product_id: Option<ProductId>,
    /// `Product.Sku`.
    pub sku: Option<Sku>,
    /// `QuantityForKit`: units of the component in one kit.
    pub quantity: f64,
}

/// An answer to *Get kit components*.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KitPage<'a> {
    /// Exchange that brought the answer.
    pub exchange_id: ExchangeId,
    /// Time at which its request was sent.
    pub observed_at: Timestamp,
    /// Requested kit.
    pub kit: ProductId,
    /// Components of the kit.
    pub components: &'a [ComponentFact],
    /// False where a component could not be read; no component then counts as missing.
    pub is_complete: bool,
}

/// Component, as `product components` prints it.
#[derive(Clone, Debug, FromRow, Serialize)]
pub(crate) struct ComponentRow {
    /// Component.
    pub component_id: i64,
    /// SKU of the component.
    pub sku: Option<String>,
    /// Name of the product, where it is known.
    pub name: Option<String>,
    /// Product id at the platform.
    pub product_id: Option<i64>,
    /// Units of the component in one kit.
    pub quantity: f64,
    /// Time at which the platform last described the kit, RFC 3339.
    pub observed_at: String,
}

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

    /// Returns the components of a kit; empty if they were never read.
    pub(crate) async fn kit_components(&self, kit: ProductId) -> Result<Vec<ComponentRow>> {
        let sql = "SELECT c.component_id, c.sku, p.name, c.product_id, c.quantity, \
                       strftime('%Y-%m-%dT%H:%M:%fZ', k.observed_ms / 1000.0, 'unixepoch') AS observed_at \
                   FROM kit_component c JOIN kit k ON k.product_id = c.kit_id \
                   LEFT JOIN product p ON p.sku = c.sku \
                   WHERE c.kit_id = $1 AND c.missing_since_ms IS NULL ORDER BY c.component_id";
        self.fetch_all(sql, (kit.0,), "read the components of a kit").await
    }
}

impl WriteTransaction {
    /// Records products that answers mention and returns the number of new or changed ones.
    ///
    /// Absent fields leave the stored values unchanged. A spelling that balances resolved to another product
    /// is not changed.
    pub(crate) async fn mirror_products(&mut self, products: &[ProductFact]) -> Result<u64> {
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
        let row = |p: &ProductFact| value!([p.sku, p.sku.case_key(), p.product_id, p.name, p.upc, p.kind]);
        let rows: Vec<Value> = products.iter().map(row).collect();
        let mut changed = 0;
        for rows in json_rows_by_key(&rows, |row| row[0].to_string()) {
            changed += self.execute_counting(sql, (rows,), "record products that answers mention").await?;
        }
        Ok(changed)
    }

    /// Records a kit's components and returns the number of new, changed or removed ones.
    pub(crate) async fn mirror_kit(&mut self, page: &KitPage<'_>) -> Result<u64> {
        let rows = json_rows(page.components);
        let written = self.components_write(page).await?;
        let missing = self.components_missing(page, &rows).await?;
        let sql = "INSERT INTO kit (product_id, exchange_id, observed_ms, is_complete) VALUES ($1, $2, $3, $4) \
                   ON CONFLICT (product_id) DO UPDATE SET exchange_id = excluded.exchange_id, \
                       observed_ms = excluded.observed_ms, is_complete = excluded.is_complete";
        let values = (page.kit.0, page.exchange_id.0, page.observed_at.0, page.is_complete);
        self.execute(sql, values, "record a kit").await?;
        if !page.components.is_empty() {
            let sql = "UPDATE product SET type = 'Kit' WHERE product_id = $1";
            self.execute(sql, (page.kit.0,), "record that a product is a kit").await?;
        }
        Ok(written + missing)
    }

    async fn components_write(&mut self, page: &KitPage<'_>) -> Result<u64> {
        let (key, columns) = ("kit_id, component_id", "product_id BIGINT, sku, quantity DOUBLE PRECISION");
        let sql = upsert_records("kit_component", "kit_id", key, columns);
        let (rows, of) = ((page.components, "component_id"), page.kit.0);
        self.record_rows(sql, rows, (page.exchange_id, Some(of)), "record the components of a kit").await
    }

    async fn components_missing(&mut self, page: &KitPage<'_>, rows: &str) -> Result<u64> {
        if !page.is_complete || page.components.is_empty() {
            return Ok(0);
        }
        let sql = "UPDATE kit_component SET missing_since_ms = $3 \
                   WHERE kit_id = $2 AND missing_since_ms IS NULL \
                     AND component_id NOT IN (SELECT CAST(value->>'component_id' AS BIGINT) FROM json_each($1))";
        let values = (rows, page.kit.0, page.observed_at.0);
        self.execute_counting(sql, values, "mark the missing components of a kit").await
    }
}
