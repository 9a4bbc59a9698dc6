//! The loop that owns all runs.
//!
//! The loop subscribes to its wake-up, then checks for work, then waits. It wakes for a due schedule, a
//! change that another program queued, a finished run, a due retry, the watchdog or a signal. Each kind of
//! job has one slot; a trigger for a running job is remembered once. The loop sleeps between wake-ups.

use super::control::Desk;
use super::health_monitor::{self, Checkup};
use super::job_slots::Turns;
use super::key_probe::Prober;
use super::prefetch_timer::Early;
use super::systemd;
use crate::config::{Config, KeySource};
use crate::daemon::run_job;
use crate::exec;
use crate::exec::{Context, Finished};
use crate::journal::RunOutcome;
use crate::limiter;
use crate::model::{JobKind, Position, Timestamp, Trigger, WishId};
use crate::schedule::{Pulse, Schedule};
use crate::settle;
use crate::store::{Durability, StoreError, Watch};
use crate::telemetry::event;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

/// The time to collect changes that are queued one by one, so that they share calls.
const GATHER: Duration = Duration::from_millis(40);
/// The delays between checks of the outbox after the write-ahead log was written.
///
/// The log is written when a commit begins. The committed rows are readable only after the disk has synced,
/// which can take any time.
const LOOKS: [Duration; 5] = [
    Duration::from_millis(5),
    Duration::from_millis(30),
    Duration::from_millis(200),
    Duration::from_secs(2),
    Duration::from_secs(8),
];
/// The time limit for calls in flight at shutdown; unanswered calls are then in doubt.
///
/// [`DRAIN`] and [`LAST_WORD`] together stay below 10 s; systemd kills after 15 s (`TimeoutStopSec=`).
const DRAIN: Duration = Duration::from_secs(8);
/// The time limit for the last write after the drain.
const LAST_WORD: Duration = Duration::from_secs(1);
/// The delay after a settle run that did not complete ([`SETTLE_AGAIN`]) or did ([`SETTLE_APART`]).
const SETTLE_AGAIN: Duration = Duration::from_secs(30);
const SETTLE_APART: Duration = Duration::from_secs(1);
/// The minimum delay before a push that waits to retry an entry begins again.
const AGAIN_APART: Duration = Duration::from_secs(1);
/// The interval of the health check, and of the check of the outbox if no notification came.
const STALE_LOOK: Duration = Duration::from_secs(60);

/// The parts of a configuration that the loop uses.
pub(super) struct Reload {
    /// The schedules.
    pub(super) schedules: Vec<(JobKind, Schedule)>,
    /// The path of the metrics file.
    pub(super) metrics: Option<PathBuf>,
    /// The account's limits.
    pub(super) limits: limiter::Settings,
}

/// The loop's state.
pub(super) struct Supervisor {
    pub(super) context: Context,
    pub(super) schedules: BTreeMap<JobKind, Schedule>,
    pub(super) due: mpsc::Receiver<(JobKind, Timestamp)>,
    pub(super) watch: Watch,
    pub(super) prober: Prober,
    /// Counts the scheduler's ticks.
    pulse: Pulse,
    /// The health check.
    checkup: Checkup,
    runs: JoinSet<Result<Finished, StoreError>>,
    turns: Turns<Instant>,
    seen: WishId,
    /// The next check of the outbox, and the delays of the checks after it.
    look: Option<(Instant, &'static [Duration])>,
    push_at: Option<Instant>,
    /// The time at which a change in doubt may be checked again.
    settle_at: Option<Instant>,
    /// The id of the last order request that was seen (`News::order`).
    named: i64,
    /// The position of the last decision of an operator that was seen.
    heard: Position,
    /// Answers requests of commands that run beside the daemon.
    desk: Desk,
    early: Early,
    caught_up: bool,
}

impl Supervisor {
    pub(super) fn new(
        context: Context,
        begin: Reload,
        due: mpsc::Receiver<(JobKind, Timestamp)>,
        pulse: Pulse,
        watch: Watch,
        prober: Prober,
    ) -> Self {
        Self {
            context,
            schedules: begin.schedules.into_iter().collect(),
            due,
            watch,
            prober,
            pulse,
            checkup: Checkup::new(begin.metrics, begin.limits),
            runs: JoinSet::new(),
            turns: Turns::default(),
            seen: WishId(0),
            look: None,
            push_at: None,
            settle_at: None,
            named: 0,
            heard: Position(0),
            desk: Desk::default(),
            early: Early::new(),
            caught_up: false,
        }
    }

