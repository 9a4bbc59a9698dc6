//! Delivery of all changes other than quantities, in one file per kind. It is a part of the push.
//!
//! Shipments and trackings go beside the quantities, the other kinds behind them. Every kind has the same
//! steps:
//!
//! 1. order: one change at a time per order, shipment, SKU or name;
//! 2. preflight: a fresh read, recorded like any other;
//! 3. plan (pure), from the facts of the preflight. A preview plans from the stored facts ([`facts`]);
//! 4. claim and send. The preflight's result is stored with the claim as evidence for
//!    [`settle`](crate::settle);
//! 5. completion of the answer.
//!
//! A round gives each kind one call. Operators' changes go first, in rounds of their own. A change that
//! cannot be sent now is skipped for the rest of the run; it does not block other changes.

mod creates;
mod facts;
mod preview;
mod product_update;
mod quarantine;
mod shipment;
mod tracking;

pub(super) use preview::preview_deliveries;

use facts::PlanSource;

use super::claim::{self, CallEnd, CallOutcome, ClaimedCall, RecordAnswer, store_wait_reasons};
use super::refusal::{REFUSED_MAX, SentCall, SentEffect};
use super::summary::PushSummary;
use crate::client::PlatformRequest;
use crate::client::wire::InvalidRequest;
use crate::exec::absence::{self, AbsenceProof, SuspectedAbsences};
use crate::exec::change_events::log_outcomes;
use crate::exec::{JobContext, JobError};
use crate::limiter::PacePayment;
use crate::model::{ChangeId, Lane, Moment, RunId};
use crate::outbox::{ChangeBody, ChangeKind, ChangeState, Reason};
use crate::reconcile::creates as create_plans;
use crate::store::{ChangeOutcome, ChangeRow, ClaimEvidence, ClaimedChange, StockLevelWrite};
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::Duration;

/// Limit of a preflight's age when its write has its reservation. An older preflight is repeated
/// (docs/rules.md 4).
const PREFLIGHT_MAX_AGE: Duration = Duration::from_secs(60);

pub(super) struct DeliveryRun {
    context: JobContext,
    run: RunId,
    /// Lane of the changes that are sent now.
    lane: Lane,
    pub(super) summary: PushSummary,
    skipped: BTreeSet<ChangeId>,
    /// Changes that failed together with others; each is sent in a call of its own. Halving would cost
    /// changes of unknown outcome another quiet time per step.
    isolated: BTreeSet<ChangeId>,
    /// True if the last call had an isolated change.
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

#[derive(Clone, Debug)]
pub(super) struct DeliverableChange {
    id: ChangeId,
    is_urgent: bool,
    /// True if the change was released from a brake.
    is_released: bool,
    body: ChangeBody,
}

/// Change with its ordering key.
type KeyedChange<T> = (ChangeId, String, T);

struct CallEntry<T> {
    evidence: ClaimEvidence,
    seen_at: Moment,
    content: T,
}

impl<T> CallEntry<T> {
    /// Creates the entry of a change with its ordering key, its evidence and the time of its preflight.
    fn new(
        (id, ordering_key): (ChangeId, String),
        kind: ChangeKind,
        evidence: Value,
        seen_at: Moment,
        content: T,
    ) -> Self {
        let evidence = ClaimEvidence { id, kind: kind.as_str(), ordering_key, evidence };
        Self { evidence, seen_at, content }
    }
}

impl DeliveryRun {
    pub(super) fn new(context: &JobContext, run: RunId) -> Self {
        Self {
            context: context.clone(),
            run,
            lane: Lane::Push,
            summary: PushSummary::default(),
            skipped: BTreeSet::new(),
            isolated: BTreeSet::new(),
            was_isolated: false,
            consecutive_refusals: 0,
            previously_failed: BTreeSet::new(),
            suspected_absent: BTreeSet::new(),
            is_cut_off: false,
        }
    }

    /// Sends a call for each kind that has something to send. Beside the quantities these are shipments and
    /// trackings only. Returns false if nothing is left to do now.
    pub(super) async fn send_turn(&mut self, beside: bool) -> Result<bool, JobError> {
        let pending = self.context.store.outbox_deliveries(beside).await?;
        self.send_pending(&pending).await
    }

