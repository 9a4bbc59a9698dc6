//! Pauses in the daemon: no run of a paused job starts, and the end of a pause starts the job.
//!
//! The pause is read when a run is to start, from the row that `tallyd pause` writes. A run in progress goes on,
//! except that a push claims nothing more (`push/claim.rs`).

use crate::exec::JobContext;
use crate::model::{JobKind, Position, Timestamp};
use crate::store::{Durability, PauseRow, StoreError};
use crate::telemetry::event;

/// Does work of a job, or returns the pause of the job. A database that is away delays the work, as it delays
/// the begin of a run.
pub(super) async fn unless_paused<T>(
    context: &JobContext,
    kind: JobKind,
    work: impl Future<Output = Result<T, StoreError>>,
) -> Result<Result<T, PauseRow>, StoreError> {
    let read = || context.store.pause_list(context.now());
    let pauses = context.retry_commit("read the paused jobs", read).await?;
    match pauses.into_iter().find(|pause| pause.job == kind.as_str()) {
        Some(pause) => Ok(Err(pause)),
        None => work.await.map(Ok),
    }
}

/// Ends the pauses whose time has come, and returns the time of the next end. Each end is an event of the
/// journal, which wakes the daemon as that of `tallyd resume` does.
pub(super) async fn end_due_pauses(context: &JobContext) -> Result<Option<Timestamp>, StoreError> {
    let (store, now) = (&context.store, context.now());
    let first = store.pause_first_end().await?;
    if first.is_none_or(|end| end > now) {
        return Ok(first);
    }
    let mut write = store.begin_write(Durability::Full).await?;
    write.pause_end_due(now).await?;
    write.commit().await?;
    store.pause_first_end().await
}

/// Logs the pauses that began or ended after a position, because a command has no log. Returns the resumed jobs
/// of which a scheduled start passed during the pause.
pub(super) async fn log_pauses(context: &JobContext, after: Position) -> Result<Vec<JobKind>, StoreError> {
    let mut missed = Vec::new();
    for decision in context.store.pause_events(after).await? {
        let Some(kind) = JobKind::from_code(&decision.job) else { continue };
        let (job, until) = (kind.as_str(), decision.until_ms.map(|until| Timestamp(until).to_rfc3339()));
        if decision.is_pause {
            let why = decision.why;
            tracing::info!(event = event::JOB_PAUSED, job, until, "an operator paused {job}: {why}");
        } else {
            tracing::info!(event = event::JOB_RESUMED, job, "the pause of {job} has ended");
            missed.extend(decision.is_missed.then_some(kind));
        }
    }
    Ok(missed)
}
