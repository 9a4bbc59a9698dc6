//! Bracket of a run: opens the run in the journal, does the work, closes the run and logs one line.
//!
//! For a failed run the caller logs the line with [`FinishedRun::log_failed`], because only the caller has the
//! time of the retry.

use super::{JobContext, JobError, RunArgs};
use crate::journal::RunOutcome;
use crate::model::{JobKind, RunId, RunTrigger, Timestamp, cut_reason};
use crate::store::{Durability, StoreError};
use crate::telemetry::event;
use serde_json::json;
use std::time::Duration;

/// Result of a run.
#[derive(Clone, Debug)]
pub struct RunReport {
    /// Outcome of the run.
    pub outcome: RunOutcome,
    /// Summary in one line, for the log and `job list`.
    pub summary: String,
    /// Job that has work because of this run.
    pub wakes: Option<JobKind>,
    /// Time at which the job has work again, if no trigger comes before.
    pub due_again_at: Option<Timestamp>,
}

impl RunReport {
    pub(crate) fn ok(summary: impl Into<String>) -> Self {
        Self { outcome: RunOutcome::Ok, summary: summary.into(), wakes: None, due_again_at: None }
    }

    pub(crate) fn partial(summary: impl Into<String>) -> Self {
        Self { outcome: RunOutcome::Partial, summary: summary.into(), wakes: None, due_again_at: None }
    }

    /// Combines both halves of a run. The outcome is ok only if both are.
    pub(crate) fn combine_with(self, other: &Self) -> Self {
        let outcome = if self.outcome == RunOutcome::Ok { other.outcome } else { self.outcome };
        let wakes = self.wakes.or(other.wakes);
        let due_again_at = self.due_again_at.or(other.due_again_at);
        Self { outcome, summary: format!("{}; {}", self.summary, other.summary), wakes, due_again_at }
    }
}

/// A finished run.
#[derive(Clone, Debug)]
pub struct FinishedRun {
    /// The job.
    pub kind: JobKind,
    /// The run in the journal.
    pub run: RunId,
    /// Reason of the run.
    pub trigger: RunTrigger,
    /// Duration in milliseconds.
    pub elapsed_ms: u64,
    /// Outcome of the run.
    pub outcome: RunOutcome,
    /// Summary of the work, or the reason of the failure.
    pub summary: String,
    /// True if the platform refuses the key: no run is useful before a probe succeeds.
    pub is_key_refused: bool,
    /// Job that has work because of this run.
    pub wakes: Option<JobKind>,
    /// Time at which the job has work again, if no trigger comes before.
    pub due_again_at: Option<Timestamp>,
}

/// Runs the work of a job in a run of its own. The operator's input is stored with the run. Runs of one kind
/// follow each other.
pub(crate) async fn run_recorded(
    context: &JobContext,
    kind: JobKind,
    trigger: RunTrigger,
    input: &RunArgs,
    work: impl AsyncFnOnce(RunId) -> Result<RunReport, JobError>,
) -> Result<FinishedRun, StoreError> {
    let _turn = context.lock_job(kind).await;
    let started = context.now();
    let mut retry = context.retry_commit("begin a run");
    let run = loop {
        let attempt = begin_run(context, kind, trigger, input, started).await;
        if let Some(run) = retry.check_attempt(attempt).await? {
            break run;
        }
    };

    let result = work(run).await;
    let (report, refused) = into_report(result);

    let ended = context.now();
    let mut retry = context.retry_commit("end a run");
    while retry.check_attempt(end_run(context, kind, run, &report, ended).await).await?.is_none() {}
    let finished = FinishedRun::new((kind, run, trigger), report, refused, ended.duration_since(started));
    finished.log_finished();
    Ok(finished)
}

/// Runs work outside of the job's passes in a separate run.
///
/// The run does not renew the age of the job's data.
pub(crate) async fn run_beside(
    context: &JobContext,
    kind: JobKind,
    trigger: RunTrigger,
    input: Option<&serde_json::Value>,
    work: impl AsyncFnOnce(RunId) -> Result<RunReport, JobError>,
) -> Result<FinishedRun, StoreError> {
    let started = context.now();
    let mut write = context.store.begin_write(Durability::Normal).await?;
    let run = write.run_begin(context.session_id, kind, trigger, started).await?;
    if let Some(input) = input {
        write.run_input_store(run, input).await?;
    }
    write.commit().await?;
    let (report, refused) = into_report(work(run).await);
    let ended = context.now();
    let mut write = context.store.begin_write(Durability::Normal).await?;
    write.run_close(run, report.outcome, &report.summary, ended).await?;
    write.commit().await?;
    let finished = FinishedRun::new((kind, run, trigger), report, refused, ended.duration_since(started));
    finished.log_finished();
    Ok(finished)
}