    /// Works until `stop` is cancelled, or returns a new configuration from `reload`.
    ///
    /// # Errors
    /// Fails on an error of the database that is not transient. If the file at the path was replaced or is
    /// gone, the error is [`StoreError::Elsewhere`].
    pub(super) async fn work(
        &mut self,
        stop: &CancellationToken,
        reload: &mut mpsc::Receiver<Config>,
    ) -> Result<Option<Config>, StoreError> {
        let ended = self.turn(stop, reload).await;
        if ended.as_ref().is_err_and(|error| !matches!(error, StoreError::Elsewhere { .. })) {
            health_monitor::in_place(&self.context)?;
        }
        ended
    }

    async fn turn(
        &mut self,
        stop: &CancellationToken,
        reload: &mut mpsc::Receiver<Config>,
    ) -> Result<Option<Config>, StoreError> {
        if !std::mem::replace(&mut self.caught_up, true) {
            self.catch_up().await?;
        }
        survived(self.checkup.begin(&self.context).await)?;
        let watchdog = systemd::watchdog().unwrap_or(STALE_LOOK);
        let mut feed = Instant::now() + watchdog;
        let mut stale_look = Instant::now() + STALE_LOOK;
        while !stop.is_cancelled() {
            let look = self.look.map(|(at, _)| at);
            let due = [look, self.push_at, self.turns.next_retry(), self.settle_at, self.prober.due()];
            let wake =
                due.into_iter().flatten().fold(feed.min(stale_look).min(self.early.due()), Instant::min);
            tokio::select! {
                () = stop.cancelled() => {}
                Some(config) = reload.recv() => return Ok(Some(config)),
                Some((kind, at)) = self.due.recv() => self.fired(kind, at).await?,
                Some(ended) = self.runs.join_next() => self.ended(ended).await?,
                Some(answered) = self.desk.answered() => {
                    if let Some(finished) = answered? {
                        finished.say_failed(None);
                        self.follow(&finished).await?;
                    }
                }
                Some(read) = self.early.ended() => survived(self.read_early(read).await)?,
                () = self.watch.changed() => self.look = after(&LOOKS),
                () = sleep_until(wake) => {}
            }
            health_monitor::in_place(&self.context)?;
            let now = Instant::now();
            if now >= feed {
                self.feed_watchdog();
                feed = now + watchdog;
            }
            if now >= stale_look {
                survived(self.look_for_wishes().await)?;
                survived(self.checkup.look(&self.context).await)?;
                stale_look = now + STALE_LOOK;
            }
            if look.is_some_and(|at| now >= at) {
                survived(self.look_for_wishes().await)?;
            }
            self.begin_due(now);
            self.early.look(&self.context, now, self.turns.is_taken(JobKind::Balances));
            survived(self.prober.look(&self.context).await)?;
            if self.prober.healed() {
                for kind in self.turns.healed() {
                    self.begin(kind, Trigger::Retry);
                }
            }
        }
        Ok(None)
    }

    /// Applies changed schedules and keys.
    pub(super) async fn reload(&mut self, reload: Reload, keys: KeySource) -> Result<(), StoreError> {
        self.schedules = reload.schedules.into_iter().collect();
        self.checkup.reload(reload.metrics, reload.limits);
        self.prober.take(keys, &self.context).await
    }

