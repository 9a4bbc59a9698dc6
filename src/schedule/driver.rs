//! The driver: calls back when a job is due, through tokio-cron-scheduler.
//!
//! Only this file names that crate. The crate only checks for due ticks and calls back. Its own calculation
//! has three faults: it freezes each zone's offset at creation, so that ticks are an hour off after a clock
//! change; it computes ticks with an older cron library that runs some jobs twice in spring; it silently
//! drops expressions it takes for impossible. Therefore the crate gets a [`Board`] as its storage, which
//! returns next ticks from [`Schedule`].
//!
//! By default the crate polls its storage twice a second, which is most of an idle daemon's cost and cannot
//! be configured. [`Board`] delays its answer to each poll until half a second before the next tick, so that
//! the poll after it falls on the tick. The crate locks its storage during a poll; therefore the board
//! answers at once while jobs are added or removed. Starting and stopping the scheduler around each tick
//! would leak its seven tasks each time.
//!
//! The job runner handles overlapping runs, drain and the journal. The crate calls `fire` under a lock on its
//! own task, so `fire` only hands on the due time (a `try_send`). A loop over [`Schedule::next_start`] in
//! this file could replace the crate.

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

/// A valid expression that the scheduler parses; ticks come from the board instead.
const UNUSED_EXPRESSION: &str = "* * * * * *";
/// The capacity of the scheduler's channels. More jobs in one tick would be dropped; there are fifteen kinds.
const CHANNEL: usize = 256;
/// The time before a tick at which the board answers.
///
/// The scheduler sleeps 500 ms after an answer and then reads the clock; a little less lets it find the tick
/// due.
const LEAD: Duration = Duration::from_millis(490);
/// The longest delay of an answer.
///
/// It bounds the time until a changed clock or a resume from suspend is noticed.
const SILENCE: Duration = Duration::from_secs(10);

/// An error of the scheduler, with the step that failed, because its own messages do not name the step.
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
    /// Starts ticking.
    ///
    /// `fire` gets the job and the due time, at most once for each occurrence; it must not block. `clock`
    /// must be the system's clock, because the scheduler reads that clock itself.
    ///
    /// # Errors
    /// Fails if the scheduler refuses a job.
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

    /// Replaces the schedules. Jobs with an unchanged schedule are not touched, so that they lose no tick.
    ///
    /// # Errors
    /// Fails if the scheduler refuses a job; the jobs before it are replaced.
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
            // The lock is held while firing, so that nothing fires after `stop` has returned.
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

    /// Returns a handle that shows if the scheduler still ticks.
    pub fn pulse(&self) -> Pulse {
        Pulse { beats: Arc::clone(&self.board.beats), word: Arc::clone(&self.board.word), seen: 0 }
    }

    /// Stops ticking. After it returns, `fire` is dropped and never called again.
    pub async fn stop(mut self) {
        // Shutdown only sets a flag; an error could come only from a shutdown handler, and none is set.
        let _ = self.scheduler.shutdown().await;
    }
}

/// Without `stop`, the crate's tasks would go on after the driver is dropped.
///
/// Dropping removes the callback and wakes a delayed answer of the board, so that the scheduler's task sees
/// the shutdown flag.
impl Drop for Driver {
    fn drop(&mut self) {
        drop(lock(&self.fire).take());
        self.board.answer_at_once(true);
    }
}

fn failed(doing: &str, source: JobSchedulerError) -> DriverError {
    DriverError { doing: doing.into(), source }
}

/// Locks a mutex. A poisoned one is used, because each critical section here is a single assignment.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A handle for the watchdog: shows that the scheduler still polls for due ticks.
///
/// Without it, schedules that stop firing would not be noticed.
#[derive(Clone, Debug)]
pub struct Pulse {
    beats: Arc<AtomicU64>,
    /// Wakes a delayed answer.
    word: Arc<Notify>,
    seen: u64,
}

impl Pulse {
    /// Returns true if the scheduler polled since the last call.
    ///
    /// Also triggers a poll, so that a frequent caller does not take a delayed answer for a failure.
    pub fn has_beaten(&mut self) -> bool {
        let beats = self.beats.load(Ordering::Relaxed);
        self.word.notify_one();
        std::mem::replace(&mut self.seen, beats) != beats
    }
}

/// The scheduler's storage: the next tick of each job.
#[derive(Clone)]
struct Board {
    state: Arc<Mutex<State>>,
    /// Wakes a delayed answer.
    word: Arc<Notify>,
    /// The number of polls.
    beats: Arc<AtomicU64>,
}

struct State {
    /// True if answers must not be delayed.
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
    /// Returns the next tick after `after` in seconds since 1970, as the scheduler counts; 0 for never.
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

    /// Returns the next ticks, delayed until shortly before the first of them.
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

    /// Returns the jobs whose schedule is missing or different in `entries`.
    fn outdated(&self, entries: &[(JobKind, Schedule)]) -> Vec<(JobId, JobKind)> {
        let state = self.state();
        let slots = state.slots.iter().map(|(id, slot)| (*id, &slot.occurrences));
        let same =
            |on: &Occurrences| entries.iter().any(|(kind, new)| *kind == on.job() && new == on.schedule());
        slots.filter(|(_, on)| !same(on)).map(|(id, on)| (id, on.job())).collect()
    }

    /// Returns the occurrence that a tick is for, once, because a slow scheduler may tick twice for it.
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

    /// Returns the next ticks and the delay of the answer.
    ///
    /// Detects a clock that was set back; its jobs would otherwise wait for a time that moved away. Polls
    /// come at least every [`SILENCE`].
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
    /// Returns the delay of the answer; `None` if a tick is near or answers must not be delayed.
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

/// The return type of the scheduler's traits.
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

    /// The scheduler does not call this.
    fn time_till_next_job(&mut self) -> Answer<Option<Duration>> {
        answer(None)
    }
}

#[cfg(test)]
mod tests;
