//! Stored history of one stock level: its facts, changes, exchanges, checks, trips and events.
//!
//! Read-only; a few queries for each stock level. The room `explain` makes the steps and their sentences.

use crate::model::ChangeId;
use crate::store::engine::lossy_text::LossyText;
use crate::store::mirror::stock_levels::json_rows;
use crate::store::outbox::changes::{body_columns, calendar_goes_back, change_columns};
use crate::store::{ChangeRow, Result, Store};
use sqlx_macros::FromRow;

/// SKU of the mirror, among those with one case key.
#[derive(Clone, Debug, FromRow)]
pub(crate) struct KnownSku {
    pub id: i64,
    pub sku: String,
    /// Row of the product that changes under this spelling refer to, which may be its own.
    pub target_product: i64,
    /// Product id at the platform; `None`: the platform never returned it.
    pub product_id: Option<i64>,
    /// Type of the product, where the platform named it.
    pub kind: Option<String>,
    /// Time since which the platform does not return it.
    pub missing_ms: Option<i64>,
}

#[derive(Clone, Debug, FromRow)]
pub(crate) struct CurrentStockLevel {
    pub warehouse_id: i64,
    /// Name of the warehouse, where the platform lists it.
    pub warehouse_name: Option<String>,
    pub quantity: Option<i64>,
    /// O, the own delta: the sum over finished writes of (written − fact used).
    pub own_delta: Option<i64>,
    /// Time at which the fact's request was sent.
    pub fact_ms: Option<i64>,
    pub fact_exchange_id: Option<i64>,
    /// Time at which the platform stopped linking the product to the warehouse.
    pub unlinked_ms: Option<i64>,
    pub pending_quantity: Option<i64>,
    /// Quantity of a write in flight or in doubt.
    pub written_in_flight: Option<i64>,
}

/// Pair (R, O) of the stock level, with the exchange or decision that set it.
#[derive(Clone, Debug, FromRow)]
pub(crate) struct QuantityStateRow {
    pub quantity: i64,
    pub own_delta: i64,
    /// Position at which it was set; `None`: unknown for the first pair.
    pub position: Option<i64>,
    /// Time at which it was first seen.
    pub since_ms: Option<i64>,
    /// Exchange that set it; `None`: a decision did, or it is unknown.
    pub exchange_id: Option<i64>,
    pub operation: Option<String>,
}

/// Change of the stock level, with the exchange that last carried it, or that showed that no call was needed.
#[derive(Clone, Debug, FromRow)]
pub(crate) struct ExplainedChange {
    #[sqlx(flatten)]
    pub change: ChangeRow,
    /// Time of the last state transition.
    pub state_changed_ms: Option<i64>,
    pub operation: Option<String>,
    /// Time at which that exchange was sent.
    pub sent_ms: Option<i64>,
    /// Position at which that exchange ended.
    pub ended: Option<i64>,
    pub verdict: Option<String>,
}

/// Event of a change other than a call: a check, a brake's trip, or a decision.
#[derive(Clone, Debug, FromRow)]
pub(crate) struct ExplainedEvent {
    /// Position in the journal, where it has one.
    pub position: Option<i64>,
    pub at_ms: i64,
    /// `look`, `trip`, or the kind of the event.
    pub kind: String,
    /// Key of the change, or the subject of the event.
    pub subject: LossyText,
    /// Result of the check, numbers of the trip, or detail of the event as JSON.
    pub detail: Option<String>,
    pub decided_by: Option<String>,
}

impl Store {
    /// Returns the SKUs with this case key.
    pub(crate) async fn explain_skus(&self, case_key: &str) -> Result<Vec<KnownSku>> {
        let sql = "SELECT p.id, p.sku, m.product AS target_product, p.product_id, p.type AS kind, p.missing_since_ms AS missing_ms \
                   FROM product p JOIN sku_spelling m ON m.spelling = p.sku WHERE p.case_key = $1 \
                   ORDER BY p.id";
        self.fetch_all(sql, (case_key,), "read a SKU").await
    }