    /// Starts the jobs missed while no daemon ran, and a push for the changes that wait.
    async fn catch_up(&mut self) -> Result<(), StoreError> {
        let now = self.context.now();
        for (kind, schedule) in self.schedules.clone() {
            let last = self.context.store.job_last_fired(kind).await?;
            if let Some(due) = schedule.catch_up(kind, last, now) {
                survived(self.note_fired(kind, due).await)?;
                self.begin(kind, Trigger::Missed);
            }
        }
        self.heard = self.context.store.position().await?;
        self.seen = WishId(self.context.store.news(self.heard).await?.wish);
        self.begin(JobKind::Push, Trigger::Outbox);
        self.desk.look(&self.context).await?;
        self.plan_settle(Duration::ZERO).await
    }

    async fn fired(&mut self, kind: JobKind, due: Timestamp) -> Result<(), StoreError> {
        survived(self.note_fired(kind, due).await)?;
        self.begin(kind, Trigger::Schedule);
        Ok(())
    }

    async fn note_fired(&self, kind: JobKind, due: Timestamp) -> Result<(), StoreError> {
        let next =
            self.schedules.get(&kind).and_then(|schedule| schedule.next_start(kind, self.context.now()));
        let mut write = self.context.store.begin(Durability::Normal).await?;
        write.job_fired(kind, due, next).await?;
        write.commit().await
    }

    fn begin(&mut self, kind: JobKind, trigger: Trigger) {
        if !self.turns.begin(kind, trigger) {
            if kind == JobKind::Push {
                self.context.wishes_came();
            }
            return;
        }
        let context = self.context.clone();
        self.runs.spawn(async move { run_job::run(&context, kind, trigger).await });
    }

    fn begin_due(&mut self, now: Instant) {
        if self.push_at.is_some_and(|at| now >= at) {
            self.push_at = None;
            self.begin(JobKind::Push, Trigger::Outbox);
        }
        for kind in self.turns.retries_due(now, now + STALE_LOOK) {
            self.begin(kind, Trigger::Retry);
        }
        if self.settle_at.is_some_and(|at| now >= at) {
            self.settle_at = None;
            self.begin(JobKind::Settle, Trigger::Outbox);
        }
    }

    /// Sets the time of the next settle run, at least `pause` from now.
    async fn plan_settle(&mut self, pause: Duration) -> Result<(), StoreError> {
        if !self.schedules.contains_key(&JobKind::Settle) {
            return Ok(());
        }
        let due = settle::due(&self.context).await?;
        let now = self.context.now();
        self.settle_at = due.map(|due| Instant::now() + due.since(now).max(pause));
        Ok(())
    }

    async fn ended(
        &mut self,
        ended: Result<Result<Finished, StoreError>, tokio::task::JoinError>,
    ) -> Result<(), StoreError> {
        let finished = match ended {
            Ok(finished) => finished?,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        };
        if finished.refused {
            self.prober.refused();
        }
        let (again, retry) = self
            .turns
            .ended(finished.kind, finished.outcome, finished.refused, |delay| Instant::now() + delay);
        finished.say_failed(retry);
        systemd::status(&format!("{}; {}: {}", self.checkup.verdict(), finished.kind, finished.summary));
        if let Some(trigger) = again {
            self.begin(finished.kind, trigger);
        }
        if finished.kind == JobKind::OrderLines && finished.outcome != RunOutcome::Failed {
            // Reads orders that were named too late for this pass, or too many for it.
            self.read_orders();
        }
        self.follow(&finished).await
    }

    /// Starts or plans the work that follows from a run, independent of its trigger.
    async fn follow(&mut self, finished: &Finished) -> Result<(), StoreError> {
        if let Some(kind) = finished.wakes {
            self.begin(kind, Trigger::Outbox);
        }
        if let (JobKind::Push, Some(at)) = (finished.kind, finished.again_at) {
            self.push_by(Instant::now() + at.since(self.context.now()).max(AGAIN_APART));
        }
        let pause = match (finished.kind, finished.outcome) {
            // A push can leave changes in doubt; push and balances can show values that need a second check.
            (JobKind::Push | JobKind::Balances, _) => Duration::ZERO,
            (JobKind::Settle, RunOutcome::Ok) => SETTLE_APART,
            (JobKind::Settle, _) => SETTLE_AGAIN,
            _ => return Ok(()),
        };
        survived(self.plan_settle(pause).await)
    }

