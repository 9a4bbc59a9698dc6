//! The daemon's side of requests from commands that run beside it (docs/rules.md 19).
//!
//! [`answer_request`] serves each request, in the daemon or in a command that took the lock ([`super::client`]). A
//! new kind of request is a variant of [`ControlRequest`], its name in the table's CHECK, and an arm in [`answer_request`].
//! Each request is a run of its own in the journal, in the operator's priority class. Except for
//! [`ControlRequest::RunJob`], it does not count as a run of its job. Requests are served concurrently, so that a
//! request delayed by a hold does not block the others.

use crate::client::wire::ProductKey;
use crate::daemon::pauses::unless_paused;
use crate::daemon::registry::run_job_with;
use crate::exec::{self, FinishedRun, JobContext, JobError, RunArgs, RunEnd};
use crate::journal::RunOutcome;
use crate::model::{JobKind, RunId, RunTrigger, Timestamp};
use crate::store::{ControlRequestRow, Durability, StoreError};
use crate::sync;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::time::Duration;

/// The age above which a request is refused without a call; its client has given up by then.
const REQUEST_AGE_MAX: Duration = Duration::from_secs(5 * 60);

/// A request to the platform from a command beside the daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "input")]
pub enum ControlRequest {
    /// The state of the keys, as [`KeyStatus`](crate::exec::KeyStatus).
    #[serde(rename = "keys")]
    Keys {},
    /// A lookup of products by SKU or UPC; the answer is the SKUs found.
    #[serde(rename = "product.find")]
    FindProducts { by_upc: bool, ids: Vec<String> },
    /// The components of a kit; the answer is the kit's product id.
    #[serde(rename = "product.components")]
    Components { sku: String },
    /// A comparison of the mirror with the platform.
    #[serde(rename = "verify")]
    Verify { calls: usize },
    /// A run of a job now; the answer is its outcome and summary.
    #[serde(rename = "job.run")]
    RunJob {
        job: String,
        /// The work given instead of the work that is due.
        input: RunArgs,
    },
}

/// The result of a requested run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RunResult {
    pub(crate) is_good: bool,
    pub(crate) outcome: String,
    /// The run's summary, or the reason of its failure.
    pub(crate) summary: String,
}

impl ControlRequest {
    pub(super) fn to_columns(&self) -> (String, String) {
        let value = json!(self);
        let kind = value["kind"].as_str().expect("a request is tagged with its kind");
        (kind.to_owned(), value["input"].to_string())
    }

    fn from_row(row: &ControlRequestRow) -> Result<Self, serde_json::Error> {
        let input: Value = serde_json::from_str(&row.input)?;
        serde_json::from_value(json!({"kind": row.kind, "input": input}))
    }
}

/// The stored answer, or the reason for which there is none.
pub(super) type ControlReply = Result<Value, String>;

/// Makes the request to the platform. A requested run is returned beside the answer.
pub(super) async fn answer_request(
    context: &JobContext,
    request: &ControlRequest,
) -> Result<(Value, Option<FinishedRun>), JobError> {
    let answer = match request {
        ControlRequest::Keys {} => {
            let ask = async |run| Ok(json!(exec::probe_key(context, run).await?));
            answer_in_run(context, (JobKind::WorkQueue, request), ask).await?
        }
        ControlRequest::FindProducts { by_upc, ids } => {
            let by = if *by_upc { ProductKey::Upc } else { ProductKey::Sku };
            let ask = async |run| Ok(json!(sync::find_products(context, run, by, ids).await?));
            answer_in_run(context, (JobKind::Balances, request), ask).await?
        }
        ControlRequest::Components { sku } => {
            let ask = async |run| Ok(json!(sync::read_components(context, run, sku).await?.0));
            answer_in_run(context, (JobKind::KitComponents, request), ask).await?
        }
        ControlRequest::Verify { calls } => {
            let ask = async |run| Ok(json!(sync::verify_mirror(context, run, *calls).await?));
            answer_in_run(context, (JobKind::Balances, request), ask).await?
        }
        ControlRequest::RunJob { job, input } => return run_job(context, job, input).await,
    };
    Ok((answer, None))
}

/// Makes the request in a run, whose input it is: the run is no pass of the job.
async fn answer_in_run(
    context: &JobContext,
    (job, request): (JobKind, &ControlRequest),
    ask: impl AsyncFnOnce(RunId) -> Result<Value, JobError>,
) -> Result<Value, JobError> {
    let work = async |run| {
        let answer = ask(run).await;
        let end = match &answer {
            Ok(answer) => match answer["why"].as_str() {
                Some(why) if !why.is_empty() => (RunOutcome::Failed, format!("an operator's request: {why}")),
                _ => (RunOutcome::Ok, "an operator's request: the platform answered".to_owned()),
            },
            Err(error) => (RunOutcome::Failed, error.to_string()),
        };
        (answer, end)
    };
    let end = RunEnd::Beside(Durability::Full);
    exec::with_run(context, (job, RunTrigger::Operator), end, Some(&json!(request)), work).await?
}

async fn run_job(
    context: &JobContext,
    job: &str,
    input: &RunArgs,
) -> Result<(Value, Option<FinishedRun>), JobError> {
    let kind = job.parse().map_err(|_| JobError::Implausible(format!("there is no job {job}")))?;
    let run = run_job_with(context, kind, RunTrigger::Operator, input);
    let finished = match unless_paused(context, kind, run).await? {
        Ok(finished) => finished,
        Err(pause) => {
            let (outcome, summary) =
                ("paused".to_owned(), format!("it did not run, because {}", pause.to_text()));
            return Ok((json!(RunResult { is_good: false, outcome, summary }), None));
        }
    };
    let is_good = finished.outcome == RunOutcome::Ok;
    let (outcome, summary) = (finished.outcome.as_str().to_owned(), finished.summary.clone());
    Ok((json!(RunResult { is_good, outcome, summary }), Some(finished)))
}

/// Answers a request of a command, and returns the run it made, if any.
pub(in crate::daemon) async fn serve_request(
    context: JobContext,
    row: ControlRequestRow,
) -> Result<Option<FinishedRun>, StoreError> {
    let (asked_at, mut done) = (Timestamp::parse(&row.asked_at), None);
    let reply: ControlReply = match ControlRequest::from_row(&row) {
        _ if asked_at.is_none_or(|at| context.now().duration_since(at) > REQUEST_AGE_MAX) => {
            Err("the request is too old; send it again".into())
        }
        Ok(request) => match answer_request(&context, &request).await {
            Ok((answer, finished)) => {
                done = finished;
                Ok(answer)
            }
            Err(JobError::Store(error)) if !error.is_transient() => return Err(error),
            Err(error) => Err(error.to_string()),
        },
        Err(why) => Err(format!(
            "the daemon does not support this request ({why}); check that daemon and command have the same version"
        )),
    };
    let mut write = context.store.begin_write(Durability::Normal).await?;
    write.request_complete(row.id, &json!(reply).to_string(), context.now()).await?;
    write.commit().await?;
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_survives_being_written_down() {
        let requests = [
            ControlRequest::Keys {},
            ControlRequest::FindProducts { by_upc: true, ids: vec!["4711".into()] },
            ControlRequest::Components { sku: "KIT".into() },
            ControlRequest::Verify { calls: 3 },
            ControlRequest::RunJob { job: "balances".into(), input: RunArgs::default() },
        ];
        for request in requests {
            let (kind, input) = request.to_columns();
            let row = ControlRequestRow { id: 1, kind, input, asked_at: String::new() };
            assert_eq!(ControlRequest::from_row(&row).unwrap(), request);
        }
    }
}
