//! The outbox: changes, as stored, and their lists.

use crate::model::{ChangeId, Position, Quantity, Sku, StockLevel, Timestamp, WarehouseId};
use crate::outbox::{ChangeBody, ChangeRejection, ChangeState, Reason, parse_body};
use crate::store::engine::error::SqlContext as _;
use crate::store::engine::fetch::Connection;
use crate::store::engine::lossy_text::LossyText;
use crate::store::mirror::stock_levels::{json_rows, stock_level_names};
use crate::store::outbox::window::OutboxWindow;
use crate::store::{Result, Store};
use sqlx::{AssertSqlSafe, FromRow, Row};
use sqlx_macros::FromRow;
use std::collections::BTreeMap;

/// Kind and body of a change: as inserted, and parsed.
#[derive(Clone, Debug)]
pub(crate) struct ChangeContent {
    pub kind: String,
    /// Body as inserted; `None` above `BODY_MAX_BYTES`, because a page of such bodies would exhaust the memory.
    pub stored_body: Option<String>,
    /// Parsed body, or the reason for which the change is rejected.
    pub body: Result<ChangeBody, ChangeRejection>,
}

/// SQL: the body of a change as columns of [`ChangeContentRow`]; no text above `BODY_MAX_BYTES`.
macro_rules! body_columns {
    () => {
        "CASE WHEN octet_length(body) <= 262144 THEN body END AS body"
    };
}
pub(in crate::store) use body_columns;

#[derive(FromRow)]
struct ChangeContentRow {
    kind: LossyText,
    body: Option<LossyText>,
}

impl<'r, R: Row> FromRow<'r, R> for ChangeContent
where
    ChangeContentRow: FromRow<'r, R>,
{
    fn from_row(row: &'r R) -> sqlx::Result<Self> {
        let row = ChangeContentRow::from_row(row)?;
        let (kind, stored_body) = (String::from(row.kind), row.body.map(String::from));
        let body = parse_body(&kind, stored_body.as_deref().unwrap_or_default());
        Ok(Self { kind, stored_body, body })
    }
}

#[derive(Clone, Debug, FromRow)]
pub struct ChangeRow {
    /// Id; the order of ids is the order of commits.
    pub id: ChangeId,
    pub(crate) key: LossyText,
    #[sqlx(flatten)]
    pub(crate) content: ChangeContent,
    /// Priority: 1 for an operator's change, 0 for bulk.
    pub priority: i64,
    pub state: ChangeState,
    pub reason: Option<String>,
    pub detail: Option<String>,
    /// Time of the insertion, RFC 3339, by the clock of the program that inserted it.
    pub created_at: String,
    /// Person or role that inserted the change, as `user:NAME`, `token:NAME` or `role:NAME`; `None`: a program
    /// beside a file, which has no name.
    pub inserted_by: Option<String>,
    /// Time at which the daemon first saw a change whose program's clock was ahead, RFC 3339.
    pub dated_at: Option<String>,
    /// Time at which the change became applied, rejected or cancelled, RFC 3339.
    pub settled_at: Option<String>,
    /// Base of a count: the quantity it was made against.
    pub base_quantity: Option<Quantity>,
    pub base_own_delta: Option<i64>,
    /// Time at which the base was observed.
    pub base_ms: Option<Timestamp>,
    /// Position of the journal at the insertion.
    pub position: Option<i64>,
    /// Number of updates of the row, its revision.
    pub revision: i64,
    pub exchange_id: Option<i64>,
    pub written: Option<i64>,
    pub mine: Option<String>,
    /// The platform's side of a conflict.
    pub theirs: Option<String>,
    /// Time at which a person released the change past a brake.
    pub released_ms: Option<i64>,
    /// Decision on a count in conflict: number, quantity and own delta then; all null: the count as it is.
    #[sqlx(json(nullable))]
    pub count_resolution: Option<(Option<Quantity>, Option<Quantity>, Option<i64>)>,
    /// True if the host's calendar was set back between the moment that a count names and its insertion.
    pub is_date_ambiguous: bool,
}

impl ChangeRow {
    /// Returns true if the change has this reason.
    pub(crate) fn has_reason(&self, reason: Reason) -> bool {
        self.reason.as_deref() == Some(reason.as_str())
    }
}

/// Open change of a stock level.
#[derive(Clone, Debug, FromRow)]
pub(crate) struct OpenChange {
    #[sqlx(flatten)]
    pub change: ChangeRow,
    /// SKU of the stock level, in the platform's spelling where that is known.
    pub stock_level_sku: String,
    pub warehouse_id: i64,
}

/// Part of the outbox that a run has taken in: up to a change of the bulk, one of an operator and a position.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OutboxMark {
    bulk: ChangeId,
    urgent: ChangeId,
    position: Position,
}

