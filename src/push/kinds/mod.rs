//! Delivery of all changes other than quantities, in one file per kind. It is a part of the push.
//!
//! Shipments and trackings go beside the quantities, the other kinds behind them. Every kind has the same
//! steps:
//!
//! 1. order: one change at a time per order, shipment, SKU or name;
//! 2. preflight: a fresh read, recorded like any other;
//! 3. plan (pure);
//! 4. claim and send. The preflight's result is stored with the claim as evidence for
//!    [`settle`](crate::settle);
//! 5. completion of the answer.
//!
//! A round gives each kind one call. Operators' changes go first, in rounds of their own. A change that
//! cannot be sent now is skipped for the rest of the run; it does not block other changes.

mod change_keys;
mod creates;
mod preview;
mod product_update;
mod quarantine;
mod shipment;
mod tracking;

pub(super) use preview::preview_deliveries;

use change_keys::{
    absence_subject, first_per_key, order_key, previously_failed, refusal_outcome, shipment_key,
    unmatched_outcome,
};

use super::claim::{self, CallOutcome, ClaimedCall, RECORD_ANSWER, store_wait_reasons};
use super::summary::PushSummary;
use crate::client::PlatformRequest;
use crate::client::wire::InvalidRequest;
use crate::exec::absence::{self, AbsenceProof, SuspectedAbsences};
use crate::exec::call::{AnsweredExchange, reply_message};
use crate::exec::change_events::log_outcomes;
use crate::exec::{JobContext, JobError};
use crate::limiter::PacePayment;
use crate::model::{ChangeId, Lane, Moment, Operation, Position, RunId};
use crate::outbox::{ChangeBody, ChangeState, Reason};
use crate::reconcile::ChangePlan;
use crate::store::{
    ChangeOutcome, ChangeRow, ClaimEvidence, ClaimedChange, Durability, StockLevelWrite, StoreError,
    WriteTransaction,
};
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Limit of a preflight's age when its write has its reservation. An older preflight is repeated
/// (docs/rules.md 4).
const PREFLIGHT_MAX_AGE: Duration = Duration::from_secs(60);

/// Lead of the quantities before shipments go beside them. A few quantities are thus sent in their planned
/// order.
const QUANTITIES_LEAD: Duration = Duration::from_secs(1);

/// Delivery of the changes other than quantities in a run of the push.
pub(super) struct DeliveryRun<'a> {
    context: &'a JobContext,
    run: RunId,
    /// Changes skipped for the rest of the run.
    skipped: BTreeSet<ChangeId>,
    /// Changes that failed together with others; each is sent in a call of its own. Halving would cost
    /// changes of unknown outcome another quiet time per step.
    isolated: BTreeSet<ChangeId>,
    /// True if the last call had a change of `isolated`.
    was_isolated: bool,
    /// Calls in a row that the platform refused as a whole with an undocumented status.
    consecutive_refusals: usize,
    /// Changes that failed before. They are sent last, so that they do not delay the others.
    previously_failed: BTreeSet<ChangeId>,
    /// Changes that name something which answers lacked.
    suspected_absent: BTreeSet<ChangeId>,
    /// True if the run makes no further calls. The platform cannot be reached, or it refused too many calls.
    is_cut_off: bool,
}

/// Pending change with a valid body.
#[derive(Clone, Debug)]
pub(super) struct DeliverableChange {
    id: ChangeId,
    is_urgent: bool,
    /// True if the change was released from a brake.
    is_released: bool,
    body: ChangeBody,
}

/// Entry of a call, with the evidence to be stored with its claim.
struct CallEntry<T> {
    evidence: ClaimEvidence,
    /// Content of the entry.
    content: T,
}

/// Application of an answer by its kind.
trait ApplyAnswer: Sync {
    /// Writes the facts of the answer and returns the moves of its changes. Idempotent, because it runs again
    /// after a failed commit.
    async fn apply_answer(
        &self,
        write: &mut WriteTransaction,
        answer: &AnsweredExchange,
        ended: Position,
    ) -> Result<Vec<ChangeOutcome>, StoreError>;
}

/// Answer without facts: only the moves.
impl ApplyAnswer for Vec<ChangeOutcome> {
    async fn apply_answer(
        &self,
        _: &mut WriteTransaction,
        _: &AnsweredExchange,
        _: Position,
    ) -> Result<Vec<ChangeOutcome>, StoreError> {
        Ok(self.clone())
    }
}

