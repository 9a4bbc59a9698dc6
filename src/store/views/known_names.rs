//! Names that the mirror knows, against which a command checks those of a new change.

use crate::model::{OrderId, Sku, case_key};
use crate::store::engine::lossy_text::LossyText;
use crate::store::mirror::stock_levels::json_rows;
use crate::store::{Result, Store};
use std::collections::BTreeSet;

impl Store {
    /// Returns the case keys of those of these SKUs that the platform has returned or that are tracked; `None` if
    /// no SKU at all is known, as before the first read.
    pub(crate) async fn known_sku_keys(&self, skus: &[&Sku]) -> Result<Option<BTreeSet<String>>> {
        let sql = "SELECT EXISTS (SELECT 1 FROM tracked_sku) \
                       OR EXISTS (SELECT 1 FROM product WHERE product_id IS NOT NULL)";
        if !self.fetch_value::<bool>(sql, (), "look for a known SKU").await? {
            return Ok(None);
        }
        let keys: BTreeSet<String> = skus.iter().map(|sku| sku.case_key()).collect();
        let sql = "SELECT sku FROM product \
                   WHERE case_key IN (SELECT atom FROM json_each($1)) AND product_id IS NOT NULL \
                   UNION SELECT sku FROM tracked_sku WHERE sku IN (SELECT atom FROM json_each($2))";
        let values = (json_rows(&keys), json_rows(skus));
        let known: Vec<LossyText> = self.fetch_column(sql, values, "find known SKUs").await?;
        Ok(Some(known.iter().map(|sku| case_key(sku)).collect()))
    }

    /// Returns the case keys of those of these SKUs of which each product is a kit.
    pub(crate) async fn kit_keys(&self, skus: &[&Sku]) -> Result<BTreeSet<String>> {
        let keys: BTreeSet<String> = skus.iter().map(|sku| sku.case_key()).collect();
        let sql = "SELECT case_key FROM product \
                   WHERE case_key IN (SELECT atom FROM json_each($1)) AND missing_since_ms IS NULL \
                   GROUP BY case_key HAVING count(*) = count(*) FILTER (WHERE type = 'Kit')";
        let kits: Vec<String> = self.fetch_column(sql, (json_rows(&keys),), "find kits").await?;
        Ok(kits.into_iter().collect())
    }

    /// Returns the orders that were read or are tracked, by id.
    pub(crate) async fn known_orders(&self) -> Result<Vec<OrderId>> {
        let sql = "SELECT order_id FROM tracked_order UNION SELECT id FROM sales_order ORDER BY order_id";
        self.fetch_column(sql, (), "read the known orders").await
    }
}
