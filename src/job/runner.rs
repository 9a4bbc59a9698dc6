//! The runner: opens a run in the journal, does the job, closes the run and says so in one log line.

use super::{Context, Input, JobError, Report};
use super::{
    backup, balances, business_health, kit_components, listing_templates, order_lines, prune, push, settle,
    shipments,
};
use super::{storefronts, suppliers, top_selling, warehouses, work_queue};
use crate::journal::RunOutcome;
use crate::model::{JobKind, RunId, Timestamp, Trigger};
use crate::store::{Durability, StoreError};
use crate::telemetry::event;
use serde_json::json;

/// A run that is over.
#[derive(Clone, Debug)]
pub struct Finished {
    /// The job.
    pub kind: JobKind,
    /// How it ended.
    pub outcome: RunOutcome,
    /// What it did, or why it did not.
    pub summary: String,
    /// The service refuses the key: no use to run again before a probe succeeds.
    pub refused: bool,
    /// The job that has something to do because of it.
    pub wakes: Option<JobKind>,
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
    let refused = matches!(result, Err(JobError::Refused(_)));
    let report = result.unwrap_or_else(|error| failed(&error));

    let ended = context.now();
    let mut insist = context.insist("end a run");
    while insist.on(end(context, kind, run, &report, ended).await).await?.is_none() {}
    say(kind, run, trigger, &report, ended.since(started).as_millis());
    let Report { outcome, summary, wakes } = report;
    Ok(Finished { kind, outcome, summary, refused, wakes })
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

/// The report of a run that could not do its work.
pub(super) fn failed(error: &JobError) -> Report {
    let outcome = match error {
        JobError::Stopped => RunOutcome::Interrupted,
        JobError::Refused(_)
        | JobError::Rejected { .. }
        | JobError::GivenUp { .. }
        | JobError::Implausible(_)
        | JobError::Store(_) => RunOutcome::Failed,
    };
    Report { outcome, summary: error.to_string(), wakes: None }
}

/// The one log line of a run.
pub(super) fn say(kind: JobKind, run: RunId, trigger: Trigger, report: &Report, elapsed_ms: u128) {
    let (job, trigger, outcome) = (kind.as_str(), trigger.as_str(), report.outcome.as_str());
    let elapsed_ms = u64::try_from(elapsed_ms).unwrap_or(u64::MAX);
    let summary = &report.summary;
    match report.outcome {
        RunOutcome::Ok | RunOutcome::Interrupted => {
            tracing::info!(
                event = event::JOB_FINISHED,
                job,
                run = run.0,
                trigger,
                outcome,
                elapsed_ms,
                "{summary}"
            );
        }
        RunOutcome::Partial | RunOutcome::Failed => {
            tracing::warn!(
                event = event::JOB_FINISHED,
                job,
                run = run.0,
                trigger,
                outcome,
                elapsed_ms,
                "{summary}"
            );
        }
    }
}
