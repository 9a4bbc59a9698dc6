//! The loop that owns all runs.
//!
//! The loop subscribes to its wake-up, then checks for work, then waits. It wakes for a due schedule, a
//! change that another program queued, a finished run, a due retry, the watchdog or a signal. Each kind of
//! job has one slot; a trigger for a running job is remembered once. The loop sleeps between wake-ups.
//! `new_entries` handles the entries that programs and commands left in the database.

mod new_entries;

use super::health_monitor::{self, HealthMonitor};
use super::job_slots::JobSlots;
use super::key_probe::{KeyProbe, alone_until_tried};
use super::pauses::{run_unless_paused, work_unless_paused};
use super::prefetch_timer::PrefetchTimer;
use super::systemd;
use crate::client::HttpTransport;
use crate::config::Config;
use crate::exec::{FinishedRun, JobContext, RunArgs};
use crate::journal::RunOutcome;
use crate::model::{ChangeId, JobKind, Position, RunTrigger, Timestamp};
use crate::schedule::{DueJob, Heartbeat, Schedule};
use crate::store::{DatabaseWatch, Durability, StoreError};
use crate::telemetry::event;
use crate::{settle, sync};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, mpsc};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

/// The time to collect changes that are queued one by one, so that they share calls.
const COLLECT_TIME: Duration = Duration::from_millis(40);
/// The delays between checks of the outbox after the write-ahead log was written. The log is written when a
/// commit begins. The committed rows are readable only after the disk has synced, which can take any time.
const OUTBOX_CHECK_DELAYS: [Duration; 5] = [
    Duration::from_millis(5),
    Duration::from_millis(30),
    Duration::from_millis(200),
    Duration::from_secs(2),
    Duration::from_secs(8),
];
/// The time limit for calls in flight at shutdown; unanswered calls are then in doubt. [`DRAIN_TIMEOUT`] and
/// [`LAST_WRITE_TIMEOUT`] together stay below 10 s; systemd kills after 15 s (`TimeoutStopSec=`).
const DRAIN_TIMEOUT: Duration = Duration::from_secs(8);
const LAST_WRITE_TIMEOUT: Duration = Duration::from_secs(1);
/// The delay after a settle run that did not complete ([`SETTLE_RETRY_DELAY`]) or did ([`SETTLE_DELAY_MIN`]).
const SETTLE_RETRY_DELAY: Duration = Duration::from_secs(30);
const SETTLE_DELAY_MIN: Duration = Duration::from_secs(1);
/// The minimum delay before a push that waits to retry an entry begins again.
const PUSH_RETRY_DELAY_MIN: Duration = Duration::from_secs(1);
/// The interval of the health check, and of the check of the outbox if no notification came.
const HEALTH_INTERVAL: Duration = Duration::from_secs(60);
const CATCH_UP_RETRY_DELAY: Duration = Duration::from_secs(2);

