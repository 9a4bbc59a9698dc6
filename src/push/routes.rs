//! Selection of the stock levels of a batch that may be read or written now.
//!
//! Stock levels of a quarantined SKU wait. Those that failed before are sent apart from the others.

use super::claim::store_wait_reasons;
use super::run::PushRun;
use super::snapshot::PendingStockLevel;
use crate::exec::JobError;
use crate::exec::quarantine::{EntryRoute, Quarantine, deferral_detail};
use crate::model::{Operation, StockLevel, Timestamp};
use crate::outbox::Reason;
use crate::reconcile::StockLevelStep;
use crate::reconcile::isolation::resend_size;
use crate::reconcile::packing::{PackingEntry, pack_calls};

impl PendingStockLevel {
    fn write_route(&self, quarantine: &Quarantine<'_>) -> EntryRoute {
        quarantine.route_of(Operation::UpdateQuantityOnHand, self.stock_level.sku.as_str())
    }

    /// Returns true if the last call of the stock level failed. Its next call has few other entries, or none.
    pub(super) fn is_separate(&self, quarantine: &Quarantine<'_>) -> bool {
        self.had_no_effect
            || self.may_be_refused
            || matches!(self.write_route(quarantine), EntryRoute::Suspect | EntryRoute::Isolated)
    }
}

/// Packs the stock levels that [`PendingStockLevel::is_separate`] selects. A quarantined one goes isolated, as
/// does one of an answer that refused an entry without naming it.
pub(super) fn separate_calls<'w>(
    separate: &[&'w PendingStockLevel],
    quarantine: &Quarantine<'_>,
) -> Vec<Vec<&'w PendingStockLevel>> {
    let (isolated, suspects): (Vec<&PendingStockLevel>, Vec<&PendingStockLevel>) = separate
        .iter()
        .partition(|work| work.may_be_refused || work.write_route(quarantine) == EntryRoute::Isolated);
    let entries: Vec<PackingEntry<'_>> = suspects.iter().map(|work| work.packing_entry()).collect();
    let size = resend_size(suspects.len());
    let packed = pack_calls(&entries);
    let parts = packed.iter().flat_map(|call| call.chunks(size));
    let parts = parts.map(|part| part.iter().map(|index| suspects[*index]).collect());
    parts.chain(isolated.into_iter().map(|work| vec![work])).collect()
}

impl PushRun<'_> {
    /// Returns the stock levels of a batch that may be read or written now. Notes at the changes of the
    /// others what they wait for. Stock levels that must be read isolated are handed to the search.
    pub(super) async fn select_ready<'w>(
        &mut self,
        quarantine: &Quarantine<'_>,
        batch: Vec<&'w PendingStockLevel>,
    ) -> Result<Vec<&'w PendingStockLevel>, JobError> {
        let (mut now, mut later) = (Vec::new(), Vec::new());
        for work in batch {
            let is_read = work.needs_read();
            if !is_read && !matches!(work.step(), StockLevelStep::Write { .. }) {
                now.push(work);
                continue;
            }
            let (operation, sku) = (Operation::GetProductBalances, work.stock_level.sku.as_str());
            let read = if is_read { quarantine.read_route(operation, sku) } else { EntryRoute::Shared };
            match (read, work.write_route(quarantine)) {
                (EntryRoute::Deferred(until, why), _) | (_, EntryRoute::Deferred(until, why)) => {
                    later.push((work, until, why));
                }
                _ if self.pipeline.given_up.contains(&work.stock_level.sku) => {}
                (EntryRoute::Isolated, _) => {
                    if self.pipeline.reserve_read(work) {
                        self.pipeline.failed_pages.add(vec![work.stock_level.sku.clone()]);
                    }
                }
                (
                    EntryRoute::Shared | EntryRoute::Suspect,
                    EntryRoute::Shared | EntryRoute::Suspect | EntryRoute::Isolated,
                ) => now.push(work),
            }
        }
        self.note_deferred(&later).await?;
        Ok(now)
    }

    /// Notes at the changes of these stock levels what they wait for, and until when.
    async fn note_deferred(
        &mut self,
        later: &[(&PendingStockLevel, Timestamp, String)],
    ) -> Result<(), JobError> {
        let Some(first) = later.iter().map(|(_, until, _)| *until).min() else { return Ok(()) };
        self.summary.note_retry(first);
        let levels: Vec<StockLevel> = later.iter().map(|(work, ..)| work.stock_level.clone()).collect();
        self.pipeline.projected_backlog.remove_levels(&levels);
        let reasons = later.iter().flat_map(|(work, until, why)| {
            let detail = deferral_detail(&work.stock_level.sku, why, *until);
            work.pending_changes.iter().map(move |id| (*id, Reason::SetAside, detail.clone()))
        });
        store_wait_reasons(self.context, reasons.collect()).await
    }
}
