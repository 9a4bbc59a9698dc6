//! The ticking. The only file that names tokio-cron-scheduler, and what it is trusted with is little: it looks
//! whether a tick has come and calls back. Left to itself it would freeze each zone's offset at
//! its creation (an hour wrong after every clock change), find next ticks with an older cron library that runs
//! some jobs twice in spring, and silently drop what it takes for impossible. So it is given a [`Board`] for
//! its storage, which answers every question about the next tick from [`Schedule`].
//!
//! Left to itself it would also look twice a second for ever, most of what an idle daemon costs, and there is nothing to
//! set. But it asks the board before each look, and the board takes its time: the answer comes half a second before
//! the next tick, so that the look after it falls on the tick. The scheduler holds its storage's lock meanwhile, and
//! so the board answers at once while jobs are added or removed. Starting and stopping the scheduler round every tick
//! instead would leave its seven tasks behind each time.
//!
//! What it cannot do is left to others: overlapping runs, drain and journal are the runner's. `fire` is called
//! under a lock, on the scheduler's task: it hands the due time on (a `try_send`) and returns. Should the crate
//! have to go, a loop over [`Schedule::next_start`] takes its place in this file.

use super::{Occurrences, Schedule, Wall};
use crate::model::{Clock, JobKind, Timestamp};
use chrono::{DateTime, Utc};
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio_cron_scheduler::job::JobId;
use tokio_cron_scheduler::job::job_data::{JobAndNextTick, JobStoredData};
use tokio_cron_scheduler::store::{DataStore, InitStore};
use tokio_cron_scheduler::{
    Job, JobScheduler, JobSchedulerError, MetaDataStorage, SimpleJobCode, SimpleNotificationCode,
    SimpleNotificationStore,
};

/// The scheduler parses an expression of its own; its ticks come from the board, so any will do.
const UNUSED_EXPRESSION: &str = "* * * * * *";
/// The actors' channels; more jobs than this in one tick would be dropped, and there are fifteen kinds.
const CHANNEL: usize = 256;
/// The scheduler sleeps so long after an answer before it reads the clock again; a little less, so that it then
/// finds the tick come.
const LEAD: Duration = Duration::from_millis(490);
/// The longest the board is silent: a clock that was set and a machine that slept are to be noticed before the next
/// tick, which may be tomorrow's.
const SILENCE: Duration = Duration::from_secs(10);

/// The scheduler refused; its own words say little, so ours name what was attempted.
#[derive(Debug, thiserror::Error)]
#[error("the scheduler could not {doing}: {source}")]
pub struct DriverError {
    doing: String,
    source: JobSchedulerError,
}

type Fire = Box<dyn Fn(JobKind, Timestamp) + Send + Sync>;

/// Calls back when a job is due, until [`Driver::stop`].
pub struct Driver {
    scheduler: JobScheduler,
    board: Board,
    fire: Arc<Mutex<Option<Fire>>>,
}

impl Driver {
    /// Starts ticking. `fire` gets the job and the due time of the occurrence, at most once each; it must only
    /// hand them on. `clock` is the system's: the scheduler beneath reads that one itself.
    ///
    /// # Errors
    /// When the scheduler refuses a job.
    pub async fn start(
        entries: Vec<(JobKind, Schedule)>,
        clock: Arc<dyn Clock>,
        fire: impl Fn(JobKind, Timestamp) + Send + Sync + 'static,
    ) -> Result<Self, DriverError> {
        let board = Board::new(clock);
        let scheduler = JobScheduler::new_with_storage_and_code(
            Box::new(board.clone()),
            Box::new(SimpleNotificationStore::default()),
            Box::new(SimpleJobCode::default()),
            Box::new(SimpleNotificationCode::default()),
            CHANNEL,
        );
        let scheduler = scheduler.await.map_err(|source| failed("be set up", source))?;
        let mut driver = Self { scheduler, board, fire: Arc::new(Mutex::new(Some(Box::new(fire)))) };
        driver.replace(entries).await?;
        driver.scheduler.start().await.map_err(|source| failed("start", source))?;
        Ok(driver)
    }

    /// Takes over a changed configuration. Jobs whose schedule is the same are not touched, so that a reload
    /// loses no tick of theirs.
    ///
    /// # Errors
    /// When the scheduler refuses a job; those before it are taken over.
    pub async fn replace(&mut self, entries: Vec<(JobKind, Schedule)>) -> Result<(), DriverError> {
        self.board.answer_at_once(true);
        let replaced = self.exchange(entries).await;
        self.board.answer_at_once(false);
        replaced
    }

    async fn exchange(&mut self, entries: Vec<(JobKind, Schedule)>) -> Result<(), DriverError> {
        for (id, kind) in self.board.outdated(&entries) {
            let removed = self.scheduler.remove(&id).await;
            removed.map_err(|source| failed(&format!("remove `{kind}`"), source))?;
        }
        for (kind, schedule) in entries {
            if !self.board.has(kind) {
                self.add(kind, schedule).await?;
            }
        }
        Ok(())
    }