async fn begin_run(
    context: &JobContext,
    kind: JobKind,
    trigger: RunTrigger,
    input: &RunArgs,
    at: Timestamp,
) -> Result<RunId, StoreError> {
    let mut write = context.store.begin_write(Durability::Normal).await?;
    let run = write.run_begin(context.session_id, kind, trigger, at).await?;
    if !input.is_empty() {
        write.run_input_store(run, &json!(input)).await?;
    }
    write.commit().await?;
    Ok(run)
}

async fn end_run(
    context: &JobContext,
    kind: JobKind,
    run: RunId,
    report: &RunReport,
    at: Timestamp,
) -> Result<(), StoreError> {
    let mut write = context.store.begin_write(Durability::Normal).await?;
    write.run_end(run, kind, report.outcome, &report.summary, at).await?;
    write.commit().await
}

/// Returns the report of a run. The flag is true if the key was refused.
pub(super) fn into_report(result: Result<RunReport, JobError>) -> (RunReport, bool) {
    let refused = matches!(result, Err(JobError::KeyRefused(_)));
    (result.unwrap_or_else(|error| failure_report(&error)), refused)
}

fn failure_report(error: &JobError) -> RunReport {
    let outcome = match error {
        JobError::Stopped => RunOutcome::Interrupted,
        JobError::KeyRefused(_)
        | JobError::Rejected { .. }
        | JobError::GivenUp { .. }
        | JobError::Implausible(_)
        | JobError::Store(_) => RunOutcome::Failed,
    };
    RunReport { outcome, summary: cut_reason(error.to_string()), wakes: None, due_again_at: None }
}

impl FinishedRun {
    /// Creates the result of a run.
    pub(crate) fn new(
        (kind, run, trigger): (JobKind, RunId, RunTrigger),
        report: RunReport,
        refused: bool,
        took: Duration,
    ) -> Self {
        let elapsed_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let RunReport { outcome, summary, wakes, due_again_at } = report;
        Self {
            kind,
            run,
            trigger,
            elapsed_ms,
            outcome,
            summary,
            is_key_refused: refused,
            wakes,
            due_again_at,
        }
    }

    /// Logs one line about a run that did not fail.
    pub(crate) fn log_finished(&self) {
        let (job, run, trigger) = (self.kind.as_str(), self.run.0, self.trigger.as_str());
        let (outcome, elapsed_ms, summary) = (self.outcome.as_str(), self.elapsed_ms, &self.summary);
        match self.outcome {
            RunOutcome::Ok | RunOutcome::Interrupted => {
                tracing::info!(
                    event = event::JOB_FINISHED,
                    job,
                    run,
                    trigger,
                    outcome,
                    elapsed_ms,
                    "{summary}"
                );
            }
            RunOutcome::Partial => {
                tracing::warn!(
                    event = event::JOB_FINISHED,
                    job,
                    run,
                    trigger,
                    outcome,
                    elapsed_ms,
                    "{summary}"
                );
            }
            // The caller logs a failed run.
            RunOutcome::Failed => {}
        }
    }

    /// Logs one line about a failed run, nothing about others. `retry` is the delay before the next attempt.
    pub fn log_failed(&self, retry: Option<Duration>) {
        if self.outcome != RunOutcome::Failed {
            return;
        }
        let (job, trigger, reason) = (self.kind.as_str(), self.trigger.as_str(), &self.summary);
        let again = retry.map_or_else(String::new, |delay| format!(", tried again in {} s", delay.as_secs()));
        tracing::warn!(
            event = event::JOB_FAILED,
            job,
            run = self.run.0,
            trigger,
            reason,
            retry_s = retry.map(|delay| delay.as_secs()),
            elapsed_ms = self.elapsed_ms,
            "{job} failed{again}: {reason}"
        );
    }
}
