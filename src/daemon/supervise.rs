//! The loop that owns all runs.
//!
//! It wakes for a due schedule, a change that another program queued, a finished run, a timer, a due retry or a
//! signal. Each kind of job has one slot; a trigger for a running job is remembered once. `new_entries` handles the
//! entries that programs and commands left in the database.

mod new_entries;

use super::health_monitor::{self, HealthMonitor};
use super::job_slots::JobSlots;
use super::key_probe::{KeyProbe, alone_until_tried};
use super::pauses::unless_paused;
use super::registry::run_job;
use super::start_error::RETRY_PAUSE;
use super::systemd;
use crate::client::HttpTransport;
use crate::config::Config;
use crate::exec::{FinishedRun, JobContext};
use crate::journal::RunOutcome;
use crate::model::{ChangeId, JobKind, Position, RunTrigger, Timestamp};
use crate::schedule::{DueJob, Heartbeat, Schedule};
use crate::store::{DatabaseWatch, Durability, StoreError};
use crate::telemetry::event;
use crate::{settle, sync};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, mpsc};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

const COLLECT_TIME: Duration = Duration::from_millis(40);
/// The first delay of the checks of the outbox after the write-ahead log was written, and the longest; each is six times
/// the one before. The log is written when a commit begins. The committed rows are readable only after the disk has
/// synced, which can take any time.
const OUTBOX_CHECK_DELAYS: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(8));
/// The time limit for calls in flight at shutdown; unanswered calls are then in doubt. [`DRAIN_TIMEOUT`] and
/// [`LAST_WRITE_TIMEOUT`] together stay below 10 s; systemd kills after 15 s (`TimeoutStopSec=`).
const DRAIN_TIMEOUT: Duration = Duration::from_secs(8);
const LAST_WRITE_TIMEOUT: Duration = Duration::from_secs(1);
/// The least delay after a run of a push or of settle that has more to do.
const AGAIN_DELAY_MIN: Duration = Duration::from_secs(1);
pub(super) const HEALTH_INTERVAL: Duration = Duration::from_secs(60);

/// Work of the loop that is due at a time, in the order in which it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// Set until a catch-up has succeeded, which sets the positions from which the outbox is checked.
    CatchUp,
    Watchdog,
    Health,
    PauseEnd,
    Outbox,
    Push,
    Settle,
    Prefetch,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Task {
    Job(JobKind),
    Request,
    Prefetch,
    Orders,
    Notices,
}

type TaskEnd = (Task, Result<Option<FinishedRun>, StoreError>);

pub(super) struct Supervisor {
    context: JobContext,
    schedules: BTreeMap<JobKind, Schedule>,
    due: mpsc::UnboundedReceiver<DueJob>,
    watch: DatabaseWatch,
    key_probe: KeyProbe,
    heartbeat: Heartbeat,
    health_monitor: HealthMonitor,
    tasks: JoinSet<TaskEnd>,
    running: BTreeSet<Task>,
    /// Held by the task that makes the first calls ([`alone_until_tried`]).
    first_turn: Arc<Mutex<()>>,
    job_slots: JobSlots<Instant>,
    last_change: ChangeId,
    timers: BTreeMap<Timer, Instant>,
    /// The delay of the last check of the outbox that was planned.
    outbox_delay: Duration,
    /// The id of the last order request that was seen (`NewEntries::order_read_request`).
    last_order_request: i64,
    last_resolution: Position,
    /// The id of the last request of a command that was started; requests start in the order of their ids.
    last_request: i64,
}

impl Supervisor {
    pub(super) fn new(
        context: JobContext,
        config: &Config,
        transport: Option<Arc<HttpTransport>>,
        due: mpsc::UnboundedReceiver<DueJob>,
        heartbeat: Heartbeat,
    ) -> Self {
        let mut key_probe = KeyProbe::new(&config.service, transport);
        if context.limiter.is_refused() {
            key_probe.start_probing();
        }
        Self {
            schedules: config.jobs.enabled_schedules().into_iter().collect(),
            due,
            watch: context.store.watch_writes(),
            health_monitor: HealthMonitor::new(config, &*context.clock, context.now()),
            context,
            key_probe,
            heartbeat,
            tasks: JoinSet::new(),
            running: BTreeSet::new(),
            first_turn: Arc::default(),
            job_slots: JobSlots::default(),
            last_change: ChangeId(0),
            // Stock may have moved while no daemon ran, so a prefetch is due at once too.
            timers: [Timer::CatchUp, Timer::Prefetch].map(|timer| (timer, Instant::now())).into(),
            outbox_delay: OUTBOX_CHECK_DELAYS.1,
            last_order_request: 0,
            last_resolution: Position(0),
            last_request: 0,
        }
    }

