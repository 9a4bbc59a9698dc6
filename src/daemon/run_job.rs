//! Dispatcher of jobs: the function of each kind, in its run.

use crate::exec::{FinishedRun, JobContext, JobError, RunArgs, RunReport, run_recorded};
use crate::model::{JobKind, RunId, RunTrigger};
use crate::store::{PlatformList, StoreError};
use crate::sync::{
    backup, balances, business_health, kit_components, lists, order_lines, prune, top_selling, work_queue,
};
use crate::{push, settle};

/// Runs a job once. A failure of the job is in the result; an error means that the run could not be recorded.
pub async fn run_job(
    context: &JobContext,
    kind: JobKind,
    trigger: RunTrigger,
) -> Result<FinishedRun, StoreError> {
    run_job_with(context, kind, trigger, &RunArgs::default()).await
}

/// Runs a job on an operator's input, which is stored with the run. Runs of one kind follow each other.
pub async fn run_job_with(
    context: &JobContext,
    kind: JobKind,
    trigger: RunTrigger,
    input: &RunArgs,
) -> Result<FinishedRun, StoreError> {
    let work = async |run| run_kind(context, kind, run, trigger, input).await;
    run_recorded(context, kind, trigger, input, work).await
}

async fn run_kind(
    context: &JobContext,
    kind: JobKind,
    run: RunId,
    trigger: RunTrigger,
    input: &RunArgs,
) -> Result<RunReport, JobError> {
    match kind {
        JobKind::Balances => balances::run(context, run, &input.skus).await,
        JobKind::OrderLines => order_lines::run(context, run, trigger, &input.orders).await,
        JobKind::Shipments => lists::run_shipments(context, run).await,
        JobKind::Warehouses => lists::run(context, run, PlatformList::Warehouses, "warehouse(s)").await,
        JobKind::Suppliers => lists::run(context, run, PlatformList::Suppliers, "supplier(s)").await,
        JobKind::Storefronts => lists::run(context, run, PlatformList::Storefronts, "storefront(s)").await,
        JobKind::ListingTemplates => lists::run_templates(context, run).await,
        JobKind::KitComponents => kit_components::run(context, run).await,
        JobKind::TopSelling => top_selling::run(context, run).await,
        JobKind::BusinessHealth => business_health::run(context, run).await,
        JobKind::WorkQueue => work_queue::run(context, run).await,
        JobKind::Push => push::run(context, run).await,
        JobKind::Settle => settle::run(context, run).await,
        JobKind::Prune => prune::run(context, trigger == RunTrigger::Operator).await,
        JobKind::Backup => backup::run(context).await,
    }
}
