//! Wishes in doubt: what was sent, what the service showed since, and the end of the doubt.

use super::cells::json;
use super::error::Doing;
use super::text::{BodyText, Text, body_column};
use super::{Store, StoreError, Write};
use crate::model::{ExchangeId, Timestamp, WishId};
use crate::outbox::Stored;
use serde_json::Value;
use sqlx::FromRow;

/// A wish of a call of which at least one wish is in doubt. The others of the call are its witnesses.
#[derive(Clone, Debug, FromRow)]
pub struct DoubtRow {
    /// The wish.
    pub id: i64,
    /// The caller's name for it.
    #[sqlx(try_from = "Text")]
    pub key: String,
    /// What kind of wish.
    #[sqlx(try_from = "Text")]
    pub kind: String,
    /// Its body.
    #[sqlx(try_from = "BodyText")]
    pub body: Stored,
    /// Where it stands.
    pub state: String,
    /// Why.
    pub reason: Option<String>,
    /// Why, as a sentence.
    pub detail: Option<String>,
    /// The exchange that carried it.
    pub exchange_id: i64,
    /// When that was sent.
    pub sent_ms: i64,
    /// The moment from which it is known to have been sent, since the boot of the newest session's machine.
    pub sent_moment: Option<i64>,
    /// What was kept with the claim, as JSON.
    pub claimed: Option<String>,
    /// The looks since, oldest first, as JSON `[[milliseconds, since boot likewise, what it showed], …]`.
    pub looks: String,
    /// The product of the cell it wrote.
    pub product: Option<i64>,
    /// Its SKU in the service's spelling.
    pub cell_sku: Option<String>,
    /// The warehouse of the cell it wrote.
    pub warehouse_id: Option<i64>,
    /// The fact it was decided on.
    pub before: Option<i64>,
    /// What was written.
    pub written: Option<i64>,
}

/// A shipment that a person says a wish in doubt made.
#[derive(Clone, Debug, FromRow)]
pub struct AdoptionRow {
    /// The wish.
    pub wish_id: i64,
    /// Its key.
    #[sqlx(try_from = "Text")]
    pub key: String,
    /// Where it stands.
    pub state: String,
    /// What it was sent with, as JSON.
    pub claimed: Option<String>,
    /// The shipment.
    pub shipment_id: i64,
}

/// Wishes that were sent, with what is known of it. A call's fold and warehouse name one cell, since twins never share
/// a call.
///
/// Moments are those of the boot of the newest session. What another boot sent counts from the start of the first session
/// of this boot behind it: how long before that it was sent, only another machine's calendar says.
pub(super) const DOUBTS: &str = concat!(
    "
WITH newest AS (SELECT boot_id FROM session ORDER BY id DESC LIMIT 1),
     found AS (SELECT s.id, s.boot_id = (SELECT boot_id FROM newest) AS is_same, (
                      SELECT f.started_moment FROM session f WHERE f.id > s.id
                         AND f.boot_id = (SELECT boot_id FROM newest) AND f.started_moment IS NOT NULL
                      ORDER BY f.id LIMIT 1) AS since_moment
               FROM session s)
SELECT o.id, o.key, o.kind, ",
    body_column!(),
    ", o.state, o.reason, o.detail, o.exchange_id, e.sent_ms,
       iif(s.is_same, e.sent_moment, s.since_moment) AS sent_moment,
       d.evidence AS claimed,
       (SELECT coalesce(json_group_array(json_array(l.sent_ms, l.sent_moment, json(l.shown))), '[]')
        FROM (SELECT k.sent_ms, k.shown,
                     iif(ks.is_same, ke.sent_moment, ks.since_moment) AS sent_moment
              FROM in_doubt_check k JOIN exchange ke ON ke.id = k.exchange_id
              JOIN found ks ON ks.id = ke.session_id
              WHERE k.change_id = o.id AND k.exchange_id > o.exchange_id ORDER BY k.exchange_id) l) AS looks,
       w.product, w.sku AS cell_sku, w.warehouse_id, w.before, w.written
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
    /// The wishes of every call of which at least one is in doubt.
    pub async fn doubt_list(&self) -> Result<Vec<DoubtRow>, StoreError> {
        let sql = format!(
            "{DOUBTS} WHERE o.exchange_id IN (SELECT exchange_id FROM outbox \
                 WHERE state IN ('sending', 'held', 'in_doubt') AND state = 'in_doubt') ORDER BY o.id"
        );
        let rows = sqlx::query_as(sqlx::AssertSqlSafe(sql)).fetch_all(&mut *self.read().await?).await;
        rows.doing("read the wishes in doubt")
    }

    /// Number of stock levels that a call was sent with, also of those that were decided since.
    pub async fn call_entries(&self, exchange: ExchangeId) -> Result<i64, StoreError> {
        let sql = "SELECT count(*) FROM (SELECT DISTINCT w.sku, w.warehouse_id FROM change_transition m \
                       JOIN change_stock_level w ON w.change_id = m.change_id WHERE m.exchange_id = ?1)";
        let query = sqlx::query_scalar(sql).bind(exchange.0);
        query.fetch_one(&mut *self.read().await?).await.doing("count the stock levels of a call")
    }

    /// The shipments to be adopted.
    pub async fn adoption_list(&self) -> Result<Vec<AdoptionRow>, StoreError> {
        let sql = "SELECT a.change_id AS wish_id, o.key, o.state, d.evidence AS claimed, a.shipment_id \
                   FROM adoption a \
                   JOIN outbox o ON o.id = a.change_id LEFT JOIN delivery d ON d.change_id = a.change_id \
                   ORDER BY 1";
        sqlx::query_as(sql)
            .fetch_all(&mut *self.read().await?)
            .await
            .doing("read the shipments to be adopted")
    }

    /// What a wish was sent with and the looks since, as one JSON object; for people.
    pub async fn evidence(&self, wish: WishId) -> Result<Value, StoreError> {
        let sql = "SELECT json_object('claimed', (SELECT json(evidence) FROM delivery WHERE change_id = ?1), \
                       'made_id', (SELECT created_id FROM delivery WHERE change_id = ?1), \
                       'looks', (SELECT json_group_array(json_object('exchange_id', l.exchange_id, 'at', \
                           strftime('%Y-%m-%dT%H:%M:%fZ', l.sent_ms / 1000.0, 'unixepoch'), 'shown', json(l.shown))) \
                           FROM (SELECT * FROM in_doubt_check WHERE change_id = ?1 ORDER BY exchange_id) l))";
        let text: String = sqlx::query_scalar(sql)
            .bind(wish.0)
            .fetch_one(&mut *self.read().await?)
            .await
            .doing("read what was seen of a wish")?;
        let seen = serde_json::from_str(&text);
        seen.map_err(|_| StoreError::Foreign { what: "what was seen of a wish", value: text })
    }
}

impl Write {
    /// Keeps what a look showed of some wishes.
    pub async fn look_keep(
        &mut self,
        exchange: ExchangeId,
        sent_at: Timestamp,
        shown: &[(WishId, Value)],
    ) -> Result<(), StoreError> {
        let sql = "INSERT OR REPLACE INTO in_doubt_check (change_id, exchange_id, sent_ms, shown) \
                   SELECT value->>0, ?2, ?3, json(value->1) FROM json_each(?1)";
        let query = sqlx::query(sql).bind(json(shown)).bind(exchange.0).bind(sent_at.0);
        query.execute(&mut *self.tx).await.map(drop).doing("keep what a look showed")
    }
}