    async fn send_pending(&mut self, pending: &[ChangeRow]) -> Result<bool, JobError> {
        if self.is_cut_off {
            return Ok(false);
        }
        self.previously_failed = changes_with_reason(pending, Reason::NotSent);
        // These shared a call of unknown outcome and had no effect.
        self.isolated.extend(changes_with_reason(pending, Reason::NotLanded));
        let changes: Vec<DeliverableChange> = pending.iter().filter_map(DeliverableChange::of).collect();
        let lacking = SuspectedAbsences::load(&self.context).await?;
        let lacks = |change: &&DeliverableChange| lacking.is_suspected(&absence_subject(change.id));
        self.suspected_absent = changes.iter().filter(lacks).map(|change| change.id).collect();
        // A change that a person or a due time made pending again has no reason, and is not skipped here.
        for id in changes_with_reason(pending, Reason::Unproved) {
            if let Some(what) = lacking.undue_absence(&self.context, &absence_subject(id)) {
                self.skipped.insert(id);
                self.summary.note_failure(what.to_owned());
            }
        }
        for lane in [Lane::Operator, Lane::Push] {
            self.lane = lane;
            let of_lane = |change: &&DeliverableChange| {
                change.is_urgent == (lane == Lane::Operator) && !self.skipped.contains(&change.id)
            };
            let of_lane: Vec<DeliverableChange> = changes.iter().filter(of_lane).cloned().collect();
            if self.send_lane(&of_lane).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn send_lane(&mut self, changes: &[DeliverableChange]) -> Result<bool, JobError> {
        if changes.is_empty() {
            return Ok(false);
        }
        let mut was_sent = shipment::deliver_shipments(self, changes).await?;
        was_sent |= tracking::deliver_trackings(self, changes).await?;
        was_sent |= creates::deliver_create(self, changes).await?;
        was_sent |= product_update::deliver_update(self, changes).await?;
        Ok(was_sent)
    }

    /// Returns the first change of each ordering key. Leaves out keys with a call in flight or in doubt.
    async fn ready_changes<T>(&self, changes: Vec<KeyedChange<T>>) -> Result<Vec<KeyedChange<T>>, JobError> {
        if changes.is_empty() {
            return Ok(changes);
        }
        let under_way = self.context.store.delivery_keys_in_flight().await?;
        Ok(first_per_key(changes, &under_way, &self.previously_failed))
    }

    /// Returns the first `limit` changes for a call. Isolated changes and the others take turns.
    fn take_for_call<T>(&mut self, changes: Vec<KeyedChange<T>>, limit: usize) -> Vec<KeyedChange<T>> {
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

    /// Handles an answer that lacks the thing a change names. The change waits for a second answer and is
    /// then held. It is rejected only if known facts contradict it.
    async fn note_absence(&mut self, id: ChangeId, reason: Reason, detail: String) -> Result<(), JobError> {
        let subject = absence_subject(id);
        match absence::judge_absence(&self.context, self.run, &subject, &detail).await? {
            AbsenceProof::Proved => {
                let is_wrong = self.context.store.change_is_contradicted(id).await?;
                let to = if is_wrong { ChangeState::Rejected } else { ChangeState::Held };
                self.finish_change(id, to, reason, detail).await
            }
            AbsenceProof::NotProved(why) => {
                self.skipped.insert(id);
                store_wait_reasons(&self.context, vec![(id, Reason::Unproved, why.clone())]).await?;
                self.summary.note_failure(why);
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
    ) -> Result<(), JobError> {
        let moves = [ChangeOutcome::new(id, to, Some(reason), detail)];
        claim::finish_pending(&self.context, &moves, &mut self.summary).await?;
        Ok(())
    }

    /// Makes the call of these entries, which writes these stock levels.
    async fn send_entries<T>(
        &mut self,
        request: Result<PlatformRequest, InvalidRequest>,
        entries: &[CallEntry<T>],
        levels: &[StockLevelWrite],
        accepted: &impl RecordAnswer,
    ) -> Result<(), JobError> {
        let Some(seen_at) = entries.iter().map(|entry| entry.seen_at).min() else { return Ok(()) };
        let evidence: Vec<ClaimEvidence> = entries.iter().map(|entry| entry.evidence.clone()).collect();
        let request = request?;
        self.context.wait_until_claimable().await?;
        let permit = self.context.reserve_call(request.operation, self.lane, PacePayment::Paid).await?;
        if self.context.moment().duration_since(seen_at) > PREFLIGHT_MAX_AGE || !permit.may_send() {
            permit.return_unused();
            return Ok(());
        }
        let changes: Vec<ClaimedChange> =
            evidence.iter().map(|claimed| ClaimedChange { id: claimed.id, written: None }).collect();
        let call_claim = ClaimedCall {
            run: self.run,
            lane: self.lane,
            request,
            changes: &changes,
            stock_levels: levels,
            planned: &[],
            evidence: &evidence,
        };
        let (answer, end) = match claim::send_call(&self.context, permit, call_claim, accepted).await? {
            CallOutcome::Ended(answer, end) => (answer, end),
            CallOutcome::NotClaimed(unused) => {
                unused.return_unused();
                return Ok(());
            }
        };
        self.summary.calls += 1;
        if let CallEnd::Accepted(moves) = &end {
            log_outcomes(&self.context, moves).await;
        }
        let changes: Vec<ChangeId> = evidence.iter().map(|claimed| claimed.id).collect();
        let (context, names) = (&self.context, quarantine::entry_names(&evidence));
        let sent = SentCall { context, run: self.run, answer: &answer, names, changes: changes.clone() };
        match sent.conclude(end).await? {
            SentEffect::Moved(counts) => {
                self.consecutive_refusals = 0;
                self.summary.add_summary(counts);
            }
            SentEffect::None(why) => why.into_iter().for_each(|why| self.stop_calls(why)),
            SentEffect::Refused { failure } => self.isolate_refused(&changes, failure),
        }
        Ok(())
    }

    /// Sends the changes of a refused call isolated. After a status that proves nothing against a change, one
    /// that was isolated already waits for the next run.
    fn isolate_refused(&mut self, changes: &[ChangeId], failure: Option<String>) {
        self.consecutive_refusals += usize::from(failure.is_some());
        match (failure, changes) {
            (Some(why), _) if self.consecutive_refusals >= REFUSED_MAX => self.stop_calls(why),
            (Some(why), [only]) => {
                self.skipped.insert(*only);
                self.summary.note_failure(why);
            }
            (Some(_), several) | (None, several) => self.isolated.extend(several),
        }
    }

    fn stop_calls(&mut self, why: String) {
        self.is_cut_off = true;
        self.summary.note_failure(why);
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

fn changes_with_reason(pending: &[ChangeRow], reason: Reason) -> BTreeSet<ChangeId> {
    pending.iter().filter(|row| row.has_reason(reason)).map(|row| row.id).collect()
}

/// Returns the first change of each ordering key, previously failed ones last. Leaves out keys with a call in
/// flight or in doubt.
fn first_per_key<T>(
    changes: Vec<KeyedChange<T>>,
    under_way: &BTreeSet<String>,
    previously_failed: &BTreeSet<ChangeId>,
) -> Vec<KeyedChange<T>> {
    let subjects: Vec<String> = changes.iter().map(|(_, subject, _)| subject.clone()).collect();
    let turn: BTreeSet<usize> = create_plans::first_per_key(&subjects, under_way).into_iter().collect();
    let first = changes.into_iter().enumerate().filter(|(index, _)| turn.contains(index));
    let mut first: Vec<_> = first.map(|(_, change)| change).collect();
    first.sort_by_key(|(id, ..)| previously_failed.contains(id));
    first
}

fn absence_subject(change: ChangeId) -> String {
    format!("change {change}")
}

fn refusal_outcome(id: ChangeId, messages: &[String]) -> ChangeOutcome {
    let message = if messages.is_empty() { "it gave no reason".into() } else { messages.join(" ") };
    let detail = format!("the platform refused it: {message}");
    ChangeOutcome::new(id, ChangeState::Rejected, Some(Reason::ServiceRefused), detail)
}

fn unmatched_outcome(id: ChangeId) -> ChangeOutcome {
    let detail = "the answer does not identify this change";
    ChangeOutcome::new(id, ChangeState::InDoubt, Some(Reason::Unmatched), detail)
}
