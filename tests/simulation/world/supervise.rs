//! A working daemon, with the world's loop in place of its supervisor.
//!
//! It determines the next due event, the actions after a run, the runs after downtime, and the recovery of a
//! refused key. The supervisor itself uses the host's timers; its rules are implemented here a second time,
//! in short. The real rules decide when a schedule is due.

use super::super::clock::SimClock;
use super::Plan;
use crate::timetable::Timetable;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tallyd::config::Config;
use tallyd::daemon::{Daemon, StartError, run_job};
use tallyd::exec::FinishedRun;
use tallyd::journal::RunOutcome;
use tallyd::model::{Clock, JobKind, RetryDelays, RunTrigger, Timestamp};
use tallyd::settle;
use tallyd::store::{Durability, Store, StoreError};
use tokio::task::JoinHandle;

/// Time between two runs of settle, and after a run that could not check.
const SETTLE_APART_MS: i64 = 1_000;
const SETTLE_AGAIN_MS: i64 = 30_000;
/// Least time between two pushes that wait for an entry.
const AGAIN_APART_MS: i64 = 1_000;

/// Times of the next runs.
pub(super) type PlannedJobs = BTreeMap<JobKind, (i64, RunTrigger)>;

/// A running job.
struct Slot {
    run: JoinHandle<Result<FinishedRun, StoreError>>,
    again: Option<RunTrigger>,
}

/// A refused key, with the probes that detect when it works again.
struct Refused {
    delays: RetryDelays,
    probe_at: Option<i64>,
    probing: Option<JoinHandle<Result<bool, StartError>>>,
    /// Jobs that the refusal stopped.
    jobs: BTreeSet<JobKind>,
}

impl Refused {
    /// Plans the next probe: of the daemon's, two are at most 5 minutes apart (`RetryDelays::key_probe`).
    fn plan_probe(&mut self, now: i64) {
        let delay = self.delays.next().unwrap_or_default().min(Duration::from_secs(5 * 60));
        self.probe_at = Some(now + millis(delay));
    }
}

/// Event of a working daemon that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    Job(JobKind),
    Probe,
    Tick,
}

/// A daemon that works, with its jobs and the times of their next runs.
pub(super) struct Process {
    pub(super) daemon: Daemon,
    clock: SimClock,
    polls: Vec<(JobKind, Duration)>,
    slots: BTreeMap<JobKind, Slot>,
    pub(super) due: PlannedJobs,
    timetable: Option<Timetable>,
    retries: BTreeMap<JobKind, RetryDelays>,
    refused: Option<Refused>,
    /// True if another host may take over, so that an error of the database may end the daemon.
    is_replaceable: bool,
    /// True after an error that ends the daemon.
    has_failed: bool,
    /// True if the daemon stops: nothing new starts.
    is_stopping: bool,
}

impl Process {
    pub(super) fn new(daemon: Daemon, clock: SimClock, plan: &Plan, is_replaceable: bool) -> Self {
        Self {
            daemon,
            clock,
            polls: plan.polls.clone(),
            slots: BTreeMap::new(),
            due: BTreeMap::new(),
            timetable: None,
            retries: BTreeMap::new(),
            refused: None,
            is_replaceable,
            has_failed: false,
            is_stopping: false,
        }
    }

    pub(super) fn store(&self) -> &Store {
        &self.daemon.context().store
    }

    /// Returns true if the daemon ends by itself: it leads no longer, or its database failed for good.
    pub(super) fn must_end(&self) -> bool {
        self.has_failed || self.daemon.has_lost_lead()
    }

    /// Returns a result of the daemon's own statements; `None` after an error that the supervisor logs, or that ends
    /// the daemon.
    ///
    /// # Panics
    /// If the daemon has its database for itself, or if the error shows a bug.
    fn bear<T>(&mut self, result: Result<T, StoreError>) -> Option<T> {
        let error = match result {
            Ok(value) => return Some(value),
            Err(error) => error,
        };
        assert!(self.is_replaceable, "{error}");
        if !error.is_transient() {
            assert!(error.is_fenced() || error.is_commit_unknown(), "{error}");
            self.has_failed = true;
        }
        None
    }

