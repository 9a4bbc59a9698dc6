//! Update call: reservation → plan checked → call ([`claim::send_call`]) → end of the call ([`SentCall`]).

use super::claim::{self, CallOutcome, ClaimedCall, RecordAnswer};
use super::refusal::{SentCall, SentEffect};
use super::snapshot::{
    OWN_READ_SERVES, OwnReads, PendingStockLevel, SnapshotInputs, deduplicate_levels, load_snapshot,
};
use crate::client::{Verdict, wire};
use crate::exec::balances_reader::{PageRead, read_page};
use crate::exec::call::AnsweredExchange;
use crate::exec::change_events::outcomes_to;
use crate::exec::reads::ReadOrigin;
use crate::exec::{JobContext, JobError, change_events};
use crate::limiter::{PacePayment, Permit};
use crate::model::{ChangeId, Lane, Operation, Position, Quantity, RunId, Sku, StockLevel};
use crate::outbox::{ChangeState, Reason};
use crate::projection::{self, ParsedQuantityAnswer};
use crate::reconcile::{ChangeDecision, StockLevelStep};
use crate::settle;
use crate::store::{
    ChangeOutcome, ClaimedChange, PlannedStockLevel, StockLevelWrite, StoreError, WriteTransaction,
};
use crate::telemetry::event;
use std::collections::BTreeSet;
use std::time::Duration;

const UPDATE_OPERATION: Operation = Operation::UpdateQuantityOnHand;

/// Entry of the call.
struct QuantityEntry {
    level: PendingStockLevel,
    stock_level_write: StockLevelWrite,
    applied_changes: Vec<(ChangeId, String)>,
}

pub(super) struct UpdateCall {
    pub(super) run: RunId,
    pub(super) lane: Lane,
    pub(super) pace: PacePayment,
    /// Change after which the window of the plans begins.
    pub(super) after: ChangeId,
    pub(super) own_reads: OwnReads,
    pub(super) stock_levels: Vec<StockLevel>,
    /// Their plans; those that are not here are made at the send.
    pub(super) plans: Vec<PendingStockLevel>,
}

/// Sends the stock levels as one call.
///
/// The plans of the batch hold if their facts are fresh when the reservation comes, and if the claim finds their rows
/// unchanged. Otherwise the stock levels are planned once more.
///
/// Returns `None` if no call was made: nothing is left to write, or the facts aged while the call waited.
pub(super) async fn send_update(
    context: JobContext,
    mut call: UpdateCall,
) -> Result<Option<SentEffect>, JobError> {
    context.wait_until_claimable().await?;
    let mut permit = context.reserve_call(UPDATE_OPERATION, call.lane, call.pace).await?;
    let mut plans = std::mem::take(&mut call.plans);
    let mut is_new = plans.len() < call.stock_levels.len() || !are_current(&context, &call, &plans);
    if is_new {
        plans = load_plans(&context, &call).await?;
        if needs_read(&plans)
            && is_quota_small(&context)
            && permit.keep_while(refresh_facts(&context, &mut call, &plans)).await?
        {
            plans = load_plans(&context, &call).await?;
        }
    }
    loop {
        let entries: Vec<QuantityEntry> = if needs_read(&plans) {
            Vec::new()
        } else {
            plans.into_iter().filter_map(QuantityEntry::from_level).collect()
        };
        // Another call may have been throttled in the meantime. Then the next batch makes a new reservation.
        if entries.is_empty() || !permit.may_send() || context.key.holds_updates() {
            permit.return_unused();
            return Ok(None);
        }
        match send_entries(&context, &call, permit, &entries).await? {
            CallOutcome::Ended(answer, moves) => {
                return conclude_update(&context, call.run, &entries, &answer, &moves).await.map(Some);
            }
            CallOutcome::NotClaimed(unused) if !is_new => {
                permit = unused;
                (is_new, plans) = (true, load_plans(&context, &call).await?);
            }
            CallOutcome::NotClaimed(unused) => {
                unused.return_unused();
                return Ok(None);
            }
        }
    }
}

