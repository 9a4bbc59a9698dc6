//! The driver: calls back when a job is due, through tokio-cron-scheduler.
//!
//! Only this file names that crate. The crate only checks for due ticks and calls back. Its own calculation
//! has three faults: it freezes each zone's offset at creation, so that ticks are an hour off after a clock
//! change; it computes ticks with an older cron library that runs some jobs twice in spring; it silently
//! drops expressions it takes for impossible. Therefore the crate gets a [`TickStore`] as its storage, which
//! returns next ticks from [`Schedule`].
//!
//! By default the crate polls its storage twice a second, which is most of an idle daemon's cost and cannot
//! be configured. [`TickStore`] delays its answer to each poll until half a second before the next tick, so that
//! the poll after it falls on the tick. The crate locks its storage during a poll; therefore the board
//! answers at once while jobs are added or removed. Starting and stopping the scheduler around each tick
//! would leak its seven tasks each time.
//!
//! The job runner handles overlapping runs, drain and the journal. The crate calls `fire` under a lock on its
//! own task, so `fire` only hands on the due time (a `try_send`). A loop over [`Schedule::next_start`] in
//! this file could replace the crate.

use super::{JobOccurrences, Schedule, SetBackDetector};
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
const CHANNEL_CAPACITY: usize = 256;
/// The time before a tick at which the board answers.
///
/// The scheduler sleeps 500 ms after an answer and then reads the clock; a little less lets it find the tick
/// due.
const TICK_LEAD: Duration = Duration::from_millis(490);
/// The longest delay of an answer.
///
/// It bounds the time until a changed clock or a resume from suspend is noticed.
const MAX_SLEEP: Duration = Duration::from_secs(10);

/// An error of the scheduler, with the step that failed, because its own messages do not name the step.
#[derive(Debug, thiserror::Error)]
#[error("the scheduler could not {context}: {source}")]
pub struct DriverError {
    context: String,
    source: JobSchedulerError,
}

type FireCallback = Box<dyn Fn(JobKind, Timestamp) + Send + Sync>;

/// Calls back when a job is due, until [`ScheduleDriver::stop`].
pub struct ScheduleDriver {
    scheduler: JobScheduler,
    tick_store: TickStore,
    fire: Arc<Mutex<Option<FireCallback>>>,
}

