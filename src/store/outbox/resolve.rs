//! Resolution of a change by a person: an event, then its effect, in one transaction (docs/rules.md 21).
//!
//! `outbox` decides the effect of each resolution; this module applies it. The daemon is notified by the
//! event and acts at once. All changes of one entry (one stock level in one call) share the outcome.

use super::changes::{CHANGE_BY_KEY, ChangeRow};
use super::in_doubt::{IN_DOUBT_ROWS, InDoubtRow};
use super::transitions::ChangeOutcome;
use crate::model::{ExchangeId, Position, Quantity, Timestamp};
use crate::outbox::{
    ChangeBody, ChangeState, ChangeStatus, CreateBody, CreatedThing, Reason, Resolution, ResolutionStep,
};
use crate::store::journal::event::OUTBOX_RESOLVED;
use crate::store::mirror::stock_levels::StockLevelWrite;
use crate::store::{Result, WriteTransaction};
use serde_json::{Value, json};
use sqlx::AssertSqlSafe;
use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolutionEffect {
    /// Keys of the moved changes: those of one entry.
    pub keys: Vec<String>,
    pub state: ChangeState,
    pub next: String,
}

/// Accepted decision, or the reason for its refusal as a sentence.
pub(crate) type DecisionResult<T> = Result<T, String>;

/// Fact against which a number is measured: quantity, own delta, time of observation.
type CurrentFact = (i64, i64, Option<i64>);

impl WriteTransaction {
    /// Releases a change that a brake or a restored database holds.
    pub(crate) async fn outbox_release(&mut self, key: &str, at: Timestamp) -> Result<DecisionResult<()>> {
        let Some(change) = self.outbox_find(key).await? else { return Ok(Err(unknown_key())) };
        if let Err(why) = change.status().and_then(|status| status.check_release()) {
            return Ok(Err(why));
        }
        self.brake_release(&[key.to_owned()], at).await.map(|_| Ok(()))
    }

    /// Applies a resolution to the change with this key; an impossible one writes nothing.
    pub async fn outbox_resolve(
        &mut self,
        key: &str,
        resolution: Resolution,
        max_base_age: Duration,
        at: Timestamp,
    ) -> Result<DecisionResult<ResolutionEffect>> {
        let Some(change) = self.outbox_find(key).await? else { return Ok(Err(unknown_key())) };
        let step = match change.status().and_then(|status| status.resolution_step(resolution)) {
            Ok(step) => step,
            Err(why) => return Ok(Err(why)),
        };
        match step {
            ResolutionStep::Apply => {
                let detail = "the operator decided that it took effect";
                self.resolve_in_doubt(&change, true, (ChangeState::Applied, None, detail), at).await.map(Ok)
            }
            ResolutionStep::Finish => {
                let detail = "the operator decided that it took effect, so nothing is left to do";
                let end = (ChangeState::Cancelled, Some(Reason::Landed), detail);
                self.resolve_in_doubt(&change, true, end, at).await.map(Ok)
            }
            ResolutionStep::Requeue => {
                let detail = "the operator decided that it had no effect, so it is planned again";
                let end = (ChangeState::Pending, Some(Reason::NotLanded), detail);
                self.resolve_in_doubt(&change, false, end, at).await.map(Ok)
            }
            ResolutionStep::Adopt(shipment) => {
                self.append_resolved(key, &json!({"answered": "shipment", "shipment_id": shipment}), at)
                    .await?;
                self.adoption_request(change.id, shipment).await?;
                let next = format!(
                    "settle compares shipment {shipment} with the request; the result appears in `tallyd outbox show`"
                );
                Ok(Ok(ResolutionEffect { keys: vec![change.key.into()], state: ChangeState::InDoubt, next }))
            }
            ResolutionStep::ReplaceCount(number) => {
                self.resolve_count(&change, number, max_base_age, at).await
            }
            ResolutionStep::Reject => {
                let numbers = match (&change.theirs, &change.mine) {
                    (Some(theirs), Some(mine)) => format!(": {theirs}, not {mine}"),
                    _ => String::new(),
                };
                let detail = format!("the operator accepted the platform's quantity{numbers}");
                let decision = json!({"answered": "theirs"});
                self.decide(&change, &decision, ChangeState::Rejected, &detail, at).await.map(Ok)
            }
        }
    }

