//! Update call: reservation → plan checked → claim (commit) → send → complete (commit).
//!
//! The call completes only the changes of its own claim. A change inserted after the claim waits for the next
//! call.

use super::claim::{self, CallOutcome, ClaimedCall, StockLevelOutcome};
use super::read;
use super::snapshot::{
    OWN_READ_SERVES, OwnReads, PendingStockLevel, SnapshotInputs, deduplicate_levels, load_snapshot,
};
use super::summary::count_state;
use crate::client::PlatformRequest;
use crate::client::wire;
use crate::exec::call::{AnsweredExchange, BegunExchange, reply_message};
use crate::exec::key_probe::{self, RefusalCause};
use crate::exec::{JobContext, JobError, change_events};
use crate::limiter::PacePayment;
use crate::model::{ChangeId, Lane, Operation, Quantity, RunId, Sku, StockLevel};
use crate::outbox::{ChangeState, Reason};
use crate::projection::ParsedQuantityAnswer;
use crate::reconcile::{ChangeDecision, StockLevelStep};
use crate::settle::{self, SettleSummary};
use crate::store::{ChangeOutcome, ClaimedChange, Durability, PlannedStockLevel, StockLevelWrite};
use crate::telemetry::event;
use std::collections::BTreeSet;
use std::time::Duration;

const UPDATE_OPERATION: Operation = Operation::UpdateQuantityOnHand;

/// Outcome of a call.
#[derive(Debug)]
pub(super) enum UpdateOutcome {
    /// No call was made. Nothing is left to write, or the facts aged while the call waited. The stock levels
    /// are planned again.
    Nothing,
    /// Every change of the call moved. The call was answered, or its outcome is unknown.
    Completed {
        /// Stock levels of the call.
        stock_levels: Vec<StockLevel>,
        /// Changes applied.
        applied: u64,
        /// Changes that the platform refused.
        rejected: u64,
        /// Changes held for a decision.
        held: u64,
        /// Changes of unknown outcome.
        in_doubt: u64,
    },
    /// Refused as a whole; to be sent again in these parts.
    Split(Vec<Vec<StockLevel>>),
    /// Refused as a whole with a status that openapi.yaml does not document for content errors. Sent again in
    /// halves. A call of one stock level has no parts, and its changes are pending again.
    Refused {
        /// The halves.
        parts: Vec<Vec<StockLevel>>,
        /// Message of the platform.
        why: String,
    },
    /// The call had no effect; its changes are pending again. A reason is given if another attempt is useless
    /// now.
    NoEffect(Option<String>),
}

/// Entry of the call.
struct QuantityEntry {
    level: PendingStockLevel,
    stock_level_write: StockLevelWrite,
    applied_changes: Vec<(ChangeId, String)>,
}

/// Call to be sent.
pub(super) struct UpdateCall {
    pub(super) run: RunId,
    pub(super) lane: Lane,
    pub(super) pace: PacePayment,
    pub(super) own_reads: OwnReads,
    pub(super) stock_levels: Vec<StockLevel>,
    /// Their plans; empty if they are planned at the send.
    pub(super) plans: Vec<PendingStockLevel>,
}

/// Sends the stock levels as one call.
///
/// The plans of the batch hold if their facts are fresh when the reservation comes, and if the claim finds their rows
/// unchanged. Otherwise the stock levels are planned once more.
pub(super) async fn send_update(
    context: JobContext,
    mut call: UpdateCall,
) -> Result<UpdateOutcome, JobError> {
    context.wait_until_claimable().await?;
    let permit = context.reserve_call(UPDATE_OPERATION, call.lane, call.pace).await?;
    let mut plans = std::mem::take(&mut call.plans);
    let mut is_new = plans.is_empty() || !are_current(&context, &call, &plans);
    if is_new {
        plans = load_plans(&context, &call).await?;
        if needs_read(&plans)
            && is_quota_small(&context)
            && permit.keep_while(refresh_facts(&context, &mut call, &plans)).await?
        {
            plans = load_plans(&context, &call).await?;
        }
    }
    let (entries, begun, request) = loop {
        let entries: Vec<QuantityEntry> = if needs_read(&plans) {
            Vec::new()
        } else {
            plans.into_iter().filter_map(QuantityEntry::from_level).collect()
        };
        // Another call may have been throttled in the meantime. Then the next batch makes a new reservation.
        if entries.is_empty() || !permit.may_send() || context.key_proofs.update_hold().is_some() {
            permit.return_unused();
            return Ok(UpdateOutcome::Nothing);
        }
        match claim_update(&context, &call, &entries).await? {
            (Some(begun), request) => break (entries, begun, request),
            (None, _) if !is_new => (is_new, plans) = (true, load_plans(&context, &call).await?),
            (None, _) => {
                permit.return_unused();
                return Ok(UpdateOutcome::Nothing);
            }
        }
    };
    let answer = context.send_exchange(permit, begun, request).await;
    complete_update(&context, call.run, entries, answer).await
}