#[derive(Clone, Copy)]
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
    /// Held by the task that makes the first calls ([`alone_until_tried`]).
    first_turn: Arc<Mutex<()>>,
    job_slots: JobSlots<Instant>,
    last_change: ChangeId,
    /// The next check of the outbox, and the delays of the checks after it.
    next_outbox_check: Option<(Instant, &'static [Duration])>,
    push_at: Option<Instant>,
    settle_at: Option<Instant>,
    /// The first end of a pause by its time.
    pause_end_at: Option<Instant>,
    /// The id of the last order request that was seen (`NewEntries::order_read_request`).
    last_order_request: i64,
    last_resolution: Position,
    /// The id of the last request of a command that was started; requests start in the order of their ids.
    last_request: i64,
    prefetch_timer: PrefetchTimer,
    /// The next attempt to catch up; `None` after the first that succeeded.
    catch_up_at: Option<Instant>,
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
            first_turn: Arc::default(),
            job_slots: JobSlots::default(),
            last_change: ChangeId(0),
            next_outbox_check: None,
            push_at: None,
            settle_at: None,
            pause_end_at: None,
            last_order_request: 0,
            last_resolution: Position(0),
            last_request: 0,
            prefetch_timer: PrefetchTimer::new(),
            catch_up_at: Some(Instant::now()),
        }
    }

    /// Works until `stop` is cancelled, or returns a new configuration from `reload`.
    ///
    /// # Errors
    /// Fails on an error of the database that is not transient. If the file at the path was replaced or is
    /// gone, the error is [`StoreError::FileReplaced`].
    pub(super) async fn run_loop(
        &mut self,
        stop: &CancellationToken,
        reload: &mut mpsc::Receiver<Config>,
    ) -> Result<Option<Config>, StoreError> {
        let ended = self.run_iteration(stop, reload).await;
        if ended.as_ref().is_err_and(|error| !matches!(error, StoreError::FileReplaced { .. })) {
            health_monitor::check_database_file(&self.context)?;
        }
        ended
    }

    async fn run_iteration(
        &mut self,
        stop: &CancellationToken,
        reload: &mut mpsc::Receiver<Config>,
    ) -> Result<Option<Config>, StoreError> {
        self.catch_up_if_due().await?;
        warn_if_transient(self.health_monitor.write_first_metrics(&self.context).await)?;
        self.deliver_notices();
        let watchdog = systemd::watchdog_interval().unwrap_or(HEALTH_INTERVAL);
        let mut feed = Instant::now() + watchdog;
        let mut next_health_check = Instant::now() + HEALTH_INTERVAL;
        while !stop.is_cancelled() {
            let outbox_check_at = self.next_outbox_check.map(|(at, _)| at);
            let due = [
                outbox_check_at,
                self.push_at,
                self.job_slots.next_retry(),
                self.settle_at,
                self.pause_end_at,
                self.key_probe.next_check_at(),
                self.catch_up_at,
            ];
            let wake = due
                .into_iter()
                .flatten()
                .fold(feed.min(next_health_check).min(self.prefetch_timer.next_at), Instant::min);
            tokio::select! {
                () = stop.cancelled() => {}
                Some(config) = reload.recv() => return Ok(Some(config)),
                Some((kind, at)) = self.due.recv() => self.handle_fired(kind, at, RunTrigger::Schedule).await?,
                Some(ended) = self.tasks.join_next() => self.handle_ended(ended).await?,
                () = self.watch.wait_for_write() => self.next_outbox_check = split_delays(&OUTBOX_CHECK_DELAYS),
                () = sleep_until(wake) => {}
            }
            health_monitor::check_database_file(&self.context)?;
            self.catch_up_if_due().await?;
            let now = Instant::now();
            if now >= feed {
                // A scheduler that no longer ticks is as dead as this loop would be.
                if self.heartbeat.has_beaten() {
                    systemd::notify_alive();
                }
                feed = now + watchdog;
            }
            if now >= next_health_check {
                self.check_minute().await?;
                next_health_check = now + HEALTH_INTERVAL;
            } else if self.pause_end_at.is_some_and(|at| now >= at) {
                warn_if_transient(self.end_pauses().await)?;
            }
            if outbox_check_at.is_some_and(|at| now >= at) {
                warn_if_transient(self.check_outbox().await)?;
            }
            self.begin_due(now);
            if self.prefetch_timer.start_prefetch(now, self.job_slots.is_active(JobKind::Balances)) {
                let context = self.context.clone();
                let kind = JobKind::Balances;
                let work = async move {
                    work_unless_paused(&context, kind, sync::prefetch_balances(&context)).await
                };
                self.spawn_task(Task::Prefetch, work);
            }
            if warn_if_transient(self.key_probe.check_due(&self.context).await)? == Some(true) {
                for kind in self.job_slots.take_refused() {
                    self.begin_run(kind, RunTrigger::Retry);
                }
            }
        }
        Ok(None)
    }

    pub(super) async fn apply_reload(&mut self, config: &Config) -> Result<(), StoreError> {
        self.schedules = config.jobs.enabled_schedules().into_iter().collect();
        self.health_monitor.reload(config, &*self.context.clock);
        self.key_probe.replace_source(config.service.keys.clone(), &self.context).await
    }

    async fn catch_up_if_due(&mut self) -> Result<(), StoreError> {
        let now = Instant::now();
        if self.catch_up_at.is_none_or(|at| now < at) {
            return Ok(());
        }
        self.catch_up_at = Some(now + CATCH_UP_RETRY_DELAY);
        warn_if_transient(self.catch_up().await).map(drop)
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
        (self.last_resolution, self.last_change, self.catch_up_at) = (position, ChangeId(newest), None);
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
        let (context, args) = (self.context.clone(), RunArgs::default());
        let run = async move { run_unless_paused(&context, kind, trigger, &args).await.map(Result::ok) };
        self.spawn_task(Task::Job(kind), run);
    }

    fn spawn_task(
        &mut self,
        task: Task,
        work: impl Future<Output = Result<Option<FinishedRun>, StoreError>> + Send + 'static,
    ) {
        let (context, turn) = (self.context.clone(), Arc::clone(&self.first_turn));
        self.tasks.spawn(async move {
            match task {
                Task::Notices => (task, work.await),
                _ => (task, alone_until_tried(&context, &turn, work).await),
            }
        });
    }

    /// Makes the checks of each minute.
    async fn check_minute(&mut self) -> Result<(), StoreError> {
        warn_if_transient(self.end_pauses().await)?;
        warn_if_transient(self.check_outbox().await)?;
        warn_if_transient(self.health_monitor.check_health(&self.context).await)?;
        self.deliver_notices();
        Ok(())
    }

    fn deliver_notices(&mut self) {
        if let Some(delivery) = self.health_monitor.notifiers.start_delivery(&self.context) {
            self.spawn_task(Task::Notices, async move { delivery.await.map(|()| None) });
        }
    }

    fn begin_due(&mut self, now: Instant) {
        if self.push_at.is_some_and(|at| now >= at) {
            self.push_at = None;
            self.begin_run(JobKind::Push, RunTrigger::Outbox);
        }
        for kind in self.job_slots.retries_due(now, now + HEALTH_INTERVAL) {
            self.begin_run(kind, RunTrigger::Retry);
        }
        if self.settle_at.is_some_and(|at| now >= at) {
            self.settle_at = None;
            self.begin_run(JobKind::Settle, RunTrigger::Outbox);
        }
    }

    /// Sets the time of the next settle run, at least `pause` from now.
    async fn plan_settle(&mut self, pause: Duration) -> Result<(), StoreError> {
        if !self.schedules.contains_key(&JobKind::Settle) {
            return Ok(());
        }
        let due = settle::next_check_at(&self.context).await?;
        let now = self.context.now();
        self.settle_at = due.map(|due| Instant::now() + due.duration_since(now).max(pause));
        Ok(())
    }

    async fn handle_ended(&mut self, ended: Result<TaskEnd, JoinError>) -> Result<(), StoreError> {
        let Some((task, result)) = super::join_result(ended) else { return Ok(()) };
        match task {
            Task::Job(_) | Task::Request => {}
            Task::Prefetch => self.prefetch_timer.is_prefetching = false,
            Task::Orders if self.prefetch_timer.end_orders() => self.read_orders(),
            Task::Orders => {}
            Task::Notices => self.health_monitor.notifiers.end_delivery(),
        }
        let finished = match task {
            Task::Job(_) => result?,
            Task::Request | Task::Prefetch | Task::Orders | Task::Notices => {
                warn_if_transient(result)?.flatten()
            }
        };
        let Some(finished) = finished else {
            if let Task::Job(kind) = task {
                self.end_paused(kind);
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

    /// Frees the slot of a job that did not run because it is paused.
    fn end_paused(&mut self, kind: JobKind) {
        let now = Instant::now();
        let (again, _) = self.job_slots.end_run(kind, RunOutcome::Interrupted, false, |delay| now + delay);
        if let Some(trigger) = again {
            self.begin_run(kind, trigger);
        }
    }

    async fn handle_run(&mut self, finished: &FinishedRun) -> Result<(), StoreError> {
        let now = Instant::now();
        let (kind, outcome, is_refused) = (finished.kind, finished.outcome, finished.is_key_refused);
        let (again, retry) = self.job_slots.end_run(kind, outcome, is_refused, |delay| now + delay);
        finished.log_failed(retry);
        self.health_monitor.count_run(outcome);
        let (health, summary) = (&self.health_monitor.summary, &finished.summary);
        systemd::notify_status(&format!("{health}; {kind}: {summary}"));
        if let Some(trigger) = again {
            self.begin_run(kind, trigger);
        }
        for (kind, trigger) in self.job_slots.take_ready() {
            self.begin_run(kind, trigger);
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
            self.plan_push(Instant::now() + at.duration_since(self.context.now()).max(PUSH_RETRY_DELAY_MIN));
        }
        let pause = match (finished.kind, finished.outcome) {
            // A push can leave changes in doubt; push and balances can show values that need a second check.
            (JobKind::Push | JobKind::Balances, _) => Duration::ZERO,
            (JobKind::Settle, RunOutcome::Ok) => SETTLE_DELAY_MIN,
            (JobKind::Settle, _) => SETTLE_RETRY_DELAY,
            _ => return Ok(()),
        };
        warn_if_transient(self.plan_settle(pause).await).map(drop)
    }

    fn plan_push(&mut self, at: Instant) {
        self.push_at = Some(self.push_at.map_or(at, |first| first.min(at)));
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

/// Ends the session, and with it the lead; no job may be running.
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

fn split_delays(delays: &'static [Duration]) -> Option<(Instant, &'static [Duration])> {
    let (first, rest) = delays.split_first()?;
    Some((Instant::now() + *first, rest))
}
