//! Products with their stock levels, for `product find`, the preflight and updates.

use super::stock_levels::{StockLevelWrite, json_rows};
use crate::client::wire::Product;
use crate::model::{Operation, ProductId, Quantity, Sku, Timestamp};
use crate::reconcile::ProductLack;
use crate::store::{Result, Store, WriteTransaction};
use serde_json::Value;
use sqlx::types::Json;
use sqlx_macros::FromRow;

/// Number of known SKUs that are looked up beside that of a new product.
const WITNESSES: i64 = 8;

const PRODUCT_LIST: &str = "SELECT json_object('sku', p.sku, 'product_id', p.product_id, 'name', p.name, 'upc', p.upc, \
    'type', p.type, 'quantity', p.total, 'warehouses', json(( \
        SELECT json_group_array(json_object('warehouse_id', b.warehouse_id, 'quantity', b.quantity)) \
        FROM (SELECT l.warehouse_id, l.quantity FROM linked_balance l \
              WHERE l.product = p.id ORDER BY l.warehouse_id) b)), \
    'observed_at', strftime('%Y-%m-%dT%H:%M:%fZ', CASE WHEN p.lack IS NULL THEN r.observed_ms \
        ELSE (SELECT max(b.fact_ms) FROM balance b WHERE b.product = p.id) END / 1000.0, 'unixepoch')) \
    FROM product p LEFT JOIN read_batch r ON r.id = p.read_batch_id \
    WHERE p.product_id IS NOT NULL AND p.sku IN (SELECT atom FROM json_each($1)) ORDER BY p.sku";

/// Product with its stock levels, as decisions need them.
#[derive(Clone, Debug, Default, FromRow)]
pub(crate) struct ProductStock {
    /// Product id at the platform; `None`: the platform does not return the SKU.
    pub product_id: Option<i64>,
    /// Quantity of the product itself, where the platform reported it.
    pub total: Option<i64>,
    pub read_exchange_id: Option<i64>,
    /// Way in which that exchange's answer lacked it; `None`: it showed all of it.
    pub lack: Option<ProductLack>,
    /// Stock levels that have not vanished.
    #[sqlx(skip)]
    pub stock_levels: Vec<ProductStockRow>,
}

#[derive(Clone, Debug, FromRow)]
pub(crate) struct ProductStockRow {
    pub product: i64,
    pub warehouse_id: i64,
    pub quantity: i64,
    pub fact_exchange_id: Option<i64>,
    /// True if a write is in flight or in doubt, or a stale replica may have answered the last read.
    pub is_busy: bool,
}

impl ProductStock {
    /// Returns true if one of the stock levels is busy.
    pub(crate) fn is_busy(&self) -> bool {
        self.stock_levels.iter().any(|level| level.is_busy)
    }

    /// Returns writes that leave every stock level as it is, as an update with these quantities does.
    pub(crate) fn unchanged_writes(&self) -> Vec<StockLevelWrite> {
        let write = |level: &ProductStockRow| StockLevelWrite {
            product: level.product,
            warehouse_id: level.warehouse_id,
            before: Some(Quantity(level.quantity)),
            written: Quantity(level.quantity),
        };
        self.stock_levels.iter().map(write).collect()
    }
}

impl Store {
    /// Returns the known products with these SKUs in the platform's spelling.
    pub(crate) async fn product_list(&self, skus: &[String]) -> Result<Vec<Value>> {
        let rows: Vec<Json<Value>> =
            self.fetch_column(PRODUCT_LIST, (json_rows(skus),), "read products").await?;
        Ok(rows.into_iter().map(|Json(row)| row).collect())
    }

    /// Returns the SKU of a product by the platform's id.
    pub(crate) async fn product_sku_by_id(&self, product: ProductId) -> Result<Option<String>> {
        let sql =
            "SELECT sku FROM product WHERE product_id = $1 AND missing_since_ms IS NULL ORDER BY id LIMIT 1";
        Ok(self.fetch_column(sql, (product,), "find a product by its id").await?.pop())
    }

