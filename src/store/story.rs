//! The story of one wish, for people: its moves, what was said of it, the exchanges that carried it, and what might be
//! the shipment it made.

use super::error::Doing;
use super::run::ExchangeRow;
use super::{DoubtRow, Store, StoreError};
use crate::model::{LineItemId, OrderId, WishId};
use sqlx::FromRow;

/// One move of a wish.
#[derive(Clone, Debug, FromRow)]
pub struct MoveRow {
    /// Its place in the journal: what was decided at the same position made it move.
    pub position: i64,
    /// When.
    pub at_ms: i64,
    /// Where to.
    pub state: String,
    /// Why, as a short word.
    pub reason: Option<String>,
    /// Why, as a sentence.
    pub detail: Option<String>,
    /// The exchange that carried it then.
    pub exchange_id: Option<i64>,
}

/// A decision on a wish that the journal holds: settle's, or a person's word.
#[derive(Clone, Debug, FromRow)]
pub struct DecisionRow {
    /// Its place in the journal.
    pub position: i64,
    /// When.
    pub at_ms: i64,
    /// What kind of decision.
    pub kind: String,
    /// Its words, as JSON.
    pub detail: Option<String>,
}

/// A shipment of an order that is known and that no wish made, as far as we know.
#[derive(Clone, Debug)]
pub struct CandidateRow {
    /// Its id.
    pub shipment_id: i64,
    /// The order's lines and quantities of its items.
    pub items: Vec<(LineItemId, i64)>,
}

impl Store {
    /// The moves of a wish, oldest first.
    pub async fn story_moves(&self, wish: WishId) -> Result<Vec<MoveRow>, StoreError> {
        let sql = "SELECT position, at_ms, state, reason, detail, exchange_id FROM change_transition \
                   WHERE change_id = ?1 ORDER BY revision";
        sqlx::query_as(sql)
            .bind(wish.0)
            .fetch_all(&mut *self.read().await?)
            .await
            .doing("read the moves of a wish")
    }

    /// The decisions on a wish, oldest first.
    pub async fn story_decisions(&self, key: &str) -> Result<Vec<DecisionRow>, StoreError> {
        let sql = "SELECT position, at_ms, kind, detail FROM event WHERE subject = ?1 ORDER BY position";
        sqlx::query_as(sql)
            .bind(key)
            .fetch_all(&mut *self.read().await?)
            .await
            .doing("read the decisions on a wish")
    }

    /// The exchanges that carried a wish, in order.
    pub async fn story_exchanges(&self, wish: WishId) -> Result<Vec<ExchangeRow>, StoreError> {
        let sql = "SELECT id, operation, target, lane, sent_ms, answered_ms, verdict, status, message, parked \
                   FROM exchange WHERE id IN (SELECT exchange_id FROM change_transition WHERE change_id = ?1 \
                                              UNION SELECT exchange_id FROM outbox WHERE id = ?1) ORDER BY id";
        sqlx::query_as(sql)
            .bind(wish.0)
            .fetch_all(&mut *self.read().await?)
            .await
            .doing("read the exchanges of a wish")
    }

    /// The wish as it was last sent, if it was.
    pub async fn story_sent(&self, wish: WishId) -> Result<Option<DoubtRow>, StoreError> {
        let sql = format!("{} WHERE o.id = ?1", super::doubt::DOUBTS);
        let query = sqlx::query_as(sqlx::AssertSqlSafe(sql)).bind(wish.0);
        query.fetch_optional(&mut *self.read().await?).await.doing("read what a wish was sent with")
    }

    /// The shipments of an order that may be the one a wish in doubt made.
    pub async fn story_candidates(&self, order: OrderId) -> Result<Vec<CandidateRow>, StoreError> {
        let sql = "SELECT i.shipment_id, json_group_array(json_array(i.line_item_id, i.quantity)) \
                   FROM shipment s JOIN shipment_item i ON i.shipment_id = s.id \
                   WHERE (s.order_id = ?1 OR i.line_item_id IN \
                             (SELECT line_item_id FROM order_line_item WHERE order_id = ?1)) \
                     AND i.line_item_id IS NOT NULL \
                     AND NOT EXISTS (SELECT 1 FROM delivery d WHERE d.kind = 'shipment.create' \
                     AND d.created_id = s.id) \
                   GROUP BY i.shipment_id ORDER BY i.shipment_id";
        let rows: Vec<(i64, String)> = sqlx::query_as(sql)
            .bind(order.0)
            .fetch_all(&mut *self.read().await?)
            .await
            .doing("look for the shipments of an order")?;
        let candidate = |(shipment_id, items): (i64, String)| match serde_json::from_str(&items) {
            Ok(items) => Ok(CandidateRow { shipment_id, items }),
            Err(_) => Err(StoreError::Foreign { what: "the items of a shipment", value: items }),
        };
        rows.into_iter().map(candidate).collect()
    }
}
