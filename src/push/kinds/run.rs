//! Delivery of the changes other than quantities in a run, one call of each kind in a turn.

use super::entry::{
    CallChange, CallEntry, CallKind, CallWork, EntryContent, UpdateContent, entry_names,
    first_per_ordering_key,
};
use super::facts::{PlanRead, PlanSource, ProductFacts};
use super::tracking::MissingShipment;
use super::{AcceptedEntries, call_changes, call_request, plan_entry, product_update};
use crate::client::Verdict;
use crate::exec::change_events::log_outcomes;
use crate::exec::preflight;
use crate::exec::quarantine::{EntryRoute, Quarantine, deferral_detail};
use crate::exec::reads::ReadOrigin;
use crate::exec::{JobContext, JobError};
use crate::limiter::PacePayment;
use crate::model::{ChangeId, ExchangeId, Lane, Operation, OrderId, RunId, ShipmentId, Sku};
use crate::outbox::{ChangeState, CreateBody, ProductUpdate, Reason};
use crate::push::brake::judge_update;
use crate::push::claim::{self, CallOutcome, ClaimedCall, store_wait_reasons};
use crate::push::refusal::{REFUSED_MAX, SentCall, SentEffect};
use crate::push::summary::PushSummary;
use crate::reconcile::ChangePlan;
use crate::reconcile::creates::FoundRecord;
use crate::reconcile::shipments::OrderSnapshot;
use crate::reconcile::tracking::ItemFact;
use crate::store::{ChangeOutcome, ClaimEvidence, ClaimedChange, Durability, StockLevelWrite, Store};
use std::collections::BTreeSet;
use std::time::Duration;

/// Limit of a preflight's age when its write has its reservation. An older preflight is repeated
/// (docs/rules.md 2).
const PREFLIGHT_MAX_AGE: Duration = Duration::from_secs(60);

pub(in crate::push) struct DeliveryRun {
    context: JobContext,
    run: RunId,
    /// Lane of the changes that are sent now.
    lane: Lane,
    pub(in crate::push) summary: PushSummary,
    skipped: BTreeSet<ChangeId>,
    /// Changes that failed together with others; each is sent in a call of its own. Halving would cost
    /// changes of unknown outcome another quiet time per step.
    isolated: BTreeSet<ChangeId>,
    /// True if the last call had an isolated change.
    was_isolated: bool,
    /// Calls in a row that the platform refused as a whole with an undocumented status.
    consecutive_refusals: usize,
    /// True if the run makes no further calls. The platform cannot be reached, or it refused too many calls.
    is_cut_off: bool,
}

impl DeliveryRun {
    pub(in crate::push) fn new(context: &JobContext, run: RunId) -> Self {
        Self {
            context: context.clone(),
            run,
            lane: Lane::Push,
            summary: PushSummary::default(),
            skipped: BTreeSet::new(),
            isolated: BTreeSet::new(),
            was_isolated: false,
            consecutive_refusals: 0,
            is_cut_off: false,
        }
    }

