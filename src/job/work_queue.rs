//! `work_queue`: the account's counts, read each minute; a time series, and a hint where to look.
//!
//! Where a count of sales orders moved, an order did: the orders are read at once instead of at their next turn. Where
//! calls are left over, the SKUs that move are read before their turn ([`super::balances`]).

use super::{Context, JobError, Report, balances, record};
use crate::client::wire;
use crate::model::{JobKind, Lane, RunId};
use crate::store::Durability;

pub(super) async fn run(context: &Context, run: RunId) -> Result<Report, JobError> {
    let answer = context.read(run, Lane::Poll, "the work queue", &wire::work_queue()).await?;
    let queue = context.decoded(&answer, wire::decode_work_queue(&answer.reply.body)).await?;
    let mut write = context.store.begin(Durability::Normal).await?;
    context.exchange_end(&mut write, &answer).await?;
    let moved = record::work_queue(&mut write, answer.id, answer.sent_at, &queue).await?;
    write.commit().await?;
    let movers = balances::read_movers(context, run).await?;
    let mut report = Report::ok(if moved.any { "the counts moved" } else { "no count moved" });
    if movers > 0 {
        report.summary.push_str(&format!("; {movers} SKU(s) that move were read before their turn"));
    }
    report.wakes = moved.orders.then_some(JobKind::OrderLines);
    Ok(report)
}