    /// Requeues a held change after its cause was fixed.
    pub async fn outbox_retry(&mut self, key: &str, at: Timestamp) -> Result<DecisionResult<()>> {
        let Some(change) = self.outbox_find(key).await? else { return Ok(Err(unknown_key())) };
        if let Err(why) = change.status().and_then(|status| status.check_retry()) {
            return Ok(Err(why));
        }
        let (decision, detail) = (json!({"answered": "retry"}), "planned again by the operator");
        self.decide(&change, &decision, ChangeState::Pending, detail, at).await.map(|_| Ok(()))
    }

    /// Cancels a pending or held change that certainly had no effect.
    pub async fn outbox_cancel(&mut self, key: &str, at: Timestamp) -> Result<DecisionResult<()>> {
        let Some(change) = self.outbox_find(key).await? else { return Ok(Err(unknown_key())) };
        let checked = match change.status() {
            Ok(status) => status.check_cancel(),
            // A change of a kind that this version does not know.
            Err(_) if change.state.may_become(ChangeState::Cancelled) => Ok(()),
            Err(why) => Err(why),
        };
        if let Err(why) = checked {
            return Ok(Err(why));
        }
        let (decision, detail) = (json!({"answered": "cancel"}), "cancelled by the operator");
        self.decide(&change, &decision, ChangeState::Cancelled, detail, at).await.map(|_| Ok(()))
    }

    /// Stores the event of a decision on one change, then moves the change.
    async fn decide(
        &mut self,
        change: &ChangeRow,
        decision: &Value,
        to: ChangeState,
        detail: &str,
        at: Timestamp,
    ) -> Result<ResolutionEffect> {
        self.append_resolved(&change.key, decision, at).await?;
        let reason = (to != ChangeState::Pending).then_some(Reason::Operator);
        let outcome = ChangeOutcome::new(change.id, to, reason, detail);
        self.outbox_transition(change.state, &[outcome], at).await?;
        Ok(ResolutionEffect { keys: vec![change.key.to_string()], state: to, next: detail.to_owned() })
    }

    /// Ends a doubt by a person's decision, for all changes of the entry.
    async fn resolve_in_doubt(
        &mut self,
        change: &ChangeRow,
        took_effect: bool,
        (to, reason, detail): (ChangeState, Option<Reason>, &str),
        at: Timestamp,
    ) -> Result<ResolutionEffect> {
        let entry = self.entry_changes(change).await?;
        let keys: Vec<String> = entry.iter().map(|row| row.key.to_string()).collect();
        let level = entry.first().and_then(|row| Some((row, stock_level_write(row)?)));
        let write = level.as_ref().map(|(row, level)| {
            json!({"exchange": row.exchange_id, "sent_ms": row.sent_ms, "sku": row.stock_level_sku, "stock_level": level})
        });
        let decision = if took_effect { "took effect" } else { "had no effect" };
        self.append_resolved(&change.key, &json!({"answered": decision, "keys": keys, "write": write}), at)
            .await?;
        if let (true, Some((row, level))) = (took_effect, &level) {
            self.stock_level_write_decide(ExchangeId(row.exchange_id), level, true, at).await?;
        }
        // The answer of a create would have brought its SKU.
        for row in entry.iter().filter(|_| took_effect) {
            if let Ok(ChangeBody::Create(CreateBody { thing: CreatedThing::Product(sku), .. })) =
                &row.content.body
            {
                self.tracked_sku_add(std::slice::from_ref(sku)).await?;
            }
        }
        let verdict = |row: &InDoubtRow| ChangeOutcome::new(row.id, to, reason, detail);
        let moves: Vec<ChangeOutcome> = entry.iter().map(verdict).collect();
        self.outbox_transition(change.state, &moves, at).await?;
        self.adoption_end(change.id).await?;
        self.stock_level_writes_end_orphaned(at).await?;
        Ok(ResolutionEffect { keys, state: to, next: detail.into() })
    }