/// Commits the claim of a call; `None` if something moved since the plan.
async fn claim_update(
    context: &JobContext,
    call: &UpdateCall,
    entries: &[QuantityEntry],
) -> Result<(Option<BegunExchange>, PlatformRequest), JobError> {
    let updates: Vec<wire::QuantityUpdate> = entries.iter().map(QuantityEntry::wire_update).collect();
    let request = update_request(&updates)?;
    let changes: Vec<ClaimedChange> = entries.iter().flat_map(QuantityEntry::change_claims).collect();
    let writes: Vec<StockLevelWrite> = entries.iter().map(|entry| entry.stock_level_write.clone()).collect();
    let planned: Vec<&PlannedStockLevel> = entries.iter().map(|entry| &entry.level.read_rows).collect();
    let claim = ClaimedCall {
        run: call.run,
        lane: call.lane,
        request: &request,
        changes: &changes,
        stock_levels: &writes,
        planned: &planned,
        evidence: &[],
    };
    let begun = claim::claim_call(context, &claim).await?;
    Ok((begun, request))
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
    let page =
        read::read_stale_page(context, call.run, call.lane, (skus.into_iter().collect(), Vec::new())).await?;
    let read::StaleReadOutcome::Recorded { exchange, .. } = page else { return Ok(false) };
    call.own_reads.extend(call.stock_levels.iter().map(|level| (level.clone(), exchange)));
    Ok(true)
}

/// Builds the call that writes these entries.
pub(super) fn update_request(entries: &[wire::QuantityUpdate]) -> Result<PlatformRequest, JobError> {
    wire::update_quantity_on_hand(entries).map_err(|why| {
        JobError::Implausible(format!("tallyd packed a call that the platform would refuse: {why}"))
    })
}

/// Returns true if the fact of every planned write still serves it.
fn are_current(context: &JobContext, call: &UpdateCall, plans: &[PendingStockLevel]) -> bool {
    let settings = context.settings();
    let inputs = SnapshotInputs::at_present(context, &settings.quantities, &call.own_reads);
    plans.iter().all(|plan| inputs.is_current(plan))
}

/// Plans the stock levels of a call again.
async fn load_plans(context: &JobContext, call: &UpdateCall) -> Result<Vec<PendingStockLevel>, JobError> {
    let (settings, store) = (context.settings(), &context.store);
    let inputs = SnapshotInputs::at_present(context, &settings.quantities, &call.own_reads);
    let levels = deduplicate_levels(store.stock_levels_resolve(&call.stock_levels).await?);
    Ok(load_snapshot(store, inputs, &levels).await?.stock_levels)
}

/// Returns true if a fact aged while the call waited for its reservation.
fn needs_read(plans: &[PendingStockLevel]) -> bool {
    plans.iter().any(|plan| plan.plan.step == StockLevelStep::ReadFirst)
}

impl QuantityEntry {
    fn from_level(work: PendingStockLevel) -> Option<Self> {
        let (StockLevelStep::Write { from, to }, Some(product)) = (work.plan.step, work.product) else {
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

    fn wire_update(&self) -> wire::QuantityUpdate {
        self.level.quantity_update(self.stock_level_write.written)
    }

    fn change_claims(&self) -> impl Iterator<Item = ClaimedChange> + '_ {
        let written = Some(self.stock_level_write.written.0);
        self.applied_changes.iter().map(move |(id, _)| ClaimedChange { id: *id, written })
    }

    fn change_ids(&self) -> impl Iterator<Item = ChangeId> + '_ {
        self.applied_changes.iter().map(|(id, _)| *id)
    }

    /// Returns the move for every change of the entry.
    fn outcomes_to(
        &self,
        to: ChangeState,
        reason: Reason,
        detail: &str,
    ) -> impl Iterator<Item = ChangeOutcome> {
        self.applied_changes.iter().map(move |(id, _)| ChangeOutcome::new(*id, to, Some(reason), detail))
    }

    fn applied_outcomes(&self) -> impl Iterator<Item = ChangeOutcome> {
        self.applied_changes.iter().map(|(id, how)| ChangeOutcome::new(*id, ChangeState::Applied, None, how))
    }
}

