//! Units that others took from a stock level while a change of ours waited.
//!
//! They are measured when the change is applied: each fall of R − O in the history of the stock level since the
//! first change of the entry was inserted. A fall has one row, whatever number of changes waited.

use crate::model::{ChangeId, Timestamp};
use crate::store::mirror::stock_levels::json_rows;
use crate::store::{Result, WriteTransaction};

impl WriteTransaction {
    /// Stores the units that others took since these changes were inserted, as far as a read showed them.
    pub(super) async fn units_taken_store(&mut self, changes: &[ChangeId], at: Timestamp) -> Result<()> {
        let sql = "INSERT INTO units_taken (product, warehouse_id, position, seen_ms, units) \
                   WITH applied AS ( \
                       SELECT c.product, c.warehouse_id, min(o.position) AS inserted FROM outbox o \
                       JOIN change_stock_level c ON c.change_id = o.id \
                       WHERE o.id IN (SELECT CAST(atom AS BIGINT) FROM json_each($1)) \
                       GROUP BY c.product, c.warehouse_id), \
                   pair AS ( \
                       SELECT h.product, h.warehouse_id, h.position, h.quantity - h.own_delta AS others, h.since_ms \
                       FROM applied a JOIN balance_history h ON h.product = a.product \
                           AND h.warehouse_id = a.warehouse_id AND h.position > a.inserted \
                       UNION ALL \
                       SELECT b.product, b.warehouse_id, 9223372036854775807, b.quantity - b.own_delta, b.since_ms \
                       FROM applied a JOIN balance b ON b.product = a.product \
                           AND b.warehouse_id = a.warehouse_id), \
                   step AS ( \
                       SELECT product, warehouse_id, position, lead(since_ms) OVER levels AS seen_ms, \
                              others - lead(others) OVER levels AS units FROM pair \
                       WINDOW levels AS (PARTITION BY product, warehouse_id ORDER BY position)) \
                   SELECT product, warehouse_id, position, coalesce(seen_ms, $2), units FROM step WHERE units > 0 \
                   ON CONFLICT (product, warehouse_id, position) DO NOTHING";
        self.execute(sql, (json_rows(changes), at), "store the units that others took").await
    }
}
