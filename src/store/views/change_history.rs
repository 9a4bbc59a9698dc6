//! History of one change, for people: its transitions, decisions, exchanges and possible shipments.

use crate::model::{ChangeId, LineItemId, OrderId};
use crate::store::engine::json_fields::rfc3339;
use crate::store::journal::run::{ExchangeRow, exchange_rows};
use crate::store::outbox::in_doubt;
use crate::store::{InDoubtRow, JournalEvent, Result, Store};
use serde::Serialize;
use sqlx_macros::FromRow;

#[derive(Clone, Debug, FromRow, Serialize)]
pub struct TransitionRow {
    /// Position of the journal; an entry at this position caused the transition.
    pub position: i64,
    #[serde(rename = "at", serialize_with = "rfc3339")]
    pub at_ms: i64,
    pub state: String,
    pub reason: Option<String>,
    pub detail: Option<String>,
    /// Exchange that carried the change then.
    pub exchange_id: Option<i64>,
}

/// Known shipment of an order that no change is known to have created.
#[derive(Clone, Debug, FromRow)]
pub(crate) struct CandidateShipment {
    pub shipment_id: i64,
    /// Order line and quantity of each item.
    #[sqlx(json)]
    pub items: Vec<(LineItemId, i64)>,
}

impl Store {
    /// Returns the transitions of a change, oldest first.
    pub async fn change_transitions(&self, change: ChangeId) -> Result<Vec<TransitionRow>> {
        let sql = "SELECT position, at_ms, state, reason, detail, exchange_id FROM change_transition \
                   WHERE change_id = $1 ORDER BY revision";
        self.fetch_all(sql, (change.0,), "read the transitions of a change").await
    }

    /// Returns the decisions on a change, of `settle` or of a person, oldest first.
    ///
    /// These are the events of its key, those of another change of its entry that moved it too, and those
    /// that released many changes.
    pub(crate) async fn change_decisions(&self, key: &str) -> Result<Vec<JournalEvent>> {
        let sql = "SELECT position, at_ms, kind, subject, detail, decided_by FROM event WHERE subject = $1 \
                   UNION SELECT e.position, e.at_ms, e.kind, e.subject, e.detail, e.decided_by FROM outbox o \
                       JOIN event e ON e.subject = 'outbox' AND e.kind = 'brake.released' AND e.at_ms = o.released_ms \
                       WHERE o.key = $1 \
                   UNION SELECT e.position, e.at_ms, e.kind, e.subject, e.detail, e.decided_by FROM outbox o \
                       JOIN outbox other ON other.exchange_id = o.exchange_id \
                       JOIN event e ON e.subject = other.key AND e.kind = 'outbox.resolved' \
                       JOIN change_transition t ON t.change_id = o.id AND t.at_ms = e.at_ms WHERE o.key = $1 \
                   ORDER BY position";
        self.fetch_all(sql, (key,), "read the decisions on a change").await
    }

    /// Returns the exchanges that carried a change, in order.
    pub(crate) async fn change_exchanges(&self, change: ChangeId) -> Result<Vec<ExchangeRow>> {
        let sql = concat!(
            exchange_rows!(),
            " WHERE e.id IN (SELECT exchange_id FROM change_transition WHERE change_id = $1 \
                             UNION SELECT exchange_id FROM outbox WHERE id = $1) ORDER BY e.id"
        );
        self.fetch_all(sql, (change.0,), "read the exchanges of a change").await
    }

    /// Returns the change with its last request; `None`: it was never sent.
    pub(crate) async fn change_last_request(&self, change: ChangeId) -> Result<Option<InDoubtRow>> {
        let sql = format!("{} WHERE o.id = $1", in_doubt::IN_DOUBT_ROWS);
        self.fetch_optional(sqlx::AssertSqlSafe(sql), (change.0,), "read the last request of a change").await
    }

    /// Returns the shipments of an order that a change in doubt may have created.
    pub(crate) async fn change_candidate_shipments(&self, order: OrderId) -> Result<Vec<CandidateShipment>> {
        let sql = "SELECT i.shipment_id, json(json_group_array(json_array(i.line_item_id, i.quantity))) AS items \
                   FROM shipment s JOIN shipment_item i ON i.shipment_id = s.id \
                   WHERE (s.order_id = $1 OR i.line_item_id IN \
                             (SELECT line_item_id FROM order_line_item WHERE order_id = $1)) \
                     AND i.line_item_id IS NOT NULL \
                     AND NOT EXISTS (SELECT 1 FROM delivery d WHERE d.kind = 'shipment.create' \
                     AND d.created_id = s.id) \
                   GROUP BY i.shipment_id ORDER BY i.shipment_id";
        self.fetch_all(sql, (order,), "read the shipments of an order").await
    }
}