    async fn add(&mut self, kind: JobKind, schedule: Schedule) -> Result<(), DriverError> {
        let adding = |source| failed(&format!("take the job `{kind}`"), source);
        let (board, fire) = (self.board.clone(), self.fire.clone());
        let job = Job::new(UNUSED_EXPRESSION, move |id, _| {
            // The lock is held while firing, so that nothing fires once `stop` has returned.
            if let Some(fire) = lock(&fire).as_ref()
                && let Some((kind, due)) = board.due(id)
            {
                fire(kind, due);
            }
        });
        let job = job.map_err(adding)?;
        self.board.open(job.guid(), kind, schedule);
        self.scheduler.add(job).await.map_err(adding)?;
        Ok(())
    }

    /// Shows from outside that the ticking goes on.
    pub fn pulse(&self) -> Pulse {
        Pulse { beats: Arc::clone(&self.board.beats), word: Arc::clone(&self.board.word), seen: 0 }
    }

    /// Ends the ticking: once this returns, `fire` is not called again, and is dropped.
    pub async fn stop(mut self) {
        // It only sets a flag; an error would come from a handler that is not used here.
        let _ = self.scheduler.shutdown().await;
    }
}

/// Also without `stop`, nothing fires for a driver that is gone; the crate's tasks would go on by themselves. One that
/// waits for the board's answer gets it, and sees that it was told to end.
impl Drop for Driver {
    fn drop(&mut self) {
        drop(lock(&self.fire).take());
        self.board.answer_at_once(true);
    }
}

fn failed(doing: &str, source: JobSchedulerError) -> DriverError {
    DriverError { doing: doing.into(), source }
}

/// A panic elsewhere leaves whole values behind: each critical section here is a single assignment.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Shows that somebody looks for due ticks: a watchdog is to see that loop too, because schedules that no longer fire
/// are silent.
#[derive(Clone, Debug)]
pub struct Pulse {
    beats: Arc<AtomicU64>,
    /// Ends a silence.
    word: Arc<Notify>,
    seen: u64,
}

impl Pulse {
    /// Whether there was a look since this was asked last. It calls for one, so that somebody who asks often is not told
    /// that a silence is an end.
    pub fn has_beaten(&mut self) -> bool {
        let beats = self.beats.load(Ordering::Relaxed);
        self.word.notify_one();
        std::mem::replace(&mut self.seen, beats) != beats
    }
}

/// The scheduler's storage: which job ticks when.
#[derive(Clone)]
struct Board {
    state: Arc<Mutex<State>>,
    /// Ends a silence.
    word: Arc<Notify>,
    /// Counts the looks.
    beats: Arc<AtomicU64>,
}

struct State {
    /// Whether nobody may be kept waiting for an answer.
    at_once: bool,
    clock: Arc<dyn Clock>,
    wall: Wall,
    slots: HashMap<JobId, Slot>,
}

struct Slot {
    occurrences: Occurrences,
    row: Option<JobStoredData>,
}

impl Slot {
    /// The next tick after `after`, in the scheduler's unit: seconds since 1970, 0 for never.
    fn tick_after(&self, after: Timestamp) -> u64 {
        let start = self.occurrences.next_start(after);
        start.and_then(|start| u64::try_from(start.0 / 1000).ok()).unwrap_or(0)
    }
}