    /// Returns id and spelling of each product that the platform returned under this case key.
    pub(crate) async fn product_case_twins(&self, case_key: &str) -> Result<Vec<(i64, String)>> {
        let sql = "SELECT product_id, sku FROM product \
                   WHERE case_key = $1 AND product_id IS NOT NULL AND missing_since_ms IS NULL ORDER BY id";
        self.fetch_all(sql, (case_key,), "find products by case key").await
    }

    /// Returns a few known SKUs, first those that the last answers showed. Looked up beside the SKU of a new product,
    /// they show that an answer without that SKU is not empty in error.
    pub(crate) async fn witness_skus(&self, new: &Sku) -> Result<Vec<Sku>> {
        let sql = "SELECT p.sku FROM read_batch r JOIN product p ON p.read_batch_id = r.id \
                   WHERE p.product_id IS NOT NULL AND p.missing_since_ms IS NULL AND p.alias_of IS NULL \
                     AND p.lack IS DISTINCT FROM 'unreadable' AND p.sku <> $1 \
                     AND p.sku NOT IN (SELECT subject FROM quarantine WHERE operation = $2) \
                   ORDER BY p.lack IS NOT NULL, r.exchange_id DESC, r.id DESC, p.sku LIMIT $3";
        let values = (new.as_str(), Operation::GetProductBalances.as_str(), WITNESSES);
        self.fetch_column(sql, values, "find witness SKUs").await
    }

    /// Returns a product with its stock levels; empty if it is unknown.
    pub(crate) async fn product_stock(&self, sku: &Sku) -> Result<ProductStock> {
        let sql = "SELECT p.product_id, p.total, r.exchange_id AS read_exchange_id, p.lack \
                   FROM product q \
                   JOIN product p ON p.id = coalesce(q.alias_of, q.id) \
                   LEFT JOIN read_batch r ON r.id = p.read_batch_id WHERE q.sku = $1";
        let found: Option<ProductStock> = self.fetch_optional(sql, (sku.as_str(),), "read a product").await?;
        let Some(mut product) = found else { return Ok(ProductStock::default()) };
        let sql = "SELECT b.product, b.warehouse_id, b.quantity, \
                          coalesce(b.fact_exchange_id, r.exchange_id) AS fact_exchange_id, \
                          EXISTS (SELECT 1 FROM stock_level_write w WHERE w.product = b.product \
                                  AND w.warehouse_id = b.warehouse_id \
                                    AND (w.ended IS NULL OR w.first_mismatch_ms IS NOT NULL)) AS is_busy \
                   FROM product q JOIN product p ON p.id = coalesce(q.alias_of, q.id) \
                   JOIN balance b ON b.product = p.id LEFT JOIN read_batch r ON r.id = p.read_batch_id \
                   WHERE q.sku = $1 AND b.unlinked_ms IS NULL ORDER BY b.warehouse_id";
        let values = (sku.as_str(),);
        product.stock_levels = self.fetch_all(sql, values, "read the stock levels of a product").await?;
        Ok(product)
    }
}

impl WriteTransaction {
    /// Records name and type of a product, and marks its other SKUs as missing: one product has one SKU.
    pub(crate) async fn mirror_product_record(&mut self, at: Timestamp, fact: &Product) -> Result<()> {
        let sql = "UPDATE product SET missing_since_ms = $3, digest = NULL \
                   WHERE product_id = $1 AND sku <> $2 AND missing_since_ms IS NULL AND alias_of IS NULL";
        let values = (fact.id, fact.sku.as_str(), at.0);
        self.execute(sql, values, "mark the old SKU of a renamed product").await?;
        let sql = "UPDATE product SET name = coalesce($2, name), type = coalesce($3, type) WHERE sku = $1";
        let values = (fact.sku.as_str(), &fact.name, &fact.kind);
        self.execute(sql, values, "record a product's name and type").await
    }
}
