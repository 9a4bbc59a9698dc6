//! Dispatcher of jobs: the function of each kind, in its run.

use crate::exec::{Context, Finished, Input, JobError, Report, run_recorded};
use crate::model::{JobKind, RunId, Trigger};
use crate::store::StoreError;
use crate::sync::{
    backup, balances, business_health, kit_components, listing_templates, order_lines, prune, shipments,
    storefronts, suppliers, top_selling, warehouses, work_queue,
};
use crate::{push, settle};

/// Runs a job once. A failure of the job is in the result; an error means that the run could not be recorded.
pub async fn run(context: &Context, kind: JobKind, trigger: Trigger) -> Result<Finished, StoreError> {
    run_on(context, kind, trigger, &Input::default()).await
}

/// Runs a job on an operator's input, which is stored with the run. Runs of one kind follow each other.
pub async fn run_on(
    context: &Context,
    kind: JobKind,
    trigger: Trigger,
    input: &Input,
) -> Result<Finished, StoreError> {
    let work = async |run| work(context, kind, run, trigger, input).await;
    run_recorded(context, kind, trigger, input, work).await
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