#[derive(Clone, Debug, FromRow)]
pub(crate) struct NewChange {
    pub id: ChangeId,
    sku: Option<LossyText>,
    warehouse_id: Option<WarehouseId>,
    pub is_urgent: bool,
    /// Time of the insertion, RFC 3339; `None` where the daemon dated the change.
    pub undated_at: Option<String>,
}

impl NewChange {
    /// Returns the stock level of a quantity change; `None` for other kinds and for an invalid SKU or warehouse.
    pub(crate) fn stock_level(&self) -> Option<StockLevel> {
        // A replaced character hides the spelling by which the change is found.
        let sku = self.sku.as_deref().filter(|sku| !sku.contains(char::REPLACEMENT_CHARACTER))?;
        Some(StockLevel { sku: Sku::new(sku).ok()?, warehouse_id: self.warehouse_id? })
    }
}

/// SQL: true for a count that names its moment, if the calendar was set back or the database was restored
/// since that moment. The calendar was set back where a call is dated more than a minute before its
/// predecessor. The insertion is compared with the last call in this way, too. Smaller steps are normal
/// corrections of a synchronised clock. A moment that the engine cannot read lies before any restore.
macro_rules! calendar_goes_back {
    () => {
        "(kind = 'quantity.set' AND octet_length(body) <= 262144 \
          AND coalesce(json_type(body, '$.counted_at'), '') = 'text' \
          AND (coalesce((julianday(upper(trim(json_extract(body, '$.counted_at')))) - 2440587.5) * 86400000, 1) \
                   <= (SELECT at_ms FROM last_restore) \
           OR EXISTS (SELECT 1 FROM (SELECT at, lag(at) OVER (ORDER BY id) AS before FROM ( \
              SELECT e.id, e.sent_ms AS at FROM exchange e WHERE e.id <= outbox.position \
                 AND e.sent_ms > CAST( \
                     (julianday(upper(trim(json_extract(body, '$.counted_at')))) - 2440587.5) * 86400000 AS BIGINT) \
              UNION ALL SELECT 9223372036854775807, \
                  (julianday(coalesce(dated_at, created_at)) - 2440587.5) * 86400000) call) step \
              WHERE before > at + 60000)))"
    };
}

macro_rules! change_columns {
    () => {
        concat!(
            "SELECT id, key, kind, ",
            body_columns!(),
            ", priority, state, reason, detail, created_at, inserted_by, dated_at, settled_at, \
             base_quantity, base_own_delta, base_ms, position, revision, exchange_id, \
                 written, mine, theirs, released_ms, \
             (SELECT json_array(c.quantity, c.base_quantity, c.base_own_delta) FROM count_resolution c \
              WHERE c.change_id = outbox.id) AS count_resolution, ",
            calendar_goes_back!(),
            " AS is_date_ambiguous"
        )
    };
}
pub(in crate::store) use {calendar_goes_back, change_columns};

/// SQL: the table `k` of the stock levels of parameter 1, with a row for each of their spellings. As a
/// condition of the join, PostgreSQL would look the spellings up again for every open change.
macro_rules! level_names {
    () => {
        "WITH level AS (SELECT key AS place, value->>0 AS stock_level_sku, CAST(value->>1 AS BIGINT) AS warehouse_id, \
                               value->>2 AS case_key FROM json_each($1)), \
              k AS (SELECT place, stock_level_sku, warehouse_id, stock_level_sku AS spelling FROM level \
                    UNION SELECT l.place, l.stock_level_sku, l.warehouse_id, m.spelling \
                    FROM level l CROSS JOIN sku_spelling m \
                    WHERE m.case_key = l.case_key AND m.sku = l.stock_level_sku) "
    };
}

/// SQL: the pending and held changes of the stock levels `k` in the window of parameters 2 to 5.
macro_rules! changes_of_levels {
    () => {
        "FROM k CROSS JOIN (VALUES ('held', 0, CAST($2 AS BIGINT), CAST($3 AS BIGINT)), ('held', 1, $2, $3), \
                                   ('pending', 0, $2, $3), ('pending', 1, 0, $4), ('pending', 1, $5, $3)) w \
           CROSS JOIN outbox WHERE outbox.sku = k.spelling AND outbox.warehouse_id = k.warehouse_id \
           AND kind IN ('quantity.set', 'quantity.adjust') AND state = w.column1 AND priority = w.column2 \
           AND id > w.column3 AND id <= w.column4 \
           AND state IN ('pending', 'sending', 'held', 'in_doubt') AND outbox.sku IS NOT NULL ORDER BY id"
    };
}

macro_rules! change_rows {
    () => {
        concat!(change_columns!(), " FROM outbox")
    };
}

pub(super) const CHANGE_BY_KEY: &str = concat!(change_rows!(), " WHERE key = $1");

