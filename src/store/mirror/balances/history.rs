//! History of stock levels (`balance_history`), and its pruning with the journal.
//!
//! A count that names its base or its moment needs the history, and so does `explain`. Without a bound it
//! would grow with every sale. Entries are deleted with the bodies of their exchanges. The newest of each
//! stock level stay, and so do those of stock levels with an open count. That is a decision about facts, so
//! an event holds all that a replay needs to delete these entries.

use crate::model::{self, Position, Timestamp};
use crate::store::mirror::stock_levels::json_rows;
use crate::store::{Result, WriteTransaction};
use serde_json::json as value;

pub(in crate::store) const HISTORY_PRUNED: &str = "past.forgotten";

/// Number of newest entries of each stock level that stay at any age, because a count may refer to one.
const NEWEST_RETAINED: i64 = 5;

/// SQL: the rows that an event with the detail `$1` deletes.
const PRUNED_ROWS: &str = "FROM balance_history WHERE (product, warehouse_id, position) IN ( \
    SELECT product, warehouse_id, position FROM ( \
        SELECT product, warehouse_id, position, \
               row_number() OVER (PARTITION BY product, warehouse_id ORDER BY position DESC) AS rank \
                   FROM balance_history) ranked \
    WHERE position <= CAST(json_extract($1, '$.to') AS BIGINT) \
      AND rank > CAST(json_extract($1, '$.newest') AS BIGINT) \
      AND (product, warehouse_id) NOT IN ( \
          SELECT p.id, CAST(spared.value->>1 AS BIGINT) FROM json_each($1, '$.spared') spared \
          JOIN product p ON p.sku = spared.value->>0))";

impl WriteTransaction {
    /// Appends the event, deletes history entries up to a position, and returns their number.
    pub(crate) async fn history_prune(&mut self, to: Position, at: Timestamp) -> Result<u64> {
        let sql = "SELECT DISTINCT o.sku, o.warehouse_id FROM outbox o \
                   WHERE o.state IN ('pending', 'sending', 'held', 'in_doubt') AND o.kind = 'quantity.set'";
        let named: Vec<(String, i64)> = self.fetch_all(sql, (), "read the unsettled counts").await?;
        let keys: Vec<(String, i64)> = named.iter().map(|(sku, id)| (model::case_key(sku), *id)).collect();
        let sql = "SELECT DISTINCT p.sku, CAST(k.value->>1 AS BIGINT) AS warehouse_id FROM json_each($1) k \
                   JOIN product p ON p.case_key = k.value->>0 ORDER BY p.sku, warehouse_id";
        let spared: Vec<(String, i64)> =
            self.fetch_all(sql, (json_rows(&keys),), "find the stock levels with an open count").await?;
        let detail = value!({"to": to, "newest": NEWEST_RETAINED, "spared": spared}).to_string();
        let sql = format!("SELECT count(*) {PRUNED_ROWS}");
        let values = (&detail,);
        let count: i64 =
            self.fetch_value(sqlx::AssertSqlSafe(sql), values, "count the history entries to delete").await?;
        if count > 0 {
            self.fact_decide(at, HISTORY_PRUNED, "balance_history", Some(&detail)).await?;
        }
        Ok(count.unsigned_abs())
    }

    /// Applies the event [`HISTORY_PRUNED`].
    pub(in crate::store) async fn apply_history_event(&mut self, detail: &str) -> Result<()> {
        let sql = format!("DELETE {PRUNED_ROWS}");
        self.execute(sqlx::AssertSqlSafe(sql), (detail,), "delete history entries").await
    }
}