async fn complete_update(
    context: &JobContext,
    run: RunId,
    entries: Vec<QuantityEntry>,
    answer: AnsweredExchange,
) -> Result<UpdateOutcome, JobError> {
    let changes: Vec<ChangeId> = entries.iter().flat_map(QuantityEntry::change_ids).collect();
    match claim::complete_unaccepted(context, &changes, &answer).await? {
        CallOutcome::Answered => complete_accepted(context, run, entries, &answer).await,
        CallOutcome::InDoubt => {
            context
                .record_failure(UPDATE_OPERATION, &entry_skus(&entries), &reply_message(&answer.reply))
                .await?;
            let in_doubt = changes.len() as u64;
            Ok(UpdateOutcome::Completed {
                stock_levels: entry_levels(&entries),
                applied: 0,
                rejected: 0,
                held: 0,
                in_doubt,
            })
        }
        CallOutcome::Throttled => Ok(UpdateOutcome::NoEffect(None)),
        CallOutcome::NotSent(why) => Ok(UpdateOutcome::NoEffect(Some(why))),
        CallOutcome::Rejected { status: status @ (400 | 403), why } => {
            handle_refusal(context, run, &entries, &answer, (status, &why)).await
        }
        CallOutcome::Rejected { why, .. } => split_undocumented(context, &entries, &why).await,
    }
}

/// Handles a refusal with a status that is not documented for content errors. It proves nothing against a
/// change. A call of several stock levels is still cut in two, because one SKU may cause the failure and is
/// then quarantined.
async fn split_undocumented(
    context: &JobContext,
    entries: &[QuantityEntry],
    why: &str,
) -> Result<UpdateOutcome, JobError> {
    context.record_failure(UPDATE_OPERATION, &entry_skus(entries), why).await?;
    let levels = entry_levels(entries);
    let parts = if levels.len() > 1 { split_in_half(&levels) } else { Vec::new() };
    Ok(UpdateOutcome::Refused { parts, why: why.to_owned() })
}

fn split_in_half(levels: &[StockLevel]) -> Vec<Vec<StockLevel>> {
    let (left, right) = levels.split_at(levels.len() / 2);
    vec![left.to_vec(), right.to_vec()]
}

/// Handles a refusal with status 400 or 403 (docs/rules.md 18). It may mean the key or the content, so the
/// key is judged first. Only then is the call cut in two to find the offending entry.
async fn handle_refusal(
    context: &JobContext,
    run: RunId,
    entries: &[QuantityEntry],
    answer: &AnsweredExchange,
    (status, why): (u16, &str),
) -> Result<UpdateOutcome, JobError> {
    // No notice if another call holds the operation already: one judgement serves both calls.
    drop(
        context.limiter.hold_operation(
            Operation::UpdateQuantityOnHand,
            format!("a quantity update was answered {status}"),
        ),
    );
    let judged = key_probe::judge_refusal(context, run, answer.sent_moment).await;
    if let Ok(RefusalCause::NotKnown(unknown)) = &judged {
        hold_updates(context, entries, why, unknown).await?;
    }
    context.limiter.release_operation(Operation::UpdateQuantityOnHand);
    let levels = entry_levels(entries);
    match judged? {
        RefusalCause::Refused => return Err(context.key_refused(&answer.reply)),
        RefusalCause::NotKnown(unknown) => return Ok(UpdateOutcome::NoEffect(Some(unknown))),
        RefusalCause::Content | RefusalCause::Unproved if status == 403 => {
            return split_undocumented(context, entries, why).await;
        }
        RefusalCause::Content | RefusalCause::Unproved if levels.len() > 1 => {
            return Ok(UpdateOutcome::Split(split_in_half(&levels)));
        }
        RefusalCause::Unproved => return Ok(UpdateOutcome::Split(vec![levels])),
        RefusalCause::Content => {}
    }
    let detail = format!("the platform refused it: {why}");
    let moves: Vec<ChangeOutcome> = entries
        .iter()
        .flat_map(|entry| entry.outcomes_to(ChangeState::Rejected, Reason::ServiceRefused, &detail))
        .collect();
    let mut write = context.store.begin_write(Durability::Full).await?;
    let rejected = write.outbox_transition(ChangeState::Pending, &moves, context.now()).await?;
    if rejected != moves.len() as u64 {
        // A change of the entry left the state pending in the meantime. The rest is another entry, which was
        // not refused.
        return Ok(UpdateOutcome::Nothing);
    }
    write.commit().await?;
    change_events::log_outcomes(context, &moves).await;
    Ok(UpdateOutcome::Completed { stock_levels: levels, applied: 0, rejected, held: 0, in_doubt: 0 })
}

