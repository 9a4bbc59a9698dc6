//! `run --once`: runs each enabled job once, drains the outbox, then exits.
//!
//! Maintenance jobs (prune, backup) run only if they are due. Otherwise `run --once` from cron each minute
//! would write a full backup each minute.

use super::health_monitor::HealthMonitor;
use super::pauses::{end_due_pauses, unless_paused};
use super::registry::run_job;
use super::start::Daemon;
use super::start_error::StartError;
use crate::exec::FinishedRun;
use crate::journal::RunOutcome;
use crate::model::{JOBS, JobCalls, JobKind, RunTrigger};
use crate::schedule::Schedule;
use crate::settle;
use crate::store::PauseRow;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

#[derive(Debug)]
pub struct OnceReport {
    pub runs: Vec<FinishedRun>,
    pub skipped: Vec<JobKind>,
    pub(crate) paused: Vec<PauseRow>,
}

impl OnceReport {
    /// Returns true if every run completed and no job was skipped. A paused job is no failure.
    pub fn is_good(&self) -> bool {
        self.skipped.is_empty() && self.runs.iter().all(|run| run.outcome == RunOutcome::Ok)
    }
}

/// Time for which a commit is tried again. A run that waited longer would hold the lock, and each later run of a
/// timer would fail without the reason.
const COMMIT_PATIENCE: Duration = Duration::from_secs(30);

impl Daemon {
    /// Runs each enabled job that is not paused once, then pushes until nothing is left to send, and closes.
    /// Fails if the database cannot be written for [`COMMIT_PATIENCE`]; the next start recovers what is open.
    pub async fn run_once(mut self) -> Result<OnceReport, StartError> {
        self.context.commit_patience = COMMIT_PATIENCE;
        let schedules: BTreeMap<JobKind, Schedule> =
            self.config.jobs.enabled_schedules().into_iter().collect();
        end_due_pauses(&self.context).await?;
        let mut next = VecDeque::new();
        for (kind, calls, _) in JOBS {
            let may_run = match schedules.get(&kind) {
                Some(schedule) => calls != JobCalls::None || self.is_overdue(kind, schedule).await?,
                None => kind == JobKind::Push,
            };
            if may_run {
                next.push_back(kind);
            }
        }
        let mut once = OnceReport { runs: Vec::new(), skipped: Vec::new(), paused: Vec::new() };
        while let Some(kind) = next.pop_front() {
            let run = run_job(&self.context, kind, RunTrigger::Once);
            let finished = match unless_paused(&self.context, kind, run).await? {
                Ok(finished) => finished,
                Err(pause) => {
                    once.paused.push(pause);
                    continue;
                }
            };
            finished.log_failed(None);
            let (refused, wakes, run) = (finished.is_key_refused, finished.wakes, finished.run);
            let has_failed = finished.outcome == RunOutcome::Failed;
            once.runs.push(finished);
            if refused {
                break;
            }
            // Each of the other jobs would spend the same time-outs to find the platform unreachable.
            if has_failed && self.context.store.run_left_nothing_sent(run).await? {
                let (kept, untried): (VecDeque<_>, VecDeque<_>) =
                    next.into_iter().partition(|kind| kind.calls() == JobCalls::None);
                (next, once.skipped) = (kept, untried.into());
                continue;
            }
            next.extend(wakes.filter(|kind| !next.contains(kind)));
            // Checks that are due now run at once; checks that need a quiet time are left to the next start.
            if kind == JobKind::Push && schedules.contains_key(&JobKind::Settle) {
                let due = settle::next_check_at(&self.context).await?;
                next.extend(due.filter(|due| *due <= self.context.now()).map(|_| JobKind::Settle));
            }
        }
        let (clock, now) = (&*self.context.clock, self.context.now());
        HealthMonitor::new(&self.config, clock, now).tell_once(&self.context).await?;
        self.close().await?;
        Ok(once)
    }

    /// Returns true if a scheduled start has passed since the job's last success, or else since
    /// the first session of the database.
    async fn is_overdue(&self, kind: JobKind, schedule: &Schedule) -> Result<bool, StartError> {
        let last = self.context.store.job_last_ok_or_start(kind).await?;
        let next = last.and_then(|last| schedule.next_start(kind, last));
        Ok(next.is_some_and(|next| next <= self.context.now()))
    }
}