impl Board {
    fn new(clock: Arc<dyn Clock>) -> Self {
        let state = State { at_once: false, wall: Wall::new(clock.now()), clock, slots: HashMap::new() };
        Self { state: Arc::new(Mutex::new(state)), word: Arc::default(), beats: Arc::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn answer_at_once(&self, at_once: bool) {
        self.state().at_once = at_once;
        self.word.notify_one();
    }

    /// The next ticks, when the scheduler is to hear of them.
    async fn ticks_in_time(self) -> Result<Vec<JobAndNextTick>, JobSchedulerError> {
        loop {
            let (ticks, silence) = self.look();
            let Some(silence) = silence else { return Ok(ticks) };
            let over = self.state().clock.sleep(silence);
            tokio::select! {
                () = over => {}
                () = self.word.notified() => {}
            }
        }
    }

    fn open(&self, id: JobId, kind: JobKind, schedule: Schedule) {
        let occurrences = Occurrences::new(kind, schedule);
        self.state().slots.insert(id, Slot { occurrences, row: None });
    }

    fn has(&self, kind: JobKind) -> bool {
        self.state().slots.values().any(|slot| slot.occurrences.job() == kind)
    }

    /// What stands on the board and not, or not so, in `entries`.
    fn outdated(&self, entries: &[(JobKind, Schedule)]) -> Vec<(JobId, JobKind)> {
        let state = self.state();
        let slots = state.slots.iter().map(|(id, slot)| (*id, &slot.occurrences));
        let same =
            |on: &Occurrences| entries.iter().any(|(kind, new)| *kind == on.job() && new == on.schedule());
        slots.filter(|(_, on)| !same(on)).map(|(id, on)| (id, on.job())).collect()
    }

    /// The occurrence a tick stands for, once: a slow scheduler may tick twice for it.
    fn due(&self, id: JobId) -> Option<(JobKind, Timestamp)> {
        let mut state = self.state();
        let now = state.clock.now();
        let occurrences = &mut state.slots.get_mut(&id)?.occurrences;
        occurrences.due(now).map(|due| (occurrences.job(), due))
    }

    fn insert(&self, mut row: JobStoredData) {
        let mut state = self.state();
        let now = state.clock.now();
        let id = row.id.as_ref().map(JobId::from);
        if let Some(slot) = id.and_then(|id| state.slots.get_mut(&id)) {
            row.next_tick = slot.tick_after(now);
            slot.row = Some(row);
        }
    }

    fn ticked(&self, id: JobId, at: Option<DateTime<Utc>>) {
        let mut state = self.state();
        let at = at.map_or_else(|| state.clock.now(), |at| Timestamp(at.timestamp_millis()));
        if let Some(slot) = state.slots.get_mut(&id) {
            let next = slot.tick_after(at);
            if let Some(row) = &mut slot.row {
                row.next_tick = next;
                row.last_tick = u64::try_from(at.0 / 1000).ok();
            }
        }
    }

    /// The next ticks, and how long they may be kept to ourselves. Looked at every few seconds, so this is where a clock
    /// set back is noticed: its jobs would otherwise wait for a time that has been moved away.
    fn look(&self) -> (Vec<JobAndNextTick>, Option<Duration>) {
        self.beats.fetch_add(1, Ordering::Relaxed);
        let mut state = self.state();
        let now = state.clock.now();
        if state.wall.is_set_back(now) {
            state.slots.values_mut().for_each(|slot| slot.start_again(now));
        }
        let ticks: Vec<_> =
            state.slots.values().filter_map(|slot| slot.row.as_ref()).map(next_tick).collect();
        let silence = state.silence(&ticks, now);
        (ticks, silence)
    }
}

impl State {
    /// How long the scheduler need not hear of these ticks; none when it is time.
    fn silence(&self, ticks: &[JobAndNextTick], now: Timestamp) -> Option<Duration> {
        let next = ticks.iter().map(|tick| tick.next_tick).filter(|tick| *tick > 0).min();
        let left = next.map_or(SILENCE, |seconds| {
            let next = Timestamp(i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(1000));
            next.since(now.plus(LEAD)).min(SILENCE)
        });
        (!self.at_once && !left.is_zero()).then_some(left)
    }
}

impl Slot {
    fn start_again(&mut self, now: Timestamp) {
        let next = self.tick_after(now);
        self.occurrences.start_again();
        if let Some(row) = &mut self.row {
            (row.next_tick, row.last_tick) = (next, None);
        }
    }
}

fn next_tick(row: &JobStoredData) -> JobAndNextTick {
    JobAndNextTick { id: row.id, job_type: row.job_type, next_tick: row.next_tick, last_tick: row.last_tick }
}

/// The shape of every answer the scheduler's traits ask for.
type Answer<T> = Pin<Box<dyn Future<Output = Result<T, JobSchedulerError>> + Send>>;

fn answer<T: Send + 'static>(value: T) -> Answer<T> {
    Box::pin(std::future::ready(Ok(value)))
}

impl InitStore for Board {
    fn init(&mut self) -> Answer<()> {
        answer(())
    }

    fn inited(&mut self) -> Answer<bool> {
        answer(true)
    }
}

impl DataStore<JobStoredData> for Board {
    fn get(&mut self, id: JobId) -> Answer<Option<JobStoredData>> {
        answer(self.state().slots.get(&id).and_then(|slot| slot.row.clone()))
    }

    fn add_or_update(&mut self, row: JobStoredData) -> Answer<()> {
        self.insert(row);
        answer(())
    }

    fn delete(&mut self, id: JobId) -> Answer<()> {
        self.state().slots.remove(&id);
        answer(())
    }
}

impl MetaDataStorage for Board {
    fn list_next_ticks(&mut self) -> Answer<Vec<JobAndNextTick>> {
        Box::pin(self.clone().ticks_in_time())
    }

    fn set_next_and_last_tick(
        &mut self,
        id: JobId,
        _theirs: Option<DateTime<Utc>>,
        last: Option<DateTime<Utc>>,
    ) -> Answer<()> {
        self.ticked(id, last);
        answer(())
    }

    /// Nobody asks; the loop beneath does not either.
    fn time_till_next_job(&mut self) -> Answer<Option<Duration>> {
        answer(None)
    }
}

#[cfg(test)]
#[path = "driver_tests.rs"]
mod tests;
