//! Execution of a judgement in one commit: event, stock level, changes.

use super::SettleRun;
use super::case::{InDoubtCase, InDoubtRequest};
use crate::exec::change_events::{self, outcomes_to};
use crate::exec::{JobContext, JobError};
use crate::model::{Operation, Timestamp};
use crate::outbox::{ChangeState, CreatedThing, Reason};
use crate::reconcile::in_doubt::Settlement;
use crate::store::{ChangeOutcome, Durability, StoreError, WriteTransaction};
use crate::telemetry::event;
use serde_json::{Value, json};

/// Event of the journal for a decision; the log event of this name is another one (`telemetry/mod.rs`).
const SETTLED_EVENT: &str = "outbox.finished";

const UPDATE_WITHOUT_EFFECT: &str =
    "the answer was lost; two checks show the product unchanged, so the update is sent again";

impl SettleRun<'_> {
    pub(super) async fn decide_case(&mut self, case: &InDoubtCase) -> Result<(), JobError> {
        let count = case.changes.len() as u64;
        match case.judge_checks(self.context.settings().timeout, self.context.now()) {
            Settlement::CheckAgain { .. } => {}
            Settlement::TookEffect(made) => {
                if self.commit_effect(case, made).await? {
                    self.summary.took_effect += count;
                }
            }
            Settlement::HadNoEffect => {
                if self.commit_no_effect(case).await? {
                    self.summary.had_no_effect += count;
                }
            }
            Settlement::Undecided { reason, detail } => {
                let detail = match &case.detail {
                    Some(message) if case.was_answered() => format!("{detail}; {message}"),
                    _ => detail,
                };
                if self.commit_undecided(case, reason, &detail).await? {
                    self.summary.held += count;
                }
            }
        }
        Ok(())
    }

    /// Begins the commit of a decision: its event, and the moves of its changes. `None` if a change left the
    /// state in doubt in the meantime, by an operator's decision for instance. Then nothing must be committed.
    async fn begin_decision(
        &self,
        case: &InDoubtCase,
        decision: &Value,
        moves: &[ChangeOutcome],
        now: Timestamp,
    ) -> Result<Option<WriteTransaction>, StoreError> {
        let mut write = self.context.store.begin_write(Durability::Full).await?;
        write.event_append(now, SETTLED_EVENT, &case.key, Some(&decision.to_string())).await?;
        let moved = write.outbox_transition(ChangeState::InDoubt, moves, now).await?;
        Ok((moved == moves.len() as u64).then_some(write))
    }

    /// Commits that the request took effect. Returns false if a change left the state in doubt in the meantime,
    /// because a push also checks its own call. Then nothing is committed.
    async fn commit_effect(&self, case: &InDoubtCase, made: Option<i64>) -> Result<bool, JobError> {
        let context = self.context;
        let now = context.now();
        let detail = match made {
            Some(id) => format!("the answer was lost; a check shows that the call created {id}"),
            None => format!("{}; a check shows that the change took effect", case.doubt_reason()),
        };
        let decision = json!({"took_effect": true, "exchange": case.exchange, "made": made});
        let moves = outcomes_to(&case.changes, ChangeState::Applied, None, &detail);
        let Some(mut write) = self.begin_decision(case, &decision, &moves, now).await? else {
            return Ok(false);
        };
        if let InDoubtRequest::Quantity { write: level, .. } = &case.request {
            write.stock_level_write_decide(case.exchange, level, true, now).await?;
        }
        if let InDoubtRequest::Create { create, .. } = &case.request
            && let CreatedThing::Product(sku) = &create.thing
        {
            write.tracked_sku_add(std::slice::from_ref(sku)).await?;
        }
        if let InDoubtRequest::Update(claim) = &case.request {
            write.quarantine_lift(Operation::UpdateProduct, &claim.sku).await?;
            write.stock_level_writes_end_orphaned(now).await?;
        }
        if let (Some(id), Some(change)) = (made, case.changes.first()) {
            write.delivery_created(*change, id).await?;
        }
        write.commit().await?;
        log_decided(context, case, "took effect", &detail).await;
        Ok(true)
    }

    /// Commits that the request had no effect. The changes are planned again. If the platform answered a call
    /// with no other entry, it refused this content, and the changes are rejected. After an answer for several
    /// entries each is sent isolated, because the fault may be in another entry.
    async fn commit_no_effect(&self, case: &InDoubtCase) -> Result<bool, JobError> {
        let context = self.context;
        let now = context.now();
        let (to, reason, detail) = match &case.request {
            InDoubtRequest::Update(_) => {
                (ChangeState::Pending, Reason::NotLanded, UPDATE_WITHOUT_EFFECT.to_owned())
            }
            _ if case.was_answered() && context.store.call_entry_count(case.exchange).await? > 1 => {
                let detail = format!(
                    "{}; two checks show that this change had no effect; another entry of its call may be the cause, so it \
                     is sent in a call of its own",
                    case.doubt_reason()
                );
                (ChangeState::Pending, Reason::Unmatched, detail)
            }
            _ if case.was_answered() => {
                let detail =
                    format!("{}; two checks show that the platform refused this change", case.doubt_reason());
                (ChangeState::Rejected, Reason::ServiceRefused, detail)
            }
            _ => (
                ChangeState::Pending,
                Reason::NotLanded,
                "the answer was lost; two checks show that the change had no effect, so it is planned again"
                    .into(),
            ),
        };
        let decision = json!({"took_effect": false, "exchange": case.exchange});
        let moves = outcomes_to(&case.changes, to, Some(reason), &detail);
        let Some(mut write) = self.begin_decision(case, &decision, &moves, now).await? else {
            return Ok(false);
        };
        if let InDoubtRequest::Quantity { write: level, .. } = &case.request {
            write.stock_level_write_decide(case.exchange, level, false, now).await?;
        }
        if let InDoubtRequest::Update(claim) = &case.request {
            let why = "the answer was lost, and the product is unchanged";
            write.quarantine_add(Operation::UpdateProduct, &claim.sku, why, now).await?;
        }
        write.stock_level_writes_end_orphaned(now).await?;
        write.commit().await?;
        if to == ChangeState::Rejected {
            change_events::log_outcomes(context, &moves).await;
        } else {
            log_decided(context, case, "had no effect", &detail).await;
        }
        Ok(true)
    }

    /// Commits that checks cannot decide the case. A shipment stays in doubt until an operator names it; other
    /// changes are held. The stock level of a quantity stays claimed, so its later changes wait for the decision
    /// too (docs/rules.md 4).
    ///
    /// Returns false if a change left the state in doubt in the meantime.
    async fn commit_undecided(
        &self,
        case: &InDoubtCase,
        reason: Reason,
        detail: &str,
    ) -> Result<bool, JobError> {
        if case.reason.as_deref() == Some(reason.as_str()) {
            // Committed before. A later detail, for instance of an adoption, must stay.
            return Ok(true);
        }
        let (context, now) = (self.context, self.context.now());
        let mut write = context.store.begin_write(Durability::Full).await?;
        let to = if reason == Reason::LandedOrAnother { ChangeState::InDoubt } else { ChangeState::Held };
        let moves = outcomes_to(&case.changes, to, Some(reason), detail);
        let moved = write.outbox_transition(ChangeState::InDoubt, &moves, now).await?;
        if moved != case.changes.len() as u64 {
            return Ok(false);
        }
        if let InDoubtRequest::Update(_) = &case.request {
            // The update changed no quantity and is no longer in flight, so the stock levels of its product are
            // released.
            for level in write.stock_level_writes_open(case.exchange).await? {
                write.stock_level_write_decide(case.exchange, &level, false, now).await?;
            }
        }
        write.commit().await?;
        change_events::log_outcomes(context, &moves).await;
        Ok(true)
    }
}

impl InDoubtCase {
    fn doubt_reason(&self) -> &str {
        self.detail.as_deref().filter(|_| self.was_answered()).unwrap_or("the answer was lost")
    }
}

/// Logs a case in one line, because all its changes have the same outcome.
async fn log_decided(context: &JobContext, case: &InDoubtCase, what: &str, detail: &str) {
    let (exchange, changes) = (case.exchange.0, case.changes.len());
    let (ids, keys) = change_events::ids_and_keys(context, &case.changes).await;
    tracing::info!(
        event = event::OUTBOX_FINISHED,
        exchange,
        changes,
        ids,
        keys,
        "the change `{}` {what}: {detail}",
        case.key
    );
}
