//! Pipeline of a push: the next batch is read while calls are in flight, so a slow platform wastes no quota. Batches
//! without overlap used three quarters of the quota where an answer takes 1.5 s.
//!
//! - The pipeline reads one page at a time and queues the calls of that page. It reads the next page before
//!   the queue is empty.
//! - A started call reserves its stock levels while it waits for the limiter. At most one call more than the
//!   platform takes at once is started. Most stock levels thus stay available for operators' changes.
//! - When an operator's change arrives, queued calls are put back and planned again behind it.
//! - The pipeline takes in new changes also while nothing completes, because a full window blocks calls for
//!   seconds.
//! - While an operator's stock level is read, one slot of the updates stays free for the write that follows.
//!   Such a change waits for one answer only: that of its read. If its fact is fresh, it waits at most for
//!   the call that holds its slot.
//!
//! Each call checks the age of its facts once it has its reservation ([`send`](super::send)). A page is no
//! larger than what can be written before its facts are too old.

use super::backlog::Backlog;
use super::delay::until;
use super::fault_search::Search;
use super::routes::Ways;
use super::send::{self, Sent};
use super::snapshot::{Arrived, Look, OWN_READ_SERVES, OwnReads, Work, arrived, gather, once};
use super::{
    ENTRIES_MAX, Push, READS_MAX, REFUSED_MAX, brake, calls, lacked, read, skus_to_read, witnesses_of,
};
use crate::exec::{JobError, key_probe};
use crate::limiter::Pace;
use crate::model::{Cell, Lane, Sku, WishId};
use crate::reconcile::Step;
use crate::store::Durability;
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;
use tokio::task::JoinSet;

#[derive(Debug)]
pub(super) struct Pipeline {
    pub(super) flying: JoinSet<Result<Landed, JobError>>,
    pub(super) reading: usize,
    /// Number of reads in flight for an operator's change.
    pub(super) urgent_reads: usize,
    /// Number of updates in flight with an operator's change.
    pub(super) urgent_sends: usize,
    pub(super) queued: VecDeque<Planned>,
    /// Parts of calls that the platform refused as a whole, to find the offending entry.
    pub(super) halves: VecDeque<Planned>,
    /// Stock levels to be written that wait for others to fill their call.
    pub(super) waiting: Vec<Cell>,
    /// Stock levels of all of these; they are not planned again.
    pub(super) taken: BTreeSet<Cell>,
    pub(super) search: Search,
    pub(super) own_reads: OwnReads,
    pub(super) latency: Duration,
    pub(super) newest: WishId,
    pub(super) backlog: Backlog,
    /// Stock levels that wait for others to share their read and their calls.
    pub(super) few: BTreeSet<Cell>,
    pub(super) flush: brake::Flush,
    /// True if the next call directly follows the read for it. That read was paced for both.
    pub(super) paid: bool,
}

#[derive(Debug)]
pub(super) struct Planned {
    pub(super) cells: Vec<Cell>,
    pub(super) urgent: bool,
    /// True if its stock levels failed in a shared call before.
    pub(super) apart: bool,
}

#[derive(Debug)]
pub(super) struct Asked {
    pub(super) cell: Cell,
    pub(super) urgent: bool,
}

#[derive(Debug)]
pub(super) enum Landed {
    Read { cells: Vec<Asked>, page: read::Page, is_part: bool },
    Sent { cells: Vec<Cell>, urgent: bool, sent: Sent },
}

