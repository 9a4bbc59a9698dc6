//! Changes held because no answer shows what they name.

use crate::model::{ChangeId, Timestamp};
use crate::store::{Result, Store};
use sqlx_macros::FromRow;

/// Change held as `not_shown`.
#[derive(Clone, Debug, FromRow)]
pub(crate) struct NotShownRow {
    /// The change.
    pub id: ChangeId,
    /// Time of the first hold for this reason, of all changes of its SKU.
    pub first_ms: Timestamp,
    /// Time of the earliest last hold of these changes, which is when the platform was last asked for them.
    pub last_ms: Timestamp,
    /// True if an answer since the hold shows the stock level.
    pub is_shown: bool,
}

impl Store {
    /// Returns the changes held as `not_shown`. Those of one SKU have equal times, so that one read serves them all.
    ///
    /// Later answers are recognised by position, because the calendar may be set.
    pub(crate) async fn not_shown_list(&self) -> Result<Vec<NotShownRow>> {
        let sql = "SELECT h.id, min(h.first_ms) OVER same AS first_ms, min(h.last_ms) OVER same AS last_ms, \
                          EXISTS (SELECT 1 FROM sku_spelling m JOIN product p ON p.id = m.product \
                              JOIN read_batch r ON r.id = p.read_batch_id JOIN balance b ON b.product = p.id \
                              WHERE m.spelling = h.sku AND b.warehouse_id = h.warehouse_id \
                                AND r.exchange_id > h.position AND p.lack IS NULL \
                                AND b.unlinked_ms IS NULL) AS is_shown \
                   FROM (SELECT o.id, o.sku, o.warehouse_id, min(t.at_ms) AS first_ms, max(t.at_ms) AS last_ms, \
                                max(t.position) AS position \
                         FROM outbox o JOIN change_transition t ON t.change_id = o.id \
                         WHERE o.state IN ('sending', 'held', 'in_doubt') AND o.state = 'held' \
                           AND o.reason = 'not_shown' AND t.state = 'held' AND t.reason = 'not_shown' \
                         GROUP BY o.id, o.sku, o.warehouse_id) h \
                   WINDOW same AS (PARTITION BY coalesce(h.sku, CAST(h.id AS TEXT))) ORDER BY h.id";
        self.fetch_all(sql, (), "read the changes held for what no answer shows").await
    }
}
