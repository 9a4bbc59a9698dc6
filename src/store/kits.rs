//! Kits and their components, and products met on the way.
//!
//! Balances do not say what kind of product a SKU is. That it is a kit is learnt from its components, from
//! allocations and from product answers, and stands in `product.type`.

use super::cells::json;
use super::error::Doing;
use super::{Store, StoreError, Write};
use crate::model::{ExchangeId, ProductId, Sku, Timestamp};
use serde::Serialize;
use serde_json::{Value, json as value};
use sqlx::FromRow;

/// The type of a product that is made of others.
pub const KIT: &str = "Kit";

/// The service's word on one product, as far as an answer other than balances says it (*Product*).
#[derive(Clone, Debug)]
pub struct ProductFact {
    /// `Sku`.
    pub sku: Sku,
    /// `Id`.
    pub product_id: Option<ProductId>,
    /// `Name`.
    pub name: Option<String>,
    /// `Identifiers.UPC`.
    pub upc: Option<String>,
    /// `Type`, also one this version does not know.
    pub kind: Option<String>,
}

/// The service's word on one component (*Get kit components*).
#[derive(Clone, Debug, Serialize)]
pub struct ComponentFact {
    /// `Id`.
    pub component_id: i64,
    /// `Product.Id`.
    pub product_id: Option<ProductId>,
    /// `Product.Sku`.
    pub sku: Option<Sku>,
    /// `QuantityForKit`: units of it that one kit takes.
    pub quantity: f64,
}

/// One answer to *Get kit components*.
#[derive(Clone, Copy, Debug)]
pub struct KitPage<'a> {
    /// The exchange that brought it.
    pub exchange_id: ExchangeId,
    /// When its request was sent.
    pub observed_at: Timestamp,
    /// The kit asked for.
    pub kit: ProductId,
    /// Its components.
    pub components: &'a [ComponentFact],
    /// False where a component made no sense: then none counts as missing.
    pub is_complete: bool,
}

/// A component, as `product components` prints it.
#[derive(Clone, Debug, FromRow, Serialize)]
pub struct ComponentRow {
    /// The component.
    pub component_id: i64,
    /// Its SKU.
    pub sku: Option<String>,
    /// The product's name, where it is known.
    pub name: Option<String>,
    /// The product's id.
    pub product_id: Option<i64>,
    /// Units of it that one kit takes.
    pub quantity: f64,
    /// When the service last described the kit, RFC 3339.
    pub observed_at: String,
}

impl Store {
    /// The known kits, those whose components were read longest ago first.
    pub async fn kit_ids(&self) -> Result<Vec<ProductId>, StoreError> {
        let sql = "SELECT DISTINCT p.product_id FROM product p LEFT JOIN kit k ON k.product_id = p.product_id \
                   WHERE p.type = 'Kit' AND p.product_id IS NOT NULL AND p.missing_since_ms IS NULL \
                   ORDER BY k.exchange_id, p.product_id";
        let ids: Vec<i64> =
            sqlx::query_scalar(sql).fetch_all(&mut *self.read().await?).await.doing("find the kits")?;
        Ok(ids.into_iter().map(ProductId).collect())
    }

    /// The service's id of a product, by its exact SKU or by another spelling it was once asked for by.
    pub async fn product_id_of(&self, sku: &str) -> Result<Option<ProductId>, StoreError> {
        let sql = "SELECT coalesce(p.product_id, a.product_id) FROM product p \
                   LEFT JOIN product a ON a.id = p.alias_of WHERE p.sku = ?1";
        let id: Option<Option<i64>> = sqlx::query_scalar(sql)
            .bind(sku)
            .fetch_optional(&mut *self.read().await?)
            .await
            .doing("look for a product")?;
        Ok(id.flatten().map(ProductId))
    }

    /// The components of a kit; none where its components were never read.
    pub async fn kit_components(&self, kit: ProductId) -> Result<Vec<ComponentRow>, StoreError> {
        let sql = "SELECT c.component_id, c.sku, p.name, c.product_id, c.quantity, \
                       strftime('%Y-%m-%dT%H:%M:%fZ', k.observed_ms / 1000.0, 'unixepoch') AS observed_at \
                   FROM kit_component c JOIN kit k ON k.product_id = c.kit_id \
                   LEFT JOIN product p ON p.sku = c.sku \
                   WHERE c.kit_id = ?1 AND c.missing_since_ms IS NULL ORDER BY c.component_id";
        sqlx::query_as(sql)
            .bind(kit.0)
            .fetch_all(&mut *self.read().await?)
            .await
            .doing("read the components of a kit")
    }
}