    /// Works until `stop` is cancelled, or returns a new configuration from `reload`. Fails on
    /// an error of the database that is not transient. If the file at the path was replaced or
    /// is gone, the error is [`StoreError::FileReplaced`].
    pub(super) async fn run_loop(
        &mut self,
        stop: &CancellationToken,
        reload: &mut mpsc::Receiver<Config>,
    ) -> Result<Option<Config>, StoreError> {
        let ended = self.serve_events(stop, reload).await;
        if ended.as_ref().is_err_and(|error| !matches!(error, StoreError::FileReplaced { .. })) {
            health_monitor::check_database_file(&self.context)?;
        }
        ended
    }

    async fn serve_events(
        &mut self,
        stop: &CancellationToken,
        reload: &mut mpsc::Receiver<Config>,
    ) -> Result<Option<Config>, StoreError> {
        let watchdog = systemd::watchdog_interval().unwrap_or(HEALTH_INTERVAL);
        self.handle_due(Instant::now(), watchdog).await?;
        warn_if_transient(self.health_monitor.write_first_metrics(&self.context).await)?;
        self.deliver_notices();
        self.plan(Timer::Watchdog, watchdog);
        self.plan(Timer::Health, HEALTH_INTERVAL);
        while !stop.is_cancelled() {
            let due = self.timers.values().copied();
            let due = due.chain(self.job_slots.next_retry()).chain(self.key_probe.next_check_at()).min();
            tokio::select! {
                () = stop.cancelled() => {}
                Some(config) = reload.recv() => return Ok(Some(config)),
                Some((kind, at)) = self.due.recv() => self.handle_fired(kind, at, RunTrigger::Schedule).await?,
                Some(ended) = self.tasks.join_next() => self.handle_ended(ended).await?,
                () = self.watch.wait_for_write() => self.plan_outbox_check(OUTBOX_CHECK_DELAYS.0),
                () = sleep_until(due.expect("the watchdog is always due")) => {}
            }
            health_monitor::check_database_file(&self.context)?;
            let now = Instant::now();
            self.handle_due(now, watchdog).await?;
            for kind in self.job_slots.retries_due(now, now + HEALTH_INTERVAL) {
                self.begin_run(kind, RunTrigger::Retry);
            }
            if warn_if_transient(self.key_probe.check_due(&self.context).await)? == Some(true) {
                for kind in self.job_slots.take_refused() {
                    self.begin_run(kind, RunTrigger::Retry);
                }
            }
        }
        Ok(None)
    }

    /// Sets a timer, or clears it without a delay.
    fn plan(&mut self, timer: Timer, delay: impl Into<Option<Duration>>) {
        match delay.into() {
            Some(delay) => drop(self.timers.insert(timer, Instant::now() + delay)),
            None => drop(self.timers.remove(&timer)),
        }
    }

    fn plan_outbox_check(&mut self, delay: Duration) {
        if delay <= OUTBOX_CHECK_DELAYS.1 {
            self.plan(Timer::Outbox, delay);
            self.outbox_delay = delay;
        }
    }

    async fn handle_due(&mut self, now: Instant, watchdog: Duration) -> Result<(), StoreError> {
        while let Some((timer, _)) = self.timers.iter().find(|(_, at)| **at <= now) {
            let timer = *timer;
            self.timers.remove(&timer);
            self.handle_timer(timer, watchdog).await?;
        }
        Ok(())
    }

    async fn handle_timer(&mut self, timer: Timer, watchdog: Duration) -> Result<(), StoreError> {
        match timer {
            Timer::CatchUp => {
                if warn_if_transient(self.catch_up().await)?.is_none() {
                    self.plan(Timer::CatchUp, RETRY_PAUSE);
                }
            }
            Timer::Watchdog => {
                // A scheduler that no longer ticks is as dead as this loop would be.
                if self.heartbeat.has_beaten() {
                    systemd::notify_alive();
                }
                self.plan(Timer::Watchdog, watchdog);
            }
            Timer::Health => {
                warn_if_transient(self.end_pauses().await)?;
                warn_if_transient(self.check_outbox().await)?;
                warn_if_transient(self.health_monitor.check_health(&self.context).await)?;
                self.deliver_notices();
                self.plan(Timer::Health, HEALTH_INTERVAL);
            }
            Timer::PauseEnd => drop(warn_if_transient(self.end_pauses().await)?),
            Timer::Outbox => drop(warn_if_transient(self.check_outbox().await)?),
            Timer::Push => self.begin_run(JobKind::Push, RunTrigger::Outbox),
            Timer::Settle => self.begin_run(JobKind::Settle, RunTrigger::Outbox),
            Timer::Prefetch => {
                self.plan(Timer::Prefetch, sync::PREFETCH_INTERVAL);
                let kind = JobKind::Balances;
                if !self.job_slots.is_active(kind) && !self.running.contains(&Task::Prefetch) {
                    let context = self.context.clone();
                    let work = async move {
                        let run = unless_paused(&context, kind, sync::prefetch_balances(&context)).await?;
                        Ok(run.ok().flatten())
                    };
                    self.spawn_task(Task::Prefetch, work);
                }
            }
        }
        Ok(())
    }

