//! `work_queue`: the account's counts, read each minute: a time series and a hint of changed orders.
//!
//! If a count of sales orders changed, the orders are read at once instead of at their next turn. If none
//! changed, the next run of [`super::order_lines`] need not read them again.

use crate::client::wire;
use crate::exec::call::READ_ATTEMPTS;
use crate::exec::{JobContext, JobError, RunReport};
use crate::model::{JobKind, Lane, RunId};
use crate::projection;

pub(crate) async fn run(context: &JobContext, run: RunId) -> Result<RunReport, JobError> {
    let (request, decode) = (wire::work_queue(), wire::decode_work_queue);
    let (answer, queue) =
        context.read_decoded(READ_ATTEMPTS, run, Lane::Poll, "the work queue", &request, decode).await?;
    let mut write = context.begin_recording(&answer).await?;
    let moved = projection::project_work_queue(&mut write, answer.id, answer.sent_at, &queue).await?;
    write.commit().await?;
    let mut report = RunReport::ok(if moved.any_differs { "the counts changed" } else { "no count changed" });
    report.wakes = moved.orders_differ.then_some(JobKind::OrderLines);
    Ok(report)
}