impl ScheduleDriver {
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
        let tick_store = TickStore::new(clock);
        let scheduler = JobScheduler::new_with_storage_and_code(
            Box::new(tick_store.clone()),
            Box::new(SimpleNotificationStore::default()),
            Box::new(SimpleJobCode::default()),
            Box::new(SimpleNotificationCode::default()),
            CHANNEL_CAPACITY,
        );
        let scheduler = scheduler.await.map_err(|source| driver_error("be set up", source))?;
        let mut driver = Self { scheduler, tick_store, fire: Arc::new(Mutex::new(Some(Box::new(fire)))) };
        driver.replace_schedules(entries).await?;
        driver.scheduler.start().await.map_err(|source| driver_error("start", source))?;
        Ok(driver)
    }

    /// Replaces the schedules. Jobs with an unchanged schedule are not touched, so that they lose no tick.
    ///
    /// # Errors
    /// Fails if the scheduler refuses a job; the jobs before it are replaced.
    pub async fn replace_schedules(&mut self, entries: Vec<(JobKind, Schedule)>) -> Result<(), DriverError> {
        self.tick_store.answer_at_once(true);
        let replaced = self.replace_jobs(entries).await;
        self.tick_store.answer_at_once(false);
        replaced
    }

    async fn replace_jobs(&mut self, entries: Vec<(JobKind, Schedule)>) -> Result<(), DriverError> {
        for (id, kind) in self.tick_store.outdated_jobs(&entries) {
            let removed = self.scheduler.remove(&id).await;
            removed.map_err(|source| driver_error(&format!("remove `{kind}`"), source))?;
        }
        for (kind, schedule) in entries {
            if !self.tick_store.has_job(kind) {
                self.add_job(kind, schedule).await?;
            }
        }
        Ok(())
    }

    async fn add_job(&mut self, kind: JobKind, schedule: Schedule) -> Result<(), DriverError> {
        let adding = |source| driver_error(&format!("take the job `{kind}`"), source);
        let (tick_store, fire) = (self.tick_store.clone(), self.fire.clone());
        let job = Job::new(UNUSED_EXPRESSION, move |id, _| {
            // The lock is held while firing, so that nothing fires after `stop` has returned.
            if let Some(fire) = lock_mutex(&fire).as_ref()
                && let Some((kind, due)) = tick_store.take_due(id)
            {
                fire(kind, due);
            }
        });
        let job = job.map_err(adding)?;
        self.tick_store.add_schedule(job.guid(), kind, schedule);
        self.scheduler.add(job).await.map_err(adding)?;
        Ok(())
    }

    /// Returns a handle that shows if the scheduler still ticks.
    pub fn heartbeat(&self) -> Heartbeat {
        Heartbeat {
            beats: Arc::clone(&self.tick_store.beats),
            wake: Arc::clone(&self.tick_store.wake),
            last_seen: 0,
        }
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
impl Drop for ScheduleDriver {
    fn drop(&mut self) {
        drop(lock_mutex(&self.fire).take());
        self.tick_store.answer_at_once(true);
    }
}

fn driver_error(doing: &str, source: JobSchedulerError) -> DriverError {
    DriverError { context: doing.into(), source }
}

/// Locks a mutex. A poisoned one is used, because each critical section here is a single assignment.
fn lock_mutex<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A handle for the watchdog: shows that the scheduler still polls for due ticks.
///
/// Without it, schedules that stop firing would not be noticed.
#[derive(Clone, Debug)]
pub struct Heartbeat {
    beats: Arc<AtomicU64>,
    /// Wakes a delayed answer.
    wake: Arc<Notify>,
    last_seen: u64,
}

impl Heartbeat {
    /// Returns true if the scheduler polled since the last call.
    ///
    /// Also triggers a poll, so that a frequent caller does not take a delayed answer for a failure.
    pub fn has_beaten(&mut self) -> bool {
        let beats = self.beats.load(Ordering::Relaxed);
        self.wake.notify_one();
        std::mem::replace(&mut self.last_seen, beats) != beats
    }
}

/// The scheduler's storage: the next tick of each job.
#[derive(Clone)]
struct TickStore {
    state: Arc<Mutex<TickState>>,
    /// Wakes a delayed answer.
    wake: Arc<Notify>,
    /// The number of polls.
    beats: Arc<AtomicU64>,
}

struct TickState {
    /// True if answers must not be delayed.
    at_once: bool,
    clock: Arc<dyn Clock>,
    set_back: SetBackDetector,
    jobs: HashMap<JobId, ScheduledJob>,
}

struct ScheduledJob {
    occurrences: JobOccurrences,
    row: Option<JobStoredData>,
}

impl ScheduledJob {
    /// Returns the next tick after `after` in seconds since 1970, as the scheduler counts; 0 for never.
    fn tick_after(&self, after: Timestamp) -> u64 {
        let start = self.occurrences.next_start(after);
        start.and_then(|start| u64::try_from(start.0 / 1000).ok()).unwrap_or(0)
    }
}

impl TickStore {
    fn new(clock: Arc<dyn Clock>) -> Self {
        let state = TickState {
            at_once: false,
            set_back: SetBackDetector::new(clock.now()),
            clock,
            jobs: HashMap::new(),
        };
        Self { state: Arc::new(Mutex::new(state)), wake: Arc::default(), beats: Arc::default() }
    }

    fn lock_state(&self) -> MutexGuard<'_, TickState> {
        lock_mutex(&self.state)
    }

    fn answer_at_once(&self, at_once: bool) {
        self.lock_state().at_once = at_once;
        self.wake.notify_one();
    }

    /// Returns the next ticks, delayed until shortly before the first of them.
    async fn ticks_in_time(self) -> Result<Vec<JobAndNextTick>, JobSchedulerError> {
        loop {
            let (ticks, silence) = self.next_answer();
            let Some(silence) = silence else { return Ok(ticks) };
            let over = self.lock_state().clock.sleep(silence);
            tokio::select! {
                () = over => {}
                () = self.wake.notified() => {}
            }
        }
    }

    fn add_schedule(&self, id: JobId, kind: JobKind, schedule: Schedule) {
        let occurrences = JobOccurrences::new(kind, schedule);
        self.lock_state().jobs.insert(id, ScheduledJob { occurrences, row: None });
    }

    fn has_job(&self, kind: JobKind) -> bool {
        self.lock_state().jobs.values().any(|slot| slot.occurrences.job() == kind)
    }

    /// Returns the jobs whose schedule is missing or different in `entries`.
    fn outdated_jobs(&self, entries: &[(JobKind, Schedule)]) -> Vec<(JobId, JobKind)> {
        let state = self.lock_state();
        let slots = state.jobs.iter().map(|(id, slot)| (*id, &slot.occurrences));
        let same =
            |on: &JobOccurrences| entries.iter().any(|(kind, new)| *kind == on.job() && new == on.schedule());
        slots.filter(|(_, on)| !same(on)).map(|(id, on)| (id, on.job())).collect()
    }

    /// Returns the occurrence that a tick is for, once, because a slow scheduler may tick twice for it.
    fn take_due(&self, id: JobId) -> Option<(JobKind, Timestamp)> {
        let mut state = self.lock_state();
        let now = state.clock.now();
        let occurrences = &mut state.jobs.get_mut(&id)?.occurrences;
        occurrences.take_due(now).map(|due| (occurrences.job(), due))
    }

    fn insert_row(&self, mut row: JobStoredData) {
        let mut state = self.lock_state();
        let now = state.clock.now();
        let id = row.id.as_ref().map(JobId::from);
        if let Some(slot) = id.and_then(|id| state.jobs.get_mut(&id)) {
            row.next_tick = slot.tick_after(now);
            slot.row = Some(row);
        }
    }

    fn record_tick(&self, id: JobId, at: Option<DateTime<Utc>>) {
        let mut state = self.lock_state();
        let at = at.map_or_else(|| state.clock.now(), |at| Timestamp(at.timestamp_millis()));
        if let Some(slot) = state.jobs.get_mut(&id) {
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
    /// come at least every [`MAX_SLEEP`].
    fn next_answer(&self) -> (Vec<JobAndNextTick>, Option<Duration>) {
        self.beats.fetch_add(1, Ordering::Relaxed);
        let mut state = self.lock_state();
        let now = state.clock.now();
        if state.set_back.is_set_back(now) {
            state.jobs.values_mut().for_each(|slot| slot.reset_occurrences(now));
        }
        let ticks: Vec<_> = state.jobs.values().filter_map(|slot| slot.row.as_ref()).map(next_tick).collect();
        let silence = state.answer_delay(&ticks, now);
        (ticks, silence)
    }
}

impl TickState {
    /// Returns the delay of the answer; `None` if a tick is near or answers must not be delayed.
    fn answer_delay(&self, ticks: &[JobAndNextTick], now: Timestamp) -> Option<Duration> {
        let next = ticks.iter().map(|tick| tick.next_tick).filter(|tick| *tick > 0).min();
        let left = next.map_or(MAX_SLEEP, |seconds| {
            let next = Timestamp(i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(1000));
            next.duration_since(now.plus(TICK_LEAD)).min(MAX_SLEEP)
        });
        (!self.at_once && !left.is_zero()).then_some(left)
    }
}

impl ScheduledJob {
    fn reset_occurrences(&mut self, now: Timestamp) {
        let next = self.tick_after(now);
        self.occurrences.reset_fired();
        if let Some(row) = &mut self.row {
            (row.next_tick, row.last_tick) = (next, None);
        }
    }
}

fn next_tick(row: &JobStoredData) -> JobAndNextTick {
    JobAndNextTick { id: row.id, job_type: row.job_type, next_tick: row.next_tick, last_tick: row.last_tick }
}

/// The return type of the scheduler's traits.
type SchedulerFuture<T> = Pin<Box<dyn Future<Output = Result<T, JobSchedulerError>> + Send>>;

fn ready_future<T: Send + 'static>(value: T) -> SchedulerFuture<T> {
    Box::pin(std::future::ready(Ok(value)))
}

impl InitStore for TickStore {
    fn init(&mut self) -> SchedulerFuture<()> {
        ready_future(())
    }

    fn inited(&mut self) -> SchedulerFuture<bool> {
        ready_future(true)
    }
}

impl DataStore<JobStoredData> for TickStore {
    fn get(&mut self, id: JobId) -> SchedulerFuture<Option<JobStoredData>> {
        ready_future(self.lock_state().jobs.get(&id).and_then(|slot| slot.row.clone()))
    }

    fn add_or_update(&mut self, row: JobStoredData) -> SchedulerFuture<()> {
        self.insert_row(row);
        ready_future(())
    }

    fn delete(&mut self, id: JobId) -> SchedulerFuture<()> {
        self.lock_state().jobs.remove(&id);
        ready_future(())
    }
}

impl MetaDataStorage for TickStore {
    fn list_next_ticks(&mut self) -> SchedulerFuture<Vec<JobAndNextTick>> {
        Box::pin(self.clone().ticks_in_time())
    }

    fn set_next_and_last_tick(
        &mut self,
        id: JobId,
        _theirs: Option<DateTime<Utc>>,
        last: Option<DateTime<Utc>>,
    ) -> SchedulerFuture<()> {
        self.record_tick(id, last);
        ready_future(())
    }

    /// The scheduler does not call this.
    fn time_till_next_job(&mut self) -> SchedulerFuture<Option<Duration>> {
        ready_future(None)
    }
}

#[cfg(test)]
mod tests;