impl Store {
    /// Returns the keys of the pending changes of a window.
    pub(crate) async fn outbox_pending_keys(
        &self,
        window: &OutboxWindow,
    ) -> Result<BTreeMap<ChangeId, String>> {
        let sql = "SELECT id, key FROM outbox WHERE state = 'pending' AND priority IN (0, 1) \
                   AND (id > $1 AND id <= $2 OR priority = 1 AND id <= $3)";
        let values = (window.after, window.until, window.urgent_until);
        let rows: Vec<(ChangeId, LossyText)> =
            self.fetch_all(sql, values, "read the keys of the pending changes").await?;
        Ok(rows.into_iter().map(|(id, key)| (id, key.into())).collect())
    }

    /// Returns the pending changes of a window that were inserted after `seen`, and those that became pending again
    /// since, operators' first, then by id. Their bodies are not read. Updates `seen`.
    pub(crate) async fn outbox_new_changes(
        &self,
        window: &OutboxWindow,
        seen: &mut OutboxMark,
    ) -> Result<Vec<NewChange>> {
        // The position is read first, so that a transition committed between the reads is read twice, not missed.
        let position = self.journal_position().await?;
        // Ranges of each priority let SQLite find the newest changes by the index instead of a scan.
        let sql = "WITH part AS (SELECT * FROM (VALUES (0, CAST($1 AS BIGINT), CAST($2 AS BIGINT), CAST($3 AS BIGINT)), \
                       (1, $4, 0, $5), (1, $4, $6, $3)) w) \
                   SELECT id, sku, warehouse_id, priority, priority = 1 AS is_urgent, \
                       CASE WHEN dated_at IS NULL THEN created_at END AS undated_at \
                   FROM part CROSS JOIN outbox \
                   WHERE state = 'pending' AND priority = column1 AND id > column2 AND id > column3 AND id <= column4 \
                   UNION ALL \
                   SELECT id, sku, warehouse_id, priority, priority = 1, \
                       CASE WHEN dated_at IS NULL THEN created_at END FROM part CROSS JOIN outbox \
                   WHERE state = 'pending' AND priority = column1 AND id <= column2 AND id > column3 AND id <= column4 \
                       AND id IN (SELECT change_id FROM change_transition \
                           WHERE state = 'pending' AND position >= $7) \
                   ORDER BY priority DESC, id";
        let OutboxWindow { after, until, urgent_until } = *window;
        let late = window.late_urgent_after();
        let values = (seen.bulk, after, until, seen.urgent, urgent_until, late, seen.position);
        let changes: Vec<NewChange> = self.fetch_all(sql, values, "read the pending changes").await?;
        for change in &changes {
            let taken = if change.is_urgent { &mut seen.urgent } else { &mut seen.bulk };
            *taken = change.id.max(*taken);
        }
        seen.position = position;
        Ok(changes)
    }

    /// Returns those of these changes that are pending, by id.
    pub(crate) async fn outbox_pending_of(&self, changes: &[ChangeId]) -> Result<Vec<ChangeRow>> {
        if changes.is_empty() {
            return Ok(Vec::new());
        }
        let sql = concat!(
            change_rows!(),
            " WHERE state = 'pending' AND id IN (SELECT CAST(atom AS BIGINT) FROM json_each($1)) ORDER BY id"
        );
        self.fetch_all(sql, (json_rows(changes),), "read pending changes").await
    }

    /// Returns the pending changes that are no quantities, or the shipments and tracking numbers among them
    /// alone; operators' first, then by id.
    pub(crate) async fn outbox_deliveries(&self, shipments_alone: bool) -> Result<Vec<ChangeRow>> {
        let sql = concat!(
            change_rows!(),
            " WHERE state = 'pending' AND kind NOT IN ('quantity.set', 'quantity.adjust') \
             AND (NOT $1 OR kind IN ('shipment.create', 'tracking.submit')) ORDER BY priority DESC, id"
        );
        self.fetch_all(sql, (shipments_alone,), "read the pending changes that are no quantities").await
    }

    /// Returns the pending and held changes of these stock levels in a window, under all their spellings, by id.
    ///
    /// The stock levels are named as [`Self::stock_levels_resolve`] returns them.
    pub(crate) async fn outbox_open_changes(
        &self,
        window: &OutboxWindow,
        levels: &[StockLevel],
    ) -> Result<Vec<OpenChange>> {
        let sql = concat!(
            level_names!(),
            change_columns!(),
            ", k.stock_level_sku, k.warehouse_id ",
            changes_of_levels!()
        );
        self.fetch_all(sql, level_values(window, levels), "read the changes of some stock levels").await
    }