impl<'a> DeliveryRun<'a> {
    pub(super) fn new(context: &'a JobContext, run: RunId) -> Self {
        Self {
            context,
            run,
            skipped: BTreeSet::new(),
            isolated: BTreeSet::new(),
            was_isolated: false,
            consecutive_refusals: 0,
            previously_failed: BTreeSet::new(),
            suspected_absent: BTreeSet::new(),
            is_cut_off: false,
        }
    }

    /// Sends a call for each kind that has something to send. Returns false if nothing is left to do now.
    pub(super) async fn send_round(&mut self, summary: &mut PushSummary) -> Result<bool, JobError> {
        let pending = self.context.store.outbox_pending().await?;
        self.send_round_of(&pending, summary).await
    }

    /// Sends shipments and trackings until the quantities are `over`. A big recount can take half an hour.
    /// Shipments write no stock level, so they do not conflict with the quantities. They start after
    /// [`QUANTITIES_LEAD`].
    pub(super) async fn send_shipments(
        &mut self,
        over: &CancellationToken,
        summary: &mut PushSummary,
    ) -> Result<(), JobError> {
        let mut news = self.context.subscribe_changes();
        let _ = timeout(QUANTITIES_LEAD, over.cancelled()).await;
        while !over.is_cancelled() {
            let shipments = self.context.store.outbox_shipments().await?;
            if !self.send_round_of(&shipments, summary).await? {
                tokio::select! {
                    () = over.cancelled() => {}
                    came = news.changed() => came.expect("the bell hangs as long as the context lives"),
                }
            }
        }
        Ok(())
    }

