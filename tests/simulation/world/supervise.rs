//! The world's loop in place of the daemon's supervisor.
//!
//! It determines the next due event, the actions after a run, the runs after downtime, and the recovery of a
//! refused key. The supervisor itself uses the host's timers; its rules are implemented here a second time,
//! in short. The real rules decide when a schedule is due.

use super::World;
use crate::timetable::Timetable;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tallyd::daemon::{StartError, run_job};
use tallyd::exec::FinishedRun;
use tallyd::journal::RunOutcome;
use tallyd::model::{Clock, JobKind, RetryDelays, RunTrigger, Timestamp};
use tallyd::settle;
use tallyd::store::Durability;
use tokio::task::JoinHandle;

/// Time between two runs of settle, and after a run that could not check.
const SETTLE_APART_MS: i64 = 1_000;
const SETTLE_AGAIN_MS: i64 = 30_000;
/// Least time between two pushes that wait for an entry.
const AGAIN_APART_MS: i64 = 1_000;

/// A running job.
pub(super) struct Slot {
    pub(super) run: JoinHandle<FinishedRun>,
    again: Option<RunTrigger>,
}

/// A refused key, with the probes that detect when it works again.
pub(super) struct Refused {
    delays: RetryDelays,
    probe_at: Option<i64>,
    pub(super) probing: Option<JoinHandle<Result<bool, StartError>>>,
    /// Jobs that the refusal stopped.
    jobs: BTreeSet<JobKind>,
}

impl World {
    /// Plans a run of a job at a time, unless an earlier one is planned.
    pub(super) fn plan_job(&mut self, kind: JobKind, at_ms: i64, trigger: RunTrigger) {
        let due = self.due.entry(kind).or_insert((at_ms, trigger));
        if at_ms < due.0 {
            *due = (at_ms, trigger);
        }
    }

    pub(super) fn start_job(&mut self, kind: JobKind, trigger: RunTrigger) {
        if let Some(slot) = self.slots.get_mut(&kind) {
            slot.again = Some(trigger);
            if kind == JobKind::Push {
                self.daemon().context().notify_changes();
            }
            return;
        }
        let context = self.daemon().context().clone();
        let run = tokio::spawn(async move { run_job(&context, kind, trigger).await.unwrap() });
        self.slots.insert(kind, Slot { run, again: None });
    }

    /// Starts jobs; prune runs first and alone, while the clock stands and all tasks rest.
    ///
    /// Prune works beside the store's connections, so its view of the data would otherwise depend on the
    /// scheduling of threads. As everywhere in this loop, the world's own statements come first, because the
    /// order of two answers would be random while a job runs beside them.
    async fn begin_jobs(&mut self, kinds: Vec<JobKind>, trigger: RunTrigger) {
        if kinds.contains(&JobKind::Prune) {
            let finished = run_job(self.daemon().context(), JobKind::Prune, trigger).await.unwrap();
            self.try_again(&finished);
        }
        for kind in kinds.into_iter().filter(|kind| *kind != JobKind::Prune) {
            self.start_job(kind, trigger);
        }
    }

    /// Carries out the next event; returns false if none is due by `until_ms`.
    pub async fn step(&mut self, until_ms: i64) -> bool {
        self.rest().await;
        let sleeper = self.clock.next_ms();
        let (job, tick, probe) = match self.clock.is_suspended() {
            true => (None, None, None),
            false => (self.next_job(), self.next_tick(), self.refused.as_ref().and_then(|key| key.probe_at)),
        };
        let at = [job.map(|(at, _)| at), tick, probe, sleeper].into_iter().flatten().min();
        let Some(at) = at.filter(|at| *at <= until_ms) else { return false };
        let has_decision = self.say_amid(at);
        match job {
            Some((due, kind)) if due <= at => {
                self.clock.advance_to(at.max(self.clock.now_ms()));
                self.fire(kind);
            }
            _ if probe.is_some_and(|due| due <= at) => {
                self.clock.advance_to(at.max(self.clock.now_ms()));
                self.probe();
            }
            _ if tick.is_some_and(|due| due <= at) => {
                self.clock.advance_to(at.max(self.clock.now_ms()));
                self.tick().await;
            }
            _ => self.clock.wake_next(),
        }
        if has_decision {
            self.notice_decision();
        }
        true
    }