/// Makes the call. An accepted answer completes each entry by its status and messages.
async fn send_entries(
    context: &JobContext,
    call: &UpdateCall,
    permit: Permit,
    entries: &[QuantityEntry],
) -> Result<CallOutcome, JobError> {
    let writes: Vec<StockLevelWrite> = entries.iter().map(|entry| entry.stock_level_write.clone()).collect();
    let (mut updates, mut changes) = (Vec::new(), Vec::new());
    for entry in entries {
        let written = entry.stock_level_write.written;
        updates.push(entry.level.quantity_update(written));
        changes.extend(entry.change_ids().map(|id| ClaimedChange { id, written: Some(written.0) }));
    }
    let planned: Vec<&PlannedStockLevel> = entries.iter().map(|entry| &entry.level.read_rows).collect();
    let claim = ClaimedCall {
        run: call.run,
        lane: call.lane,
        request: wire::update_quantity_on_hand(&updates),
        changes: &changes,
        stock_levels: &writes,
        planned: &planned,
        evidence: &[],
    };
    claim::send_call(context, permit, claim, &AcceptedQuantities { entries, writes: &writes }).await
}

/// Accepted answer to the call of these entries.
struct AcceptedQuantities<'a> {
    entries: &'a [QuantityEntry],
    writes: &'a [StockLevelWrite],
}

impl RecordAnswer for AcceptedQuantities<'_> {
    async fn record(
        &self,
        write: &mut WriteTransaction,
        answer: &AnsweredExchange,
        ended: Position,
    ) -> Result<Vec<ChangeOutcome>, StoreError> {
        let skus: Vec<Sku> = self.entries.iter().map(|entry| entry.level.stock_level.sku.clone()).collect();
        let parsed = ParsedQuantityAnswer::parse(&answer.reply.body, &skus);
        let when = (ended, answer.sent_at);
        projection::project_quantity_answer(write, answer.id, when, self.writes, &parsed).await?;
        Ok(accepted_outcomes(self.entries, &parsed))
    }
}

/// Returns the outcome of each change. If the answer does not identify its entries, all are in doubt.
fn accepted_outcomes(entries: &[QuantityEntry], parsed: &ParsedQuantityAnswer) -> Vec<ChangeOutcome> {
    let mut moves = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        let ids: Vec<ChangeId> = entry.change_ids().collect();
        match (parsed, parsed.refusal_of(index)) {
            (ParsedQuantityAnswer::Unclear(message), _) => {
                let detail = format!("the platform's answer does not identify its entries: {message}");
                moves.extend(outcomes_to(&ids, ChangeState::InDoubt, Some(Reason::Unmatched), &detail));
            }
            (ParsedQuantityAnswer::Refused(_), Some(why)) => {
                let detail = format!("the platform refused it: {why}");
                moves.extend(outcomes_to(&ids, ChangeState::Rejected, Some(Reason::ServiceRefused), &detail));
            }
            (ParsedQuantityAnswer::Refused(_), None) => moves.extend(
                entry
                    .applied_changes
                    .iter()
                    .map(|(id, how)| ChangeOutcome::new(*id, ChangeState::Applied, None, how)),
            ),
        }
    }
    moves
}

/// Returns true if facts age while a write waits for its reservation, because the quota is small. Then the
/// write keeps its reservation while its facts are read. Otherwise the read would use up the reservation, and
/// the facts would be too old again at the next one.
fn is_quota_small(context: &JobContext) -> bool {
    let limit = context.limiter.quota_usage().limit;
    let apart = Duration::from_secs(60) / limit.max(1);
    limit > 1 && apart * 2 > context.settings().quantities.max_fact_age.max(OWN_READ_SERVES)
}

/// Reads the stock levels of a call for their write. Returns false if the read failed.
async fn refresh_facts(
    context: &JobContext,
    call: &mut UpdateCall,
    plans: &[PendingStockLevel],
) -> Result<bool, JobError> {
    let skus: BTreeSet<Sku> = plans.iter().map(|work| work.stock_level.sku.clone()).collect();
    let origin = ReadOrigin { context, run: call.run, lane: call.lane };
    let page = read_page(origin, &skus.into_iter().collect::<Vec<_>>()).await?;
    let PageRead::Recorded(page) = page else { return Ok(false) };
    call.own_reads.extend(call.stock_levels.iter().map(|level| (level.clone(), page.answer.id)));
    Ok(true)
}

/// Returns true if the fact of every planned write still serves it.
fn are_current(context: &JobContext, call: &UpdateCall, plans: &[PendingStockLevel]) -> bool {
    let settings = context.settings();
    let inputs = SnapshotInputs::at_present(context, &settings.quantities, call.after, &call.own_reads);
    plans.iter().all(|plan| inputs.is_current(plan))
}

