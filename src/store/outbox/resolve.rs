//! Resolution of a change by a person: an event, then its effect, in one transaction (docs/rules.md 37).
//!
//! `outbox` decides the effect of each resolution; this module applies it. The daemon is notified by the
//! event and acts at once. All changes of one entry (one stock level in one call) share the outcome.

use super::changes::{CHANGE_BY_KEY, ChangeRow};
use super::in_doubt::{IN_DOUBT_ROWS, InDoubtRow};
use super::transitions::ChangeOutcome;
use crate::model::{ExchangeId, Position, Quantity, Timestamp};
use crate::outbox::{ChangeBody, ChangeState, ChangeStatus, Reason, Resolution, ResolutionStep};
use crate::store::engine::error::SqlContext;
use crate::store::journal::event::OUTBOX_RESOLVED;
use crate::store::mirror::stock_levels::StockLevelWrite;
use crate::store::{StoreError, WriteTransaction};
use serde_json::{Value, json};
use sqlx::AssertSqlSafe;
use std::time::Duration;

/// Effect of a resolution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolutionEffect {
    /// Keys of the moved changes: those of one entry.
    pub keys: Vec<String>,
    /// New state.
    pub state: ChangeState,
    /// Next step, as a sentence.
    pub next: String,
}

/// Accepted decision, or the reason for its refusal as a sentence.
pub type DecisionResult<T> = Result<T, String>;

/// Fact against which a number is measured: quantity, own delta, time of observation.
type CurrentFact = (i64, i64, Option<i64>);

impl WriteTransaction {
    /// Applies a resolution to the change with this key.
    ///
    /// An impossible resolution returns a sentence with the possible ones, and nothing is written.
    pub async fn outbox_resolve(
        &mut self,
        key: &str,
        resolution: Resolution,
        max_base_age: Duration,
        at: Timestamp,
    ) -> Result<DecisionResult<ResolutionEffect>, StoreError> {
        let Some(change) = self.outbox_find(key).await? else { return Ok(Err(unknown_key())) };
        let (from, step) = match change_status(&change)
            .and_then(|stand| Ok((stand.state, stand.resolution_step(resolution)?)))
        {
            Ok(found) => found,
            Err(why) => return Ok(Err(why)),
        };
        let id = change.id;
        match step {
            ResolutionStep::Apply => self.resolve_in_doubt(&change, from, END_APPLIED, at).await.map(Ok),
            ResolutionStep::Finish => self.resolve_in_doubt(&change, from, END_FINISHED, at).await.map(Ok),
            ResolutionStep::Requeue => self.resolve_in_doubt(&change, from, END_REQUEUED, at).await.map(Ok),
            ResolutionStep::Adopt(shipment) => {
                self.append_resolved(key, &json!({"said": "shipment", "shipment_id": shipment}), at).await?;
                self.adoption_request(id, shipment).await?;
                let next = format!("settle compares shipment {shipment} with what was sent and says so here");
                Ok(Ok(ResolutionEffect { keys: vec![change.key], state: ChangeState::InDoubt, next }))
            }
            ResolutionStep::ReplaceCount(number) => {
                self.resolve_count(&change, number, max_base_age, at).await
            }
            ResolutionStep::Reject => {
                self.append_resolved(key, &json!({"said": "theirs"}), at).await?;
                let detail =
                    format!("the operator lets the platform's number stand{}", conflict_numbers(&change));
                let verdict = ChangeOutcome::new(id, ChangeState::Rejected, Some(Reason::Operator), &detail);
                self.outbox_transition(ChangeState::Held, &[verdict], at).await?;
                Ok(Ok(ResolutionEffect {
                    keys: vec![change.key],
                    state: ChangeState::Rejected,
                    next: detail,
                }))
            }
        }
    }

    /// Requeues a held change after its cause was fixed.
    pub async fn outbox_retry(&mut self, key: &str, at: Timestamp) -> Result<DecisionResult<()>, StoreError> {
        let Some(change) = self.outbox_find(key).await? else { return Ok(Err(unknown_key())) };
        if let Err(why) = change_status(&change).and_then(|stand| stand.check_retry()) {
            return Ok(Err(why));
        }
        self.append_resolved(key, &json!({"said": "retry"}), at).await?;
        let verdict =
            ChangeOutcome::new(change.id, ChangeState::Pending, None, "planned anew by the operator");
        self.outbox_transition(ChangeState::Held, &[verdict], at).await?;
        Ok(Ok(()))
    }

