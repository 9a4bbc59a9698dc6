//! The loop that owns all runs.
//!
//! It registers for the wake-up, then looks, then waits: a due schedule, a wish another program wrote, a run that
//! ended, a retry that is due, the watchdog, a signal. One slot per kind of job; a trigger for a running job is
//! remembered once. Nothing polls: between wake-ups it sleeps.

use super::answer::Desk;
use super::checkup::{self, Checkup};
use super::early::Early;
use super::keys::Prober;
use super::notify;
use super::turns::Turns;
use crate::config::{Config, KeySource};
use crate::job::{self, Context, Finished};
use crate::journal::RunOutcome;
use crate::limiter;
use crate::model::{JobKind, Position, Timestamp, Trigger, WishId};
use crate::schedule::{Pulse, Schedule};
use crate::store::{Durability, StoreError, Watch};
use crate::telemetry::event;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

/// Wishes written one by one arrive within this time of each other and share their calls.
const GATHER: Duration = Duration::from_millis(40);
/// When the outbox is looked at after the write-ahead log moved, counted from one look to the next. The log moves when
/// a commit begins, and what it brings can be read only when it ends: after the disk has synced, however long that
/// takes.
const LOOKS: [Duration; 5] = [
    Duration::from_millis(5),
    Duration::from_millis(30),
    Duration::from_millis(200),
    Duration::from_secs(2),
    Duration::from_secs(8),
];
/// What is unanswered after this time at a stop is in doubt; systemd and the operator wait no longer than 10 s.
const DRAIN: Duration = Duration::from_secs(8);
/// What is written down after that takes no longer: 10 s in all.
const LAST_WORD: Duration = Duration::from_secs(1);
/// A settle that could not look is tried again after this time, and none follows another at once.
const SETTLE_AGAIN: Duration = Duration::from_secs(30);
const SETTLE_APART: Duration = Duration::from_secs(1);
/// A push that waits for an entry to be tried again is not begun again before this time.
const AGAIN_APART: Duration = Duration::from_secs(1);
/// How often the age of the data is looked at, and the outbox in case no word of a wish came.
const STALE_LOOK: Duration = Duration::from_secs(60);

/// What a changed configuration means for the loop.
pub(super) struct Reload {
    /// The schedules from now on.
    pub(super) schedules: Vec<(JobKind, Schedule)>,
    /// The file of the metrics from now on.
    pub(super) metrics: Option<PathBuf>,
    /// The account's limits from now on.
    pub(super) limits: limiter::Settings,
}

/// The loop's state.
pub(super) struct Supervisor {
    pub(super) context: Context,
    pub(super) schedules: BTreeMap<JobKind, Schedule>,
    pub(super) due: mpsc::Receiver<(JobKind, Timestamp)>,
    pub(super) watch: Watch,
    pub(super) prober: Prober,
    /// Beats while the schedules are looked at.
    pulse: Pulse,
    /// Tells how the daemon is.
    checkup: Checkup,
    runs: JoinSet<Result<Finished, StoreError>>,
    turns: Turns<Instant>,
    seen: WishId,
    /// The next look at the outbox, and the looks that follow it.
    look: Option<(Instant, &'static [Duration])>,
    push_at: Option<Instant>,
    /// When a wish in doubt may be looked at again.
    settle_at: Option<Instant>,
    /// The turn of the order that somebody named last, as far as it was seen.
    named: i64,
    /// The last word of a person that was heard.
    heard: Position,
    /// Answers what commands beside us ask.
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

    /// Works until told to stop, or until a changed configuration comes, which is returned.
    ///
    /// # Errors
    /// Fails where the database cannot be worked with. A statement that failed because its file is gone is told as that.
    pub(super) async fn work(
        &mut self,
        stop: &CancellationToken,
        reload: &mut mpsc::Receiver<Config>,
    ) -> Result<Option<Config>, StoreError> {
        let ended = self.turn(stop, reload).await;
        if ended.as_ref().is_err_and(|error| !matches!(error, StoreError::Elsewhere { .. })) {
            checkup::in_place(&self.context)?;
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
        let watchdog = notify::watchdog().unwrap_or(STALE_LOOK);
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
            checkup::in_place(&self.context)?;
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

    /// Puts changed schedules and keys in force.
    pub(super) async fn reload(&mut self, reload: Reload, keys: KeySource) -> Result<(), StoreError> {
        self.schedules = reload.schedules.into_iter().collect();
        self.checkup.reload(reload.metrics, reload.limits);
        self.prober.take(keys, &self.context).await
    }

    /// What passed while nobody could run it, and the wishes that wait.
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
        self.runs.spawn(async move { job::run(&context, kind, trigger).await });
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

    /// When settle is due next, at the earliest after `pause`: a quiet time is waited for, not polled through.
    async fn plan_settle(&mut self, pause: Duration) -> Result<(), StoreError> {
        if !self.schedules.contains_key(&JobKind::Settle) {
            return Ok(());
        }
        let due = job::settle_due(&self.context).await?;
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
        notify::status(&format!("{}; {}: {}", self.checkup.verdict(), finished.kind, finished.summary));
        if let Some(trigger) = again {
            self.begin(finished.kind, trigger);
        }
        if finished.kind == JobKind::OrderLines && finished.outcome != RunOutcome::Failed {
            // Orders that were named too late for this pass, or too many at once.
            self.read_orders();
        }
        self.follow(&finished).await
    }

    /// What a run leads to, whoever began it.
    async fn follow(&mut self, finished: &Finished) -> Result<(), StoreError> {
        if let Some(kind) = finished.wakes {
            self.begin(kind, Trigger::Outbox);
        }
        if let (JobKind::Push, Some(at)) = (finished.kind, finished.again_at) {
            self.push_by(Instant::now() + at.since(self.context.now()).max(AGAIN_APART));
        }
        let pause = match (finished.kind, finished.outcome) {
            // A push leaves doubts, and either may have shown what must be looked at twice.
            (JobKind::Push | JobKind::Balances, _) => Duration::ZERO,
            (JobKind::Settle, RunOutcome::Ok) => SETTLE_APART,
            (JobKind::Settle, _) => SETTLE_AGAIN,
            _ => return Ok(()),
        };
        survived(self.plan_settle(pause).await)
    }

    /// What follows a look that read before the turn; it may have shown what must be looked at twice.
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

    /// Begins a push at this time, unless one is due before.
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
            job::tell_released(&self.context, before).await?;
            job::hear_lifted(&self.context, before).await?;
        }
        if self.desk.has_taken(news.request) { Ok(()) } else { self.desk.look(&self.context).await }
    }

    /// Has the orders read that somebody named since the last look. A pass over the orders that is under way reads them.
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

    /// This loop turns, or it would not be here; it vouches for the ticking of the schedules only if that went on too.
    fn feed_watchdog(&mut self) {
        if self.pulse.has_beaten() {
            notify::alive();
        }
    }

    /// Nothing new starts; what is in flight concludes, or is in doubt.
    pub(super) async fn drain(&mut self) -> Result<(), StoreError> {
        notify::stopping();
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

/// Trouble with the database that may pass does not end the daemon: what was not done now is done at the next look.
fn survived(result: Result<(), StoreError>) -> Result<(), StoreError> {
    match result {
        Err(error) if error.may_pass() => {
            tracing::warn!(event = event::DATABASE_STUCK, "{error}");
            Ok(())
        }
        result => result,
    }
}

/// The first of these delays from now, and those after it.
fn after(delays: &'static [Duration]) -> Option<(Instant, &'static [Duration])> {
    let (first, rest) = delays.split_first()?;
    Some((Instant::now() + *first, rest))
}