impl Push<'_> {
    /// Works until nothing is left to do now. Returns the error if facts cannot be read; such an error stops
    /// only the quantities.
    pub(super) async fn drain(&mut self) -> Result<Option<JobError>, JobError> {
        if let Some(why) = key_probe::put_off(self.context, self.run).await? {
            return Ok(Some(JobError::Implausible(format!(
                "quantity updates were answered 400, and the platform does not tell whether it accepts the key: {why}; \
                 the quantities wait until it does"
            ))));
        }
        let ended = self.pump().await;
        // SKUs that are not tried again stay so for this run; all else of the pipeline starts anew.
        let left = std::mem::take(&mut self.pipe.search.left);
        self.waits_until = self.few_until().filter(|_| ended.is_ok() && !self.is_cut_off);
        self.pipe = Pipeline::default();
        self.pipe.search.left = left;
        match ended {
            Ok(()) => Ok(None),
            Err(
                error @ (JobError::GivenUp { .. } | JobError::Rejected { .. } | JobError::Implausible(_)),
            ) => Ok(Some(error)),
            Err(error @ (JobError::Stopped | JobError::Refused(_) | JobError::Store(_))) => Err(error),
        }
    }

    /// Runs the pipeline. After an error it waits for the calls in flight to complete, because an aborted
    /// call would leave its changes in doubt.
    async fn pump(&mut self) -> Result<(), JobError> {
        let context = self.context;
        let (mut broken, mut news) = (None, context.new_wishes());
        loop {
            let goes_on = broken.is_none() && !self.is_cut_off && context.proofs.puts_off().is_none();
            if goes_on {
                broken = self.fill().await.err();
            }
            let pause = self.pause_ends().filter(|_| goes_on && broken.is_none());
            let landed = tokio::select! {
                biased;
                Some(landed) = self.pipe.flying.join_next() => landed,
                () = until(context, pause), if pause.is_some() => continue,
                came = news.changed(), if pause.is_some() || !self.pipe.flying.is_empty() => {
                    came.expect("the bell hangs as long as the context lives");
                    continue;
                }
                else => return broken.map_or(Ok(()), Err),
            };
            let done = match joined(landed) {
                Ok(landed) => self.landed(landed),
                Err(error) => Err(error),
            };
            broken = broken.or(done.err());
        }
    }

    /// Plans as far ahead as useful and starts the calls that may start.
    async fn fill(&mut self) -> Result<(), JobError> {
        self.take_in().await?;
        self.release_few();
        while !self.pipe.backlog.is_empty() && (self.pipe.backlog.is_urgent() || self.wants_more()) {
            self.plan().await?;
            self.release_few();
        }
        if let Some(part) = self.pipe.search.next_part(self.context.moment()) {
            self.begin_read(part, Vec::new(), true);
        }
        self.begin();
        Ok(())
    }

    /// Takes in the changes inserted since the last time, at first all of them. The brakes must judge the
    /// whole backlog before any of it is sent.
    async fn take_in(&mut self) -> Result<(), JobError> {
        let now = self.context.now();
        let Arrived { cells, rejected, ahead, newest } =
            arrived(&self.context.store, self.pipe.newest, now).await?;
        self.pipe.newest = newest;
        self.reject(&rejected).await?;
        if !ahead.is_empty() {
            let mut write = self.context.store.begin(Durability::Full).await?;
            write.outbox_date(&ahead, now).await?;
            write.commit().await?;
        }
        if cells.is_empty() {
            return Ok(());
        }
        if cells.iter().any(|(_, is_urgent)| *is_urgent) {
            self.pipe.put_back();
        }
        let names: Vec<Cell> = cells.iter().map(|(cell, _)| cell.clone()).collect();
        self.look(&names).await?;
        for (cell, is_urgent) in cells {
            self.pipe.backlog.add(cell, is_urgent);
        }
        Ok(())
    }

    /// Loads and plans some stock levels, and updates the projected backlog.
    async fn look(&mut self, cells: &[Cell]) -> Result<Vec<Work>, JobError> {
        let settings = self.context.settings();
        let look = Look::now(self.context, &settings.quantities, &self.pipe.own_reads);
        let look = Look { no_such: &self.no_such, ..look };
        let works = gather(&self.context.store, look, Some(cells)).await?.works;
        self.pipe.flush.found(cells, &works);
        Ok(works)
    }

    /// Returns the stock levels that these denote now, each once. A read may have shown that two spellings
    /// are the same SKU. Stock levels in flight are left out, because they return to the backlog after their
    /// call.
    async fn meant(&mut self, cells: Vec<Cell>) -> Result<Vec<Cell>, JobError> {
        let meant = self.context.store.cells_meant(&cells).await?;
        for (named, cell) in cells.iter().zip(&meant).filter(|(named, cell)| named != cell) {
            self.pipe.flush.gone(std::slice::from_ref(named));
            if let Some(read) = self.pipe.own_reads.remove(named) {
                self.pipe.own_reads.entry(cell.clone()).or_insert(read);
            }
        }
        Ok(once(meant).into_iter().filter(|cell| !self.pipe.taken.contains(cell)).collect())
    }

    /// Returns true if another page is needed now. Only one page is read at a time, because its result
    /// affects the next.
    fn wants_more(&self) -> bool {
        self.pipe.reading == 0 && self.pipe.queued.len() <= self.ahead()
    }

    /// Returns the number of calls that are sent while a page is read.
    fn ahead(&self) -> usize {
        self.calls_in(self.pipe.latency) + 1
    }

    /// Returns the number of bulk calls that the quota allows in this time.
    fn calls_in(&self, time: Duration) -> usize {
        let calls = u128::from(self.context.limiter.budget().limit) * time.as_millis() / 60_000;
        usize::try_from(calls).unwrap_or(usize::MAX)
    }

    /// Plans the next batch.
    ///
    /// Finishes the changes that need no call, reads the stale stock levels and packs the rest.
    async fn plan(&mut self) -> Result<(), JobError> {
        let begun = std::mem::take(&mut self.pipe.waiting);
        let mut cells = begun.clone();
        cells.extend(self.pipe.backlog.page(self.context.settings().skus_per_call));
        let cells = self.meant(cells).await?;
        let works = self.look(&cells).await?;
        self.note_unlisted(&works);
        let held = brake::judge_backlog(self.context, &mut self.pipe.flush).await?;
        if held.is_none() {
            let heading = self.pipe.flush.cells();
            self.look(&heading).await?;
        }
        if held != Some(0) {
            self.tally.held += held.unwrap_or(0);
            self.pipe.backlog.put_back(works.iter().map(named).collect());
            return Ok(());
        }
        let batch: Vec<&Work> = works.iter().filter(|work| is_open(work)).collect();
        let ways = Ways::of(self.context, &batch).await?;
        let batch = self.turn(&ways, batch).await?;
        for (product, work) in works.iter().filter_map(|work| Some((work.perhaps_kit?, work))) {
            self.kits.add(product, &work.pending);
        }
        if !self.settle(&batch).await? {
            self.pipe.backlog.put_back(works.iter().map(named).collect());
            return Ok(());
        }
        for work in &works {
            if work.plan.step != Step::Read {
                self.reads.remove(&work.cell);
            }
            if matches!(work.plan.step, Step::Nothing | Step::Agreed(_)) {
                self.pipe.own_reads.remove(&work.cell);
            }
        }
        let batch = self.few(&ways, &begun, batch);
        self.read(&batch).await?;
        self.pack(&batch, &ways);
        let is_left = |work: &&&Work| work.plan.step == Step::Read && !self.pipe.taken.contains(&work.cell);
        let left: Vec<(Cell, bool)> = batch.iter().filter(is_left).map(|work| named(work)).collect();
        self.pipe.backlog.put_back(left);
        Ok(())
    }

    /// Starts to read the stale stock levels of a batch. Their facts are missing or too old for a write.
    async fn read(&mut self, batch: &[&Work]) -> Result<(), JobError> {
        let stale: Vec<&Work> = batch.iter().copied().filter(|work| work.plan.step == Step::Read).collect();
        // `settle` checks an awaited stock level. A stream of changes for a SKU that no answer shows thus
        // costs no calls.
        let (tired, stale): (Vec<&Work>, Vec<&Work>) =
            stale.into_iter().partition(|work| work.is_awaited || self.reads(work) >= READS_MAX);
        if !tired.is_empty() && !self.hold_unread(&tired).await? {
            self.pipe.backlog.put_back(tired.into_iter().map(named).collect());
        }
        let urgent = stale.iter().any(|work| work.urgent);
        // With stale operators' stock levels, only those are read now. A small page is answered and recorded
        // sooner.
        let stale: Vec<&Work> = stale.into_iter().filter(|work| work.urgent || !urgent).collect();
        let skus = self.page(&stale);
        if skus.is_empty() {
            return Ok(());
        }
        let asked = |work: &&Work| Asked { cell: work.cell.clone(), urgent: work.urgent };
        let cells: Vec<Asked> =
            stale.iter().filter(|work| skus.contains(&work.cell.sku)).map(asked).collect();
        for Asked { cell, .. } in &cells {
            *self.reads.entry(cell.clone()).or_default() += 1;
            self.pipe.taken.insert(cell.clone());
        }
        let witnesses = witnesses_of(&self.context.store, &stale, &skus).await?;
        self.begin_read(cells, witnesses, false);
        Ok(())
    }

    /// Starts to read stock levels: a page, or a part of a failed one.
    fn begin_read(&mut self, cells: Vec<Asked>, witnesses: Vec<Sku>, is_part: bool) {
        let urgent = cells.iter().any(|asked| asked.urgent);
        let skus: BTreeSet<Sku> = cells.iter().map(|asked| asked.cell.sku.clone()).collect();
        self.pipe.reading += 1;
        self.pipe.urgent_reads += usize::from(urgent);
        let lane = if urgent { Lane::Operator } else { Lane::Push };
        let (context, run) = (self.context.clone(), self.run);
        self.pipe.flying.spawn(async move {
            let page = read::page(&context, run, lane, (skus.into_iter().collect(), witnesses)).await?;
            Ok(Landed::Read { cells, page, is_part })
        });
    }

    /// Returns the SKUs of the next page. SKUs that an earlier answer lacked go first, in a small page.
    /// Otherwise no more SKUs than can be written while the facts are fresh.
    fn page(&self, stale: &[&Work]) -> BTreeSet<Sku> {
        if stale.iter().any(lacked) {
            return skus_to_read(stale);
        }
        // One or two calls of the last page are still sent before.
        let calls = self.calls_in(self.serves().saturating_sub(self.pipe.latency)).saturating_sub(2).max(1);
        skus_to_read(&stale[..stale.len().min(calls.saturating_mul(ENTRIES_MAX))])
    }

    /// Packs the writes of a batch into calls. Those that failed before go apart from the rest.
    fn pack(&mut self, batch: &[&Work], ways: &Ways) {
        let writes = batch.iter().copied().filter(|work| matches!(work.plan.step, Step::Write { .. }));
        let (apart, together): (Vec<&Work>, Vec<&Work>) = writes.partition(|work| ways.is_apart(work));
        let more = self.pipe.reading > 0 || !self.pipe.backlog.is_empty();
        let calls = calls(&together, more, |work| self.cannot_wait(work));
        let calls = calls.into_iter().map(|call| (call, false));
        let calls = calls.chain(ways.calls_apart(&apart).into_iter().map(|call| (call, true)));
        let calls = calls.map(|(call, apart)| Planned {
            urgent: call.iter().any(|work| work.urgent),
            cells: call.into_iter().map(|work| work.cell.clone()).collect(),
            apart,
        });
        for call in calls.collect::<Vec<_>>() {
            self.pipe.queue(call);
        }
        let waits = together.iter().map(|work| &work.cell).filter(|cell| !self.pipe.taken.contains(*cell));
        self.pipe.waiting = waits.cloned().collect();
    }

    /// Returns true if the fact would be too old after the next page. Such a call would be read again and
    /// wait again: with SKUs in many warehouses no call is ever full.
    fn cannot_wait(&self, work: &Work) -> bool {
        let age = work.fact_at.map_or(Duration::ZERO, |at| self.context.moment().since(at));
        age + self.pipe.latency * 2 >= self.serves()
    }

    /// Returns the time for which a read serves the writes that it was made for.
    fn serves(&self) -> Duration {
        self.context.settings().quantities.max_fact_age.max(OWN_READ_SERVES)
    }

    /// Starts calls: one per slot, and one more that waits for a reservation. An operator's call always
    /// starts. While its read is in flight, one slot stays free.
    fn begin(&mut self) {
        let slots = self.context.settings().calls_in_flight.max(1);
        let at_once = if self.pipe.is_urgent() { slots - 1 } else { slots + 1 };
        while let Some(call) = self.pipe.next(at_once) {
            let lane = if call.urgent { Lane::Operator } else { Lane::Push };
            let own = &self.pipe.own_reads;
            let own_reads = call.cells.iter().filter_map(|cell| Some((cell.clone(), *own.get(cell)?)));
            let own_reads = own_reads.collect();
            // Calls sent apart are not paced again, because they failed before and have waited long.
            let is_paid = std::mem::take(&mut self.pipe.paid) || call.apart;
            let pace = if is_paid { Pace::Paid } else { Pace::Paced };
            self.pipe.urgent_sends += usize::from(call.urgent);
            let (cells, urgent) = (call.cells.clone(), call.urgent);
            let call = send::Call { run: self.run, lane, pace, own_reads, cells: call.cells };
            let context = self.context.clone();
            self.pipe.flying.spawn(async move {
                Ok(Landed::Sent { sent: send::send(context, call).await?, urgent, cells })
            });
        }
    }

    /// Handles a finished read or update. Its stock levels go back to the backlog. A read page has writes
    /// now, a call may have found its facts too old, and new changes may have arrived.
    fn landed(&mut self, landed: Landed) -> Result<(), JobError> {
        match landed {
            Landed::Read { cells, page, is_part } => {
                self.pipe.reading -= 1;
                self.pipe.urgent_reads -= usize::from(cells.iter().any(|asked| asked.urgent));
                self.pipe.search.is_reading &= !is_part;
                return self.read_landed(cells, page);
            }
            Landed::Sent { cells, urgent, sent } => {
                self.pipe.urgent_sends -= usize::from(urgent);
                self.pipe.flush.gone(&cells);
                cells.iter().for_each(|cell| drop(self.pipe.taken.take(cell)));
                if let Sent::Waits(_) = sent {
                    // The wait has no known end, so the reads made for this call no longer serve it.
                    self.pipe.own_reads.retain(|cell, _| !cells.contains(cell));
                }
                if let Sent::Refused { parts, .. } = &sent
                    && parts.is_empty()
                {
                    // Not again in this run, but in the next.
                    self.pipe.search.left.extend(cells.iter().map(|cell| cell.sku.clone()));
                }
                self.sent(sent);
                let free = cells.into_iter().filter(|cell| !self.pipe.taken.contains(cell));
                let free: Vec<(Cell, bool)> = free.map(|cell| (cell, false)).collect();
                self.pipe.backlog.put_back(free);
            }
        }
        Ok(())
    }

    /// Puts the stock levels of a read page back for planning. Those of a failed page are read in parts.
    fn read_landed(&mut self, cells: Vec<Asked>, page: read::Page) -> Result<(), JobError> {
        let (freed, failed) = match page {
            read::Page::Came { exchange, took } => {
                let known = cells.iter().map(|asked| (asked.cell.clone(), exchange));
                self.pipe.own_reads.extend(known);
                self.pipe.latency = took;
                self.pipe.paid = self.pipe.flying.is_empty();
                self.pipe.search.succeeded();
                (cells, None)
            }
            read::Page::Broken { why, is_set_aside } => {
                let freed = self.pipe.search.split(cells, is_set_aside);
                if !is_set_aside && !freed.is_empty() {
                    self.tally.note(format!("{} cannot be read: {why}", freed[0].cell.sku));
                }
                (freed, Some(why))
            }
            read::Page::Unsent(why) => {
                self.pipe.search.add(cells);
                (Vec::new(), Some(why))
            }
        };
        freed.iter().for_each(|asked| drop(self.pipe.taken.take(&asked.cell)));
        self.pipe.backlog.put_back(freed.into_iter().map(|asked| (asked.cell, asked.urgent)).collect());
        failed.map_or(Ok(()), |why| self.pipe.search.failed(why, self.context.moment()))
    }

    fn sent(&mut self, sent: Sent) {
        match sent {
            Sent::Nothing => {}
            Sent::Concluded { cells, applied, rejected, held, in_doubt } => {
                self.tally.calls += 1;
                self.tally.applied += applied;
                self.tally.rejected += rejected;
                self.tally.held += held;
                self.tally.in_doubt += in_doubt;
                self.refused = 0;
                for cell in &cells {
                    self.reads.remove(cell);
                    self.pipe.own_reads.remove(cell);
                }
            }
            Sent::Halved(halves) => {
                self.tally.calls += 1;
                for cells in halves {
                    self.pipe.taken.extend(cells.iter().cloned());
                    self.pipe.halves.push_back(Planned { cells, urgent: false, apart: true });
                }
            }
            Sent::Refused { parts, why } => {
                self.tally.calls += 1;
                self.refused += 1;
                self.is_cut_off |= self.refused >= REFUSED_MAX;
                if self.is_cut_off || parts.is_empty() {
                    self.tally.note(why);
                    return;
                }
                for cells in parts {
                    self.pipe.taken.extend(cells.iter().cloned());
                    self.pipe.halves.push_back(Planned { cells, urgent: false, apart: true });
                }
            }
            Sent::Waits(why) => {
                self.tally.calls += 1;
                self.is_cut_off |= why.is_some();
                why.into_iter().for_each(|why| self.tally.note(why));
            }
        }
    }
}

fn joined<T>(result: Result<T, tokio::task::JoinError>) -> T {
    match result {
        Ok(value) => value,
        // The calls are never cancelled, so a join error is a panic; it is passed on.
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

/// Returns true if the plan of the stock level requires anything.
fn is_open(work: &Work) -> bool {
    work.plan.step != Step::Nothing || !work.plan.decisions.is_empty()
}

/// Returns the stock level as an entry of the backlog.
pub(super) fn named(work: &Work) -> (Cell, bool) {
    (work.cell.clone(), work.urgent)
}
