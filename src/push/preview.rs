//! Preview of the next push, byte for byte, from the stored facts. Makes no call and writes nothing.
//!
//! The functions that plan and build requests for sending do it here too. For quantities these are the
//! snapshot, the brakes, the batches and the packing; a stock level whose fact is too old is listed with its
//! read, and its write is computed from the known fact. Unknown answers are not guessed: a change that depends
//! on another one's answer is listed with its reason.

use super::backlog::PushBacklog;
use super::batch::{pack_writes, page_to_read};
use super::brake;
use super::snapshot::{
    OwnReads, PendingStockLevel, PushSnapshot, SnapshotInputs, deduplicate_levels, load_new_changes,
    load_snapshot,
};
use crate::client::{PlatformRequest, wire};
use crate::exec::{JobError, JobSettings};
use crate::model::{ChangeId, Moment, Quantity, Sku, StockLevel, Timestamp, WarehouseId};
use crate::outbox::ChangeState;
use crate::reconcile::StockLevelStep;
use crate::store::{OutboxMark, OutboxWindow, Store};
use std::collections::{BTreeMap, BTreeSet};

/// Preview of the next push.
#[derive(Clone, Debug, Default)]
pub struct PushPreview {
    /// The requests in their order: preflights before the calls that depend on them.
    pub requests: Vec<PlannedRequest>,
    /// Stock levels that would be read first, because their fact is missing or too old.
    pub reads: Vec<StockLevel>,
    /// Changes without a call, and their outcome or reason.
    pub changes_without_call: Vec<(ChangeId, String)>,
    /// The keys of the planned changes.
    pub change_keys: BTreeMap<ChangeId, String>,
    /// Number of pending changes behind those, which later pushes plan.
    pub later_changes: u64,
    /// Quantities before and after the calls, by case key and warehouse.
    pub(super) written_levels: BTreeMap<(String, WarehouseId), (Quantity, Quantity)>,
}

/// A request, and the changes that it sends or checks.
#[derive(Clone, Debug)]
pub struct PlannedRequest {
    /// The request as it would be sent.
    pub request: PlatformRequest,
    /// The changes.
    pub changes: Vec<ChangeId>,
}

impl PushPreview {
    pub(super) async fn add_quantities(
        &mut self,
        store: &Store,
        settings: &JobSettings,
        (window, (now, moment)): (&OutboxWindow, (Timestamp, Moment)),
    ) -> Result<(), JobError> {
        let inputs = SnapshotInputs {
            settings: &settings.quantities,
            now,
            moment,
            after: ChangeId(0),
            own_reads: &OwnReads::new(),
        };
        let new = load_new_changes(store, window, &mut OutboxMark::default(), now).await?;
        let levels = deduplicate_levels(new.stock_levels.into_iter().map(|(level, _)| level).collect());
        let PushSnapshot { stock_levels: mut works, rejected } =
            load_snapshot(store, inputs, &levels).await?;
        for verdict in new.rejected.into_iter().chain(rejected) {
            self.note_all(&[verdict.id], &format!("rejected: {}", verdict.detail.unwrap_or_default()));
        }
        let mut held = BTreeSet::new();
        let projected: Vec<_> = works.iter().filter_map(brake::projected_entry).collect();
        let judged = (projected.as_slice(), window.end());
        for trip in brake::trips_of(store, settings.quantities.brakes, now, judged).await? {
            self.note_all(trip.changes(), &format!("held: {trip}"));
            held.extend(trip.changes().iter().copied());
        }
        for work in &mut works {
            // A stale stock level is a read, and then planned by the known fact.
            if work.step() == StockLevelStep::ReadFirst {
                self.reads.push(work.stock_level.clone());
            }
            work.is_stale = false;
            if work.plan.completed_changes().any(|id| held.contains(&id)) {
                work.plan.step = StockLevelStep::Nothing;
            }
            self.note_outcomes(work, &held);
        }
        self.add_batches(&works, settings.skus_per_call)
    }

