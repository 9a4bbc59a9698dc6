//! Bracket of a run: opens the run in the journal, does the work, closes the run and logs one line.
//!
//! For a failed run the caller logs the line with [`FinishedRun::log_failed`], because only the caller has
//! the time of the retry.

use super::{JobContext, JobError};
use crate::journal::RunOutcome;
use crate::model::{JobKind, RunId, RunTrigger, Timestamp, cut_reason};
use crate::store::{Durability, StoreError};
use crate::telemetry::event;
use serde_json::Value;
use std::time::Duration;

/// Result of a run.
#[derive(Clone, Debug)]
pub(crate) struct RunReport {
    /// Outcome of the run.
    pub outcome: RunOutcome,
    /// Summary in one line, for the log and `job list`.
    pub summary: String,
    /// True if the run changed something.
    pub has_effect: bool,
    /// Job that has work because of this run.
    pub wakes: Option<JobKind>,
    /// Time at which the job has work again, if no trigger comes before.
    pub due_again_at: Option<Timestamp>,
}

impl RunReport {
    fn new(outcome: RunOutcome, summary: impl Into<String>) -> Self {
        Self { outcome, summary: summary.into(), has_effect: false, wakes: None, due_again_at: None }
    }

    pub(crate) fn with_effect(self, has_effect: bool) -> Self {
        Self { has_effect, ..self }
    }

    pub(crate) fn ok(summary: impl Into<String>) -> Self {
        Self::new(RunOutcome::Ok, summary)
    }

    pub(crate) fn partial(summary: impl Into<String>) -> Self {
        Self::new(RunOutcome::Partial, summary)
    }

