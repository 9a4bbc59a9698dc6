//! The driver: an adapter of tokio-cron-scheduler that sends a trigger when a job is due.
//!
//! Only this file names that crate. [`TickStore`] is the crate's storage and returns next ticks from
//! [`Schedule`]; the crate only polls for due ticks and calls back. docs/architecture.md, *Known trade-offs*,
//! has the faults of the crate behind this division.

use super::{JobOccurrences, Schedule};
use crate::model::{Clock, JobKind, Timestamp};
use chrono::{DateTime, Utc};
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use tokio_cron_scheduler::job::JobId;
use tokio_cron_scheduler::job::job_data::{JobAndNextTick, JobStoredData};
use tokio_cron_scheduler::store::{DataStore, InitStore};
use tokio_cron_scheduler::{
    Job, JobScheduler, JobSchedulerError, MetaDataStorage, SimpleJobCode, SimpleNotificationCode,
    SimpleNotificationStore,
};

/// A valid expression that the scheduler parses; ticks come from the [`TickStore`] instead.
const UNUSED_EXPRESSION: &str = "* * * * * *";
/// The capacity of the scheduler's channels. More jobs in one tick would be dropped; there are fifteen kinds.
const CHANNEL_CAPACITY: usize = 256;
/// The time before a tick at which the [`TickStore`] answers.
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
#[error("the scheduler could not {step}: {source}")]
pub struct DriverError {
    step: String,
    source: JobSchedulerError,
}

fn failed_to(step: impl Into<String>) -> impl FnOnce(JobSchedulerError) -> DriverError {
    |source| DriverError { step: step.into(), source }
}

/// A due job, with the due time of the occurrence.
pub(crate) type DueJob = (JobKind, Timestamp);

/// Sends each due job once, until [`ScheduleDriver::stop`].
pub(crate) struct ScheduleDriver {
    scheduler: JobScheduler,
    tick_store: TickStore,
}

impl ScheduleDriver {
    /// Starts ticking. Returns the receiver of the due jobs too.
    ///
    /// The channel has no limit, because a trigger that does not fit would be lost. `clock` must be the
    /// system's clock, because the scheduler reads that clock itself.
    ///
    /// # Errors
    /// Fails if the scheduler refuses a job.
    pub(crate) async fn start(
        entries: Vec<(JobKind, Schedule)>,
        clock: Arc<dyn Clock>,
    ) -> Result<(Self, mpsc::UnboundedReceiver<DueJob>), DriverError> {
        let (tick_store, due_jobs) = TickStore::new(clock);
        let scheduler = JobScheduler::new_with_storage_and_code(
            Box::new(tick_store.clone()),
            Box::new(SimpleNotificationStore::default()),
            Box::new(SimpleJobCode::default()),
            Box::new(SimpleNotificationCode::default()),
            CHANNEL_CAPACITY,
        );
        let mut driver = Self { scheduler: scheduler.await.map_err(failed_to("be set up"))?, tick_store };
        driver.replace_schedules(entries).await?;
        driver.scheduler.start().await.map_err(failed_to("start"))?;
        Ok((driver, due_jobs))
    }

    /// Replaces the schedules. Jobs with an unchanged schedule are not touched, so that they lose no tick.
    ///
    /// # Errors
    /// Fails if the scheduler refuses a job; the jobs before it are replaced.
    pub(crate) async fn replace_schedules(
        &mut self,
        entries: Vec<(JobKind, Schedule)>,
    ) -> Result<(), DriverError> {
        // The scheduler locks its storage during a poll, so a delayed answer would delay the replacement.
        self.tick_store.answer_at_once(true);
        let replaced = self.replace_jobs(entries).await;
        self.tick_store.answer_at_once(false);
        replaced
    }