impl Write {
    /// Records products met on the way; how many are new or changed is returned. What is not said stays as it was,
    /// and a spelling that balances showed to be another product's is left to them.
    pub async fn mirror_products(&mut self, products: &[ProductFact]) -> Result<u64, StoreError> {
        let sql = "INSERT INTO product (sku, sku_fold, product_id, name, upc, type) \
                   SELECT value->>0, value->>1, value->>2, value->>3, value->>4, value->>5 \
                   FROM json_each(?1) WHERE true \
                   ON CONFLICT (sku) DO UPDATE SET product_id = coalesce(excluded.product_id, product_id), \
                       name = coalesce(excluded.name, name), upc = coalesce(excluded.upc, upc), \
                       type = coalesce(excluded.type, type), digest = NULL \
                   WHERE alias_of IS NULL AND (product_id, name, upc, type) IS NOT ( \
                       coalesce(excluded.product_id, product_id), coalesce(excluded.name, name), \
                       coalesce(excluded.upc, upc), coalesce(excluded.type, type))";
        let row = |p: &ProductFact| value!([p.sku, p.sku.fold(), p.product_id, p.name, p.upc, p.kind]);
        let rows: Vec<Value> = products.iter().map(row).collect();
        let done = sqlx::query(sql).bind(json(&rows)).execute(&mut *self.tx).await;
        Ok(done.doing("record products met on the way")?.rows_affected())
    }

    /// Records a kit's components; how many are new, changed or gone is returned.
    pub async fn mirror_kit(&mut self, page: &KitPage<'_>) -> Result<u64, StoreError> {
        let rows = json(page.components);
        let written = self.components_write(page, &rows).await?;
        let gone = self.components_missing(page, &rows).await?;
        let sql = "INSERT INTO kit (product_id, exchange_id, observed_ms, is_complete) VALUES (?1, ?2, ?3, ?4) \
                   ON CONFLICT (product_id) DO UPDATE SET exchange_id = excluded.exchange_id, \
                       observed_ms = excluded.observed_ms, is_complete = excluded.is_complete";
        let query = sqlx::query(sql).bind(page.kit.0).bind(page.exchange_id.0).bind(page.observed_at.0);
        query.bind(page.is_complete).execute(&mut *self.tx).await.doing("record a kit")?;
        let sql = "UPDATE product SET type = 'Kit' WHERE product_id = ?1 AND type IS NOT 'Kit' AND ?2";
        let query = sqlx::query(sql).bind(page.kit.0).bind(!page.components.is_empty());
        query.execute(&mut *self.tx).await.doing("note that a product is a kit")?;
        Ok(written + gone)
    }

    async fn components_write(&mut self, page: &KitPage<'_>, rows: &str) -> Result<u64, StoreError> {
        let sql = "INSERT INTO kit_component (kit_id, component_id, product_id, sku, quantity, exchange_id) \
                   SELECT ?2, value->>'component_id', value->>'product_id', value->>'sku', value->>'quantity', ?3 \
                   FROM json_each(?1) WHERE true \
                   ON CONFLICT (kit_id, component_id) DO UPDATE SET product_id = excluded.product_id, \
                       sku = excluded.sku, quantity = excluded.quantity, exchange_id = excluded.exchange_id, \
                       missing_since_ms = NULL \
                   WHERE (product_id, sku, quantity) IS NOT (excluded.product_id, excluded.sku, excluded.quantity) \
                       OR missing_since_ms IS NOT NULL";
        let query = sqlx::query(sql).bind(rows).bind(page.kit.0).bind(page.exchange_id.0);
        Ok(query.execute(&mut *self.tx).await.doing("record the components of a kit")?.rows_affected())
    }

    async fn components_missing(&mut self, page: &KitPage<'_>, rows: &str) -> Result<u64, StoreError> {
        if !page.is_complete || page.components.is_empty() {
            return Ok(0);
        }
        let sql = "UPDATE kit_component SET missing_since_ms = ?3 \
                   WHERE kit_id = ?2 AND missing_since_ms IS NULL \
                     AND component_id NOT IN (SELECT value->>'component_id' FROM json_each(?1))";
        let query = sqlx::query(sql).bind(rows).bind(page.kit.0).bind(page.observed_at.0);
        let done = query.execute(&mut *self.tx).await;
        Ok(done.doing("mark the components a kit no longer has")?.rows_affected())
    }
}
