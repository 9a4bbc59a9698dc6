//! `order_lines`: the lines of open tracked orders, stalest first. Each order is one call.
//!
//! The operation pages but takes no page parameters: an answer with more than one page is recorded as incomplete, and
//! no shipment is decided on it. An order the service refuses is left where it is and named; the others go on.

use super::{Context, JobError, Report, record};
use crate::client::wire;
use crate::model::{Lane, OrderId, RunId};
use crate::store::Durability;

/// So many refused orders are named in the summary; the rest is counted.
const NAMED: usize = 5;

pub(super) async fn run(context: &Context, run: RunId) -> Result<Report, JobError> {
    let orders = context.store.tracked_order_open().await?;
    let (mut changed, mut refused) = (0, Vec::new());
    for order in &orders {
        match one(context, run, *order).await {
            Ok(lines) => changed += lines,
            Err(JobError::Rejected { why, .. }) => refused.push(format!("{order} ({why})")),
            Err(JobError::GivenUp { why, .. } | JobError::Implausible(why)) => {
                refused.push(format!("{order} ({why})"))
            }
            Err(error) => return Err(error),
        }
    }
    let read = orders.len() - refused.len();
    let mut summary = format!("{read} order(s) read, {changed} line(s) new or changed");
    if refused.is_empty() {
        return Ok(Report::ok(summary));
    }
    let named = refused.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    summary.push_str(&format!("; {} not read: {named}", refused.len()));
    Ok(Report::partial(summary))
}

async fn one(context: &Context, run: RunId, order: OrderId) -> Result<u64, JobError> {
    let request = wire::get_order_line_items(order);
    let answer = context.read(run, Lane::Poll, &format!("the lines of order {order}"), &request).await?;
    let items = context.decoded(&answer, wire::decode_order_line_items(&answer.reply.body)).await?;
    let mut write = context.store.begin(Durability::Normal).await?;
    context.exchange_end(&mut write, &answer).await?;
    let changed = record::order_lines(&mut write, answer.id, answer.sent_at, order, &items).await?;
    write.commit().await?;
    Ok(changed)
}
