//! Pipeline of a push: the next batch is read while calls are in flight, so a slow platform wastes no quota. Batches
//! without overlap used three quarters of the quota where an answer takes 1.5 s.
//!
//! - The pipeline reads one page at a time and queues the calls of that page. It reads the next page before
//!   the queue is empty.
//! - A started call reserves its stock levels while it waits for the limiter. At most one call more than the
//!   platform takes at once is started. Most stock levels thus stay available for operators' changes.
//! - When an operator's change arrives, queued calls are put back and planned again behind it.
//! - The pipeline takes in new changes also while nothing completes, because a full window blocks calls for
//!   seconds. After [`INTAKE_TIME`] it takes in operators' changes only, so that it ends.
//! - While an operator's stock level is read, one slot of the updates stays free for the write that follows.
//!   Such a change waits for one answer only: that of its read. If its fact is fresh, it waits at most for
//!   the call that holds its slot.
//!
//! Each call checks the age of its facts once it has its reservation ([`send`]). A page is no
//! larger than what can be written before its facts are too old.

use super::batch::{pack_writes, page_to_read};
use super::brake;
use super::routes::separate_calls;
use super::run::{FinishedCall, PushRun, QueuedCall};
use super::send;
use super::snapshot::{
    NewChanges, OWN_READ_SERVES, PendingStockLevel, PushSnapshot, SnapshotInputs, deduplicate_levels,
    load_new_changes, load_snapshot,
};
use crate::exec::balances_reader::read_page;
use crate::exec::quarantine::Quarantine;
use crate::exec::reads::ReadOrigin;
use crate::exec::{JobError, JobSettings, key_probe};
use crate::limiter::PacePayment;
use crate::model::{Lane, Sku, StockLevel, UPDATE_MAX_ENTRIES};
use crate::reconcile::StockLevelStep;
use crate::store::{ChangeOutcome, Durability};
use std::time::Duration;

/// Limit of reads of a stock level in a run that brought no decision. Then its changes are held, and asked for again
/// with growing delays. Two reads decide a spelling that the platform does not return, if another product has its case
/// key.
const READS_MAX: u8 = 3;
/// Time for which a pipeline takes in new changes of programs. Then it completes what it has and ends, however
/// many arrive: creates, product updates and lists wait for its end. Operators' changes are always taken in.
const INTAKE_TIME: Duration = Duration::from_secs(30);

