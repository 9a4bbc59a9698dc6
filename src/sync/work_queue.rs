//! `work_queue`: the account's counts, read each minute: a time series and a hint of changed orders.
//!
//! If a count of sales orders changed, the orders are read at once instead of at their next turn. If none
//! changed, the next run of [`super::order_lines`] need not read them again.

use crate::client::wire;
use crate::exec::{Context, JobError, Report};
use crate::model::{JobKind, Lane, RunId};
use crate::projection;
use crate::store::Durability;

pub(crate) async fn run(context: &Context, run: RunId) -> Result<Report, JobError> {
    let answer = context.read(run, Lane::Poll, "the work queue", &wire::work_queue()).await?;
    let queue = context.decoded(&answer, wire::decode_work_queue(&answer.reply.body)).await?;
    let mut write = context.store.begin(Durability::Normal).await?;
    context.exchange_end(&mut write, &answer).await?;
    let moved = projection::work_queue(&mut write, answer.id, answer.sent_at, &queue).await?;
    write.commit().await?;
    let mut report = Report::ok(if moved.any { "the counts moved" } else { "no count moved" });
    report.wakes = moved.orders.then_some(JobKind::OrderLines);
    Ok(report)
}