    /// Sends a call for each kind that has something to send. Beside the quantities these are shipments and
    /// trackings only. Returns false if nothing is left to do now.
    pub(in crate::push) async fn send_turn(&mut self, beside: bool) -> Result<bool, JobError> {
        if self.is_cut_off {
            return Ok(false);
        }
        let pending = self.context.store.outbox_deliveries(beside).await?;
        // These shared a call of unknown outcome and had no effect.
        let had_no_effect = pending.iter().filter(|row| row.has_reason(Reason::NotLanded));
        self.isolated.extend(had_no_effect.map(|row| row.id));
        let (changes, missing) = call_changes(&self.context.store, &pending).await?;
        let mut was_sent = self.note_missing(missing).await?;
        for lane in [Lane::Operator, Lane::Push] {
            self.lane = lane;
            for kind in CallKind::ALL {
                let is_turn = |change: &&CallChange<'_>| {
                    change.is_urgent == (lane == Lane::Operator)
                        && change.work.kind().0 == kind
                        && !self.skipped.contains(&change.id)
                };
                let of_kind: Vec<CallChange<'_>> = changes.iter().filter(is_turn).copied().collect();
                was_sent |= !of_kind.is_empty() && self.send_kind(kind, of_kind).await?;
            }
            if was_sent {
                break;
            }
        }
        Ok(was_sent)
    }

    /// Sends a call of a kind. Returns false if there is nothing to send.
    async fn send_kind(&mut self, kind: CallKind, changes: Vec<CallChange<'_>>) -> Result<bool, JobError> {
        let under_way = self.context.store.delivery_keys_in_flight().await?;
        let ready = first_per_ordering_key(changes, under_way);
        let ready = self.select_ready(kind, ready).await?;
        let turn = self.take_for_call(ready, kind.entries_max());
        let mut entries = Vec::new();
        for change in &turn {
            let Some(entry) = plan_entry(self, change).await? else { continue };
            if let EntryContent::Update(UpdateContent { sku, writes, .. }) = &entry.content {
                let held = judge_update(&self.context, change.id, change.is_released, sku, writes).await?;
                self.summary.held += held;
                if held > 0 {
                    continue;
                }
            }
            entries.push(entry);
        }
        self.send_entries(&entries).await?;
        Ok(!turn.is_empty())
    }

    /// Notes what the trackings without a shipment wait for, and rejects those that wait for none. Returns true if
    /// one was rejected.
    async fn note_missing(&mut self, missing: Vec<(ChangeId, MissingShipment)>) -> Result<bool, JobError> {
        let (mut waiting, mut was_rejected) = (Vec::new(), false);
        for (id, shipment) in missing {
            match shipment {
                MissingShipment::Pending(why) => waiting.push((id, Reason::AwaitsOther, why)),
                MissingShipment::Impossible(why) => {
                    self.finish_change(id, ChangeState::Rejected, Reason::NoShipment, why).await?;
                    was_rejected = true;
                }
            }
        }
        store_wait_reasons(&self.context, waiting).await?;
        Ok(was_rejected)
    }

    /// Returns the changes whose entries may be read and sent now. Notes at the others what they wait for. A
    /// change that failed before goes in a call of its own.
    async fn select_ready<'w>(
        &mut self,
        kind: CallKind,
        changes: Vec<CallChange<'w>>,
    ) -> Result<Vec<CallChange<'w>>, JobError> {
        let context = self.context.clone();
        let quarantine = context.quarantine().await?;
        let (mut now, mut waiting) = (Vec::new(), Vec::new());
        'changes: for change in changes {
            for operation in kind.entry_operations() {
                match quarantine.route_of(*operation, &change.work.entry()) {
                    EntryRoute::Deferred(until, why) => {
                        self.summary.note_retry(until);
                        self.skipped.insert(change.id);
                        let detail = deferral_detail(change.work.ordering_key(), &why, until);
                        waiting.push((change.id, Reason::SetAside, detail));
                        continue 'changes;
                    }
                    EntryRoute::Isolated | EntryRoute::Suspect => drop(self.isolated.insert(change.id)),
                    EntryRoute::Shared => {}
                }
            }
            match change.work {
                CallWork::Update(update) => match self.update_obstacle(update, &quarantine).await? {
                    Some((reason, why)) => {
                        self.skipped.insert(change.id);
                        waiting.push((change.id, reason, why));
                    }
                    None => {
                        now.push(change);
                        // A call has one update, so the next call selects among the others.
                        break;
                    }
                },
                CallWork::Shipment(_) | CallWork::Tracking(..) | CallWork::Create(_) => now.push(change),
            }
        }
        store_wait_reasons(&self.context, waiting).await?;
        Ok(now)
    }

    /// Returns the reason why the update of a product waits, if there is one.
    async fn update_obstacle(
        &mut self,
        update: &ProductUpdate,
        quarantine: &Quarantine<'_>,
    ) -> Result<Option<(Reason, String)>, JobError> {
        let sku = product_update::current_sku(&self.context.store, update).await?;
        let route = quarantine.route_of(Operation::UpdateProduct, sku.as_str());
        if let EntryRoute::Deferred(until, why) = route {
            let why = format!("sent without effect ({why}); it is sent again at {until}");
            self.summary.note_retry(until);
            self.summary.note_failure(format!("the update of {sku} was {why}"));
            return Ok(Some((Reason::NotLanded, why)));
        }
        let is_busy = self.context.store.product_stock(&sku).await?.is_busy();
        let why = format!("a write of {sku} is in flight or in doubt");
        Ok(is_busy.then_some((Reason::AwaitsOther, why)))
    }

    /// Returns the first `limit` changes for a call. Isolated changes and the others take turns.
    fn take_for_call<'w>(&mut self, changes: Vec<CallChange<'w>>, limit: usize) -> Vec<CallChange<'w>> {
        let (mut isolated, mut others): (Vec<_>, Vec<_>) =
            changes.into_iter().partition(|change| self.isolated.contains(&change.id));
        self.was_isolated = !isolated.is_empty() && (others.is_empty() || !self.was_isolated);
        if self.was_isolated {
            isolated.truncate(1);
            return isolated;
        }
        others.truncate(limit);
        others
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

    async fn send_entries(&mut self, entries: &[CallEntry<'_>]) -> Result<(), JobError> {
        let Some(seen_at) = entries.iter().map(|entry| entry.seen_at).min() else { return Ok(()) };
        let evidence: Vec<ClaimEvidence> = entries.iter().map(|entry| entry.evidence.clone()).collect();
        // In doubt, the stock levels of an update stay occupied until it can no longer take effect.
        let levels: &[StockLevelWrite] = match entries {
            [CallEntry { content: EntryContent::Update(update), .. }] => &update.writes,
            _ => &[],
        };
        let request = call_request(entries);
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
        let (answer, moves) =
            match claim::send_call(&self.context, permit, call_claim, &AcceptedEntries(entries)).await? {
                CallOutcome::Ended(answer, moves) => (answer, moves),
                CallOutcome::NotClaimed(unused) => {
                    unused.return_unused();
                    return Ok(());
                }
            };
        self.summary.calls += 1;
        if answer.reply.verdict == Verdict::Accepted {
            log_outcomes(&self.context, &moves).await;
        }
        let (context, names) = (&self.context, entry_names(entries));
        let sent = SentCall { context, run: self.run, answer: &answer, names, moves: &moves };
        match sent.conclude().await? {
            SentEffect::Moved(counts) => {
                self.consecutive_refusals = 0;
                self.summary.add_summary(counts);
            }
            SentEffect::NoEffect(why) => why.into_iter().for_each(|why| self.stop_calls(why)),
            SentEffect::Refused { failure } => {
                let changes: Vec<ChangeId> = moves.iter().map(|verdict| verdict.id).collect();
                self.isolate_refused(&changes, failure);
            }
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

impl PlanSource for DeliveryRun {
    fn store(&self) -> &Store {
        &self.context.store
    }

    async fn order(&mut self, id: ChangeId, order: OrderId) -> PlanRead<Option<OrderSnapshot>> {
        let read = preflight::read_order(self.origin(), order).await;
        self.preflight_result(id, read.map(|read| read.map(Some))).await
    }

    async fn items(&mut self, id: ChangeId, shipment: ShipmentId) -> PlanRead<Option<Vec<ItemFact>>> {
        let read = preflight::read_shipment(self.origin(), shipment).await;
        let read = read.map(|read| read.map(|items| Some(preflight::tracking_items(&items))));
        self.preflight_result(id, read).await
    }

    async fn namesakes(&mut self, id: ChangeId, create: &CreateBody) -> PlanRead<Vec<FoundRecord>> {
        let read = create.preflight_named(self.origin()).await;
        self.preflight_result(id, read).await
    }

    async fn product(&mut self, id: ChangeId, sku: &Sku) -> PlanRead<ProductFacts> {
        let read = product_update::preflight_update(self.origin(), sku).await;
        let Some(seen) = self.preflight_result(id, read).await? else { return Ok(None) };
        let (levels, read) = (self.context.store.product_stock(sku).await?, Some(seen.exchange));
        Ok(Some(seen.map(|shown| ProductFacts { levels, read, shown })))
    }

    async fn plan_content<T>(
        &mut self,
        id: ChangeId,
        plan: ChangePlan<T>,
        _: &str,
    ) -> Result<Option<T>, JobError> {
        match plan {
            ChangePlan::Send(what) => return Ok(Some(what)),
            ChangePlan::Held { reason, detail } => {
                self.finish_change(id, ChangeState::Held, reason, detail).await?
            }
            ChangePlan::Rejected { reason, detail } => {
                self.finish_change(id, ChangeState::Rejected, reason, detail).await?;
            }
            ChangePlan::ReadFirst => {
                self.skipped.insert(id);
                self.summary.note_failure(format!(
                    "change {id}: its data changed while it was being planned; it is planned again"
                ));
            }
        }
        Ok(None)
    }

    /// Applies the change. Does nothing if it is no longer pending.
    async fn apply_agreed(&mut self, id: ChangeId, read: ExchangeId) -> Result<(), JobError> {
        let mut write = self.context.store.begin_write(Durability::Full).await?;
        let claims = [ClaimedChange { id, written: None }];
        if write.outbox_claim(read, &claims, self.context.now()).await? != 1 {
            return Ok(());
        }
        let detail = "the shipment had this number already";
        let moves = [ChangeOutcome::new(id, ChangeState::Applied, None, detail)];
        write.outbox_transition(ChangeState::Sending, &moves, self.context.now()).await?;
        write.commit().await?;
        log_outcomes(&self.context, &moves).await;
        self.summary.count_outcomes(&moves);
        Ok(())
    }
}

impl DeliveryRun {
    fn origin(&self) -> ReadOrigin<'_> {
        ReadOrigin { context: &self.context, run: self.run, lane: self.lane }
    }

    /// Returns the result of a read. `None` after a failure: a refusal holds the change, and any other failure
    /// skips it.
    async fn preflight_result<T>(
        &mut self,
        id: ChangeId,
        read: Result<T, JobError>,
    ) -> Result<Option<T>, JobError> {
        match read {
            Ok(seen) => Ok(Some(seen)),
            Err(JobError::Rejected { what, why, .. }) => {
                let detail = format!("the platform refuses to show {what}: {why}");
                self.finish_change(id, ChangeState::Held, Reason::NotShown, detail).await?;
                Ok(None)
            }
            Err(error) if error.ends_run() => Err(error),
            Err(error) => {
                self.skipped.insert(id);
                store_wait_reasons(&self.context, vec![(id, Reason::NotSent, error.to_string())]).await?;
                self.summary.note_failure(error.to_string());
                Ok(None)
            }
        }
    }
}
