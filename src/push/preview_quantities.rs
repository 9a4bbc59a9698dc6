//! Preview of the quantities of the next push, by the known facts.
//!
//! It uses the snapshot, brakes, batches, packing and requests of the push, without a reservation, a claim or
//! a send. A stock level whose fact is too old is listed with its read, and its write is computed from the
//! known fact.

use super::backlog::PushBacklog;
use super::pipeline::backlog_entry;
use super::snapshot::{
    NO_WAREHOUSES, OwnReads, PendingStockLevel, PushSnapshot, SnapshotInputs, deduplicate_levels,
    load_new_changes, load_snapshot,
};
use super::{PlannedRequest, PushPreview};
use super::{brake, pack_writes, send, skus_to_read, witnesses_of};
use crate::client::wire;
use crate::exec::{JobError, JobSettings};
use crate::model::{ChangeId, Moment, Sku, StockLevel, Timestamp};
use crate::reconcile::{ChangeDecision, StockLevelStep};
use crate::store::Store;
use std::collections::{BTreeMap, BTreeSet};

pub(super) async fn preview_quantities(
    store: &Store,
    settings: &JobSettings,
    (now, moment): (Timestamp, Moment),
    preview: &mut PushPreview,
) -> Result<(), JobError> {
    let inputs = SnapshotInputs {
        settings: &settings.quantities,
        now,
        moment,
        own_reads: &OwnReads::new(),
        absent_warehouses: &NO_WAREHOUSES,
    };
    let new = load_new_changes(store, ChangeId(0), now).await?;
    let levels = deduplicate_levels(new.stock_levels.into_iter().map(|(level, _)| level).collect());
    let PushSnapshot { stock_levels: works, rejected } = load_snapshot(store, inputs, &levels).await?;
    for verdict in new.rejected.into_iter().chain(rejected) {
        let why = verdict.detail.unwrap_or_default();
        preview.changes_without_call.push((verdict.id, format!("rejected: {why}")));
    }
    let mut held = BTreeSet::new();
    for trip in brake::preview_trips(store, settings.quantities.brakes, now, &works).await? {
        let note = |id: &ChangeId| (*id, format!("held: {trip}"));
        preview.changes_without_call.extend(trip.changes().iter().map(note));
        held.extend(trip.changes().iter().copied());
    }
    let mut works: Vec<PendingStockLevel> =
        works.into_iter().map(|work| plan_by_known_fact(work, preview)).collect();
    for work in works.iter().filter(|work| work.is_unlisted) {
        let note = format!(
            "decided once the list of warehouses was read: it lacks {}",
            work.stock_level.warehouse_id
        );
        preview.changes_without_call.extend(work.pending_changes.iter().map(|id| (*id, note.clone())));
    }
    for work in &mut works {
        if work.plan.completed_changes().any(|id| held.contains(&id)) {
            work.plan.step = StockLevelStep::Nothing;
        }
        note_without_call(work, &held, preview);
    }
    preview_batches(store, &works, settings.skus_per_call, preview).await
}

/// Returns the plan by the known fact. Lists the stock level as a read if its fact is too old.
fn plan_by_known_fact(mut work: PendingStockLevel, preview: &mut PushPreview) -> PendingStockLevel {
    if work.plan.step == StockLevelStep::ReadFirst {
        preview.reads.push(work.stock_level.clone());
        if work.projected_plan.step != StockLevelStep::ReadFirst {
            work.plan = work.projected_plan.clone();
            work.is_stale = true;
        }
    }
    work
}

fn note_without_call(work: &PendingStockLevel, held: &BTreeSet<ChangeId>, preview: &mut PushPreview) {
    for decision in &work.plan.decisions {
        let sentence = match (&decision.decision, work.plan.step) {
            (ChangeDecision::Completes { .. }, StockLevelStep::Write { .. }) => continue,
            (ChangeDecision::Completes { .. }, _) if held.contains(&decision.id) => continue,
            (ChangeDecision::Completes { explanation: how }, _) => format!("applied without a call: {how}"),
            (ChangeDecision::Held { detail, .. }, _) => format!("held: {detail}"),
            (ChangeDecision::Rejected { detail, .. }, _) => format!("rejected: {detail}"),
            (ChangeDecision::Cancelled { detail, .. }, _) => format!("cancelled: {detail}"),
        };
        preview.changes_without_call.push((decision.id, sentence));
    }
    if work.plan.step == StockLevelStep::ReadFirst {
        let sentence = format!("decided once {} was read", work.stock_level);
        preview.changes_without_call.extend(work.pending_changes.iter().map(|id| (*id, sentence.clone())));
    }
}

/// Adds the batches of the push in their order, each with its read and its calls. For a slow platform the
/// push may use smaller pages than these.
async fn preview_batches(
    store: &Store,
    works: &[PendingStockLevel],
    skus_per_call: usize,
    preview: &mut PushPreview,
) -> Result<(), JobError> {
    let by_level: BTreeMap<&StockLevel, &PendingStockLevel> =
        works.iter().map(|work| (&work.stock_level, work)).collect();
    let (mut backlog, mut unread, mut waiting) = (PushBacklog::default(), BTreeSet::new(), Vec::new());
    for work in works {
        backlog.add_level(work.stock_level.clone(), work.is_urgent);
        if work.is_stale || work.plan.step == StockLevelStep::ReadFirst {
            unread.insert(&work.stock_level);
        }
    }
    while !backlog.is_empty() {
        let batch = backlog.take_page(skus_per_call);
        let batch: Vec<&PendingStockLevel> =
            batch.iter().filter_map(|level| by_level.get(level).copied()).collect();
        let (stale, known): (Vec<&PendingStockLevel>, Vec<&PendingStockLevel>) =
            batch.into_iter().partition(|work| unread.contains(&work.stock_level));
        if !stale.is_empty() {
            let skus = skus_to_read(&stale);
            let witnesses = witnesses_of(store, &stale, &skus).await?;
            let skus: Vec<Sku> = skus.into_iter().chain(witnesses).collect();
            let request = wire::get_product_balances(&skus)?;
            let changes = stale.iter().flat_map(|work| work.pending_changes.iter().copied()).collect();
            preview.requests.push(PlannedRequest { request, changes });
            for work in &stale {
                unread.remove(&work.stock_level);
            }
        }
        let is_write = |work: &&PendingStockLevel| matches!(work.plan.step, StockLevelStep::Write { .. });
        waiting.extend(known.into_iter().filter(is_write));
        let more = !stale.is_empty() || !backlog.is_empty();
        for call in pack_writes(&waiting, more, |_| false) {
            let planned = planned_update(&call, preview)?;
            preview.requests.push(planned);
            waiting.retain(|work| !call.iter().any(|sent| sent.stock_level == work.stock_level));
        }
        backlog.put_back(stale.into_iter().map(backlog_entry).collect());
    }
    Ok(())
}

fn planned_update(
    call: &[&PendingStockLevel],
    preview: &mut PushPreview,
) -> Result<PlannedRequest, JobError> {
    let mut entries = Vec::new();
    for work in call {
        let StockLevelStep::Write { from, to } = work.plan.step else { continue };
        let entry = work.quantity_update(to);
        let level = (entry.sku.case_key(), entry.warehouse_id);
        preview.written_levels.insert(level, (from.unwrap_or(to), to));
        entries.push(entry);
    }
    let changes = call.iter().flat_map(|work| work.plan.completed_changes()).collect();
    Ok(PlannedRequest { request: send::update_request(&entries)?, changes })
}