    /// Begins a stop: nothing new starts, and the calls in flight complete.
    pub(super) fn stop(&mut self) {
        self.is_stopping = true;
        self.daemon.context().stop_jobs();
        self.due.clear();
        self.timetable = None;
        if let Some(refused) = &mut self.refused {
            refused.probe_at = None;
        }
    }

    /// Ends the jobs whose calls were not answered in time for a stop.
    pub(super) async fn end_drain(&mut self) {
        if self.is_stopping {
            self.abort_jobs().await;
        }
    }

    /// Returns true if the daemon stopped all work.
    pub(super) fn has_stopped(&self) -> bool {
        self.is_stopping && self.is_idle()
    }

    /// Ends all jobs as a kill would, and returns the planned polls.
    pub(super) async fn abort(mut self) -> PlannedJobs {
        self.abort_jobs().await;
        self.due
    }

    async fn abort_jobs(&mut self) {
        for (_, slot) in std::mem::take(&mut self.slots) {
            slot.run.abort();
            assert!(slot.run.await.err().is_none_or(|error| error.is_cancelled()), "a job has no bugs");
        }
        if let Some(probing) = self.refused.take().and_then(|refused| refused.probing) {
            probing.abort();
            drop(probing.await);
        }
    }

    /// Returns true if no job runs and no probe is on its way.
    pub(super) fn is_idle(&self) -> bool {
        let is_probing = self.refused.as_ref().is_some_and(|refused| refused.probing.is_some());
        self.slots.is_empty() && !is_probing
    }

    /// Returns true if a job runs.
    pub(super) fn has_running(&self, kind: JobKind) -> bool {
        self.slots.contains_key(&kind)
    }

    /// Handles a run or a probe that ended; returns true if there was one.
    pub(super) async fn handle_ended(&mut self, runs: &mut u64) -> bool {
        let ended = self.slots.iter().find(|(_, slot)| slot.run.is_finished()).map(|(kind, _)| *kind);
        let probing = self.refused.as_ref().and_then(|refused| refused.probing.as_ref());
        match ended {
            Some(kind) => {
                *runs += 1;
                self.ended(kind).await;
            }
            None if probing.is_some_and(JoinHandle::is_finished) => self.probed().await,
            None => return false,
        }
        true
    }

    /// Returns the next event with its time; none while the host sleeps.
    ///
    /// No schedule is due without the server, because a prune would wait for it while the clock stands.
    pub(super) fn next(&self, is_cut: bool) -> Option<(i64, Due)> {
        if self.clock.is_suspended() || self.is_stopping {
            return None;
        }
        let job = self.due.iter().map(|(kind, (at, _))| (*at, *kind)).min();
        let job = job.map(|(at, kind)| (at, Due::Job(kind)));
        let probe = self.refused.as_ref().and_then(|key| key.probe_at).map(|at| (at, Due::Probe));
        let tick = self.next_tick().filter(|_| !is_cut).map(|at| (at, Due::Tick));
        // The first of those that are due at the same time.
        [job, probe, tick].into_iter().flatten().min_by_key(|(at, _)| *at)
    }

    /// Carries out a due event.
    pub(super) async fn carry_out(&mut self, due: Due) {
        match due {
            Due::Job(kind) => self.fire(kind),
            Due::Probe => self.probe(),
            Due::Tick => self.tick().await,
        }
    }

    /// Plans a run of a job at a time, unless an earlier one is planned.
    pub(super) fn plan_job(&mut self, kind: JobKind, at_ms: i64, trigger: RunTrigger) {
        let due = self.due.entry(kind).or_insert((at_ms, trigger));
        if at_ms < due.0 {
            *due = (at_ms, trigger);
        }
    }

