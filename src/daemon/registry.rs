//! The work of each job. A run starts here.

use crate::exec::run::run_logged;
use crate::exec::{FinishedRun, JobContext, JobError, RunArgs, RunEnd, RunReport};
use crate::model::{JobKind, RunId, RunTrigger};
use crate::store::{PlatformList, StoreError};
use crate::sync::{backup, balances, lists, order_lines, prune, reports};
use crate::{push, settle};
use serde_json::json;
use std::pin::Pin;

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
    let _lock = context.lock_job(kind).await;
    let input = (!args.is_empty()).then(|| json!(args));
    let work = async |id| job_work(context, (kind, id), trigger, args).await;
    run_logged(context, (kind, trigger), RunEnd::Pass, input.as_ref(), work).await
}
