//! The driver: tokio-cron-scheduler fires, and [`Schedule`] says when.
//!
//! Only this file names that crate. The crate has one job here, which sends every job that is due. [`TickStore`] is the
//! crate's storage: it answers when the next occurrence starts, and not before. docs/architecture.md, *Known trade-offs*,
//! has the faults of the crate behind this division.

use super::{JobOccurrences, Schedule};
use crate::model::time::SleepFuture;
use crate::model::{Clock, JobKind, Timestamp};
use chrono::{DateTime, Utc};
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

/// A valid expression that the scheduler parses; the [`TickStore`] decides when it ticks.
const UNUSED_EXPRESSION: &str = "* * * * * *";
/// The capacity of the scheduler's channels, for the messages about one job.
const CHANNEL_CAPACITY: usize = 16;
/// The longest delay of an answer. It bounds the time until a changed clock or a resume from suspend is noticed.
const MAX_SLEEP: Duration = Duration::from_secs(10);

/// An error of the scheduler, whose own messages do not name it.
#[derive(Debug, thiserror::Error)]
#[error("the scheduler cannot start: {0}")]
pub struct DriverError(#[from] JobSchedulerError);

pub(crate) type DueJob = (JobKind, Timestamp);

pub(crate) struct ScheduleDriver {
    scheduler: JobScheduler,
    ticks: TickStore,
}

impl ScheduleDriver {
    /// Starts ticking. The channel has no limit, because a trigger that does not fit would be lost.
    pub(crate) async fn start(
        entries: Vec<(JobKind, Schedule)>,
        clock: Arc<dyn Clock>,
    ) -> Result<(Self, mpsc::UnboundedReceiver<DueJob>), DriverError> {
        let (ticks, due_jobs) = TickStore::new(clock);
        let scheduler = JobScheduler::new_with_storage_and_code(
            Box::new(ticks.clone()),
            Box::new(SimpleNotificationStore::default()),
            Box::new(SimpleJobCode::default()),
            Box::new(SimpleNotificationCode::default()),
            CHANNEL_CAPACITY,
        );
        let driver = Self { scheduler: scheduler.await?, ticks: ticks.clone() };
        driver.replace_schedules(entries);
        let send_due = move |_, _| {
            ticks.lock_state().send_due();
        };
        driver.scheduler.add(Job::new(UNUSED_EXPRESSION, send_due)?).await?;
        driver.scheduler.start().await?;
        Ok((driver, due_jobs))
    }

    /// Replaces the schedules, after what has started by the old ones was sent.
    pub(crate) fn replace_schedules(&self, entries: Vec<(JobKind, Schedule)>) {
        let mut state = self.ticks.lock_state();
        let now = state.send_due();
        let jobs = entries.into_iter().map(|(kind, schedule)| JobOccurrences::new(kind, schedule, now));
        state.jobs = jobs.collect();
        drop(state);
        self.ticks.wake.notify_one();
    }

    pub(crate) fn heartbeat(&self) -> Heartbeat {
        Heartbeat { ticks: self.ticks.clone(), last_seen: 0 }
    }

    /// Stops ticking. After it returns, no job is sent and the channel is closed.
    pub(crate) async fn stop(mut self) {
        // Shutdown only sets a flag; an error could come only from a shutdown handler, and none is set.
        let _ = self.scheduler.shutdown().await;
    }
}

/// Closes the channel and wakes a delayed answer, so that the scheduler's task sees the flag of [`ScheduleDriver::stop`].
impl Drop for ScheduleDriver {
    fn drop(&mut self) {
        self.ticks.lock_state().sender = None;
        self.ticks.wake.notify_one();
    }
}

/// Shows the watchdog that the scheduler still polls, because schedules that stop firing would not be
/// noticed.
pub(crate) struct Heartbeat {
    ticks: TickStore,
    last_seen: u64,
}

impl Heartbeat {
    /// Returns true if the scheduler polled since the last call. Also triggers a poll, so that a frequent
    /// caller does not take a delayed answer for a failure.
    pub(crate) fn has_beaten(&mut self) -> bool {
        let polls = self.ticks.lock_state().polls;
        self.ticks.wake.notify_one();
        std::mem::replace(&mut self.last_seen, polls) != polls
    }
}

#[derive(Clone)]
struct TickStore {
    state: Arc<Mutex<TickState>>,
    wake: Arc<Notify>,
}

struct TickState {
    polls: u64,
    clock: Arc<dyn Clock>,
    jobs: Vec<JobOccurrences>,
    row: Option<JobStoredData>,
    /// `None` after the driver is dropped.
    sender: Option<mpsc::UnboundedSender<DueJob>>,
}

impl TickStore {
    fn new(clock: Arc<dyn Clock>) -> (Self, mpsc::UnboundedReceiver<DueJob>) {
        let (sender, due_jobs) = mpsc::unbounded_channel();
        let state = TickState { polls: 0, jobs: Vec::new(), clock, row: None, sender: Some(sender) };
        (Self { state: Arc::new(Mutex::new(state)), wake: Arc::default() }, due_jobs)
    }

    /// Locks the state. A poisoned lock is used, because no critical section leaves a half-made state.
    fn lock_state(&self) -> MutexGuard<'_, TickState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the tick of the scheduler's job, delayed until an occurrence starts.
    async fn tick_in_time(self) -> Result<Vec<JobAndNextTick>, JobSchedulerError> {
        loop {
            let over = match self.lock_state().poll() {
                Ok(tick) => return Ok(tick.into_iter().collect()),
                Err(over) => over,
            };
            tokio::select! {
                () = over => {}
                () = self.wake.notified() => {}
            }
        }
    }
}

impl TickState {
    /// Sends the occurrences that have started, each once, and returns the time. The caller holds the lock, so that
    /// nothing is sent after [`ScheduleDriver::stop`] has returned.
    fn send_due(&mut self) -> Timestamp {
        let now = self.clock.now();
        for job in &mut self.jobs {
            if let (Some(due), Some(sender)) = (job.take_due(now), &self.sender) {
                let _ = sender.send((job.job, due));
            }
        }
        now
    }

    /// Returns the scheduler's job with a tick that has passed, or the sleep until an occurrence starts, for at most
    /// [`MAX_SLEEP`].
    fn poll(&mut self) -> Result<Option<JobAndNextTick>, SleepFuture> {
        self.polls += 1;
        let now = self.clock.now();
        self.jobs.iter_mut().for_each(|job| job.bring_forward(now));
        let next = self.jobs.iter().filter_map(JobOccurrences::next_start).min();
        let delay = next.map_or(MAX_SLEEP, |next| next.duration_since(now).min(MAX_SLEEP));
        if self.sender.is_some() && !delay.is_zero() {
            return Err(self.clock.sleep(delay));
        }
        let row = self.row.as_ref().filter(|_| self.sender.is_some());
        let passed = |row: &JobStoredData| JobAndNextTick {
            id: row.id,
            job_type: row.job_type,
            next_tick: 1,
            last_tick: None,
        };
        Ok(row.map(passed))
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
    fn get(&mut self, _: JobId) -> SchedulerFuture<Option<JobStoredData>> {
        ready_future(self.lock_state().row.clone())
    }

    fn add_or_update(&mut self, row: JobStoredData) -> SchedulerFuture<()> {
        self.lock_state().row = Some(row);
        ready_future(())
    }

    fn delete(&mut self, _: JobId) -> SchedulerFuture<()> {
        ready_future(())
    }
}

impl MetaDataStorage for TickStore {
    fn list_next_ticks(&mut self) -> SchedulerFuture<Vec<JobAndNextTick>> {
        Box::pin(self.clone().tick_in_time())
    }

    fn set_next_and_last_tick(
        &mut self,
        _: JobId,
        _: Option<DateTime<Utc>>,
        _: Option<DateTime<Utc>>,
    ) -> SchedulerFuture<()> {
        ready_future(())
    }

    fn time_till_next_job(&mut self) -> SchedulerFuture<Option<Duration>> {
        ready_future(None)
    }
}

#[cfg(test)]
mod tests;
