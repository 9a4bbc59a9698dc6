//! Kits and their components, and products that other answers mention.
//!
//! Balances do not name a product's type. A kit is recognised by its components and by product answers;
//! `product.type` holds the type with the exchange that named it. An allocation that takes other products for
//! a product only suggests a kit (`product.kit_guess_id`). The platform may have sent a substitute, or a
//! person may have changed the line. A type may change, so the platform is asked again before a change is
//! refused because of it.

use super::platform_lists::upsert_records;
use super::stock_levels::{json_rows, json_rows_by_key};
use crate::model::{ExchangeId, Operation, ProductId, RunId, Sku, Timestamp};
use crate::reconcile::proof;
use crate::store::{Result, Store, StoreError, WriteTransaction};
use serde::Serialize;
use serde_json::{Value, json as value};
use sqlx_macros::FromRow;

/// Type of a product that consists of other products.
pub(crate) const KIT_TYPE: &str = "Kit";
/// Event of a product that is no kit, because the platform refused its components with a working key.
pub(crate) const KIT_DENIED: &str = "kit.denied";

/// Product of an answer other than balances (*Product*).
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
    /// `Type`, possibly one that this version does not know.
    pub kind: Option<String>,
}

/// Component of an answer (*Get kit components*).
#[derive(Clone, Debug, Serialize)]
pub struct ComponentFact {
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
pub struct KitPage<'a> {
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
pub struct ComponentRow {
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
    /// Returns the known and suggested kits, those whose components were read longest ago first.
    pub(crate) async fn kit_ids(&self) -> Result<Vec<ProductId>> {
        let sql = "SELECT p.product_id FROM product p LEFT JOIN kit k ON k.product_id = p.product_id \
                   WHERE (p.type = 'Kit' OR p.kit_guess_id IS NOT NULL) AND p.product_id IS NOT NULL \
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

    /// Returns a run's last exchange about the components of a product.
    pub(crate) async fn kit_last_exchange(
        &self,
        run: RunId,
        product: ProductId,
    ) -> Result<Option<ExchangeId>> {
        let sql = "SELECT max(id) FROM exchange WHERE run_id = $1 AND operation = $2 AND target = $3";
        let target = Operation::KitComponents.path().replace("{productid}", &product.to_string());
        let values = (run.0, Operation::KitComponents.as_str(), target);
        self.fetch_value(sql, values, "find the last exchange about a kit").await
    }

    /// Returns the components of a kit; empty if they were never read.
    pub async fn kit_components(&self, kit: ProductId) -> Result<Vec<ComponentRow>> {
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
    pub async fn mirror_products(&mut self, exchange: ExchangeId, products: &[ProductFact]) -> Result<u64> {
        let sql = "INSERT INTO product (sku, case_key, product_id, name, upc, type, type_exchange_id) \
                   SELECT value->>0, value->>1, CAST(value->>2 AS BIGINT), value->>3, value->>4, value->>5, \
                          CASE WHEN value->>5 IS NOT NULL THEN CAST($2 AS BIGINT) END \
                   FROM json_each($1) WHERE true \
                   ON CONFLICT (sku) DO UPDATE SET \
                       product_id = coalesce(excluded.product_id, product.product_id), \
                       name = coalesce(excluded.name, product.name), upc = coalesce(excluded.upc, product.upc), \
                       type = coalesce(excluded.type, product.type), digest = NULL, \
                       type_exchange_id = coalesce(excluded.type_exchange_id, product.type_exchange_id), \
                       kit_guess_id = CASE WHEN excluded.type IS NULL THEN product.kit_guess_id END \
                   WHERE product.alias_of IS NULL AND (excluded.type IS NOT NULL \
                       OR (product.product_id, product.name, product.upc) IS DISTINCT FROM ( \
                           coalesce(excluded.product_id, product.product_id), \
                           coalesce(excluded.name, product.name), coalesce(excluded.upc, product.upc)))";
        let row = |p: &ProductFact| value!([p.sku, p.sku.case_key(), p.product_id, p.name, p.upc, p.kind]);
        let rows: Vec<Value> = products.iter().map(row).collect();
        let mut changed = 0;
        for rows in json_rows_by_key(&rows, |row| row[0].to_string()) {
            let values = (rows, exchange.0);
            changed += self.execute_counting(sql, values, "record products that answers mention").await?;
        }
        Ok(changed)
    }

    /// Marks a product as a possible kit.
    pub(crate) async fn kit_guess(&mut self, exchange: ExchangeId, sku: &Sku) -> Result<()> {
        let sql = "UPDATE product SET kit_guess_id = $2 \
                   WHERE sku = $1 AND alias_of IS NULL AND type IS DISTINCT FROM 'Kit'";
        self.execute(sql, (sku.as_str(), exchange.0), "mark a product as a possible kit").await
    }

    /// Records that a product is no kit, because the platform refused its components with a working key.
    ///
    /// Returns true if the product was a kit or a possible one. That is a decision, so its event is appended
    /// before the fact.
    pub(crate) async fn kit_deny(
        &mut self,
        exchange: ExchangeId,
        product: ProductId,
        at: Timestamp,
    ) -> Result<bool> {
        let sql = "SELECT EXISTS (SELECT 1 FROM product WHERE product_id = $1 \
                   AND (type = 'Kit' OR kit_guess_id IS NOT NULL))";
        let was_kit = self.fetch_value(sql, (product,), "read the kit state of a product").await?;
        if was_kit {
            let detail = value!({"exchange_id": exchange.0}).to_string();
            self.event_append(at, KIT_DENIED, &product.to_string(), Some(&detail)).await?;
            self.kit_deny_apply(exchange.0, product, at).await?;
        }
        Ok(was_kit)
    }

    /// Applies the event [`KIT_DENIED`] in a replay.
    pub(crate) async fn apply_kit_event(&mut self, subject: &str, detail: &str, at: Timestamp) -> Result<()> {
        let foreign = || StoreError::UnknownValue("an event of a kit", subject.to_owned());
        let product = subject.parse().map(ProductId).map_err(|_| foreign())?;
        let detail: Value = serde_json::from_str(detail).map_err(|_| foreign())?;
        let exchange = detail["exchange_id"].as_i64().ok_or_else(foreign)?;
        self.kit_deny_apply(exchange, product, at).await
    }

    async fn kit_deny_apply(&mut self, exchange: i64, product: ProductId, at: Timestamp) -> Result<()> {
        let sql = "UPDATE product SET type = nullif(type, 'Kit'), type_exchange_id = $2, \
                       kit_guess_id = NULL WHERE product_id = $1";
        self.execute(sql, (product.0, exchange), "record that a product is no kit").await?;
        let sql =
            "UPDATE kit_component SET missing_since_ms = $2 WHERE kit_id = $1 AND missing_since_ms IS NULL";
        self.execute(sql, (product.0, at.0), "mark the components of a product that is no kit").await
    }

    /// Records a kit's components and returns the number of new, changed or removed ones.
    pub async fn mirror_kit(&mut self, page: &KitPage<'_>) -> Result<u64> {
        let rows = json_rows(page.components);
        let written = self.components_write(page).await?;
        let missing = self.components_missing(page, &rows).await?;
        let is_empty = page.components.is_empty() && page.is_complete;
        let sql = "INSERT INTO kit (product_id, exchange_id, observed_ms, is_complete, empty_ms) \
                   VALUES ($1, $2, $3, $4, CASE WHEN $5 THEN CAST($3 AS BIGINT) END) \
                   ON CONFLICT (product_id) DO UPDATE SET exchange_id = excluded.exchange_id, \
                       observed_ms = excluded.observed_ms, is_complete = excluded.is_complete, \
                       empty_ms = CASE WHEN $5 THEN coalesce(kit.empty_ms, excluded.empty_ms) END \
                   RETURNING empty_ms";
        let values = (page.kit.0, page.exchange_id.0, page.observed_at.0, page.is_complete, is_empty);
        let empty_since = self.fetch_value(sql, values, "record a kit").await?;
        if !page.components.is_empty() {
            let sql = "UPDATE product SET type = 'Kit', type_exchange_id = $2, kit_guess_id = NULL \
                       WHERE product_id = $1";
            self.execute(sql, (page.kit.0, page.exchange_id.0), "record that a product is a kit").await?;
        } else if proof::is_absent(empty_since, page.observed_at, is_empty) {
            // If this is wrong, it costs one write, which the readback then finds missing.
            self.kit_deny_apply(page.exchange_id.0, page.kit, page.observed_at).await?;
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
