//! Changes in doubt: the request, the checks since, and the end of the doubt.

use super::changes::{ChangeContent, body_columns};
use crate::model::{ChangeId, ExchangeId, Timestamp};
use crate::outbox::ChangeState;
use crate::store::engine::lossy_text::LossyText;
use crate::store::mirror::stock_levels::json_rows;
use crate::store::{Result, Store, WriteTransaction};
use serde_json::Value;
use sqlx::types::Json;
use sqlx_macros::FromRow;

/// Change of a call with at least one change in doubt; the call's other changes are witnesses.
#[derive(Clone, Debug, FromRow)]
pub(crate) struct InDoubtRow {
    pub id: ChangeId,
    pub key: LossyText,
    #[sqlx(flatten)]
    pub content: ChangeContent,
    pub state: ChangeState,
    pub reason: Option<String>,
    pub detail: Option<String>,
    pub exchange_id: i64,
    /// Time at which the exchange was sent.
    pub sent_ms: i64,
    /// Moment at or before which it was sent, since the boot of the newest session.
    pub sent_moment: Option<i64>,
    /// Evidence stored with the claim, as JSON.
    pub evidence: Option<String>,
    /// Later checks, oldest first, as JSON `[[milliseconds, moment as above, result], …]`.
    pub checks: LossyText,
    /// Product of the written stock level.
    pub product: Option<i64>,
    /// SKU of the written stock level, in the platform's spelling.
    pub stock_level_sku: Option<String>,
    /// Warehouse of the written stock level.
    pub warehouse_id: Option<i64>,
    /// Fact on which the write was decided.
    pub before: Option<i64>,
    pub written: Option<i64>,
}

/// Shipment that a person names as the result of a change in doubt.
#[derive(Clone, Debug, FromRow)]
pub(crate) struct AdoptionRow {
    pub change_id: ChangeId,
    pub key: LossyText,
    pub state: ChangeState,
    /// Evidence stored with the claim, as JSON.
    pub evidence: Option<String>,
    pub shipment_id: i64,
}

/// SQL: changes that were sent, with their evidence and checks. A call's case key and warehouse name one
/// stock level, because two products of one case key never share a call. Moments are relative to the boot of
/// the newest session. An exchange of another boot gets the start of this boot's first session after it,
/// because only the other boot's calendar dates it more exactly.
pub(in crate::store) const IN_DOUBT_ROWS: &str = concat!(
    "
WITH newest AS (SELECT boot_id FROM session ORDER BY id DESC LIMIT 1),
     found AS (SELECT s.id, s.boot_id = (SELECT boot_id FROM newest) AS is_same, (
                      SELECT f.started_moment FROM session f WHERE f.id > s.id
                         AND f.boot_id = (SELECT boot_id FROM newest) AND f.started_moment IS NOT NULL
                      ORDER BY f.id LIMIT 1) AS since_moment
               FROM session s)
SELECT o.id, o.key, o.kind, ",
    body_columns!(),
    ", o.state, o.reason, o.detail, o.exchange_id, e.sent_ms,
       CASE WHEN s.is_same THEN e.sent_moment ELSE s.since_moment END AS sent_moment,
       d.evidence,
       (SELECT coalesce(json_group_array(json_array(l.sent_ms, l.sent_moment, json(l.shown))), '[]')
        FROM (SELECT k.sent_ms, k.shown,
                     CASE WHEN ks.is_same THEN ke.sent_moment ELSE ks.since_moment END AS sent_moment
              FROM in_doubt_check k JOIN exchange ke ON ke.id = k.exchange_id
              JOIN found ks ON ks.id = ke.session_id
              WHERE k.change_id = o.id AND k.exchange_id > o.exchange_id ORDER BY k.exchange_id) l) AS checks,
       w.product, w.sku AS stock_level_sku, w.warehouse_id, w.before, w.written
FROM outbox o
JOIN exchange e ON e.id = o.exchange_id
JOIN found s ON s.id = e.session_id
LEFT JOIN delivery d ON d.change_id = o.id
LEFT JOIN (SELECT w.exchange_id, w.product, p.sku, p.case_key, w.warehouse_id, w.before, w.written
           FROM stock_level_write w JOIN product p ON p.id = w.product) w
       ON w.exchange_id = o.exchange_id AND w.warehouse_id = o.warehouse_id
      AND w.case_key = (SELECT q.case_key FROM product q WHERE q.sku = o.sku)"
);

impl Store {
    /// Returns all changes of every call with at least one change in doubt.
    pub(crate) async fn in_doubt_list(&self) -> Result<Vec<InDoubtRow>> {
        let sql = format!(
            "{IN_DOUBT_ROWS} WHERE o.exchange_id IN (SELECT exchange_id FROM outbox \
                 WHERE state IN ('sending', 'held', 'in_doubt') AND state = 'in_doubt') ORDER BY o.id"
        );
        self.fetch_all(sqlx::AssertSqlSafe(sql), (), "read the changes in doubt").await
    }

    /// Returns the number of stock levels in a call, including those that were decided since.
    pub(crate) async fn call_entry_count(&self, exchange: ExchangeId) -> Result<i64> {
        let sql = "SELECT count(*) FROM (SELECT DISTINCT w.sku, w.warehouse_id FROM change_transition m \
                       JOIN change_stock_level w ON w.change_id = m.change_id WHERE m.exchange_id = $1) w";
        self.fetch_value(sql, (exchange,), "count the stock levels of a call").await
    }

    /// Returns the shipments to be adopted.
    pub(crate) async fn adoption_list(&self) -> Result<Vec<AdoptionRow>> {
        let sql = "SELECT a.change_id, o.key, o.state, d.evidence, a.shipment_id \
                   FROM adoption a \
                   JOIN outbox o ON o.id = a.change_id LEFT JOIN delivery d ON d.change_id = a.change_id \
                   ORDER BY 1";
        self.fetch_all(sql, (), "read the shipments to be adopted").await
    }

    /// Returns the evidence of a change and its later checks as one JSON object.
    pub(crate) async fn change_evidence(&self, change: ChangeId) -> Result<Value> {
        let sql = "SELECT json_object('claimed', (SELECT json(evidence) FROM delivery WHERE change_id = $1), \
                       'made_id', (SELECT created_id FROM delivery WHERE change_id = $1), \
                       'answers', (SELECT json(json_group_array(json_object('exchange_id', l.exchange_id, 'at', \
                           strftime('%Y-%m-%dT%H:%M:%fZ', l.sent_ms / 1000.0, 'unixepoch'), 'shown', json(l.shown)))) \
                           FROM (SELECT * FROM in_doubt_check WHERE change_id = $1 ORDER BY exchange_id) l))";
        let evidence: Json<Value> = self.fetch_value(sql, (change,), "read the evidence of a change").await?;
        Ok(evidence.0)
    }
}

impl WriteTransaction {
    /// Stores the result of a check for some changes.
    pub(crate) async fn in_doubt_check_store(
        &mut self,
        exchange: ExchangeId,
        sent_at: Timestamp,
        shown: &[(ChangeId, Value)],
    ) -> Result<()> {
        let sql = "INSERT INTO in_doubt_check (change_id, exchange_id, sent_ms, shown) \
                   SELECT CAST(value->>0 AS BIGINT), $2, $3, json(value->1) FROM json_each($1) WHERE true \
                   ON CONFLICT (change_id, exchange_id) DO UPDATE SET \
                       sent_ms = excluded.sent_ms, shown = excluded.shown";
        self.execute(sql, (json_rows(shown), exchange, sent_at), "store the result of a check").await
    }
}