    /// Returns the changes of one stock level in one call with the state and reason of `change`.
    async fn entry_changes(&mut self, change: &ChangeRow) -> Result<Vec<InDoubtRow>> {
        let sql = format!("{IN_DOUBT_ROWS} WHERE o.exchange_id = $1 ORDER BY o.id");
        let values = (change.exchange_id,);
        let rows: Vec<InDoubtRow> =
            self.fetch_all(AssertSqlSafe(sql), values, "read the changes of a call in doubt").await?;
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
    ) -> Result<DecisionResult<ResolutionEffect>> {
        let fact = self.current_fact(change).await?;
        let near = fact.filter(|(_, _, observed)| {
            observed.is_some_and(|observed| at.duration_since(Timestamp(observed)) <= max_base_age)
        });
        if number.is_some() && near.is_none() {
            let known =
                fact.map_or("is not known".into(), |(quantity, ..)| format!("was {quantity}, long ago"));
            return Ok(Err(format!(
                "a number is compared with the platform's current quantity, and that {known}; let the daemon read the \
                 stock level, or insert a new count"
            )));
        }
        let base = near.filter(|_| number.is_some());
        let detail = match number {
            None => "to be applied as counted, by the operator's decision".to_owned(),
            Some(number) => format!("to become {number}, by the operator's decision"),
        };
        let decision = json!({"answered": "use", "quantity": number, "base": base});
        let effect = self.decide(change, &decision, ChangeState::Pending, &detail, at).await?;
        let sql = "INSERT INTO count_resolution (change_id, quantity, base_quantity, base_own_delta) \
                   VALUES ($1, $2, $3, $4) \
                   ON CONFLICT (change_id) DO UPDATE SET quantity = excluded.quantity, \
                       base_quantity = excluded.base_quantity, base_own_delta = excluded.base_own_delta";
        let values =
            (change.id, number, base.map(|(quantity, ..)| quantity), base.map(|(_, delta, _)| delta));
        self.execute(sql, values, "store a person's decision on a count").await?;
        Ok(Ok(effect))
    }

    async fn current_fact(&mut self, change: &ChangeRow) -> Result<Option<CurrentFact>> {
        let sql = "SELECT b.quantity, b.own_delta, coalesce(b.fact_ms, r.observed_ms) \
                   FROM change_stock_level c \
                   JOIN product p ON p.id = c.product \
                   JOIN balance b ON b.product = p.id AND b.warehouse_id = c.warehouse_id \
                   LEFT JOIN read_batch r ON r.id = p.read_batch_id WHERE c.change_id = $1 \
                   AND b.unlinked_ms IS NULL \
                   AND coalesce(b.fact_exchange_id, r.exchange_id, 1) > (SELECT position FROM last_restore)";
        self.fetch_optional(sql, (change.id,), "read the fact of a change's stock level").await
    }

    async fn append_resolved(&mut self, key: &str, decision: &Value, at: Timestamp) -> Result<Position> {
        self.event_append(at, OUTBOX_RESOLVED, key, Some(&decision.to_string())).await
    }

    async fn outbox_find(&mut self, key: &str) -> Result<Option<ChangeRow>> {
        self.fetch_optional(CHANGE_BY_KEY, (key,), "read a change").await
    }
}

fn unknown_key() -> String {
    "there is no change with this key".into()
}

impl ChangeRow {
    /// Returns the part of the change on which the possible decisions depend. Fails for a kind of another version.
    pub(crate) fn status(&self) -> DecisionResult<ChangeStatus<'_>> {
        let (kind, state) = (&self.content.kind, self.state);
        let unreadable = |_| format!("its row ({kind}, {state}) was written by another version of tallyd");
        Ok(ChangeStatus {
            key: &self.key,
            kind: kind.parse().map_err(unreadable)?,
            state,
            reason: self.reason.as_deref().and_then(Reason::from_code),
        })
    }
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