    /// Cancels the change with this key and returns true if its state allowed that (`pending` or `held`).
    pub async fn outbox_cancel(&mut self, key: &str, at: Timestamp) -> Result<bool, StoreError> {
        let Some(change) = self.outbox_find(key).await? else { return Ok(false) };
        if !change.state.may_become(ChangeState::Cancelled) {
            return Ok(false);
        }
        self.append_resolved(key, &json!({"said": "cancel"}), at).await?;
        let reason = Some(Reason::Operator);
        let verdict =
            ChangeOutcome::new(change.id, ChangeState::Cancelled, reason, "cancelled by the operator");
        self.outbox_transition(change.state, &[verdict], at).await?;
        // The write behind the change is now never decided and must not block later changes of the stock
        // level.
        self.stock_level_writes_end_orphaned(at).await?;
        Ok(true)
    }

    /// Ends a doubt by a person's decision, for all changes of the entry.
    async fn resolve_in_doubt(
        &mut self,
        change: &ChangeRow,
        from: ChangeState,
        end: DoubtEnd,
        at: Timestamp,
    ) -> Result<ResolutionEffect, StoreError> {
        let entry = self.entry_changes(change).await?;
        let keys: Vec<String> = entry.iter().map(|row| row.key.clone()).collect();
        let level = entry.first().and_then(|row| Some((row, stock_level_write(row)?)));
        let write = level.as_ref().map(|(row, level)| {
            json!({"exchange": row.exchange_id, "sent_ms": row.sent_ms, "sku": row.stock_level_sku, "stock_level": level})
        });
        let decision = if end.took_effect { "landed" } else { "not landed" };
        self.append_resolved(&change.key, &json!({"said": decision, "keys": keys, "write": write}), at)
            .await?;
        if let (true, Some((row, level))) = (end.took_effect, &level) {
            let exchange = ExchangeId(row.exchange_id);
            self.stock_level_write_took_effect(exchange, Timestamp(row.sent_ms), level, at).await?;
        }
        if end.took_effect {
            self.discover_created_skus(&entry, at).await?;
        }
        let verdict = |row: &InDoubtRow| ChangeOutcome::new(row.id, end.to, end.reason, end.detail);
        let moves: Vec<ChangeOutcome> = entry.iter().map(verdict).collect();
        self.outbox_transition(from, &moves, at).await?;
        self.adoption_end(change.id).await?;
        self.stock_level_writes_end_orphaned(at).await?;
        Ok(ResolutionEffect { keys, state: end.to, next: end.detail.into() })
    }

    /// Records the SKUs of created products as discovered, as their answer would have done.
    async fn discover_created_skus(&mut self, entry: &[InDoubtRow], at: Timestamp) -> Result<(), StoreError> {
        for row in entry {
            if let Ok(ChangeBody::ProductCreate(create)) = &row.content.body {
                self.discovered_sku_created(ExchangeId(row.exchange_id), &create.sku, at).await?;
            }
        }
        Ok(())
    }

    /// Returns the changes of the entry: those of one stock level in one call with the state and reason of
    /// `change`.
    async fn entry_changes(&mut self, change: &ChangeRow) -> Result<Vec<InDoubtRow>, StoreError> {
        let sql = format!("{IN_DOUBT_ROWS} WHERE o.exchange_id = ?1 ORDER BY o.id");
        let query = sqlx::query_as(AssertSqlSafe(sql)).bind(change.exchange_id);
        let rows: Vec<InDoubtRow> =
            query.fetch_all(&mut *self.tx).await.context("read the changes of a call in doubt")?;
        let level = |row: &InDoubtRow| row.product.zip(row.warehouse_id);
        let of_change = rows.iter().find(|row| row.id == change.id).and_then(level);
        let is_of_entry = |row: &InDoubtRow| {
            row.id == change.id
                || (of_change.is_some()
                    && level(row) == of_change
                    && row.state == change.state
                    && row.reason == change.reason)
        };
        Ok(rows.into_iter().filter(is_of_entry).collect())
    }

