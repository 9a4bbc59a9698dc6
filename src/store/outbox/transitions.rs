//! Transitions of changes, and their insertion.
//!
//! Every transition names the state it expects, so no change is moved twice.

use crate::model::{ChangeId, ExchangeId, Timestamp, cut_reason};
use crate::outbox::{ChangeState, Reason};
use crate::store::mirror::stock_levels::json_rows;
use crate::store::{Result, Store, StoreError, WriteTransaction};
use serde::Serialize;
use std::collections::BTreeSet;

#[derive(Clone, Debug, Serialize)]
pub struct ChangeOutcome {
    pub id: ChangeId,
    pub to: ChangeState,
    pub reason: Option<Reason>,
    pub detail: Option<String>,
    pub mine: Option<String>,
    /// The platform's side of a conflict.
    pub theirs: Option<String>,
}

impl ChangeOutcome {
    /// Makes a transition; `detail` is cut by [`crate::model::cut_reason`].
    pub fn new(id: ChangeId, to: ChangeState, reason: Option<Reason>, detail: impl Into<String>) -> Self {
        Self { id, to, reason, detail: Some(cut_reason(detail.into())), mine: None, theirs: None }
    }
}

#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct ClaimedChange {
    pub id: ChangeId,
    /// Quantity written for its stock level; `None` for other kinds.
    pub written: Option<i64>,
}

/// Returns true if the insert guard refused the key because another body has it.
fn is_key_of_another(error: &sqlx::Error) -> bool {
    let message = error.as_database_error().map(|error| error.message());
    message.is_some_and(|message| message.contains("this key already names another change"))
}

impl Store {
    /// Returns the changes that are `sending`.
    pub(crate) async fn outbox_sending(&self) -> Result<Vec<ChangeId>> {
        let sql =
            "SELECT id FROM outbox WHERE state IN ('sending', 'held', 'in_doubt') AND state = 'sending'";
        self.fetch_column(sql, (), "read the changes being sent").await
    }
}

impl WriteTransaction {
    /// Inserts a change, with the person who inserts it; returns false if its key is known already, and then
    /// nothing happens. Fails with [`StoreError::KeyTaken`] if the key belongs to another change.
    pub async fn outbox_insert(&mut self, key: &str, kind: &str, body: &str, priority: i64) -> Result<bool> {
        let sql = "INSERT INTO outbox (key, kind, body, priority) VALUES ($1, $2, $3, $4)";
        let is_new = match self.execute_counting(sql, (key, kind, body, priority), "insert a change").await {
            Err(StoreError::Sql { source, .. }) if is_key_of_another(&source) => {
                return Err(StoreError::KeyTaken(key.to_owned()));
            }
            inserted => inserted? > 0,
        };
        if let Some(decider) = self.decider.clone().filter(|_| is_new) {
            let sql = "UPDATE outbox SET revision = revision + 1, inserted_by = $2 WHERE key = $1";
            self.execute(sql, (key, &*decider), "name the person who inserts a change").await?;
        }
        Ok(is_new)
    }

    /// Moves changes that are in `from` and returns their number. Changes in other states are skipped, and those
    /// that stay in their state with the same reason and detail.
    ///
    /// The units that others took meanwhile are stored with the changes that took effect.
    pub async fn outbox_transition(
        &mut self,
        from: ChangeState,
        moves: &[ChangeOutcome],
        at: Timestamp,
    ) -> Result<u64> {
        let moved = self.outbox_transition_each(from, moves, at).await?.len() as u64;
        let took_effect =
            |m: &&ChangeOutcome| m.to == ChangeState::Applied || m.reason == Some(Reason::Landed);
        let applied: Vec<ChangeId> = moves.iter().filter(took_effect).map(|m| m.id).collect();
        if !applied.is_empty() {
            self.units_taken_store(&applied, at).await?;
        }
        Ok(moved)
    }