    /// Returns the stock levels of a product and those that changes under these spellings name.
    pub(crate) async fn explain_stock_levels(
        &self,
        product: Option<i64>,
        spellings: &[String],
    ) -> Result<Vec<CurrentStockLevel>> {
        let sql = "WITH stock_level AS (SELECT warehouse_id FROM balance WHERE product = $1 \
                       UNION SELECT warehouse_id FROM outbox WHERE sku IN (SELECT atom FROM json_each($2)) \
                           AND warehouse_id IS NOT NULL) \
                   SELECT c.warehouse_id, w.name AS warehouse_name, b.quantity, b.own_delta, \
                          coalesce(b.fact_ms, r.observed_ms) AS fact_ms, \
                          coalesce(b.fact_exchange_id, r.exchange_id) AS fact_exchange_id, b.unlinked_ms, \
                          (SELECT s.pending_quantity FROM stock s WHERE s.sku = p.sku \
                           AND s.warehouse_id = c.warehouse_id) AS pending_quantity, \
                          (SELECT cw.written FROM stock_level_write cw WHERE cw.product = p.id \
                           AND cw.warehouse_id = c.warehouse_id AND cw.ended IS NULL) AS written_in_flight \
                   FROM stock_level c LEFT JOIN product p ON p.id = $1 \
                   LEFT JOIN read_batch r ON r.id = p.read_batch_id \
                   LEFT JOIN balance b ON b.product = $1 AND b.warehouse_id = c.warehouse_id \
                   LEFT JOIN warehouse w ON w.id = c.warehouse_id ORDER BY c.warehouse_id";
        self.fetch_all(sql, (product, json_rows(spellings)), "read the stock levels of a SKU").await
    }

    /// Returns all pairs of a stock level, oldest first.
    pub(crate) async fn explain_quantity_states(
        &self,
        product: i64,
        warehouse: i64,
    ) -> Result<Vec<QuantityStateRow>> {
        let sql = "WITH pair AS ( \
                       SELECT position AS until, quantity, own_delta, since_ms FROM balance_history \
                       WHERE product = $1 AND warehouse_id = $2 \
                       UNION ALL SELECT 9223372036854775807, quantity, own_delta, since_ms FROM balance \
                       WHERE product = $1 AND warehouse_id = $2), \
                   came AS (SELECT pair.*, coalesce(lag(until) OVER (ORDER BY until), \
                                (SELECT min(f.ended) FROM exchange f WHERE f.sent_ms = pair.since_ms)) AS position \
                            FROM pair) \
                   SELECT c.quantity, c.own_delta, c.position, c.since_ms, e.id AS exchange_id, e.operation \
                   FROM came c LEFT JOIN exchange e ON e.ended = c.position ORDER BY c.until";
        self.fetch_all(sql, (product, warehouse), "read the history of a stock level").await
    }

    /// Returns the changes of a stock level under these spellings, by id.
    pub(crate) async fn explain_changes(
        &self,
        spellings: &[String],
        warehouse: i64,
    ) -> Result<Vec<ExplainedChange>> {
        let sql = concat!(
            change_columns!(),
            ", state_changed_ms, x.operation, x.sent_ms, x.ended, x.verdict FROM outbox \
             LEFT JOIN (SELECT id AS carrier, operation, sent_ms, ended, verdict FROM exchange) x ON x.carrier = exchange_id \
             WHERE sku IN (SELECT atom FROM json_each($1)) AND warehouse_id = $2 ORDER BY id"
        );
        self.fetch_all(sql, (json_rows(spellings), warehouse), "read the changes of a stock level").await
    }

    /// Returns checks, trips and events of these changes, and the events of their release.
    pub(crate) async fn explain_events(&self, changes: &[ChangeId]) -> Result<Vec<ExplainedEvent>> {
        let sql = "WITH change AS (SELECT o.id, o.key, o.released_ms FROM outbox o \
                                 WHERE o.id IN (SELECT CAST(atom AS BIGINT) FROM json_each($1))) \
                   SELECT l.exchange_id AS position, l.sent_ms AS at_ms, 'look' AS kind, w.key AS subject, \
                          l.shown AS detail, NULL AS decided_by FROM change w JOIN in_doubt_check l ON l.change_id = w.id \
                   UNION ALL SELECT NULL, t.at_ms, 'trip', w.key, t.what, NULL FROM change w \
                       JOIN brake_trip_change b ON b.change_id = w.id JOIN brake_trip t ON t.id = b.trip_id \
                   UNION ALL SELECT e.position, e.at_ms, e.kind, e.subject, e.detail, e.decided_by FROM event e \
                       WHERE e.subject IN (SELECT key FROM change) \
                          OR (e.kind = 'brake.released' AND e.at_ms IN (SELECT released_ms FROM change)) \
                   ORDER BY at_ms, position NULLS FIRST";
        self.fetch_all(sql, (json_rows(changes),), "read the events of changes").await
    }
}
