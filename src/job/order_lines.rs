//! `order_lines`: the lines of open tracked orders, stalest first, and where new lines are taken from. Each order is
//! one call, and each new line is one more.
//!
//! The operations page but take no page parameters: an answer with more than one page is recorded as incomplete, and
//! no shipment is decided on it. An order the service refuses is left where it is and named; the others go on.
//!
//! Where the work queue's counts of orders did not move, one run in two of the schedule holds the orders back that they
//! vouch for: no order waits longer than two intervals, and one that moves a count is read at once ([`super::work_queue`]).
//! A run that anything else began reads all.

use super::tally::Tally;
use super::{Context, JobError, Report, record};
use crate::client::Verdict;
use crate::client::wire;
use crate::model::{Lane, LineItemId, OrderId, RunId, Trigger};
use crate::store::Durability;
use crate::telemetry::event;

/// Allocations asked for in one run. More would keep the orders from being read again for minutes; the next run goes
/// on with the rest.
const ALLOCATIONS_MAX: usize = 200;

/// Reads these orders, or those that are due where none is named.
pub(super) async fn run(
    context: &Context,
    run: RunId,
    trigger: Trigger,
    only: &[OrderId],
) -> Result<Report, JobError> {
    let mut tally = Tally::default();
    let mut due = match only {
        [] => context.store.tracked_order_due(context.now()).await?,
        named => named.to_vec(),
    };
    let held_back = match (trigger, only) {
        (Trigger::Schedule, []) => hold_back(context, run, &mut due).await?,
        _ => None,
    };
    for order in due {
        tally.count(order, one(context, run, order).await)?;
    }
    let mut report = tally.report("order(s)", "line(s)");
    report.summary.extend(held_back);
    match allocations(context, run).await? {
        Some(taken) => Ok(report.and(&taken)),
        None => Ok(report),
    }
}

/// Takes out of `due` what the work queue's counts vouch for; what to say of it, if that is anything.
async fn hold_back(
    context: &Context,
    run: RunId,
    due: &mut Vec<OrderId>,
) -> Result<Option<String>, JobError> {
    let Some(vouched) = context.store.orders_vouched(run).await? else { return Ok(None) };
    let all = due.len();
    due.retain(|order| !vouched.orders.contains(order));
    let (orders, looked_at) = (all - due.len(), vouched.looked_at);
    if orders == 0 {
        return Ok(None);
    }
    let why = format!(
        "{orders} order(s) held back until the next run: by the work queue of {looked_at} no count of sales orders \
         moved since they were read"
    );
    tracing::info!(event = event::ORDERS_HELD_BACK, run = run.0, orders, "{why}");
    Ok(Some(format!("; {why}")))
}

/// Reads where new lines are taken from, if there are any.
async fn allocations(context: &Context, run: RunId) -> Result<Option<Report>, JobError> {
    let lines = context.store.allocation_unread(context.now()).await?;
    let (mut tally, mut not_found) = (Tally::default(), 0);
    for (order, line) in lines.iter().take(ALLOCATIONS_MAX) {
        let read = allocation(context, run, *order, *line).await;
        not_found += usize::from(matches!(read, Ok(false)));
        tally.count(format_args!("line {line} of order {order}"), read.map(u64::from))?;
    }
    let mut report = tally.report("line(s)", "allocation(s)");
    if not_found > 0 {
        report.summary.push_str(&format!(", {not_found} of an order the service does not find"));
    }
    if lines.len() > ALLOCATIONS_MAX {
        let later = lines.len() - ALLOCATIONS_MAX;
        report.summary.push_str(&format!(", {later} are left to the next run"));
    }
    Ok((!lines.is_empty()).then_some(report))
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

/// Reads where a line is taken from; false where the service does not find the order (404), which is a fact too and
/// asked for again after a day.
async fn allocation(
    context: &Context,
    run: RunId,
    order: OrderId,
    line: LineItemId,
) -> Result<bool, JobError> {
    let what = format!("the allocation of line {line} of order {order}");
    let request = wire::warehouse_allocation(order, line);
    let answer = context.read_or_not_found(run, Lane::Poll, &what, &request).await?;
    let found = match answer.reply.verdict {
        Verdict::Accepted => {
            Some(context.decoded(&answer, wire::decode_allocations(&answer.reply.body)).await?)
        }
        _ => None,
    };
    let mut write = context.store.begin(Durability::Normal).await?;
    context.exchange_end(&mut write, &answer).await?;
    record::allocations(&mut write, answer.id, answer.sent_at, (order, line), found.as_ref()).await?;
    write.commit().await?;
    Ok(found.is_some())
}