    /// Lists the changes that need no call.
    fn note_outcomes(&mut self, work: &PendingStockLevel, held: &BTreeSet<ChangeId>) {
        for decision in &work.plan.decisions {
            let outcome = work.change_outcome(decision);
            let detail = outcome.detail.unwrap_or_default();
            let sentence = match (outcome.to, work.plan.step) {
                (ChangeState::Applied, StockLevelStep::Write { .. }) => continue,
                (ChangeState::Applied, _) if held.contains(&decision.id) => continue,
                (ChangeState::Applied, _) => format!("applied without a call: {detail}"),
                (to, _) => format!("{to}: {detail}"),
            };
            self.note_all(&[decision.id], &sentence);
        }
        if work.plan.step == StockLevelStep::ReadFirst {
            self.note_all(&work.pending_changes, &format!("decided once {} was read", work.stock_level));
        }
    }

    /// Adds the batches of the push in their order, each with its read and its calls. For a slow platform the
    /// push may use smaller pages than these.
    fn add_batches(&mut self, works: &[PendingStockLevel], skus_per_call: usize) -> Result<(), JobError> {
        let by_level: BTreeMap<&StockLevel, &PendingStockLevel> =
            works.iter().map(|work| (&work.stock_level, work)).collect();
        let mut unread: BTreeSet<StockLevel> = self.reads.iter().cloned().collect();
        let (mut backlog, mut waiting) = (PushBacklog::default(), Vec::new());
        for work in works {
            backlog.add_level(work.stock_level.clone(), work.is_urgent);
        }
        while !backlog.is_empty() {
            let batch = backlog.take_page(skus_per_call, |_| true);
            let (stale, known): (Vec<&PendingStockLevel>, Vec<&PendingStockLevel>) = batch
                .iter()
                .filter_map(|level| by_level.get(level).copied())
                .partition(|work| unread.contains(&work.stock_level));
            if !stale.is_empty() {
                let skus: Vec<Sku> = page_to_read(&stale, usize::MAX, usize::MAX).into_iter().collect();
                let changes = stale.iter().flat_map(|work| work.pending_changes.iter().copied()).collect();
                self.requests.push(PlannedRequest { request: wire::get_product_balances(&skus), changes });
                for work in &stale {
                    unread.remove(&work.stock_level);
                }
            }
            let is_write = |work: &&PendingStockLevel| matches!(work.plan.step, StockLevelStep::Write { .. });
            waiting.extend(known.into_iter().filter(is_write));
            let more = !stale.is_empty() || !backlog.is_empty();
            for call in pack_writes(&waiting, more, |_| false) {
                self.add_update(&call)?;
                waiting.retain(|work| !call.iter().any(|sent| sent.stock_level == work.stock_level));
            }
            backlog.put_back(stale.into_iter().map(PendingStockLevel::backlog_entry));
        }
        Ok(())
    }

    fn add_update(&mut self, call: &[&PendingStockLevel]) -> Result<(), JobError> {
        let mut entries = Vec::new();
        for work in call {
            let StockLevelStep::Write { from, to } = work.plan.step else { continue };
            let entry = work.quantity_update(to);
            let level = (entry.sku.case_key(), entry.warehouse_id);
            self.written_levels.insert(level, (from.unwrap_or(to), to));
            entries.push(entry);
        }
        let changes = call.iter().flat_map(|work| work.plan.completed_changes()).collect();
        self.requests.push(PlannedRequest { request: wire::update_quantity_on_hand(&entries), changes });
        Ok(())
    }

    fn note_all<'c>(&mut self, changes: impl IntoIterator<Item = &'c ChangeId>, note: &str) {
        self.changes_without_call.extend(changes.into_iter().map(|id| (*id, note.to_owned())));
    }

    /// Lists every remaining pending change as waiting for a call in flight.
    pub(super) fn note_remaining(&mut self) {
        let carried = self.requests.iter().flat_map(|planned| planned.changes.iter().copied());
        let mut spoken: BTreeSet<ChangeId> = carried.collect();
        spoken.extend(self.changes_without_call.iter().map(|(id, _)| *id));
        let rest: Vec<ChangeId> =
            self.change_keys.keys().filter(|id| !spoken.contains(id)).copied().collect();
        self.note_all(
            &rest,
            "waits: a write of its stock level is in flight or in doubt, or a change creates its product first",
        );
    }
}
