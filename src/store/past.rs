//! Earlier facts of cells (`balance_past`), and which of them are forgotten when the journal is pruned.
//!
//! They are needed where a count says what was seen or when it was made, and by `explain`. Without a bound they would grow
//! with every sale for ever. So they go with the bodies of the exchanges that brought them, but for the newest of each
//! cell, and for cells with an unsettled count. That is a decision about facts, so it is an event, which says all that a
//! replay needs to forget the same.

use super::error::Doing;
use super::{StoreError, Write};
use crate::model::{Position, Timestamp};
use serde_json::{Value, json};

/// The event of earlier facts of cells that nobody needs any more.
pub const PAST_FORGOTTEN: &str = "past.forgotten";

/// So many of each cell stay however old they are: a count of a quiet cell may have seen one of them.
const NEWEST: i64 = 5;

/// The rows an event with the detail `?1` forgets.
const FORGOTTEN: &str = "FROM balance_history WHERE (product, warehouse_id, position) IN ( \
    SELECT product, warehouse_id, position FROM ( \
        SELECT product, warehouse_id, position, \
               row_number() OVER (PARTITION BY product, warehouse_id ORDER BY position DESC) AS place \
                   FROM balance_history) \
    WHERE position <= json_extract(?1, '$.to') AND place > json_extract(?1, '$.newest') \
      AND (product, warehouse_id) NOT IN ( \
          SELECT p.id, spared.value->>1 FROM json_each(?1, '$.spared') spared JOIN product p ON p.sku = spared.value->>0))";

impl Write {
    /// Forgets the earlier facts of cells up to a position, as an event; how many those were.
    pub async fn past_forget(&mut self, to: Position, at: Timestamp) -> Result<u64, StoreError> {
        let sql = "SELECT DISTINCT p.sku, o.warehouse_id FROM outbox o JOIN product p ON p.case_key IN ( \
                       lower(trim(o.sku)), (SELECT q.case_key FROM product q WHERE q.sku = o.sku)) \
                   WHERE o.state IN ('pending', 'sending', 'held', 'in_doubt') AND o.kind = 'quantity.set' \
                   ORDER BY p.sku, o.warehouse_id";
        let open = sqlx::query_as(sql).fetch_all(&mut *self.tx).await;
        let spared: Vec<(String, i64)> = open.doing("find the cells with an unsettled count")?;
        let detail: Value = json!({"to": to, "newest": NEWEST, "spared": spared});
        let detail = detail.to_string();
        let sql = format!("SELECT count(*) {FORGOTTEN}");
        let query = sqlx::query_scalar(sqlx::AssertSqlSafe(sql)).bind(&detail);
        let count: i64 = query.fetch_one(&mut *self.tx).await.doing("count the earlier facts that may go")?;
        if count > 0 {
            self.event_append(at, PAST_FORGOTTEN, "balance_history", Some(&detail)).await?;
            self.past_refold(&detail).await?;
        }
        Ok(count.unsigned_abs())
    }

    /// Does what such an event says; folds it in again.
    pub async fn past_refold(&mut self, detail: &str) -> Result<(), StoreError> {
        let sql = format!("DELETE {FORGOTTEN}");
        let done = sqlx::query(sqlx::AssertSqlSafe(sql)).bind(detail).execute(&mut *self.tx).await;
        done.map(drop).doing("forget earlier facts of cells")
    }
}