async fn load_plans(context: &JobContext, call: &UpdateCall) -> Result<Vec<PendingStockLevel>, JobError> {
    let (settings, store) = (context.settings(), &context.store);
    let inputs = SnapshotInputs::at_present(context, &settings.quantities, call.after, &call.own_reads);
    let levels = deduplicate_levels(store.stock_levels_resolve(&call.stock_levels).await?);
    Ok(load_snapshot(store, inputs, &levels).await?.stock_levels)
}

/// Returns true if a fact aged while the call waited for its reservation.
fn needs_read(plans: &[PendingStockLevel]) -> bool {
    plans.iter().any(PendingStockLevel::needs_read)
}

impl QuantityEntry {
    fn from_level(work: PendingStockLevel) -> Option<Self> {
        let (StockLevelStep::Write { from, to }, Some(product)) = (work.step(), work.read_rows.row.product)
        else {
            return None;
        };
        let write = StockLevelWrite {
            product,
            warehouse_id: work.stock_level.warehouse_id.0,
            before: from,
            written: to,
        };
        let settles = work.plan.decisions.iter().filter_map(|decision| match &decision.decision {
            ChangeDecision::Completes { explanation: how } => Some((decision.id, how.clone())),
            ChangeDecision::Held { .. }
            | ChangeDecision::Rejected { .. }
            | ChangeDecision::Cancelled { .. } => None,
        });
        Some(Self { applied_changes: settles.collect(), stock_level_write: write, level: work })
    }

    fn change_ids(&self) -> impl Iterator<Item = ChangeId> + '_ {
        self.applied_changes.iter().map(|(id, _)| *id)
    }
}

/// Concludes the call. The stock levels of an accepted call are read back at once if their changes are in
/// doubt. `settle` makes the second check if one is needed; this call does not wait for it.
async fn conclude_update(
    context: &JobContext,
    run: RunId,
    entries: &[QuantityEntry],
    answer: &AnsweredExchange,
    moves: &[ChangeOutcome],
) -> Result<SentEffect, JobError> {
    let is_accepted = answer.reply.verdict == Verdict::Accepted;
    if is_accepted {
        log_call(context, entries, answer, moves).await;
    }
    let names = entries.iter().map(|entry| entry.level.stock_level.sku.as_str()).collect();
    let mut effect = SentCall { context, run, answer, names, moves }.conclude().await?;
    if let SentEffect::Moved(counts) = &mut effect
        && is_accepted
        && counts.in_doubt > 0
    {
        let checked = settle::check_call(context, run, answer.id).await?;
        counts.applied += checked.took_effect;
        counts.held += checked.held;
        counts.in_doubt = counts.in_doubt.saturating_sub(checked.took_effect + checked.held);
    }
    Ok(effect)
}

/// Logs an accepted call in one line. Changes that were not applied get a line of their own.
///
/// `window_ms` is the age of the oldest fact: a sale at the platform within that time was not visible.
async fn log_call(
    context: &JobContext,
    entries: &[QuantityEntry],
    answer: &AnsweredExchange,
    moves: &[ChangeOutcome],
) {
    let oldest = entries.iter().filter_map(|entry| entry.level.read_rows.row.fact_moment).min();
    let window = oldest.map(|at| context.moment().duration_since(at));
    let window_ms = window.map(|window| u64::try_from(window.as_millis()).unwrap_or(u64::MAX));
    let writes = entries.iter().map(|entry| &entry.stock_level_write);
    let units = writes.map(|write| (write.written.0 - write.before.unwrap_or(Quantity(0)).0).abs());
    let changes: Vec<ChangeId> = moves.iter().map(|verdict| verdict.id).collect();
    let (ids, keys) = change_events::ids_and_keys(context, &changes).await;
    tracing::info!(
        event = event::OUTBOX_FINISHED,
        exchange = answer.id.0,
        entries = entries.len(),
        changes = changes.len(),
        ids,
        keys,
        units_moved = units.sum::<i64>(),
        window_ms,
        "{} entries answered",
        entries.len()
    );
    let others = moves.iter().filter(|verdict| verdict.to != ChangeState::Applied);
    change_events::log_outcomes(context, &others.cloned().collect::<Vec<_>>()).await;
}
