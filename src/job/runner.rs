//! The runner: opens a run in the journal, does the job, closes the run and says so in one log line.
//!
//! The line of a run that failed says when it is tried again, and only who began it knows that: [`Finished::say_failed`].

use super::{Context, Input, JobError, Report};
use super::{
    backup, balances, business_health, kit_components, listing_templates, order_lines, prune, push, settle,
    shipments,
};
use super::{storefronts, suppliers, top_selling, warehouses, work_queue};
use crate::journal::RunOutcome;
use crate::model::{JobKind, RunId, Timestamp, Trigger, cut_reason};
use crate::store::{Durability, StoreError};
use crate::telemetry::event;
use serde_json::json;
use std::time::Duration;

/// A run that is over.
#[derive(Clone, Debug)]
pub struct Finished {
    /// The job.
    pub kind: JobKind,
    /// Its run in the journal.
    pub run: RunId,
    /// Why it ran.
    pub trigger: Trigger,
    /// How long it took, in milliseconds.
    pub elapsed_ms: u64,
    /// How it ended.
    pub outcome: RunOutcome,
    /// What it did, or why it did not.
    pub summary: String,
    /// The service refuses the key: no use to run again before a probe succeeds.
    pub refused: bool,
    /// The job that has something to do because of it.
    pub wakes: Option<JobKind>,
    /// The time at which it has something to do again, if nothing calls it before.
    pub again_at: Option<Timestamp>,
}

/// Whether this version does the job.
pub fn is_built(kind: JobKind) -> bool {
    match kind {
        JobKind::Balances
        | JobKind::OrderLines
        | JobKind::Shipments
        | JobKind::Warehouses
        | JobKind::Suppliers
        | JobKind::Storefronts
        | JobKind::ListingTemplates
        | JobKind::KitComponents
        | JobKind::TopSelling
        | JobKind::BusinessHealth
        | JobKind::WorkQueue
        | JobKind::Push
        | JobKind::Settle
        | JobKind::Prune
        | JobKind::Backup => true,
    }
}

/// Runs a job once. Whatever goes wrong in it is in what is returned; only a database that cannot even note the run
/// is an error.
pub async fn run(context: &Context, kind: JobKind, trigger: Trigger) -> Result<Finished, StoreError> {
    run_on(context, kind, trigger, &Input::default()).await
}

/// The same on what a person named, which is kept with the run. Two runs of a kind go one after the other.
pub async fn run_on(
    context: &Context,
    kind: JobKind,
    trigger: Trigger,
    input: &Input,
) -> Result<Finished, StoreError> {
    let _turn = context.turn(kind).await;
    let started = context.now();
    let mut insist = context.insist("begin a run");
    let run = loop {
        let attempt = begin(context, kind, trigger, input, started).await;
        if let Some(run) = insist.on(attempt).await? {
            break run;
        }
    };

    let result = work(context, kind, run, trigger, input).await;
    let (report, refused) = reported(result);

    let ended = context.now();
    let mut insist = context.insist("end a run");
    while insist.on(end(context, kind, run, &report, ended).await).await?.is_none() {}
    let finished = Finished::new((kind, run, trigger), report, refused, ended.since(started));
    finished.say();
    Ok(finished)
}

/// Does what is no pass of the job in a run of its own: it says nothing about the age of the job's data.
pub(super) async fn run_beside(
    context: &Context,
    kind: JobKind,
    trigger: Trigger,
    input: Option<&serde_json::Value>,
    work: impl AsyncFnOnce(RunId) -> Result<Report, JobError>,
) -> Result<Finished, StoreError> {
    let started = context.now();
    let mut write = context.store.begin(Durability::Normal).await?;
    let run = write.run_begin(context.session_id, kind, trigger, started).await?;
    if let Some(input) = input {
        write.run_input(run, input).await?;
    }
    write.commit().await?;
    let (report, refused) = reported(work(run).await);
    let ended = context.now();
    let mut write = context.store.begin(Durability::Normal).await?;
    write.run_close(run, report.outcome, &report.summary, ended).await?;
    write.commit().await?;
    let finished = Finished::new((kind, run, trigger), report, refused, ended.since(started));
    finished.say();
    Ok(finished)
}

async fn begin(
    context: &Context,
    kind: JobKind,
    trigger: Trigger,
    input: &Input,
    at: Timestamp,
) -> Result<RunId, StoreError> {
    let mut write = context.store.begin(Durability::Normal).await?;
    let run = write.run_begin(context.session_id, kind, trigger, at).await?;
    if !input.is_empty() {
        write.run_input(run, &json!(input)).await?;
    }
    write.commit().await?;
    Ok(run)
}

async fn end(
    context: &Context,
    kind: JobKind,
    run: RunId,
    report: &Report,
    at: Timestamp,
) -> Result<(), StoreError> {
    let mut write = context.store.begin(Durability::Normal).await?;
    write.run_end(run, kind, report.outcome, &report.summary, at).await?;
    write.commit().await
}

async fn work(
    context: &Context,
    kind: JobKind,
    run: RunId,
    trigger: Trigger,
    input: &Input,
) -> Result<Report, JobError> {
    match kind {
        JobKind::Balances => balances::run(context, run, &input.skus).await,
        JobKind::OrderLines => order_lines::run(context, run, trigger, &input.orders).await,
        JobKind::Shipments => shipments::run(context, run).await,
        JobKind::Warehouses => warehouses::run(context, run).await,
        JobKind::Suppliers => suppliers::run(context, run).await,
        JobKind::Storefronts => storefronts::run(context, run).await,
        JobKind::ListingTemplates => listing_templates::run(context, run).await,
        JobKind::KitComponents => kit_components::run(context, run).await,
        JobKind::TopSelling => top_selling::run(context, run).await,
        JobKind::BusinessHealth => business_health::run(context, run).await,
        JobKind::WorkQueue => work_queue::run(context, run).await,
        JobKind::Push => push::run(context, run).await,
        JobKind::Settle => settle::run(context, run).await,
        JobKind::Prune => prune::run(context, trigger == Trigger::Operator).await,
        JobKind::Backup => backup::run(context).await,
    }
}

/// The report of a run, also of one that could not do its work, and whether the key was refused.
pub(super) fn reported(result: Result<Report, JobError>) -> (Report, bool) {
    let refused = matches!(result, Err(JobError::Refused(_)));
    (result.unwrap_or_else(|error| failed(&error)), refused)
}

fn failed(error: &JobError) -> Report {
    let outcome = match error {
        JobError::Stopped => RunOutcome::Interrupted,
        JobError::Refused(_)
        | JobError::Rejected { .. }
        | JobError::GivenUp { .. }
        | JobError::Implausible(_)
        | JobError::Store(_) => RunOutcome::Failed,
    };
    Report { outcome, summary: cut_reason(error.to_string()), wakes: None, again_at: None }
}

impl Finished {
    /// What a run came to.
    pub(super) fn new(
        (kind, run, trigger): (JobKind, RunId, Trigger),
        report: Report,
        refused: bool,
        took: Duration,
    ) -> Self {
        let elapsed_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let Report { outcome, summary, wakes, again_at } = report;
        Self { kind, run, trigger, elapsed_ms, outcome, summary, refused, wakes, again_at }
    }

    /// The one log line of a run that did not fail.
    pub(super) fn say(&self) {
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
            // Whoever began it says so.
            RunOutcome::Failed => {}
        }
    }

    /// One line for a run that failed, nothing for any other; `retry` is when it is tried again.
    pub fn say_failed(&self, retry: Option<Duration>) {
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