    pub(super) async fn apply_reload(&mut self, config: &Config) -> Result<(), StoreError> {
        self.schedules = config.jobs.enabled_schedules().into_iter().collect();
        self.health_monitor.reload(config, &*self.context.clock);
        self.key_probe.replace_source(config.service.keys.clone(), &self.context).await
    }

    /// Starts the jobs missed while no daemon ran, and a push for the changes that wait. All reads come
    /// first, so that a failed attempt has started no run.
    async fn catch_up(&mut self) -> Result<(), StoreError> {
        let (now, mut missed) = (self.context.now(), Vec::new());
        for (kind, schedule) in &self.schedules {
            let last = self.context.store.job_last_fired(*kind).await?;
            missed.extend(schedule.catch_up(*kind, last, now).map(|due| (*kind, due)));
        }
        let position = self.context.store.journal_position().await?;
        let newest = self.context.store.new_entries(position).await?.change;
        self.plan_settle(Duration::ZERO).await?;
        self.end_pauses().await?;
        self.start_requests().await?;
        (self.last_resolution, self.last_change) = (position, ChangeId(newest));
        for (kind, due) in missed {
            self.handle_fired(kind, due, RunTrigger::Missed).await?;
        }
        self.begin_run(JobKind::Push, RunTrigger::Outbox);
        Ok(())
    }

    async fn handle_fired(
        &mut self,
        kind: JobKind,
        due: Timestamp,
        trigger: RunTrigger,
    ) -> Result<(), StoreError> {
        let next =
            self.schedules.get(&kind).and_then(|schedule| schedule.next_start(kind, self.context.now()));
        let note = async {
            let mut write = self.context.store.begin_write(Durability::Normal).await?;
            write.job_fired(kind, due, next).await?;
            write.commit().await
        };
        warn_if_transient(note.await)?;
        self.begin_run(kind, trigger);
        Ok(())
    }

    fn begin_run(&mut self, kind: JobKind, trigger: RunTrigger) {
        if !self.job_slots.take_slot(kind, trigger) {
            if kind == JobKind::Push {
                self.context.notify_changes();
            }
            return;
        }
        let context = self.context.clone();
        let run = async move {
            let run = run_job(&context, kind, trigger);
            unless_paused(&context, kind, run).await.map(Result::ok)
        };
        self.spawn_task(Task::Job(kind), run);
    }

    fn spawn_task(
        &mut self,
        task: Task,
        work: impl Future<Output = Result<Option<FinishedRun>, StoreError>> + Send + 'static,
    ) {
        let (context, turn) = (self.context.clone(), Arc::clone(&self.first_turn));
        self.running.insert(task);
        self.tasks.spawn(async move {
            match task {
                Task::Notices => (task, work.await),
                _ => (task, alone_until_tried(&context, &turn, work).await),
            }
        });
    }

    fn deliver_notices(&mut self) {
        if !self.running.contains(&Task::Notices)
            && let Some(delivery) = self.health_monitor.notifiers.start_delivery(&self.context)
        {
            self.spawn_task(Task::Notices, async move { delivery.await.map(|()| None) });
        }
    }

    async fn plan_settle(&mut self, pause: Duration) -> Result<(), StoreError> {
        if !self.schedules.contains_key(&JobKind::Settle) {
            return Ok(());
        }
        let due = settle::next_check_at(&self.context).await?;
        let now = self.context.now();
        self.plan(Timer::Settle, due.map(|due| due.duration_since(now).max(pause)));
        Ok(())
    }

    async fn handle_ended(&mut self, ended: Result<TaskEnd, JoinError>) -> Result<(), StoreError> {
        let Some((task, result)) = super::join_result(ended) else { return Ok(()) };
        self.running.remove(&task);
        let finished = match task {
            Task::Job(_) => result?,
            Task::Request | Task::Prefetch | Task::Orders | Task::Notices => {
                warn_if_transient(result)?.flatten()
            }
        };
        let Some(finished) = finished else {
            if let Task::Job(kind) = task {
                // The job did not run because it is paused.
                self.end_run(kind, RunOutcome::Interrupted, false);
            }
            return Ok(());
        };
        if finished.is_key_refused {
            self.key_probe.start_probing();
        }
        match task {
            Task::Job(_) => return self.handle_run(&finished).await,
            Task::Request => self.plan_follow_up(&finished).await?,
            Task::Prefetch => drop(warn_if_transient(self.plan_settle(Duration::ZERO).await)?),
            Task::Orders if finished.outcome == RunOutcome::Ok => self.read_orders(),
            Task::Orders | Task::Notices => {}
        }
        finished.log_failed(None);
        Ok(())
    }