impl PushRun<'_> {
    /// Plans as far ahead as useful and starts the calls that may start.
    pub(super) async fn fill_pipeline(&mut self) -> Result<(), JobError> {
        if self.pipeline.is_new()
            && let Some(why) = key_probe::check_update_hold(self.context, self.run).await?
        {
            return Err(JobError::Implausible(format!(
                "quantity updates were answered 400, and the platform does not tell whether it accepts the key: {why}; \
                 the quantities wait until it does"
            )));
        }
        self.take_new_changes().await?;
        self.release_delayed();
        // Only one page is read at a time, because its result affects the next.
        while !self.pipeline.backlog.is_empty()
            && (self.pipeline.backlog.has_urgent()
                || self.pipeline.reads_in_flight == 0
                    && self.pipeline.queued_calls.len() <= self.calls_ahead())
        {
            self.plan_batch().await?;
            self.release_delayed();
        }
        let may_read = !self.pipeline.is_part_in_flight
            && self.pipeline.failed_pages.not_before().is_none_or(|at| at <= self.context.moment());
        if let Some(part) = may_read.then(|| self.pipeline.failed_pages.take()).flatten() {
            self.begin_read(part, true);
        }
        self.start_calls();
        Ok(())
    }

    /// Takes in the changes of the window that became pending since the last time, at first all of them. The brakes
    /// must judge the whole window before any of it is sent.
    async fn take_new_changes(&mut self) -> Result<(), JobError> {
        let (now, moment, store) = (self.context.now(), self.context.moment(), &self.context.store);
        let intake_end = *self.pipeline.intake_end.get_or_insert(moment.plus(INTAKE_TIME));
        let window = store.outbox_window(self.window_after).await?;
        self.window_end = window.end();
        let NewChanges { mut stock_levels, rejected, ahead } =
            load_new_changes(store, &window, &mut self.pipeline.seen, now).await?;
        let found = stock_levels.len();
        stock_levels.retain(|(_, is_urgent)| *is_urgent || moment < intake_end);
        self.has_more |= stock_levels.len() < found;
        self.reject_invalid(&rejected).await?;
        if !ahead.is_empty() {
            let mut write = self.context.store.begin_write(Durability::Full).await?;
            write.outbox_date_future(&ahead, now).await?;
            write.commit().await?;
        }
        if stock_levels.is_empty() {
            return Ok(());
        }
        if stock_levels.iter().any(|(_, is_urgent)| *is_urgent) {
            self.pipeline.requeue_calls();
        }
        let names = deduplicate_levels(stock_levels.iter().map(|(level, _)| level.clone()).collect());
        let rejected = self.load_plans(&names).await?;
        self.reject_invalid(&rejected).await?;
        for (level, is_urgent) in stock_levels {
            self.pipeline.backlog.add_level(level, is_urgent);
        }
        Ok(())
    }

    fn plan_inputs<'s>(&'s self, settings: &'s JobSettings) -> SnapshotInputs<'s> {
        let own_reads = &self.pipeline.own_reads;
        SnapshotInputs::at_present(self.context, &settings.quantities, self.window_after, own_reads)
    }

    /// Plans some stock levels. Returns the rejections of invalid changes.
    async fn load_plans(&mut self, levels: &[StockLevel]) -> Result<Vec<ChangeOutcome>, JobError> {
        let settings = self.context.settings();
        let PushSnapshot { stock_levels, rejected } =
            load_snapshot(&self.context.store, self.plan_inputs(&settings), levels).await?;
        self.pipeline.projected_backlog.replace_plans(levels, stock_levels);
        Ok(rejected)
    }

    /// Returns the plans of a batch. Those whose fact no longer serves are made again.
    async fn batch_plans(&mut self, levels: &[StockLevel]) -> Result<Vec<PendingStockLevel>, JobError> {
        let settings = self.context.settings();
        let (inputs, plans) = (self.plan_inputs(&settings), &self.pipeline.projected_backlog);
        let serves = |level: &&StockLevel| plans.plan(level).is_some_and(|plan| inputs.is_current(plan));
        let outdated: Vec<StockLevel> = levels.iter().filter(|level| !serves(level)).cloned().collect();
        if !outdated.is_empty() {
            self.load_plans(&outdated).await?;
        }
        let plans = &self.pipeline.projected_backlog;
        Ok(levels.iter().filter_map(|level| plans.plan(level)).cloned().collect())
    }

    /// Returns the stock levels that these denote now, each once. A read may have shown that two spellings
    /// are the same SKU. Stock levels in flight are left out, because they return to the backlog after their
    /// call.
    async fn resolve_spellings(&mut self, levels: Vec<StockLevel>) -> Result<Vec<StockLevel>, JobError> {
        let resolved = self.context.store.stock_levels_resolve(&levels).await?;
        for (named, level) in levels.iter().zip(&resolved).filter(|(named, level)| named != level) {
            self.pipeline.projected_backlog.remove_levels(std::slice::from_ref(named));
            if let Some(read) = self.pipeline.own_reads.remove(named) {
                self.pipeline.own_reads.entry(level.clone()).or_insert(read);
            }
        }
        Ok(deduplicate_levels(resolved)
            .into_iter()
            .filter(|level| !self.pipeline.reserved_levels.contains(level))
            .collect())
    }

    /// Returns the number of bulk calls that the quota allows in this time.
    fn calls_in(&self, time: Duration) -> usize {
        let calls = u128::from(self.context.limiter.quota_usage().limit) * time.as_millis() / 60_000;
        usize::try_from(calls).unwrap_or(usize::MAX)
    }

    /// Returns the number of calls that are queued for the time of a read.
    fn calls_ahead(&self) -> usize {
        self.calls_in(self.pipeline.latency) + 1
    }

    /// Plans the next batch.
    ///
    /// Finishes the changes that need no call, reads the stale stock levels and packs the rest.
    async fn plan_batch(&mut self) -> Result<(), JobError> {
        let begun = std::mem::take(&mut self.pipeline.unpacked_levels);
        let mut levels = begun.clone();
        // One whose call ended or that was just read has no current plan. It seldom needs a read, so it does not count.
        let plans = &self.pipeline.projected_backlog;
        let is_planned = |level: &StockLevel| plans.plan(level).is_some();
        levels.extend(self.pipeline.backlog.take_page(self.context.settings().skus_per_call, is_planned));
        let levels = self.resolve_spellings(levels).await?;
        let works = self.batch_plans(&levels).await?;
        let projected = &mut self.pipeline.projected_backlog;
        let held = brake::judge_backlog(self.context, projected, self.window_end).await?;
        if held.is_none() {
            let projected = self.pipeline.projected_backlog.stock_levels();
            self.load_plans(&projected).await?;
        }
        if held != Some(0) {
            self.summary.held += held.unwrap_or(0);
            self.pipeline.backlog.put_back(works.iter().map(PendingStockLevel::backlog_entry));
            return Ok(());
        }
        let is_idle = |work: &&PendingStockLevel| {
            work.step() == StockLevelStep::Nothing && work.plan.decisions.is_empty()
        };
        let batch: Vec<&PendingStockLevel> = works.iter().filter(|work| !is_idle(work)).collect();
        let quarantine = self.context.quarantine().await?;
        let batch = self.select_ready(&quarantine, batch).await?;
        if !self.finish_without_call(&batch).await? {
            self.pipeline.backlog.put_back(works.iter().map(PendingStockLevel::backlog_entry));
            return Ok(());
        }
        for work in &works {
            if !work.needs_read() {
                self.read_counts.remove(&work.stock_level);
            }
            if matches!(work.step(), StockLevelStep::Nothing | StockLevelStep::Agreed(_)) {
                self.pipeline.own_reads.remove(&work.stock_level);
                self.pipeline.projected_backlog.remove_levels(std::slice::from_ref(&work.stock_level));
            }
        }
        let batch = self.delay_few(&quarantine, &begun, batch);
        self.queue_writes(&batch, &quarantine);
        self.read_stale(&batch).await?;
        let reserved = &self.pipeline.reserved_levels;
        let is_left = |work: &&&PendingStockLevel| work.needs_read() && !reserved.contains(&work.stock_level);
        self.pipeline.backlog.put_back(batch.iter().filter(is_left).map(|work| work.backlog_entry()));
        Ok(())
    }

    /// Starts to read the stale stock levels of a batch. Their facts are missing or too old for a write. They stay in
    /// the backlog while the queued calls take longer than a read; then a whole page is read.
    async fn read_stale(&mut self, batch: &[&PendingStockLevel]) -> Result<(), JobError> {
        let stale = batch.iter().copied().filter(|work| work.needs_read());
        // `settle` checks an awaited stock level. A stream of changes for a SKU that no answer shows thus
        // costs no calls.
        let (exhausted, stale): (Vec<&PendingStockLevel>, Vec<&PendingStockLevel>) =
            stale.partition(|work| work.is_awaited || self.read_count(work) >= READS_MAX);
        if !exhausted.is_empty() {
            self.hold_unread(&exhausted).await?;
        }
        let urgent = stale.iter().any(|work| work.is_urgent);
        if !urgent && self.pipeline.queued_calls.len() > self.calls_ahead() {
            return Ok(());
        }
        // With stale operators' stock levels, only those are read now. A small page is answered and recorded
        // sooner.
        let stale: Vec<&PendingStockLevel> =
            stale.into_iter().filter(|work| work.is_urgent || !urgent).collect();
        let skus = page_to_read(&stale, self.levels_in_time(), self.context.settings().skus_per_call);
        if skus.is_empty() {
            return Ok(());
        }
        for work in stale.iter().filter(|work| skus.contains(&work.stock_level.sku)) {
            *self.read_counts.entry(work.stock_level.clone()).or_default() += 1;
            self.pipeline.reserve_read(work);
        }
        self.begin_read(skus.into_iter().collect(), false);
        Ok(())
    }

    /// Starts to read SKUs: a page, or a part of a failed one.
    fn begin_read(&mut self, skus: Vec<Sku>, is_part: bool) {
        let mut levels = self.pipeline.reading.iter();
        let is_urgent = levels.any(|(level, is_urgent)| *is_urgent && skus.contains(&level.sku));
        self.pipeline.reads_in_flight += 1;
        self.pipeline.urgent_reads += usize::from(is_urgent);
        self.pipeline.is_part_in_flight |= is_part;
        let lane = if is_urgent { Lane::Operator } else { Lane::Push };
        let (context, run) = (self.context.clone(), self.run);
        self.in_flight.spawn(async move {
            let page = read_page(ReadOrigin { context: &context, run, lane }, &skus).await?;
            Ok(FinishedCall::Read { skus, page, is_urgent, is_part })
        });
    }

    /// Returns the number of stock levels that can be written while the facts of the next page are fresh.
    fn levels_in_time(&self) -> usize {
        // One or two calls of the last page are still sent before.
        let calls = self.calls_in(self.read_validity().saturating_sub(self.pipeline.latency));
        calls.saturating_sub(2).max(1).saturating_mul(UPDATE_MAX_ENTRIES)
    }

    /// Packs the writes of a batch into calls and queues them. Those that failed before go apart from the rest.
    fn queue_writes(&mut self, batch: &[&PendingStockLevel], quarantine: &Quarantine<'_>) {
        let writes = batch.iter().copied().filter(|work| matches!(work.step(), StockLevelStep::Write { .. }));
        let (separate, together): (Vec<&PendingStockLevel>, Vec<&PendingStockLevel>) =
            writes.partition(|work| work.is_separate(quarantine));
        let more = self.pipeline.reads_in_flight > 0
            || !self.pipeline.backlog.is_empty()
            || batch.iter().any(|work| work.needs_read());
        let calls = pack_writes(&together, more, |work| self.cannot_wait(work));
        let calls = calls.into_iter().map(|call| (call, false));
        let calls = calls.chain(separate_calls(&separate, quarantine).into_iter().map(|call| (call, true)));
        let calls = calls.map(|(call, separate)| QueuedCall {
            is_urgent: call.iter().any(|work| work.is_urgent),
            stock_levels: call.iter().map(|work| work.stock_level.clone()).collect(),
            is_separate: separate,
        });
        for call in calls.collect::<Vec<_>>() {
            self.pipeline.queue_call(call);
        }
        let reserved = &self.pipeline.reserved_levels;
        let levels = together.iter().map(|work| &work.stock_level);
        self.pipeline.unpacked_levels = levels.filter(|level| !reserved.contains(*level)).cloned().collect();
    }

    /// Returns true if the fact would be too old after the next page. Such a call would be read again and
    /// wait again: with SKUs in many warehouses no call is ever full.
    fn cannot_wait(&self, work: &PendingStockLevel) -> bool {
        let fact = work.read_rows.row.fact_moment;
        let age = fact.map_or(Duration::ZERO, |at| self.context.moment().duration_since(at));
        age + self.pipeline.latency * 2 >= self.read_validity()
    }

    /// Returns the time for which a read serves the writes that it was made for.
    fn read_validity(&self) -> Duration {
        self.context.settings().quantities.max_fact_age.max(OWN_READ_SERVES)
    }

    /// Starts calls: one per slot, and one more that waits for a reservation. An operator's call always
    /// starts. While its read is in flight, one slot stays free.
    fn start_calls(&mut self) {
        let slots = self.context.settings().calls_in_flight.max(1);
        let urgent_calls = self.pipeline.urgent_reads + self.pipeline.urgent_sends;
        let at_once = if urgent_calls > 0 { slots - 1 } else { slots + 1 };
        while let Some(call) = self.pipeline.next_call(at_once) {
            let lane = if call.is_urgent { Lane::Operator } else { Lane::Push };
            let own = &self.pipeline.own_reads;
            let own_reads =
                call.stock_levels.iter().filter_map(|level| Some((level.clone(), *own.get(level)?)));
            let own_reads = own_reads.collect();
            // Calls sent apart are not paced again, because they failed before and have waited long.
            let is_paid = std::mem::take(&mut self.pipeline.is_pace_paid) || call.is_separate;
            let pace = if is_paid { PacePayment::Paid } else { PacePayment::Paced };
            let sends = match call.is_urgent {
                true => &mut self.pipeline.urgent_sends,
                false => &mut self.pipeline.bulk_sends,
            };
            *sends += 1;
            let plans = &self.pipeline.projected_backlog;
            let plans = call.stock_levels.iter().filter_map(|level| plans.plan(level)).cloned().collect();
            let (levels, urgent) = (call.stock_levels.clone(), call.is_urgent);
            let (stock_levels, after) = (call.stock_levels, self.window_after);
            let call = send::UpdateCall { run: self.run, lane, pace, after, own_reads, stock_levels, plans };
            let context = self.context.clone();
            self.in_flight.spawn(async move {
                Ok(FinishedCall::Update {
                    effect: send::send_update(context, call).await?,
                    is_urgent: urgent,
                    stock_levels: levels,
                })
            });
        }
    }
}