    pub(super) fn start_job(&mut self, kind: JobKind, trigger: RunTrigger) {
        if self.is_stopping {
            return;
        }
        if let Some(slot) = self.slots.get_mut(&kind) {
            slot.again = Some(trigger);
            if kind == JobKind::Push {
                self.daemon.context().notify_changes();
            }
            return;
        }
        let context = self.daemon.context().clone();
        let run = tokio::spawn(async move { run_job(&context, kind, trigger).await });
        self.slots.insert(kind, Slot { run, again: None });
    }

    /// Starts jobs; prune runs first and alone, while the clock stands and all tasks rest.
    ///
    /// Prune works beside the store's connections, so its view of the data would otherwise depend on the
    /// scheduling of threads. As everywhere in this loop, the world's own statements come first, because the
    /// order of two answers would be random while a job runs beside them.
    async fn begin_jobs(&mut self, kinds: Vec<JobKind>, trigger: RunTrigger) {
        if kinds.contains(&JobKind::Prune) {
            let finished = run_job(self.daemon.context(), JobKind::Prune, trigger).await;
            if let Some(finished) = self.bear(finished) {
                self.try_again(&finished);
            }
        }
        for kind in kinds.into_iter().filter(|kind| *kind != JobKind::Prune) {
            self.start_job(kind, trigger);
        }
    }

    /// Returns true if the world itself writes before then: a schedule is due, or a refused key is probed.
    pub(super) fn writes_before(&self, until_ms: i64) -> bool {
        self.refused.is_some() || self.next_tick().is_some_and(|at| at <= until_ms)
    }

    /// Returns the world's time at which the next schedule is due.
    fn next_tick(&self) -> Option<i64> {
        Some(self.timetable.as_ref()?.next()?.0 - self.clock.ahead_ms())
    }

    fn fire(&mut self, kind: JobKind) {
        let Some((_, trigger)) = self.due.remove(&kind) else { return };
        if let Some((_, period)) = self.polls.iter().find(|(polled, _)| *polled == kind) {
            let next = self.clock.now_ms() + i64::try_from(period.as_millis()).unwrap();
            self.due.insert(kind, (next, RunTrigger::Schedule));
        }
        // A run under way is the retry, as in the supervisor's slots.
        if trigger != RunTrigger::Retry || !self.has_running(kind) {
            self.start_job(kind, trigger);
        }
    }

    /// Starts the jobs whose schedules are due now.
    async fn tick(&mut self) {
        let now = self.clock.now();
        let due = self.timetable.as_mut().map(|timetable| timetable.due(now)).unwrap_or_default();
        for (kind, at, next) in &due {
            self.note_fired(*kind, *at, *next).await;
        }
        self.begin_jobs(due.into_iter().map(|(kind, ..)| kind).collect(), RunTrigger::Schedule).await;
    }

    async fn note_fired(&mut self, kind: JobKind, due: Timestamp, next: Option<Timestamp>) {
        let store = self.store().clone();
        let note = async {
            let mut write = store.begin_write(Durability::Normal).await?;
            write.job_fired(kind, due, next).await?;
            write.commit().await
        };
        self.bear(note.await);
    }

    /// Arms the schedules and makes the runs after downtime, as the supervisor does at a start.
    pub(super) async fn arm(&mut self, config: &Config) {
        let now = self.clock.now();
        let timetable = Timetable::new(config.jobs.enabled_schedules(), now);
        let mut last = BTreeMap::new();
        for kind in JobKind::ALL {
            let fired = self.store().job_last_fired(*kind).await;
            last.insert(*kind, self.bear(fired).flatten());
        }
        let missed = timetable.missed(now, |kind| last[&kind]);
        self.timetable = Some(timetable);
        for (kind, due) in &missed {
            self.note_fired(*kind, *due, None).await;
        }
        self.begin_jobs(missed.into_iter().map(|(kind, _)| kind).collect(), RunTrigger::Missed).await;
    }

    /// Notes that the host's calendar changed, from the offset that it had until now.
    ///
    /// The daemon looks every few seconds: it has seen the time until now.
    pub(super) fn set_calendar(&mut self, ahead_ms: i64) {
        for calendar in [self.clock.ahead_ms(), ahead_ms] {
            self.clock.set_calendar(calendar);
            let now = self.clock.now();
            if let Some(timetable) = &mut self.timetable {
                timetable.look(now);
            }
        }
    }