    /// Frees the slot of a job, begins its next run if a trigger came meanwhile, and returns the delay of its retry.
    fn end_run(&mut self, kind: JobKind, outcome: RunOutcome, is_refused: bool) -> Option<Duration> {
        let now = Instant::now();
        let (again, retry) = self.job_slots.end_run(kind, outcome, is_refused, |delay| now + delay);
        if let Some(trigger) = again {
            self.begin_run(kind, trigger);
        }
        retry
    }

    async fn handle_run(&mut self, finished: &FinishedRun) -> Result<(), StoreError> {
        let (kind, outcome) = (finished.kind, finished.outcome);
        finished.log_failed(self.end_run(kind, outcome, finished.is_key_refused));
        self.health_monitor.count_run(outcome);
        let (health, summary) = (&self.health_monitor.summary, &finished.summary);
        systemd::notify_status(&format!("{health}; {kind}: {summary}"));
        let templates = JobKind::ListingTemplates;
        if kind == JobKind::Storefronts && finished.has_effect && self.schedules.contains_key(&templates) {
            // A new storefront's templates would otherwise be read a day later.
            self.begin_run(templates, RunTrigger::Outbox);
        }
        if kind == JobKind::OrderLines && outcome != RunOutcome::Failed {
            // Reads orders that were named too late for this pass, or too many for it.
            self.read_orders();
        }
        self.plan_follow_up(finished).await
    }

    /// Starts or plans the work that follows from a run, independent of its trigger.
    async fn plan_follow_up(&mut self, finished: &FinishedRun) -> Result<(), StoreError> {
        if let Some(kind) = finished.wakes {
            self.begin_run(kind, RunTrigger::Outbox);
        }
        if let (JobKind::Push, Some(at)) = (finished.kind, finished.due_again_at) {
            self.plan_push(at.duration_since(self.context.now()).max(AGAIN_DELAY_MIN));
        }
        let pause = match (finished.kind, finished.outcome) {
            // A push can leave changes in doubt; push and balances can show values that need a second check.
            (JobKind::Push | JobKind::Balances, _) => Duration::ZERO,
            (JobKind::Settle, RunOutcome::Ok) => AGAIN_DELAY_MIN,
            // A run that did not complete is retried like that of any job.
            _ => return Ok(()),
        };
        warn_if_transient(self.plan_settle(pause).await).map(drop)
    }

    /// Plans a push after the delay, unless one is planned before that.
    fn plan_push(&mut self, delay: Duration) {
        let at = Instant::now() + delay;
        self.timers.entry(Timer::Push).and_modify(|first| *first = at.min(*first)).or_insert(at);
    }

    /// Starts nothing new and completes the calls in flight, for up to [`DRAIN_TIMEOUT`].
    pub(super) async fn drain_calls(&mut self) -> Result<(), StoreError> {
        systemd::notify_stopping();
        self.context.stop_jobs();
        let all = async { while self.tasks.join_next().await.is_some() {} };
        if timeout(DRAIN_TIMEOUT, all).await.is_err() {
            self.tasks.shutdown().await;
            tracing::warn!(
                event = event::DAEMON_STOPPING,
                "calls were unanswered after {} s; their changes are in doubt",
                DRAIN_TIMEOUT.as_secs()
            );
        }
        match timeout(LAST_WRITE_TIMEOUT, end_session(&self.context)).await {
            Ok(Err(error)) if !error.is_transient() => Err(error),
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => {
                tracing::warn!(
                    event = event::DAEMON_STOPPING,
                    "the database cannot be written now; what is open is in doubt at the next start"
                );
                Ok(())
            }
        }
    }
}

pub(super) async fn end_session(context: &JobContext) -> Result<(), StoreError> {
    let (session, mut write) = (context.session_id, context.store.begin_write(Durability::Full).await?);
    write.session_end(session, context.now(), context.moment()).await?;
    write.release_lead().await?;
    write.commit().await?;
    if context.store.is_shared() {
        tracing::info!(
            event = event::LEAD_RELEASED,
            session,
            "this tallyd leads no more; a host that stands by takes over at once"
        );
    }
    Ok(())
}

/// Turns a transient database error into a warning; the next check does the work.
fn warn_if_transient<T>(result: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match result {
        Err(error) if error.is_transient() => {
            tracing::warn!(event = event::DATABASE_WRITE_FAILED, "{error}");
            Ok(None)
        }
        result => result.map(Some),
    }
}