    async fn replace_jobs(&mut self, mut entries: Vec<(JobKind, Schedule)>) -> Result<(), DriverError> {
        for (id, entry) in self.tick_store.entries() {
            if let Some(unchanged) = entries.iter().position(|new| *new == entry) {
                entries.remove(unchanged);
            } else {
                let removed = self.scheduler.remove(&id).await;
                removed.map_err(failed_to(format!("remove `{}`", entry.0)))?;
            }
        }
        for (kind, schedule) in entries {
            let step = format!("take the job `{kind}`");
            let tick_store = self.tick_store.clone();
            let job = Job::new(UNUSED_EXPRESSION, move |id, _| tick_store.send_due(id));
            let job = job.map_err(failed_to(&step))?;
            self.tick_store.add_schedule(job.guid(), kind, schedule);
            self.scheduler.add(job).await.map_err(failed_to(step))?;
        }
        Ok(())
    }

    /// Returns a handle that shows if the scheduler still ticks.
    pub(crate) fn heartbeat(&self) -> Heartbeat {
        Heartbeat { tick_store: self.tick_store.clone(), last_seen: 0 }
    }

    /// Stops ticking. After it returns, no job is sent and the channel is closed.
    pub(crate) async fn stop(mut self) {
        // Shutdown only sets a flag; an error could come only from a shutdown handler, and none is set.
        let _ = self.scheduler.shutdown().await;
    }
}

/// Without `stop`, the crate's tasks would go on after the driver is dropped.
///
/// Dropping closes the channel and wakes a delayed answer, so that the scheduler's task sees the shutdown
/// flag.
impl Drop for ScheduleDriver {
    fn drop(&mut self) {
        self.tick_store.lock_state().sender = None;
        self.tick_store.answer_at_once(true);
    }
}

/// A handle for the watchdog: shows that the scheduler still polls for due ticks.
///
/// Without it, schedules that stop firing would not be noticed.
pub(crate) struct Heartbeat {
    tick_store: TickStore,
    last_seen: u64,
}

impl Heartbeat {
    /// Returns true if the scheduler polled since the last call.
    ///
    /// Also triggers a poll, so that a frequent caller does not take a delayed answer for a failure.
    pub(crate) fn has_beaten(&mut self) -> bool {
        let polls = self.tick_store.lock_state().polls;
        self.tick_store.wake.notify_one();
        std::mem::replace(&mut self.last_seen, polls) != polls
    }
}

/// The scheduler's storage: the next tick of each job.
#[derive(Clone)]
struct TickStore {
    state: Arc<Mutex<TickState>>,
    /// Wakes a delayed answer.
    wake: Arc<Notify>,
}

struct TickState {
    at_once: bool,
    polls: u64,
    clock: Arc<dyn Clock>,
    jobs: HashMap<JobId, ScheduledJob>,
    /// `None` after the driver is dropped.
    sender: Option<mpsc::UnboundedSender<DueJob>>,
}

struct ScheduledJob {
    occurrences: JobOccurrences,
    row: Option<JobStoredData>,
}

impl ScheduledJob {
    fn waits_for_earlier_time(&self, now: Timestamp) -> bool {
        let next_tick = self.row.as_ref().map(|row| row.next_tick);
        self.next_tick(now).is_some_and(|start| next_tick.is_some_and(|tick| tick > start))
    }

    fn next_tick(&self, after: Timestamp) -> Option<u64> {
        self.occurrences.next_start(after).and_then(|start| u64::try_from(start.0 / 1000).ok())
    }

    /// Sets the first tick after `after`, in seconds since 1970, as the scheduler counts; 0 for never.
    fn set_ticks(&mut self, after: Timestamp, last_tick: Option<u64>) {
        let next_tick = self.next_tick(after).unwrap_or(0);
        if let Some(row) = &mut self.row {
            row.next_tick = next_tick;
            row.last_tick = last_tick;
        }
    }
}

impl TickStore {
    fn new(clock: Arc<dyn Clock>) -> (Self, mpsc::UnboundedReceiver<DueJob>) {
        let (sender, due_jobs) = mpsc::unbounded_channel();
        let state = TickState { at_once: false, polls: 0, clock, jobs: HashMap::new(), sender: Some(sender) };
        (Self { state: Arc::new(Mutex::new(state)), wake: Arc::default() }, due_jobs)
    }