    /// Moves changes that are in `from` and returns the ids of those that were moved.
    pub(crate) async fn outbox_transition_each(
        &mut self,
        from: ChangeState,
        moves: &[ChangeOutcome],
        at: Timestamp,
    ) -> Result<BTreeSet<ChangeId>> {
        let sql = "UPDATE outbox SET revision = revision + 1, state = m.value->>'to', \
                       reason = m.value->>'reason', detail = m.value->>'detail', mine = m.value->>'mine', \
                       theirs = m.value->>'theirs', state_changed_ms = $3, \
                       settled_at = CASE WHEN m.value->>'to' IN ('applied', 'rejected', 'cancelled') THEN $4 END \
                   FROM json_each($1) m WHERE outbox.id = CAST(m.value->>'id' AS BIGINT) AND state = $2 \
                     AND (state, reason, detail) IS DISTINCT FROM \
                         (m.value->>'to', m.value->>'reason', m.value->>'detail') \
                   RETURNING id";
        let values = (json_rows(moves), from.as_str(), at, at.to_rfc3339());
        let moved = self.fetch_column(sql, values, "move changes").await?;
        Ok(moved.into_iter().collect())
    }

    /// Dates changes whose insertion lies in the future: `at` replaces the time of their insertion.
    pub(crate) async fn outbox_date_future(&mut self, changes: &[ChangeId], at: Timestamp) -> Result<()> {
        let sql = "UPDATE outbox SET revision = revision + 1, dated_at = $2 \
                   WHERE id IN (SELECT CAST(atom AS BIGINT) FROM json_each($1)) \
                     AND dated_at IS NULL AND created_at > $2";
        let values = (json_rows(changes), at.to_rfc3339());
        self.execute(sql, values, "date changes from the future").await
    }

    /// Claims pending changes for an exchange and returns their number.
    pub(crate) async fn outbox_claim(
        &mut self,
        exchange: ExchangeId,
        claims: &[ClaimedChange],
        at: Timestamp,
    ) -> Result<u64> {
        let sql = "UPDATE outbox SET revision = revision + 1, state = 'sending', reason = NULL, \
                   detail = NULL, \
                       exchange_id = $2, written = CAST(m.value->>'written' AS BIGINT), \
                       state_changed_ms = $3 \
                   FROM json_each($1) m WHERE outbox.id = CAST(m.value->>'id' AS BIGINT) AND state = 'pending'";
        self.execute_counting(sql, (json_rows(claims), exchange, at), "claim changes").await
    }

    /// Returns true if these changes are claimed for the exchange.
    pub(crate) async fn outbox_was_claimed(
        &mut self,
        exchange: ExchangeId,
        claims: &[ClaimedChange],
    ) -> Result<bool> {
        let sql = "SELECT count(*) > 0 FROM outbox JOIN json_each($1) m ON outbox.id = CAST(m.value->>'id' AS BIGINT) \
                   WHERE exchange_id = $2 AND state = 'sending'";
        self.fetch_value(sql, (json_rows(claims), exchange), "look for a claim").await
    }

    /// Replaces the stored policies for the view `stock`; warehouse 0 stands for all without a row.
    pub(crate) async fn quantity_policies_store(&mut self, policies: &[(i64, &str)]) -> Result<()> {
        self.execute("DELETE FROM quantity_policy", (), "write the policies").await?;
        let sql = "INSERT INTO quantity_policy (warehouse_id, policy) \
                   SELECT CAST(value->>0 AS BIGINT), value->>1 FROM json_each($1)";
        self.execute(sql, (json_rows(policies),), "write the policies").await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::REASON_MAX_CHARS;

    #[test]
    fn what_the_service_says_at_length_is_kept_as_a_sentence() {
        let message = format!("the platform refused it: {}", "x".repeat(1_000_000));
        let verdict =
            ChangeOutcome::new(ChangeId(1), ChangeState::Rejected, Some(Reason::ServiceRefused), message);
        assert_eq!(verdict.detail.unwrap().chars().count(), REASON_MAX_CHARS + 1);
    }
}
