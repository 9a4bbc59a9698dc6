//! The ticking. The only file that names tokio-cron-scheduler, and what it is trusted with is little: it looks
//! twice a second whether a tick has come and calls back. Left to itself it would freeze each zone's offset at
//! its creation (an hour wrong after every clock change), find next ticks with an older cron library that runs
//! some jobs twice in spring, and silently drop what it takes for impossible. So it is given a [`Board`] for
//! its storage, which answers every question about the next tick from [`Schedule`].
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
        let wall = Wall::new(clock.now());
        let state = State { wall, clock, slots: HashMap::new(), pulse: Pulse::default() };
        let board = Board(Arc::new(Mutex::new(state)));
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
        lock(&self.board.0).pulse.clone()
    }

    /// Ends the ticking: once this returns, `fire` is not called again, and is dropped.
    pub async fn stop(mut self) {
        // It only sets a flag; an error would come from a handler that is not used here.
        let _ = self.scheduler.shutdown().await;
    }
}

/// Also without `stop`, nothing fires for a driver that is gone; the crate's tasks would go on by themselves.
impl Drop for Driver {
    fn drop(&mut self) {
        drop(lock(&self.fire).take());
    }
}

fn failed(doing: &str, source: JobSchedulerError) -> DriverError {
    DriverError { doing: doing.into(), source }
}

/// A panic elsewhere leaves whole values behind: each critical section here is a single assignment.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts how often the scheduler looked for due ticks: a watchdog is to see that loop too, because schedules that no
/// longer fire are silent.
#[derive(Clone, Debug, Default)]
pub struct Pulse(Arc<AtomicU64>);

impl Pulse {
    /// The looks so far.
    pub fn beats(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The scheduler's storage: which job ticks when.
#[derive(Clone)]
struct Board(Arc<Mutex<State>>);

struct State {
    clock: Arc<dyn Clock>,
    wall: Wall,
    slots: HashMap<JobId, Slot>,
    pulse: Pulse,
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
    fn open(&self, id: JobId, kind: JobKind, schedule: Schedule) {
        let occurrences = Occurrences::new(kind, schedule);
        lock(&self.0).slots.insert(id, Slot { occurrences, row: None });
    }

    fn has(&self, kind: JobKind) -> bool {
        lock(&self.0).slots.values().any(|slot| slot.occurrences.job() == kind)
    }

    /// What stands on the board and not, or not so, in `entries`.
    fn outdated(&self, entries: &[(JobKind, Schedule)]) -> Vec<(JobId, JobKind)> {
        let state = lock(&self.0);
        let slots = state.slots.iter().map(|(id, slot)| (*id, &slot.occurrences));
        let same =
            |on: &Occurrences| entries.iter().any(|(kind, new)| *kind == on.job() && new == on.schedule());
        slots.filter(|(_, on)| !same(on)).map(|(id, on)| (id, on.job())).collect()
    }

    /// The occurrence a tick stands for, once: a slow scheduler may tick twice for it.
    fn due(&self, id: JobId) -> Option<(JobKind, Timestamp)> {
        let mut state = lock(&self.0);
        let now = state.clock.now();
        let occurrences = &mut state.slots.get_mut(&id)?.occurrences;
        occurrences.due(now).map(|due| (occurrences.job(), due))
    }

    fn insert(&self, mut row: JobStoredData) {
        let mut state = lock(&self.0);
        let now = state.clock.now();
        let id = row.id.as_ref().map(JobId::from);
        if let Some(slot) = id.and_then(|id| state.slots.get_mut(&id)) {
            row.next_tick = slot.tick_after(now);
            slot.row = Some(row);
        }
    }

    fn ticked(&self, id: JobId, at: Option<DateTime<Utc>>) {
        let mut state = lock(&self.0);
        let at = at.map_or_else(|| state.clock.now(), |at| Timestamp(at.timestamp_millis()));
        if let Some(slot) = state.slots.get_mut(&id) {
            let next = slot.tick_after(at);
            if let Some(row) = &mut slot.row {
                row.next_tick = next;
                row.last_tick = u64::try_from(at.0 / 1000).ok();
            }
        }
    }

    /// Asked twice a second, so this is where a clock set back is noticed: its jobs would otherwise wait for a
    /// time that has been moved away.
    fn ticks(&self) -> Vec<JobAndNextTick> {
        let mut state = lock(&self.0);
        state.pulse.0.fetch_add(1, Ordering::Relaxed);
        let now = state.clock.now();
        if state.wall.is_set_back(now) {
            state.slots.values_mut().for_each(|slot| slot.start_again(now));
        }
        state.slots.values().filter_map(|slot| slot.row.as_ref()).map(next_tick).collect()
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
        answer(lock(&self.0).slots.get(&id).and_then(|slot| slot.row.clone()))
    }

    fn add_or_update(&mut self, row: JobStoredData) -> Answer<()> {
        self.insert(row);
        answer(())
    }

    fn delete(&mut self, id: JobId) -> Answer<()> {
        lock(&self.0).slots.remove(&id);
        answer(())
    }
}

impl MetaDataStorage for Board {
    fn list_next_ticks(&mut self) -> Answer<Vec<JobAndNextTick>> {
        answer(self.ticks())
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

    /// Nobody of ours asks; the loop beneath looks twice a second whatever the answer.
    fn time_till_next_job(&mut self) -> Answer<Option<Duration>> {
        answer(None)
    }
}

#[cfg(test)]
#[path = "driver_tests.rs"]
mod tests;