    /// Combines both halves of a run. The outcome is ok only if both are.
    pub(crate) fn combine_with(self, other: &Self) -> Self {
        let outcome = if self.outcome == RunOutcome::Ok { other.outcome } else { self.outcome };
        let wakes = self.wakes.or(other.wakes);
        let due_again_at = self.due_again_at.or(other.due_again_at);
        let summary = format!("{}; {}", self.summary, other.summary);
        Self { outcome, summary, has_effect: self.has_effect || other.has_effect, wakes, due_again_at }
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
    /// True if the run changed something.
    pub has_effect: bool,
    /// True if the platform refuses the key: no run is useful before a probe succeeds.
    pub is_key_refused: bool,
    /// Job that has work because of this run.
    pub wakes: Option<JobKind>,
    /// Time at which the job has work again, if no trigger comes before.
    pub due_again_at: Option<Timestamp>,
}

/// Effect of a run's end on the state of its job.
#[derive(Clone, Copy)]
pub(crate) enum RunEnd {
    /// The run is a pass: the job's state takes its outcome, and a success renews the age of the job's data.
    Pass,
    /// The run is beside the passes and changes no state. Its end is committed with this durability.
    Beside(Durability),
}

/// Runs work, for instance beside the passes of the job, and logs its run.
pub(crate) async fn run_logged(
    context: &JobContext,
    job: (JobKind, RunTrigger),
    end: RunEnd,
    input: Option<&Value>,
    work: impl AsyncFnOnce(RunId) -> Result<RunReport, JobError>,
) -> Result<FinishedRun, StoreError> {
    let started = context.now();
    let work = async |run| {
        let finished = FinishedRun::new(context, job, run, started, work(run).await);
        let end = (finished.outcome, finished.summary.clone());
        (finished, end)
    };
    let finished = with_run(context, job, end, input, work).await?;
    finished.log_finished();
    Ok(finished)
}

/// Opens a run, does the work and closes the run. The work returns its result, and the run's outcome and
/// summary. The commits of the begin and of the end are retried.
pub(crate) async fn with_run<T>(
    context: &JobContext,
    (kind, trigger): (JobKind, RunTrigger),
    end: RunEnd,
    input: Option<&Value>,
    work: impl AsyncFnOnce(RunId) -> (T, (RunOutcome, String)),
) -> Result<T, StoreError> {
    let started = context.now();
    let begin = || begin_run(context, (kind, trigger), input, started);
    let run = context.retry_commit("begin a run", begin).await?;
    let (result, (outcome, summary)) = work(run).await;
    let ended = context.now();
    let end = || end_run(context, run, (kind, end), (outcome, &summary), ended);
    context.retry_conclusion("end a run", end).await?;
    Ok(result)
}

async fn begin_run(
    context: &JobContext,
    (kind, trigger): (JobKind, RunTrigger),
    input: Option<&Value>,
    at: Timestamp,
) -> Result<RunId, StoreError> {
    let mut write = context.store.begin_write(Durability::Normal).await?;
    let run = write.run_begin(context.session_id, kind, trigger, at).await?;
    if let Some(input) = input {
        write.run_input_store(run, input).await?;
    }
    write.commit().await?;
    Ok(run)
}

async fn end_run(
    context: &JobContext,
    run: RunId,
    (kind, end): (JobKind, RunEnd),
    (outcome, summary): (RunOutcome, &str),
    at: Timestamp,
) -> Result<(), StoreError> {
    let durability = if let RunEnd::Beside(durability) = end { durability } else { Durability::Normal };
    let mut write = context.store.begin_write(durability).await?;
    match end {
        RunEnd::Pass => write.run_end(run, kind, outcome, summary, at).await?,
        RunEnd::Beside(_) => write.run_close(run, outcome, summary, at).await?,
    }
    write.commit().await
}

impl FinishedRun {
    fn new(
        context: &JobContext,
        (kind, trigger): (JobKind, RunTrigger),
        run: RunId,
        started: Timestamp,
        result: Result<RunReport, JobError>,
    ) -> Self {
        let is_key_refused = matches!(result, Err(JobError::KeyRefused(_)));
        let RunReport { outcome, summary, has_effect, wakes, due_again_at } =
            result.unwrap_or_else(|error| {
                let is_stopped = matches!(error, JobError::Stopped | JobError::Paused(_));
                let outcome = if is_stopped { RunOutcome::Interrupted } else { RunOutcome::Failed };
                RunReport::new(outcome, cut_reason(error.to_string()))
            });
        let elapsed = context.now().duration_since(started);
        let elapsed_ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        Self {
            kind,
            run,
            trigger,
            elapsed_ms,
            outcome,
            summary,
            has_effect,
            is_key_refused,
            wakes,
            due_again_at,
        }
    }

    /// Logs one line about a run that did not fail. A whole run that changed nothing is logged for debugging only,
    /// because most runs of an idle daemon change nothing. A stop or a pause that ended a run early is no warning,
    /// because an operator ordered it.
    fn log_finished(&self) {
        if self.outcome == RunOutcome::Failed {
            return;
        }
        let (job, run, trigger) = (self.kind.as_str(), self.run.0, self.trigger.as_str());
        let (outcome, elapsed_ms, summary) = (self.outcome.as_str(), self.elapsed_ms, &self.summary);
        let is_early = self.outcome == RunOutcome::Interrupted;
        if self.outcome == RunOutcome::Partial {
            tracing::warn!(event = event::JOB_FINISHED, job, run, trigger, outcome, elapsed_ms, "{summary}");
        } else if is_early || self.has_effect || self.trigger == RunTrigger::Operator {
            tracing::info!(event = event::JOB_FINISHED, job, run, trigger, outcome, elapsed_ms, "{summary}");
        } else {
            tracing::debug!(event = event::JOB_FINISHED, job, run, trigger, outcome, elapsed_ms, "{summary}");
        }
    }

    /// Logs one line about a failed run, nothing about others. `retry` is the delay before the next attempt.
    pub(crate) fn log_failed(&self, retry: Option<Duration>) {
        if self.outcome != RunOutcome::Failed {
            return;
        }
        let (job, trigger, reason) = (self.kind.as_str(), self.trigger.as_str(), &self.summary);
        let again =
            retry.map_or_else(String::new, |delay| format!(", next attempt in {} s", delay.as_secs()));
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
