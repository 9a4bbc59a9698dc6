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

/// The jobs in the order of `run --once`, each with its calls.
pub(super) const JOBS: [(JobKind, JobCalls); 15] = [
    (JobKind::WorkQueue, JobCalls::Single),
    (JobKind::Warehouses, JobCalls::Single),
    (JobKind::Suppliers, JobCalls::Single),
    (JobKind::Storefronts, JobCalls::Single),
    (JobKind::ListingTemplates, JobCalls::PerStorefront),
    (JobKind::Shipments, JobCalls::PerShipment),
    (JobKind::OrderLines, JobCalls::PerOrder),
    (JobKind::KitComponents, JobCalls::PerKit),
    (JobKind::TopSelling, JobCalls::Single),
    (JobKind::Balances, JobCalls::PerSkuPage),
    (JobKind::BusinessHealth, JobCalls::Single),
    (JobKind::Settle, JobCalls::AsNeeded),
    (JobKind::Prune, JobCalls::None),
    (JobKind::Backup, JobCalls::None),
    (JobKind::Push, JobCalls::AsNeeded),
];

type JobFuture<'a> = Pin<Box<dyn Future<Output = Result<RunReport, JobError>> + Send + 'a>>;

/// Returns the work of a run of a job.
fn job_work<'a>(
    context: &'a JobContext,
    (kind, id): (JobKind, RunId),
    trigger: RunTrigger,
    args: &'a RunArgs,
) -> JobFuture<'a> {
    match kind {
        JobKind::WorkQueue => Box::pin(reports::run_work_queue(context, id)),
        JobKind::Warehouses => Box::pin(lists::run(context, id, PlatformList::Warehouses, "warehouse")),
        JobKind::Suppliers => Box::pin(lists::run(context, id, PlatformList::Suppliers, "supplier")),
        JobKind::Storefronts => Box::pin(lists::run(context, id, PlatformList::Storefronts, "storefront")),
        JobKind::ListingTemplates => Box::pin(lists::run_templates(context, id)),
        JobKind::Shipments => Box::pin(lists::run_shipments(context, id)),
        JobKind::OrderLines => Box::pin(order_lines::run(context, id, trigger, &args.orders)),
        JobKind::KitComponents => Box::pin(lists::run_kit_components(context, id)),
        JobKind::TopSelling => Box::pin(reports::run_top_selling(context, id)),
        JobKind::Balances => Box::pin(balances::run(context, id, &args.skus)),
        JobKind::BusinessHealth => Box::pin(reports::run_business_health(context, id)),
        JobKind::Settle => Box::pin(settle::run(context, id)),
        JobKind::Prune => Box::pin(prune::run(context, trigger == RunTrigger::Operator)),
        JobKind::Backup => Box::pin(backup::run(context)),
        JobKind::Push => Box::pin(push::run(context, id)),
    }
}

pub(crate) fn job_calls(kind: JobKind) -> JobCalls {
    JOBS.iter().find(|(job, _)| *job == kind).expect("every kind has a row").1
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
    let work = async |id| job_work(context, (kind, id), trigger, args).await;
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
        let rows: BTreeSet<&str> = JOBS.iter().map(|(kind, _)| kind.as_str()).collect();
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