    /// Returns true if the world itself writes before then: a schedule is due, or a refused key is probed.
    pub(super) fn writes_before(&self, until_ms: i64) -> bool {
        self.refused.is_some() || self.next_tick().is_some_and(|at| at <= until_ms)
    }

    fn next_job(&self) -> Option<(i64, JobKind)> {
        self.due.iter().map(|(kind, (at, _))| (*at, *kind)).min()
    }

    /// Returns the world's time at which the next schedule is due.
    fn next_tick(&self) -> Option<i64> {
        Some(self.timetable.as_ref()?.next()?.0 - self.clock.ahead_ms())
    }

    fn fire(&mut self, kind: JobKind) {
        let Some((_, trigger)) = self.due.remove(&kind) else { return };
        if let Some((_, period)) = self.plan.polls.iter().find(|(polled, _)| *polled == kind) {
            let next = self.clock.now_ms() + i64::try_from(period.as_millis()).unwrap();
            self.due.insert(kind, (next, RunTrigger::Schedule));
        }
        self.start_job(kind, trigger);
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

    async fn note_fired(&self, kind: JobKind, due: Timestamp, next: Option<Timestamp>) {
        let mut write = self.store().begin_write(Durability::Normal).await.unwrap();
        write.job_fired(kind, due, next).await.unwrap();
        write.commit().await.unwrap();
    }

    /// Arms the schedules and makes the runs after downtime, as the supervisor does at a start.
    ///
    /// It returns when these jobs rest, so that the caller's statements come after theirs.
    pub(super) async fn arm(&mut self) {
        if !self.plan.is_scheduled {
            return;
        }
        let now = self.clock.now();
        let timetable = Timetable::new(self.config().jobs.enabled_schedules(), now);
        let mut last = BTreeMap::new();
        for kind in JobKind::ALL {
            last.insert(*kind, self.store().job_last_fired(*kind).await.unwrap());
        }
        let missed = timetable.missed(now, |kind| last[&kind]);
        self.timetable = Some(timetable);
        for (kind, due) in &missed {
            self.note_fired(*kind, *due, None).await;
        }
        self.begin_jobs(missed.into_iter().map(|(kind, _)| kind).collect(), RunTrigger::Missed).await;
        self.rest().await;
    }

    /// Sets the offset of the host's calendar from the world's time.
    pub fn set_calendar(&mut self, ahead_ms: i64) {
        // The daemon looks every few seconds: it knows the time until now.
        for calendar in [self.clock.ahead_ms(), ahead_ms] {
            self.clock.set_calendar(calendar);
            let now = self.clock.now();
            if let Some(timetable) = &mut self.timetable {
                timetable.look(now);
            }
        }
    }

    /// Plans the actions after a run: the next run, settle, another attempt.
    pub(super) async fn ended(&mut self, kind: JobKind) {
        let slot = self.slots.remove(&kind).expect("it ran");
        let finished = slot.run.await.expect("a job has no bugs");
        self.runs += 1;
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
        if let Some(due) = settle::next_check_at(self.daemon().context()).await.unwrap() {
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
                refused.probe_at = refused.delays.next().map(|delay| now + millis(delay));
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
        let probing = tokio::spawn(self.daemon().probe_key());
        if let Some(refused) = &mut self.refused {
            (refused.probe_at, refused.probing) = (None, Some(probing));
        }
    }

    pub(super) fn is_probing(&self) -> bool {
        self.refused.as_ref().is_some_and(|refused| refused.probing.is_some())
    }

    pub(super) fn is_probed(&self) -> bool {
        let probing = self.refused.as_ref().and_then(|refused| refused.probing.as_ref());
        probing.is_some_and(JoinHandle::is_finished)
    }

    pub(super) async fn probed(&mut self) {
        let Some(refused) = &mut self.refused else { return };
        let Some(probing) = refused.probing.take() else { return };
        if !probing.await.expect("a probe has no bugs").unwrap() {
            refused.probe_at = refused.delays.next().map(|delay| self.clock.now_ms() + millis(delay));
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