/// Suspends all quantity updates until a probe shows the state of the key. Notes the reason at the changes of
/// this call.
async fn hold_updates(
    context: &JobContext,
    entries: &[QuantityEntry],
    why: &str,
    unknown: &str,
) -> Result<(), JobError> {
    context.key_proofs.hold_updates(unknown, context.moment());
    let detail = format!(
        "not done: {why}; that may mean the key, and the platform does not tell whether it accepts it: {unknown}; \
         the key is asked for again and again, and then it is sent"
    );
    let changes = entries.iter().flat_map(QuantityEntry::change_ids);
    let reasons = changes.map(|id| (id, Reason::OperationHeld, detail.clone()));
    claim::store_wait_reasons(context, reasons.collect()).await
}

/// Completes each entry by the answer's status and messages. If they do not identify the entries, the stock
/// levels are read back at once. `settle` makes the second check if one is needed; this call does not wait
/// for it.
async fn complete_accepted(
    context: &JobContext,
    run: RunId,
    entries: Vec<QuantityEntry>,
    answer: &AnsweredExchange,
) -> Result<UpdateOutcome, JobError> {
    let skus: Vec<Sku> = entries.iter().map(|entry| entry.level.stock_level.sku.clone()).collect();
    let parsed = ParsedQuantityAnswer::parse(&answer.reply.body, &skus);
    let mut moves = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        match (&parsed, parsed.refusal_of(index)) {
            (ParsedQuantityAnswer::Unclear(message), _) => {
                let detail = format!("the platform's answer does not say which entries it means: {message}");
                moves.extend(entry.outcomes_to(ChangeState::InDoubt, Reason::Unmatched, &detail));
            }
            (ParsedQuantityAnswer::Refused(_), Some(why)) => {
                let detail = format!("the platform refused it: {why}");
                moves.extend(entry.outcomes_to(ChangeState::Rejected, Reason::ServiceRefused, &detail));
            }
            (ParsedQuantityAnswer::Refused(_), None) => moves.extend(entry.applied_outcomes()),
        }
    }
    let is_unclear = matches!(parsed, ParsedQuantityAnswer::Unclear(_));
    let written: Vec<StockLevelWrite> = entries.iter().map(|entry| entry.stock_level_write.clone()).collect();
    claim::complete_call(context, answer, &moves, StockLevelOutcome::Answered(&written, &parsed)).await?;
    let names: Vec<&str> = skus.iter().map(Sku::as_str).collect();
    context.record_success(UPDATE_OPERATION, &names).await?;
    log_call(context, &entries, &moves, answer).await;
    let checked = if is_unclear {
        settle::check_call(context, run, answer.id).await?
    } else {
        SettleSummary::default()
    };
    Ok(UpdateOutcome::Completed {
        stock_levels: entry_levels(&entries),
        applied: count_state(&moves, ChangeState::Applied) + checked.took_effect,
        rejected: count_state(&moves, ChangeState::Rejected),
        held: checked.held,
        in_doubt: count_state(&moves, ChangeState::InDoubt)
            .saturating_sub(checked.took_effect + checked.held),
    })
}

fn entry_skus(entries: &[QuantityEntry]) -> Vec<&str> {
    entries.iter().map(|entry| entry.level.stock_level.sku.as_str()).collect()
}

fn entry_levels(entries: &[QuantityEntry]) -> Vec<StockLevel> {
    entries.iter().map(|entry| entry.level.stock_level.clone()).collect()
}

/// Logs the call in one line. Changes that were not applied get a line of their own.
///
/// `window_ms` is the age of the oldest fact: a sale at the platform within that time was not visible.
async fn log_call(
    context: &JobContext,
    entries: &[QuantityEntry],
    moves: &[ChangeOutcome],
    answer: &AnsweredExchange,
) {
    let oldest = entries.iter().filter_map(|entry| entry.level.fact_at).min();
    let window = oldest.map(|at| context.moment().duration_since(at));
    let window_ms = window.map(|window| u64::try_from(window.as_millis()).unwrap_or(u64::MAX));
    let written: i64 = entries
        .iter()
        .map(|entry| {
            (entry.stock_level_write.written.0 - entry.stock_level_write.before.unwrap_or(Quantity(0)).0)
                .abs()
        })
        .sum();
    let changes: Vec<ChangeId> = moves.iter().map(|verdict| verdict.id).collect();
    let (ids, keys) = change_events::ids_and_keys(context, &changes).await;
    tracing::info!(
        event = event::OUTBOX_FINISHED,
        exchange = answer.id.0,
        entries = entries.len(),
        changes = changes.len(),
        ids,
        keys,
        units_moved = written,
        window_ms,
        "{} entries answered",
        entries.len()
    );
    let others = moves.iter().filter(|verdict| verdict.to != ChangeState::Applied);
    change_events::log_outcomes(context, &others.cloned().collect::<Vec<_>>()).await;
}
