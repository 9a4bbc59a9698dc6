//! End of the reads and updates of a drain: their stock levels go back to the backlog or are given up.

use super::refusal::{REFUSED_MAX, SentEffect};
use super::run::PushRun;
use crate::exec::JobError;
use crate::exec::balances_reader::{PageEnd, PageRead};
use crate::model::{Sku, StockLevel};
use std::collections::BTreeSet;

impl PushRun<'_> {
    /// Handles an ended update. Its stock levels go back to the backlog, because the call may have found its facts
    /// too old, or changes arrived that wait for their stock level.
    pub(super) fn handle_update(
        &mut self,
        levels: Vec<StockLevel>,
        is_urgent: bool,
        effect: Option<SentEffect>,
    ) {
        let pipeline = &mut self.pipeline;
        *if is_urgent { &mut pipeline.urgent_sends } else { &mut pipeline.bulk_sends } -= 1;
        pipeline.projected_backlog.remove_levels(&levels);
        levels.iter().for_each(|level| drop(pipeline.reserved_levels.take(level)));
        if let Some(effect) = effect {
            self.handle_sent(&levels, effect);
        }
        let free = levels.into_iter().filter(|level| !self.pipeline.reserved_levels.contains(level));
        self.pipeline.backlog.put_back(free.map(|level| (level, false)));
    }

    /// Puts the stock levels of a read page back for planning. Those of a failed page are read in parts, until the
    /// SKU that makes the read fail is isolated; then only its changes wait.
    pub(super) fn handle_read(
        &mut self,
        (skus, page): (Vec<Sku>, PageRead),
        is_urgent: bool,
        is_part: bool,
    ) -> Result<(), JobError> {
        let (pipeline, now) = (&mut self.pipeline, self.context.moment());
        pipeline.reads_in_flight -= 1;
        pipeline.urgent_reads -= usize::from(is_urgent);
        pipeline.is_part_in_flight &= !is_part;
        match pipeline.failed_pages.end_page(skus.clone(), page, now) {
            PageEnd::Recorded(page) => {
                pipeline.latency = page.latency;
                pipeline.is_pace_paid = !pipeline.is_in_flight();
                let levels = pipeline.end_reads(&skus);
                let read: BTreeSet<&Sku> = skus.iter().collect();
                pipeline.projected_backlog.outdate(|level| read.contains(&level.sku));
                pipeline.own_reads.extend(levels.into_iter().map(|level| (level, page.answer.id)));
            }
            PageEnd::Isolated { is_quarantined: true, .. } => drop(pipeline.end_reads(&skus)),
            // The success of others is the missing proof. Without any, the search is exhausted.
            PageEnd::Isolated { sku, is_quarantined: false } => pipeline.failed_pages.add(vec![sku]),
            PageEnd::Requeued => {}
        }
        match self.pipeline.failed_pages.exhaustion() {
            Some(why) => {
                Err(JobError::GivenUp { what: "balances before a push".into(), why: why.to_owned() })
            }
            None => Ok(()),
        }
    }

    fn handle_sent(&mut self, levels: &[StockLevel], effect: SentEffect) {
        self.summary.calls += 1;
        match effect {
            SentEffect::Moved(counts) => {
                self.summary.add_summary(counts);
                self.consecutive_refusals = 0;
                for level in levels {
                    self.read_counts.remove(level);
                    self.pipeline.own_reads.remove(level);
                }
            }
            SentEffect::NoEffect(why) => {
                // The wait has no known end, so the reads made for this call no longer serve it.
                self.pipeline.own_reads.retain(|level, _| !levels.contains(level));
                self.is_cut_off |= why.is_some();
                why.into_iter().for_each(|why| self.summary.note_failure(why));
            }
            SentEffect::Refused { failure } => self.split_refused(levels, failure),
        }
    }

    /// Sends a refused call again in halves, to find the offending entry. A stock level that was alone waits for
    /// the next run if the status proves nothing against a change.
    fn split_refused(&mut self, levels: &[StockLevel], failure: Option<String>) {
        if let Some(why) = failure {
            self.consecutive_refusals += 1;
            self.is_cut_off |= self.consecutive_refusals >= REFUSED_MAX;
            if let [only] = levels {
                self.pipeline.given_up.insert(only.sku.clone());
            }
            if self.is_cut_off || levels.len() < 2 {
                self.summary.note_failure(why);
                return;
            }
        }
        let (left, right) = levels.split_at(levels.len() / 2);
        for part in [left, right].into_iter().filter(|part| !part.is_empty()) {
            self.pipeline.queue_part(part);
        }
    }
}