    /// Handles the end of a prefetch, which can show values that need a second check.
    async fn read_early(&mut self, read: Result<Option<Finished>, StoreError>) -> Result<(), StoreError> {
        if self.early.has_more_orders() {
            self.read_orders();
        }
        let Some(finished) = read? else { return Ok(()) };
        finished.say_failed(None);
        if finished.refused {
            self.prober.refused();
        }
        if finished.kind == JobKind::OrderLines {
            if finished.outcome == RunOutcome::Ok {
                self.read_orders();
            }
            return Ok(());
        }
        self.plan_settle(Duration::ZERO).await
    }

    /// Plans a push at `at`, unless one is planned earlier.
    fn push_by(&mut self, at: Instant) {
        self.push_at = Some(self.push_at.map_or(at, |first| first.min(at)));
    }

    async fn look_for_wishes(&mut self) -> Result<(), StoreError> {
        self.look = self.look.and_then(|(_, rest)| after(rest));
        let news = self.context.store.news(self.heard).await?;
        if WishId(news.wish) > self.seen {
            self.seen = WishId(news.wish);
            self.push_by(Instant::now() + GATHER);
        }
        self.read_named(news.order);
        if Position(news.word) > self.heard {
            let before = std::mem::replace(&mut self.heard, Position(news.word));
            self.push_by(Instant::now());
            self.plan_settle(Duration::ZERO).await?;
            exec::tell_released(&self.context, before).await?;
            exec::hear_lifted(&self.context, before).await?;
        }
        if self.desk.has_taken(news.request) { Ok(()) } else { self.desk.look(&self.context).await }
    }

    /// Reads the orders named since the last check, unless a pass over the orders is running.
    fn read_named(&mut self, newest: i64) {
        if newest > self.named {
            self.named = newest;
            self.read_orders();
        }
    }

    fn read_orders(&mut self) {
        let kind = JobKind::OrderLines;
        if self.schedules.contains_key(&kind) && !self.turns.is_busy(kind) {
            self.early.read_orders(&self.context);
        }
    }

    /// Notifies the watchdog if the scheduler ticked since the last call.
    ///
    /// That this loop runs is implied.
    fn feed_watchdog(&mut self) {
        if self.pulse.has_beaten() {
            systemd::alive();
        }
    }

    /// Stops: starts nothing new and completes calls in flight for up to [`DRAIN`].
    ///
    /// Calls without an answer by then are in doubt.
    pub(super) async fn drain(&mut self) -> Result<(), StoreError> {
        systemd::stopping();
        self.context.stop();
        let all = async {
            while self.runs.join_next().await.is_some() {}
            while self.desk.answered().await.is_some() {}
            while self.early.ended().await.is_some() {}
        };
        if timeout(DRAIN, all).await.is_err() {
            self.runs.shutdown().await;
            self.desk.shutdown().await;
            self.early.shutdown().await;
            tracing::warn!(
                event = event::DAEMON_STOPPING,
                "calls were unanswered after {} s; their wishes are in doubt",
                DRAIN.as_secs()
            );
        }
        match timeout(LAST_WORD, self.end_session()).await {
            Ok(Err(error)) if !error.may_pass() => Err(error),
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

    async fn end_session(&self) -> Result<(), StoreError> {
        let mut write = self.context.store.begin(Durability::Full).await?;
        write.session_end(self.context.session_id, self.context.now(), self.context.clock.moment()).await?;
        write.commit().await
    }
}

/// Turns a transient database error into a warning; the next check does the work.
fn survived(result: Result<(), StoreError>) -> Result<(), StoreError> {
    match result {
        Err(error) if error.may_pass() => {
            tracing::warn!(event = event::DATABASE_STUCK, "{error}");
            Ok(())
        }
        result => result,
    }
}

/// Returns the time after the first delay, and the remaining delays.
fn after(delays: &'static [Duration]) -> Option<(Instant, &'static [Duration])> {
    let (first, rest) = delays.split_first()?;
    Some((Instant::now() + *first, rest))
}
