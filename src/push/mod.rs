//! `push`: delivers the changes of the outbox.
//!
//! Quantities go first. Shipments and trackings go beside them, all other changes behind them ([`turns`]). The
//! outbox wakes the job, not a schedule.
//!
//! Quantities go in batches of as many SKUs as one read takes ([`pipeline`]). The job reads the stale stock levels
//! of a batch and applies the changes that need no call. It packs the rest into as few calls as possible. It
//! reads the next batch while calls are in flight.
//!
//! - A few stock levels wait for others first ([`delay`]).
//! - A call that would not be full waits for the next batch while there is one. The number of calls is
//!   therefore the lower bound over the whole backlog.
//! - Each call checks its plan at its send, and plans again if something moved ([`send`]).
//!
//! | files | subject |
//! | --- | --- |
//! | `turns`, `run` | the runner of all calls, and the state of a run |
//! | `snapshot`, `snapshot_rows`, `backlog` | the facts and changes of a batch, the queue of stock levels |
//! | `pipeline`, `batch`, `routes`, `delay`, `finished_calls` | batches, isolated SKUs, delay of a few, ended calls |
//! | `without_call` | changes that need no call |
//! | `brake` | the brakes over the backlog and over one update |
//! | `send`, `claim`, `refusal`, `summary` | one call: claim, send, completion, its end, the summary of the run |
//! | `kinds` | the kinds other than quantities |
//! | `preview` | the plan of the next push without a call |

mod backlog;
mod batch;
mod brake;
mod claim;
mod delay;
mod finished_calls;
mod kinds;
mod pipeline;
mod preview;
mod refusal;
mod routes;
mod run;
mod send;
mod snapshot;
mod snapshot_rows;
mod summary;
mod turns;
mod without_call;

pub use preview::{PlannedRequest, PushPreview};

use self::run::PushRun;
use crate::exec::{JobContext, JobError, JobSettings, RunReport};
use crate::model::{ChangeId, JobKind, Moment, RunId, Timestamp};
use crate::store::Store;

/// Delivers all changes. No call is in flight at the begin and at the end of the run, so a change that is `sending`
/// then has an answer that could not be recorded.
pub(crate) async fn run(context: &JobContext, run: RunId) -> Result<RunReport, JobError> {
    claim::doubt_unrecorded(context, "the commit of an earlier run failed").await?;
    let delivered = deliver_changes(context, run).await;
    if let Err(error) = &delivered {
        claim::doubt_unrecorded(context, &error.to_string()).await?;
    }
    delivered
}

async fn deliver_changes(context: &JobContext, run: RunId) -> Result<RunReport, JobError> {
    let mut push = PushRun::new(context, run);
    push.deliver().await?;
    if let Some(error) = push.drain_error {
        return Err(error);
    }
    let has_more = push.wait_end.is_some() || (push.has_more && !push.is_cut_off);
    let mut summary = push.summary;
    summary.add_summary(push.others.map(|others| others.summary).unwrap_or_default());
    Ok(RunReport { wakes: has_more.then_some(JobKind::Push), ..summary.run_report() })
}

/// Plans the next push from the first window of the outbox.
///
/// `at`: the calendar time, and the time since the boot in which the daemon last ran. After another boot the
/// age of facts is an estimate until the daemon runs again.
pub async fn preview_push(
    store: &Store,
    settings: &JobSettings,
    at: (Timestamp, Moment),
) -> Result<PushPreview, JobError> {
    let window = store.outbox_window(ChangeId(0)).await?;
    let change_keys = store.outbox_pending_keys(&window).await?;
    let mut preview = PushPreview { change_keys, ..PushPreview::default() };
    preview.add_quantities(store, settings, (&window, at)).await?;
    kinds::preview_deliveries(store, &mut preview).await?;
    preview.note_remaining();
    if let Some(end) = window.end() {
        let (within, behind) = store.outbox_pending_around(end).await?;
        preview.later_changes = (within + behind).saturating_sub(preview.change_keys.len() as u64);
    }
    Ok(preview)
}
