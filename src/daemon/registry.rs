//! Registry of the jobs: one row per kind, in the order of `run --once`. A run starts here.
//!
//! Facts that other jobs depend on come first: the work queue's counts tell which order lines to read, shipments close
//! orders, orders name SKUs, and a push plans from balances.
//!
//! A new job needs a kind, a row here, its name in the CHECK `run_job`, and a schedule in `config`, which may not import
//! the jobs. A test compares them.

use crate::exec::{FinishedRun, JobContext, JobError, RunArgs, RunReport, run_recorded};
use crate::model::{JobKind, RunId, RunTrigger};
use crate::store::{PlatformList, StoreError};
use crate::sync::{backup, balances, lists, order_lines, prune, reports};
use crate::{push, settle};
use std::pin::Pin;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobCalls {
    PerSkuPage,
    PerOrder,
    PerShipment,
    PerStorefront,
    PerKit,
    Single,
    AsNeeded,
    /// No call: the job maintains the database.
    None,
}

struct JobRun<'a> {
    context: &'a JobContext,
    id: RunId,
    trigger: RunTrigger,
    args: &'a RunArgs,
}

type JobFuture<'a> = Pin<Box<dyn Future<Output = Result<RunReport, JobError>> + Send + 'a>>;

pub(super) struct JobRow {
    pub(super) kind: JobKind,
    pub(super) calls: JobCalls,
    work: fn(JobRun<'_>) -> JobFuture<'_>,
}

pub(super) const JOBS: [JobRow; 15] = [
    row(JobKind::WorkQueue, JobCalls::Single, |run| Box::pin(reports::run_work_queue(run.context, run.id))),
    row(JobKind::Warehouses, JobCalls::Single, |run| {
        Box::pin(lists::run(run.context, run.id, PlatformList::Warehouses, "warehouse"))
    }),
    row(JobKind::Suppliers, JobCalls::Single, |run| {
        Box::pin(lists::run(run.context, run.id, PlatformList::Suppliers, "supplier"))
    }),
    row(JobKind::Storefronts, JobCalls::Single, |run| {
        Box::pin(lists::run(run.context, run.id, PlatformList::Storefronts, "storefront"))
    }),
    row(JobKind::ListingTemplates, JobCalls::PerStorefront, |run| {
        Box::pin(lists::run_templates(run.context, run.id))
    }),
    row(JobKind::Shipments, JobCalls::PerShipment, |run| Box::pin(lists::run_shipments(run.context, run.id))),
    row(JobKind::OrderLines, JobCalls::PerOrder, |run| {
        Box::pin(order_lines::run(run.context, run.id, run.trigger, &run.args.orders))
    }),
    row(JobKind::KitComponents, JobCalls::PerKit, |run| {
        Box::pin(lists::run_kit_components(run.context, run.id))
    }),
    row(JobKind::TopSelling, JobCalls::Single, |run| Box::pin(reports::run_top_selling(run.context, run.id))),
    row(JobKind::Balances, JobCalls::PerSkuPage, |run| {
        Box::pin(balances::run(run.context, run.id, &run.args.skus))
    }),
    row(JobKind::BusinessHealth, JobCalls::Single, |run| {
        Box::pin(reports::run_business_health(run.context, run.id))
    }),
    row(JobKind::Settle, JobCalls::AsNeeded, |run| Box::pin(settle::run(run.context, run.id))),
    row(JobKind::Prune, JobCalls::None, |run| {
        Box::pin(prune::run(run.context, run.trigger == RunTrigger::Operator))
    }),
    row(JobKind::Backup, JobCalls::None, |run| Box::pin(backup::run(run.context))),
    row(JobKind::Push, JobCalls::AsNeeded, |run| Box::pin(push::run(run.context, run.id))),
];

const fn row(kind: JobKind, calls: JobCalls, work: fn(JobRun<'_>) -> JobFuture<'_>) -> JobRow {
    JobRow { kind, calls, work }
}

fn job_row(kind: JobKind) -> &'static JobRow {
    JOBS.iter().find(|row| row.kind == kind).expect("every kind has a row")
}

pub(crate) fn job_calls(kind: JobKind) -> JobCalls {
    job_row(kind).calls
}

/// Runs a job once. A failure of the job is in the result; an error means that the run could not be recorded.
pub async fn run_job(
    context: &JobContext,
    kind: JobKind,
    trigger: RunTrigger,
) -> Result<FinishedRun, StoreError> {
    run_job_with(context, kind, trigger, &RunArgs::default()).await
}

/// Runs a job on an operator's input, which is stored with the run. Runs of one kind follow each other.
pub(super) async fn run_job_with(
    context: &JobContext,
    kind: JobKind,
    trigger: RunTrigger,
    args: &RunArgs,
) -> Result<FinishedRun, StoreError> {
    let work = async |id| (job_row(kind).work)(JobRun { context, id, trigger, args }).await;
    run_recorded(context, kind, trigger, args, work).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Returns the text of all migrations, oldest first.
    fn migrations() -> String {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations/mirror");
        let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
        let files: BTreeSet<_> = files.collect();
        files.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect()
    }

    #[test]
    fn the_schema_and_the_packaged_configuration_name_the_jobs_of_the_registry() {
        let rows: BTreeSet<&str> = JOBS.iter().map(|row| row.kind.as_str()).collect();
        let kinds: BTreeSet<&str> = JobKind::ALL.iter().map(|kind| kind.as_str()).collect();
        assert_eq!((rows.len(), &rows), (JOBS.len(), &kinds));

        let schema = migrations();
        let (_, check) = schema.rsplit_once("CONSTRAINT run_job CHECK (job IN (").unwrap();
        let (names, _) = check.split_once("))").unwrap();
        let checked: BTreeSet<&str> = names.split(',').map(|name| name.trim().trim_matches('\'')).collect();
        assert_eq!(checked, rows);

        let packaged = include_str!("../../config/tallyd.toml");
        let section = |line: &'static str| line.strip_prefix("[jobs.")?.strip_suffix(']');
        let scheduled: BTreeSet<&str> = packaged.lines().filter_map(section).collect();
        let wakes_by_changes = BTreeSet::from([JobKind::Push.as_str()]);
        assert_eq!(scheduled, &rows - &wakes_by_changes);
    }
}