    /// Locks the state. A poisoned lock is used, because no critical section leaves a half-made state.
    fn lock_state(&self) -> MutexGuard<'_, TickState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer_at_once(&self, at_once: bool) {
        self.lock_state().at_once = at_once;
        self.wake.notify_one();
    }

    fn add_schedule(&self, id: JobId, kind: JobKind, schedule: Schedule) {
        let occurrences = JobOccurrences::new(kind, schedule);
        self.lock_state().jobs.insert(id, ScheduledJob { occurrences, row: None });
    }

    fn entries(&self) -> Vec<(JobId, (JobKind, Schedule))> {
        let state = self.lock_state();
        let jobs = state.jobs.iter().map(|(id, scheduled)| (*id, &scheduled.occurrences));
        jobs.map(|(id, job)| (id, (job.job, job.schedule.clone()))).collect()
    }

    /// Sends the occurrence that a tick is for, once, because a slow scheduler may tick twice for it.
    fn send_due(&self, id: JobId) {
        let mut state = self.lock_state();
        // The lock is held while sending, so that nothing is sent after `stop` has returned.
        if let (Some(due), Some(sender)) = (state.take_due(id), &state.sender) {
            let _ = sender.send(due);
        }
    }

    /// Returns the next ticks, delayed until shortly before the first of them.
    async fn ticks_in_time(self) -> Result<Vec<JobAndNextTick>, JobSchedulerError> {
        loop {
            let (ticks, delay) = self.lock_state().poll_ticks();
            let Some(delay) = delay else { return Ok(ticks) };
            let over = self.lock_state().clock.sleep(delay);
            tokio::select! {
                () = over => {}
                () = self.wake.notified() => {}
            }
        }
    }
}

impl TickState {
    fn take_due(&mut self, id: JobId) -> Option<DueJob> {
        let now = self.clock.now();
        let occurrences = &mut self.jobs.get_mut(&id)?.occurrences;
        occurrences.take_due(now).map(|due| (occurrences.job, due))
    }

    /// Returns the next ticks and the delay of the answer.
    ///
    /// A next tick behind the next start belongs to a time before the clock was set back. Polls come at least every
    /// [`MAX_SLEEP`].
    fn poll_ticks(&mut self) -> (Vec<JobAndNextTick>, Option<Duration>) {
        self.polls += 1;
        let now = self.clock.now();
        for job in self.jobs.values_mut().filter(|job| job.waits_for_earlier_time(now)) {
            job.set_ticks(now, None);
        }
        let tick = |&JobStoredData { id, job_type, next_tick, last_tick, .. }: &JobStoredData| {
            JobAndNextTick { id, job_type, next_tick, last_tick }
        };
        let ticks: Vec<_> = self.jobs.values().filter_map(|job| job.row.as_ref().map(tick)).collect();
        let delay = self.answer_delay(&ticks, now);
        (ticks, delay)
    }

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
        ready_future(self.lock_state().jobs.get(&id).and_then(|job| job.row.clone()))
    }

    fn add_or_update(&mut self, row: JobStoredData) -> SchedulerFuture<()> {
        let mut state = self.lock_state();
        let now = state.clock.now();
        if let Some(job) = row.id.as_ref().and_then(|id| state.jobs.get_mut(&JobId::from(id))) {
            let last_tick = row.last_tick;
            job.row = Some(row);
            job.set_ticks(now, last_tick);
        }
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
        _next: Option<DateTime<Utc>>,
        last: Option<DateTime<Utc>>,
    ) -> SchedulerFuture<()> {
        let mut state = self.lock_state();
        let at = last.map_or_else(|| state.clock.now(), |last| Timestamp(last.timestamp_millis()));
        if let Some(job) = state.jobs.get_mut(&id) {
            job.set_ticks(at, u64::try_from(at.0 / 1000).ok());
        }
        ready_future(())
    }

    /// The scheduler does not call this.
    fn time_till_next_job(&mut self) -> SchedulerFuture<Option<Duration>> {
        ready_future(None)
    }
}

#[cfg(test)]
mod tests;
