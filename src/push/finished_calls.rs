//! Completion of the pipeline's reads and updates: their stock levels go back to the backlog or are given up.

use super::fault_search::LevelToRead;
use super::pipeline::FinishedCall;
use super::send::UpdateOutcome;
use super::{PushRun, REFUSED_MAX};
use crate::exec::JobError;
use crate::exec::balances_reader::PageRead;
use crate::model::StockLevel;

impl PushRun<'_> {
    /// Handles a finished read or update. Its stock levels go back to the backlog. A read page has writes
    /// now, a call may have found its facts too old, and new changes may have arrived.
    pub(super) fn handle_finished(&mut self, finished: FinishedCall) -> Result<(), JobError> {
        match finished {
            FinishedCall::Read { stock_levels: levels, page, is_part } => {
                self.pipeline.reads_in_flight -= 1;
                self.pipeline.urgent_reads -= usize::from(levels.iter().any(|asked| asked.is_urgent));
                self.pipeline.fault_search.is_reading &= !is_part;
                return self.handle_read(levels, page);
            }
            FinishedCall::Update { stock_levels: levels, is_urgent: urgent, outcome: sent } => {
                self.pipeline.urgent_sends -= usize::from(urgent);
                self.pipeline.projected_backlog.remove_levels(&levels);
                levels.iter().for_each(|level| drop(self.pipeline.reserved_levels.take(level)));
                if let UpdateOutcome::NoEffect(_) = sent {
                    // The wait has no known end, so the reads made for this call no longer serve it.
                    self.pipeline.own_reads.retain(|level, _| !levels.contains(level));
                }
                if let UpdateOutcome::Refused { parts, .. } = &sent
                    && parts.is_empty()
                {
                    // Not again in this run, but in the next.
                    self.pipeline.fault_search.given_up.extend(levels.iter().map(|level| level.sku.clone()));
                }
                self.handle_sent(sent);
                // A change that was taken in during the call waits for its stock level.
                let free = levels.into_iter().filter(|level| !self.pipeline.reserved_levels.contains(level));
                let free: Vec<(StockLevel, bool)> = free.map(|level| (level, false)).collect();
                self.pipeline.backlog.put_back(free);
            }
        }
        Ok(())
    }

    /// Puts the stock levels of a read page back for planning. Those of a failed page are read in parts.
    fn handle_read(&mut self, levels: Vec<LevelToRead>, page: PageRead) -> Result<(), JobError> {
        let (freed, failed) = match page {
            PageRead::Recorded { answer, latency } => {
                let known = levels.iter().map(|asked| (asked.stock_level.clone(), answer.id));
                self.pipeline.own_reads.extend(known);
                self.pipeline.latency = latency;
                self.pipeline.is_pace_paid = self.pipeline.in_flight.is_empty();
                self.pipeline.fault_search.suspects.succeeded();
                (levels, None)
            }
            PageRead::Failed { why, is_quarantined } => {
                let freed =
                    self.pipeline.fault_search.split_page(levels, is_quarantined, self.context.moment());
                (freed, Some(why))
            }
            PageRead::Unsent(why) => {
                self.pipeline.fault_search.suspects.note_failure(self.context.moment());
                self.pipeline.fault_search.add_levels(levels);
                (Vec::new(), Some(why))
            }
        };
        freed.iter().for_each(|asked| drop(self.pipeline.reserved_levels.take(&asked.stock_level)));
        self.pipeline
            .backlog
            .put_back(freed.into_iter().map(|asked| (asked.stock_level, asked.is_urgent)).collect());
        match failed {
            Some(why) if self.pipeline.fault_search.suspects.is_exhausted() => {
                Err(JobError::GivenUp { what: "balances before a push".into(), why })
            }
            Some(_) | None => Ok(()),
        }
    }

    fn handle_sent(&mut self, sent: UpdateOutcome) {
        self.summary.calls += u64::from(!matches!(sent, UpdateOutcome::Nothing));
        match sent {
            UpdateOutcome::Nothing => {}
            UpdateOutcome::Completed { stock_levels: levels, counts } => {
                self.summary.add_summary(counts);
                self.consecutive_refusals = 0;
                for level in &levels {
                    self.read_counts.remove(level);
                    self.pipeline.own_reads.remove(level);
                }
            }
            UpdateOutcome::Split(halves) => self.pipeline.queue_parts(halves),
            UpdateOutcome::Refused { parts, why } => {
                self.consecutive_refusals += 1;
                self.is_cut_off |= self.consecutive_refusals >= REFUSED_MAX;
                if self.is_cut_off || parts.is_empty() {
                    self.summary.note_failure(why);
                    return;
                }
                self.pipeline.queue_parts(parts);
            }
            UpdateOutcome::NoEffect(why) => {
                self.is_cut_off |= why.is_some();
                why.into_iter().for_each(|why| self.summary.note_failure(why));
            }
        }
    }
}