    /// Stores a person's number, or the decision for the count's own, and requeues the count.
    async fn resolve_count(
        &mut self,
        change: &ChangeRow,
        number: Option<Quantity>,
        max_base_age: Duration,
        at: Timestamp,
    ) -> Result<DecisionResult<ResolutionEffect>, StoreError> {
        let fact = self.current_fact(change).await?;
        let near = fact.filter(|(_, _, observed)| {
            observed.is_some_and(|observed| at.duration_since(Timestamp(observed)) <= max_base_age)
        });
        if number.is_some() && near.is_none() {
            let known =
                fact.map_or("is not known".into(), |(quantity, ..)| format!("was {quantity}, long ago"));
            return Ok(Err(format!(
                "a number given now is measured against what the platform holds now, and that {known}; let the daemon \
                 read the stock level, or insert a new count"
            )));
        }
        let base = near.filter(|_| number.is_some());
        self.append_resolved(&change.key, &json!({"said": "use", "quantity": number, "base": base}), at)
            .await?;
        let sql = "INSERT INTO count_resolution (change_id, quantity, base_quantity, base_own_delta) \
                   VALUES (?1, ?2, ?3, ?4) \
                   ON CONFLICT (change_id) DO UPDATE SET quantity = excluded.quantity, \
                       base_quantity = excluded.base_quantity, base_own_delta = excluded.base_own_delta";
        let query = sqlx::query(sql).bind(change.id.0).bind(number.map(|number| number.0));
        let query =
            query.bind(base.map(|(quantity, ..)| quantity)).bind(base.map(|(_, own_delta, _)| own_delta));
        query.execute(&mut *self.tx).await.context("keep a person's resolution on a count")?;
        let detail = match number {
            None => "to be taken as counted, by the operator's resolution".to_owned(),
            Some(number) => format!("to become {number}, by the operator's resolution"),
        };
        let verdict = ChangeOutcome::new(change.id, ChangeState::Pending, None, &detail);
        self.outbox_transition(ChangeState::Held, &[verdict], at).await?;
        Ok(Ok(ResolutionEffect { keys: vec![change.key.clone()], state: ChangeState::Pending, next: detail }))
    }

    async fn current_fact(&mut self, change: &ChangeRow) -> Result<Option<CurrentFact>, StoreError> {
        let sql = "SELECT b.quantity, b.own_delta, coalesce(b.fact_ms, r.observed_ms) \
                   FROM change_stock_level c \
                   JOIN product p ON p.id = c.product \
                   JOIN balance b ON b.product = p.id AND b.warehouse_id = c.warehouse_id \
                   LEFT JOIN read_batch r ON r.id = p.read_batch_id WHERE c.change_id = ?1 \
                   AND b.unlinked_ms IS NULL";
        let found = sqlx::query_as(sql).bind(change.id.0).fetch_optional(&mut *self.tx).await;
        found.context("read the fact of a change's stock level")
    }

    async fn append_resolved(
        &mut self,
        key: &str,
        decision: &Value,
        at: Timestamp,
    ) -> Result<Position, StoreError> {
        self.event_append(at, OUTBOX_RESOLVED, key, Some(&decision.to_string())).await
    }

    async fn outbox_find(&mut self, key: &str) -> Result<Option<ChangeRow>, StoreError> {
        self.fetch_optional(CHANGE_BY_KEY, (key,), "read a change").await
    }
}

#[derive(Clone, Copy)]
struct DoubtEnd {
    took_effect: bool,
    to: ChangeState,
    reason: Option<Reason>,
    detail: &'static str,
}

const END_APPLIED: DoubtEnd = DoubtEnd {
    took_effect: true,
    to: ChangeState::Applied,
    reason: None,
    detail: "the operator says that it was done",
};
const END_FINISHED: DoubtEnd = DoubtEnd {
    took_effect: true,
    to: ChangeState::Cancelled,
    reason: Some(Reason::Landed),
    detail: "the operator says that it had been done, so there is nothing left to do",
};
const END_REQUEUED: DoubtEnd = DoubtEnd {
    took_effect: false,
    to: ChangeState::Pending,
    reason: Some(Reason::NotLanded),
    detail: "the operator says that it was not done, so it is planned anew",
};

fn unknown_key() -> String {
    "there is no change with this key".into()
}

/// Returns the part of a change on which the possible resolutions depend.
fn change_status(change: &ChangeRow) -> DecisionResult<ChangeStatus<'_>> {
    let unreadable = || {
        format!(
            "its row ({}, {}) was written by another version of tallyd",
            change.content.kind, change.state
        )
    };
    Ok(ChangeStatus {
        key: &change.key,
        kind: change.content.kind.parse().map_err(|_| unreadable())?,
        state: change.state,
        reason: change.reason.as_deref().and_then(Reason::from_code),
    })
}

/// Returns the write of the row's entry; `None` if it wrote no stock level.
fn stock_level_write(row: &InDoubtRow) -> Option<StockLevelWrite> {
    Some(StockLevelWrite {
        product: row.product?,
        warehouse_id: row.warehouse_id?,
        before: row.before.map(Quantity),
        written: Quantity(row.written?),
    })
}

/// Returns both sides of a conflict as a text; empty where they are unknown.
fn conflict_numbers(change: &ChangeRow) -> String {
    match (&change.theirs, &change.mine) {
        (Some(theirs), Some(mine)) => format!(": {theirs}, not {mine}"),
        _ => String::new(),
    }
}