    /// Returns the changes that may create a product: pending, sending or in doubt.
    pub(crate) async fn outbox_open_product_creates(&self) -> Result<Vec<ChangeRow>> {
        let sql = concat!(
            change_rows!(),
            " WHERE kind = 'product.create' AND state IN ('pending', 'sending', 'in_doubt') ORDER BY id"
        );
        self.fetch_all(sql, (), "read the products to come").await
    }

    /// Returns the changes of one state after an id, oldest first, but for final and acknowledged ones.
    pub(crate) async fn outbox_oldest(
        &self,
        state: &str,
        reason: Option<&str>,
        kind: Option<&str>,
        after: i64,
        limit: u32,
    ) -> Result<Vec<ChangeRow>> {
        // The conditions are those of the partial indexes.
        let is_of_state = match state {
            "pending" => "state = 'pending' AND $1 = 'pending'",
            "rejected" => "state = 'rejected' AND acknowledged_ms IS NULL AND $1 = 'rejected'",
            _ => "state IN ('sending', 'held', 'in_doubt') AND state = $1",
        };
        let sql = format!(
            "{} WHERE {is_of_state} AND id > $2 AND (CAST($3 AS TEXT) IS NULL OR reason = $3) \
             AND (CAST($4 AS TEXT) IS NULL OR kind = $4) ORDER BY id LIMIT CAST($5 AS BIGINT)",
            change_rows!()
        );
        let values = (state, after, reason, kind, i64::from(limit));
        self.fetch_all(AssertSqlSafe(sql), values, "read the oldest changes").await
    }

    /// Returns the change with this key.
    pub async fn outbox_show(&self, key: &str) -> Result<Option<ChangeRow>> {
        self.fetch_optional(CHANGE_BY_KEY, (key,), "read a change").await
    }

    /// Returns the keys of these changes.
    pub(crate) async fn outbox_keys(&self, changes: &[ChangeId]) -> Result<BTreeMap<ChangeId, String>> {
        if changes.is_empty() {
            return Ok(BTreeMap::new());
        }
        let sql = "SELECT id, key FROM outbox WHERE id IN (SELECT CAST(atom AS BIGINT) FROM json_each($1))";
        let rows: Vec<(ChangeId, LossyText)> =
            self.fetch_all(sql, (json_rows(changes),), "read the keys of changes").await?;
        Ok(rows.into_iter().map(|(id, key)| (id, key.into())).collect())
    }

    /// Returns the number of changes in each state.
    pub(crate) async fn outbox_counts(&self) -> Result<Vec<(String, i64)>> {
        let sql = "SELECT state, count(*) FROM outbox GROUP BY state ORDER BY state";
        self.fetch_all(sql, (), "count the changes").await
    }

    /// Returns (kind, state, number) of the changes in a final state.
    ///
    /// A program may have inserted any text as a kind. All kinds but `kinds` are counted as `other`.
    pub(crate) async fn outbox_final_counts(&self, kinds: &[&str]) -> Result<Vec<(String, String, i64)>> {
        let sql = "SELECT CASE WHEN kind IN (SELECT atom FROM json_each($1)) THEN kind ELSE 'other' END AS kind, \
                          state, count(*) FROM outbox \
                   WHERE state IN ('applied', 'rejected', 'cancelled') GROUP BY 1, 2";
        self.fetch_all(sql, (json_rows(kinds),), "count the final changes").await
    }

    /// Returns the number of held changes whose quantity a person must decide.
    pub(crate) async fn outbox_open_conflicts(&self) -> Result<i64> {
        let sql = "SELECT count(*) FROM outbox WHERE state IN ('sending', 'held', 'in_doubt') \
                   AND state = 'held' AND reason IN ('conflict', 'stale_base', 'mismatch')";
        self.fetch_value(sql, (), "count the conflicts").await
    }
}

/// Returns id and revision of the first `limit` pending and held changes of these stock levels in a window.
pub(in crate::store) async fn outbox_open_revisions(
    from: &mut Connection,
    window: &OutboxWindow,
    levels: &[StockLevel],
    limit: usize,
) -> Result<Vec<(ChangeId, i64)>> {
    let sql = concat!(level_names!(), "SELECT id, revision ", changes_of_levels!(), " LIMIT $6");
    let (names, after, until, urgent, late) = level_values(window, levels);
    let values = (names, after, until, urgent, late, i64::try_from(limit).unwrap_or(i64::MAX));
    from.rows(sql, values).await.context("read the revisions of changes")
}

fn level_values(
    window: &OutboxWindow,
    levels: &[StockLevel],
) -> (String, ChangeId, ChangeId, ChangeId, ChangeId) {
    let late = window.late_urgent_after();
    (stock_level_names(levels), window.after, window.until, window.urgent_until, late)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_limit_in_the_queries_is_the_limit_of_bodies() {
        assert!(body_columns!().contains(&format!("<= {} ", crate::outbox::BODY_MAX_BYTES)));
    }
}
