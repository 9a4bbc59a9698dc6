//! Runs of jobs, each with its row of the [registry](super::registry).

use super::registry::{self, JobRun};
use crate::exec::{FinishedRun, JobContext, RunArgs, run_recorded};
use crate::model::{JobKind, RunTrigger};
use crate::store::StoreError;

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
    args: &RunArgs,
) -> Result<FinishedRun, StoreError> {
    let work = async |id| (registry::job_row(kind).work)(JobRun { context, id, trigger, args }).await;
    run_recorded(context, kind, trigger, args, work).await
}