    async fn send_round_of(
        &mut self,
        pending: &[ChangeRow],
        summary: &mut PushSummary,
    ) -> Result<bool, JobError> {
        if self.is_cut_off {
            return Ok(false);
        }
        self.previously_failed = previously_failed(pending);
        self.isolated.extend(quarantine::without_effect(pending));
        let changes: Vec<DeliverableChange> = pending.iter().filter_map(DeliverableChange::of).collect();
        let lacking = SuspectedAbsences::load(self.context).await?;
        let lacks = |change: &&DeliverableChange| lacking.is_suspected(&absence_subject(change.id));
        self.suspected_absent = changes.iter().filter(lacks).map(|change| change.id).collect();
        // A change that a person or a due time made pending again has no reason, and is not skipped here.
        let unproved = pending.iter().filter(|row| row.has_reason(Reason::Unproved));
        for id in unproved.map(|row| row.id) {
            if let Some(what) = lacking.undue_absence(self.context, &absence_subject(id)) {
                self.skipped.insert(id);
                summary.note_failure(what.to_owned());
            }
        }
        for lane in [Lane::Operator, Lane::Push] {
            let of_lane = |change: &&DeliverableChange| {
                change.is_urgent == (lane == Lane::Operator) && !self.skipped.contains(&change.id)
            };
            let of_lane: Vec<DeliverableChange> = changes.iter().filter(of_lane).cloned().collect();
            if self.send_lane(lane, &of_lane, summary).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn send_lane(
        &mut self,
        lane: Lane,
        changes: &[DeliverableChange],
        summary: &mut PushSummary,
    ) -> Result<bool, JobError> {
        if changes.is_empty() {
            return Ok(false);
        }
        let mut was_sent = shipment::deliver_shipments(self, lane, changes, summary).await?;
        was_sent |= tracking::deliver_trackings(self, lane, changes, summary).await?;
        was_sent |= creates::deliver_create(self, lane, changes, summary).await?;
        was_sent |= product_update::deliver_update(self, lane, changes, summary).await?;
        Ok(was_sent)
    }

    /// Returns the first change of each ordering key. Leaves out keys with a call in flight or in doubt.
    async fn ready_changes<T>(
        &self,
        changes: Vec<(ChangeId, String, T)>,
    ) -> Result<Vec<(ChangeId, String, T)>, JobError> {
        if changes.is_empty() {
            return Ok(changes);
        }
        let under_way = self.context.store.delivery_keys_in_flight().await?;
        Ok(first_per_key(changes, &under_way, &self.previously_failed))
    }

    /// Returns the first `limit` changes for a call. Isolated changes and the others take turns.
    fn take_for_call<T>(
        &mut self,
        changes: Vec<(ChangeId, String, T)>,
        limit: usize,
    ) -> Vec<(ChangeId, String, T)> {
        let (mut isolated, mut others): (Vec<_>, Vec<_>) =
            changes.into_iter().partition(|(id, ..)| self.isolated.contains(id));
        self.was_isolated = !isolated.is_empty() && (others.is_empty() || !self.was_isolated);
        if self.was_isolated {
            isolated.truncate(1);
            return isolated;
        }
        others.truncate(limit);
        others
    }

    /// Returns the result of a read. `None` after a failure: a refusal counts as an absence, and any other
    /// failure skips the change.
    async fn preflight_result<T>(
        &mut self,
        id: ChangeId,
        result: Result<T, JobError>,
        summary: &mut PushSummary,
    ) -> Result<Option<T>, JobError> {
        match result {
            Ok(seen) => Ok(Some(seen)),
            Err(JobError::Rejected { what, why, .. }) => {
                let detail = format!("the platform refuses to show {what}: {why}");
                self.note_absence(id, Reason::ServiceRefused, detail, summary).await?;
                Ok(None)
            }
            Err(error @ (JobError::GivenUp { .. } | JobError::Implausible(_))) => {
                self.skipped.insert(id);
                store_wait_reasons(self.context, vec![(id, Reason::NotSent, error.to_string())]).await?;
                summary.note_failure(error.to_string());
                Ok(None)
            }
            Err(error @ (JobError::Stopped | JobError::KeyRefused(_) | JobError::Store(_))) => Err(error),
        }
    }

    /// Returns the content of a plan that sends. Otherwise moves the change, or skips it.
    async fn plan_content<T>(
        &mut self,
        id: ChangeId,
        plan: ChangePlan<T>,
        summary: &mut PushSummary,
    ) -> Result<Option<T>, JobError> {
        if !matches!(plan, ChangePlan::PartMissing { .. } | ChangePlan::ReadFirst)
            && self.suspected_absent.remove(&id)
        {
            absence::end_absence(self.context, &absence_subject(id)).await?;
        }
        match plan {
            ChangePlan::Send(what) => return Ok(Some(what)),
            ChangePlan::Held { reason, detail } => {
                self.finish_change(id, ChangeState::Held, reason, detail, summary).await?
            }
            ChangePlan::PartMissing { reason, detail } => {
                self.note_absence(id, reason, detail, summary).await?
            }
            ChangePlan::Rejected { reason, detail } => {
                self.finish_change(id, ChangeState::Rejected, reason, detail, summary).await?;
            }
            ChangePlan::ReadFirst => {
                self.skipped.insert(id);
                summary.note_failure(format!("what change {id} depends on moved while it was read"));
            }
        }
        Ok(None)
    }

    /// Handles an answer that lacks the thing a change names. The change waits for a second answer and is
    /// then held. It is rejected only if known facts contradict it.
    async fn note_absence(
        &mut self,
        id: ChangeId,
        reason: Reason,
        detail: String,
        summary: &mut PushSummary,
    ) -> Result<(), JobError> {
        let subject = absence_subject(id);
        match absence::judge_absence(self.context, self.run, &subject, &detail).await? {
            AbsenceProof::Proved => {
                let is_wrong = self.context.store.change_is_contradicted(id).await?;
                let to = if is_wrong { ChangeState::Rejected } else { ChangeState::Held };
                self.finish_change(id, to, reason, detail, summary).await
            }
            AbsenceProof::NotProved(why) => {
                self.skipped.insert(id);
                store_wait_reasons(self.context, vec![(id, Reason::Unproved, why.clone())]).await?;
                summary.note_failure(why);
                Ok(())
            }
        }
    }

    /// Moves a pending change to a state without a call. Does nothing if the change is no longer pending.
    async fn finish_change(
        &mut self,
        id: ChangeId,
        to: ChangeState,
        reason: Reason,
        detail: String,
        summary: &mut PushSummary,
    ) -> Result<(), JobError> {
        let moves = [ChangeOutcome::new(id, to, Some(reason), detail)];
        let mut write = self.context.store.begin_write(Durability::Full).await?;
        if write.outbox_transition(ChangeState::Pending, &moves, self.context.now()).await? != 1 {
            return Ok(());
        }
        write.commit().await?;
        log_outcomes(self.context, &moves).await;
        summary.count_outcomes(&moves);
        Ok(())
    }

    /// Sends entries in one call; see [`Self::claim_and_send`].
    async fn send_entries<T>(
        &mut self,
        lane: Lane,
        request: Result<PlatformRequest, InvalidRequest>,
        entries: &[CallEntry<T>],
        seen_at: Moment,
        summary: &mut PushSummary,
    ) -> Result<Option<AnsweredExchange>, JobError> {
        let claims: Vec<ClaimEvidence> = entries.iter().map(|entry| entry.evidence.clone()).collect();
        self.claim_and_send(lane, request, &claims, &[], seen_at, summary).await
    }

    /// Claims changes and sends their call. Returns an accepted answer, which the caller must complete.
    /// `None` if nothing was sent or the outcome needs no parsing. `seen_at` is the time of the oldest
    /// preflight.
    async fn claim_and_send(
        &mut self,
        lane: Lane,
        request: Result<PlatformRequest, InvalidRequest>,
        claims: &[ClaimEvidence],
        levels: &[StockLevelWrite],
        seen_at: Moment,
        summary: &mut PushSummary,
    ) -> Result<Option<AnsweredExchange>, JobError> {
        let request = request.map_err(|why| JobError::Implausible(why.to_string()))?;
        self.context.wait_until_claimable().await?;
        let permit = self.context.reserve_call(request.operation, lane, PacePayment::Paid).await?;
        if self.context.moment().duration_since(seen_at) > PREFLIGHT_MAX_AGE || !permit.may_send() {
            permit.return_unused();
            return Ok(None);
        }
        let changes: Vec<ClaimedChange> =
            claims.iter().map(|claim| ClaimedChange { id: claim.id, written: None }).collect();
        let call_claim = ClaimedCall {
            run: self.run,
            lane,
            request: &request,
            changes: &changes,
            stock_levels: levels,
            planned: &[],
            evidence: claims,
        };
        let Some(begun) = claim::claim_call(self.context, &call_claim).await? else {
            permit.return_unused();
            return Ok(None);
        };
        let answer = self.context.send_exchange(permit, begun, request).await;
        summary.calls += 1;
        let operation = answer.reply.operation;
        let ids: Vec<ChangeId> = claims.iter().map(|claim| claim.id).collect();
        match claim::complete_unaccepted(self.context, &ids, &answer).await? {
            CallOutcome::Answered => {
                self.consecutive_refusals = 0;
                self.context.record_success(operation, &quarantine::entry_names(claims)).await?;
                return Ok(Some(answer));
            }
            CallOutcome::InDoubt => {
                // `settle` judges the update of a product, and also its repetition.
                if operation != Operation::UpdateProduct {
                    self.context
                        .record_failure(
                            operation,
                            &quarantine::entry_names(claims),
                            &reply_message(&answer.reply),
                        )
                        .await?;
                }
                summary.in_doubt += ids.len() as u64;
            }
            CallOutcome::Throttled => {}
            CallOutcome::NotSent(why) => self.stop_calls(why, summary),
            CallOutcome::Rejected { status, why } => {
                self.handle_refusal(claims, (status, why), &answer, summary).await?
            }
        }
        Ok(None)
    }

    fn stop_calls(&mut self, why: String, summary: &mut PushSummary) {
        self.is_cut_off = true;
        summary.note_failure(why);
    }

    /// Commits an answer with its facts and the moves of its changes. Retries the commit after a transient
    /// error.
    async fn complete_answer(
        &self,
        answer: &AnsweredExchange,
        application: &impl ApplyAnswer,
        summary: &mut PushSummary,
    ) -> Result<(), JobError> {
        let mut retry = self.context.retry_commit(RECORD_ANSWER);
        let moves = loop {
            let attempt = self.try_complete_answer(answer, application).await;
            if let Some(moves) = retry.check_attempt(attempt).await? {
                break moves;
            }
        };
        log_outcomes(self.context, &moves).await;
        summary.count_outcomes(&moves);
        Ok(())
    }

    async fn try_complete_answer(
        &self,
        answer: &AnsweredExchange,
        application: &impl ApplyAnswer,
    ) -> Result<Vec<ChangeOutcome>, StoreError> {
        let mut write = self.context.store.begin_write(Durability::Full).await?;
        let is_over = write.exchange_has_ended(answer.id).await?;
        let position = self.context.exchange_end(&mut write, answer).await?;
        let moves = application.apply_answer(&mut write, answer, position).await?;
        write.outbox_transition(ChangeState::Sending, &moves, self.context.now()).await?;
        if !is_over {
            // Otherwise the last attempt was committed despite its error, and this attempt only returns the
            // moves.
            write.commit().await?;
        }
        Ok(moves)
    }
}

impl DeliverableChange {
    /// Parses a change. `None` for quantities and for invalid bodies, which the quantities' part rejects.
    fn of(row: &ChangeRow) -> Option<Self> {
        let body = row.content.body.as_ref().ok()?;
        let (is_urgent, is_released) = (row.priority > 0, row.released_ms.is_some());
        body.stock_level().is_none().then(|| Self { id: row.id, is_urgent, is_released, body: body.clone() })
    }
}