    /// Plans the actions after a run: the next run, settle, another attempt.
    async fn ended(&mut self, kind: JobKind) {
        let slot = self.slots.remove(&kind).expect("it ran");
        let finished = slot.run.await.expect("a job has no bugs");
        let Some(finished) = self.bear(finished) else {
            // The supervisor ends with any error of a run.
            self.has_failed = true;
            return;
        };
        self.try_again(&finished);
        match (kind, finished.outcome) {
            (JobKind::Push | JobKind::Balances, _) => self.plan_settle(0).await,
            (JobKind::Settle, RunOutcome::Ok) => self.plan_settle(SETTLE_APART_MS).await,
            (JobKind::Settle, _) => self.plan_settle(SETTLE_AGAIN_MS).await,
            _ => {}
        }
        if let Some(trigger) = slot.again {
            self.start_job(kind, trigger);
        }
        if let Some(kind) = finished.wakes {
            self.start_job(kind, RunTrigger::Outbox);
        }
        if let (JobKind::Push, Some(at)) = (kind, finished.due_again_at) {
            let wait = millis(at.duration_since(self.clock.now())).max(AGAIN_APART_MS);
            self.plan_job(JobKind::Push, self.clock.now_ms() + wait, RunTrigger::Outbox);
        }
    }

    async fn plan_settle(&mut self, pause_ms: i64) {
        let due = settle::next_check_at(self.daemon.context()).await;
        if let Some(due) = self.bear(due).flatten() {
            let wait = i64::try_from(due.duration_since(self.clock.now()).as_millis()).unwrap();
            self.plan_job(JobKind::Settle, self.clock.now_ms() + wait.max(pause_ms), RunTrigger::Outbox);
        }
    }

    /// Plans a failed run again, with growing delays; a run that the key stopped waits until the key works
    /// again.
    fn try_again(&mut self, finished: &FinishedRun) {
        let (kind, now) = (finished.kind, self.clock.now_ms());
        if finished.is_key_refused {
            let refused = self.refused.get_or_insert_with(|| Refused {
                delays: RetryDelays::slow_retry(),
                probe_at: None,
                probing: None,
                jobs: BTreeSet::new(),
            });
            refused.jobs.insert(kind);
            if refused.probe_at.is_none() && refused.probing.is_none() {
                refused.plan_probe(now);
            }
        }
        if finished.is_key_refused || !matches!(finished.outcome, RunOutcome::Partial | RunOutcome::Failed) {
            self.retries.remove(&kind);
            return;
        }
        let first = if kind == JobKind::Push { RetryDelays::push_retry } else { RetryDelays::slow_retry };
        let delay = self.retries.entry(kind).or_insert_with(first).next();
        if let Some(delay) = delay {
            self.plan_job(kind, now + millis(delay), RunTrigger::Retry);
        }
    }

    fn probe(&mut self) {
        let probing = tokio::spawn(self.daemon.probe_key());
        if let Some(refused) = &mut self.refused {
            (refused.probe_at, refused.probing) = (None, Some(probing));
        }
    }

    async fn probed(&mut self) {
        let Some(refused) = &mut self.refused else { return };
        let Some(probing) = refused.probing.take() else { return };
        let works = match probing.await.expect("a probe has no bugs") {
            Ok(works) => works,
            Err(StartError::Store(error)) => self.bear(Err(error)).unwrap_or(false),
            Err(error) => panic!("{error}"),
        };
        let Some(refused) = &mut self.refused else { return };
        if !works {
            refused.plan_probe(self.clock.now_ms());
            return;
        }
        for kind in self.refused.take().map(|refused| refused.jobs).unwrap_or_default() {
            self.start_job(kind, RunTrigger::Retry);
        }
    }
}

fn millis(duration: Duration) -> i64 {
    tallyd::model::time::whole_millis(duration)
}
