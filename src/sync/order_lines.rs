//! `order_lines`: the lines of tracked orders and the warehouse allocations of new lines.
//!
//! Each order costs one call, and each new line one more.
//!
//! Three queues take turns, so that none waits for the end of another: orders named by an operator or tracked
//! just now, the last one first; due orders, stalest first, open before closed; and lines without a known
//! allocation. The first queue is read again before each call, because a pass may last hours. Between the
//! passes [`read_named`] reads that queue alone.
//!
//! The operations have pages but no page parameters. An answer with more than one page is recorded as
//! incomplete, and no shipment is decided on it. A failed order is asked for again after the others
//! ([`super::entry_reads`]).
//!
//! If a count of sales orders changes, the orders are read at once ([`super::reports`]).

use super::entry_reads::{EntryReader, EntryResult, JobEntry};
use crate::client::Verdict;
use crate::client::wire;
use crate::exec::reads::ReadOrigin;
use crate::exec::{JobContext, JobError, RunReport};
use crate::model::{LineItemId, Operation, OrderId, RunId, RunTrigger, counted};
use crate::projection;
use crate::store::{RequestedOrder, StoreError};
use std::collections::{BTreeSet, VecDeque};
use std::fmt;

/// Most allocations of one order that a run asks for, so that a long order leaves calls for those of others.
const ALLOCATIONS_OF_ORDER_MAX: usize = 20;
/// Part of a minute's calls that one run spends on allocations at most, so that the orders are read again soon.
const ALLOCATIONS_PART: u32 = 4;
/// Most named orders that one run of the daemon reads. The others are read between the passes.
const NAMED_MAX: usize = 200;
/// Most closed orders read in one run, with room in the quota and without.
const CLOSED_MAX: (usize, usize) = (50, 5);

/// Reads these orders, or the due ones if none is named.
pub(crate) async fn run(
    context: &JobContext,
    run: RunId,
    trigger: RunTrigger,
    only: &[OrderId],
) -> Result<RunReport, JobError> {
    let named = match trigger {
        _ if !only.is_empty() => 0,
        // No run between the passes follows these.
        RunTrigger::Once | RunTrigger::Operator => usize::MAX,
        _ => NAMED_MAX,
    };
    let mut pass = OrdersPass::load(context, run, named).await?;
    pass.due.extend(only);
    let remark = if only.is_empty() { pass.queue_due().await? } else { None };
    pass.queue_lines(None).await?;
    pass.read_queues().await?;
    Ok(pass.run_report(remark))
}

pub(super) async fn read_named(context: &JobContext, run: RunId, most: usize) -> Result<RunReport, JobError> {
    let mut pass = OrdersPass::load(context, run, most).await?;
    pass.read_queues().await?;
    Ok(pass.run_report(None))
}

pub(super) async fn has_named_order(context: &JobContext) -> Result<bool, StoreError> {
    Ok(context.store.order_read_request_last(&deferred_orders(context).await?).await?.is_some())
}

async fn deferred_orders(context: &JobContext) -> Result<Vec<OrderId>, StoreError> {
    let quarantine = context.quarantine().await?;
    let waiting = quarantine.deferred_entries(Operation::GetOrderLineItems);
    Ok(waiting.into_iter().filter_map(|(subject, _)| subject.parse().ok()).map(OrderId).collect())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct UnreadAllocation(OrderId, LineItemId);

#[derive(Clone, Copy, Debug)]
struct OrderToRead {
    id: OrderId,
    /// The operator's request, if the order was named.
    request: Option<RequestedOrder>,
}

struct OrdersPass<'a> {
    context: &'a JobContext,
    named_left: usize,
    /// Named orders that were asked for in this run or are quarantined.
    named_skip: Vec<OrderId>,
    due: VecDeque<OrderId>,
    lines: VecDeque<UnreadAllocation>,
    lines_seen: BTreeSet<UnreadAllocation>,
    orders: EntryReader<'a, OrderToRead>,
    allocations: EntryReader<'a, UnreadAllocation>,
}

impl<'a> OrdersPass<'a> {
    async fn load(context: &'a JobContext, run: RunId, named_left: usize) -> Result<Self, JobError> {
        Ok(Self {
            context,
            named_left,
            named_skip: deferred_orders(context).await?,
            due: VecDeque::new(),
            lines: VecDeque::new(),
            lines_seen: BTreeSet::new(),
            orders: EntryReader::load(context, run).await?,
            allocations: EntryReader::load(context, run).await?,
        })
    }

    /// Queues the due orders. Returns a remark about orders that are not read, for the summary.
    async fn queue_due(&mut self) -> Result<Option<String>, JobError> {
        let (context, now) = (self.context, self.context.now());
        let (mut open, mut closed) = (Vec::new(), Vec::new());
        for (id, is_named, is_closed) in context.store.tracked_order_due(now).await? {
            match (is_named, is_closed) {
                (false, false) => open.push(id),
                (false, true) => closed.push(id),
                // Counts the order as quarantined in the summary.
                (true, _) if self.named_skip.contains(&id) => {
                    self.orders.may_read_now(OrderToRead { id, request: None });
                }
                (true, _) => {}
            }
        }
        let (roomy, busy) = CLOSED_MAX;
        let most = if context.limiter.quota_usage().has_spare_calls() { roomy } else { busy };
        let later = closed.len().saturating_sub(most);
        let remark = (later > 0).then(|| format!("; {} left to later runs", counted(later, "closed order")));
        closed.truncate(most);
        for order in open.into_iter().chain(closed) {
            if self.orders.may_read_now(OrderToRead { id: order, request: None }) {
                self.due.push_back(order);
            }
        }
        Ok(remark)
    }

    /// Queues the lines without a known allocation, of each order the first few: of all orders, or those of `first`
    /// before all others.
    async fn queue_lines(&mut self, first: Option<OrderId>) -> Result<(), JobError> {
        let unread = self.context.store.allocation_unread(self.context.now(), first).await?;
        for (order, line) in unread {
            let line = UnreadAllocation(order, line);
            let (lowest, highest) = (LineItemId(i64::MIN), LineItemId(i64::MAX));
            let of_order = UnreadAllocation(order, lowest)..=UnreadAllocation(order, highest);
            if self.lines_seen.range(of_order).count() >= ALLOCATIONS_OF_ORDER_MAX {
                continue;
            }
            if !self.lines_seen.insert(line) || !self.allocations.may_read_now(line) {
                continue;
            }
            if first.is_some() { self.lines.push_front(line) } else { self.lines.push_back(line) }
        }
        Ok(())
    }

    async fn read_queues(&mut self) -> Result<(), JobError> {
        let mut allocations_left = (self.context.limiter.quota_usage().limit / ALLOCATIONS_PART).max(1);
        loop {
            let named = self.next_named().await?;
            if let Some(named) = named {
                self.read_order(OrderToRead { id: OrderId(named.order_id), request: Some(named) }).await?;
            }
            let due = self.due.pop_front();
            if let Some(id) = due {
                self.read_order(OrderToRead { id, request: None }).await?;
            }
            let line = if allocations_left > 0 { self.lines.pop_front() } else { None };
            if let Some(line) = line {
                allocations_left -= 1;
                self.allocations.read_entry(line).await?;
            }
            if named.is_none() && due.is_none() && line.is_none() {
                break;
            }
        }
        self.orders.read_deferred().await?;
        self.allocations.read_deferred().await
    }

    /// Reads an order. The allocations of its new lines come next.
    async fn read_order(&mut self, order: OrderToRead) -> Result<(), JobError> {
        if self.orders.read_entry(order).await? { self.queue_lines(Some(order.id)).await } else { Ok(()) }
    }

    /// Returns the order named last that was not yet read in this run.
    async fn next_named(&mut self) -> Result<Option<RequestedOrder>, JobError> {
        if self.named_left == 0 {
            return Ok(None);
        }
        let named = self.context.store.order_read_request_last(&self.named_skip).await?;
        if let Some(request) = named {
            self.named_left -= 1;
            self.named_skip.push(OrderId(request.order_id));
        }
        Ok(named)
    }

    fn run_report(self, remark: Option<String>) -> RunReport {
        let mut orders = self.orders.summary.run_report("order", "line");
        orders.summary.extend(remark);
        let lines = self.allocations.summary;
        if self.lines.is_empty() && lines.is_empty() {
            return orders;
        }
        let mut lines = lines.run_report("line", "allocation");
        if !self.lines.is_empty() {
            lines.summary.push_str(&format!(", {} are left to the next run", self.lines.len()));
        }
        orders.combine_with(&lines)
    }
}

impl fmt::Display for OrderToRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.id.fmt(f)
    }
}

impl JobEntry for OrderToRead {
    const OPERATION: Operation = Operation::GetOrderLineItems;
    const NOUN: &'static str = "order";

    async fn read(self, origin: ReadOrigin<'_>, attempts: usize) -> Result<EntryResult, JobError> {
        let (id, request) = (self.id, wire::get_order_line_items(self.id));
        let what = format!("the lines of order {id}");
        let decode = |body: &_| wire::decode_order_line_items(body, id);
        let (answer, items) = origin.read_decoded(attempts, &what, &request, decode).await?;
        let mut write = origin.context.begin_recording(&answer).await?;
        let changed =
            projection::project_order_lines(&mut write, answer.id, answer.sent_at, id, &items).await?;
        if let Some(named) = self.request {
            write.order_read_request_done(named).await?;
        }
        write.commit().await?;
        Ok(changed.into())
    }
}

impl fmt::Display for UnreadAllocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.0, self.1)
    }
}

impl JobEntry for UnreadAllocation {
    const OPERATION: Operation = Operation::WarehouseAllocation;
    const NOUN: &'static str = "line";

    fn display_name(&self) -> String {
        format!("line {} of order {}", self.1, self.0)
    }

    /// Reads and records an allocation. A 404 of the order is a fact too, and asked for again after a day.
    async fn read(self, origin: ReadOrigin<'_>, attempts: usize) -> Result<EntryResult, JobError> {
        let Self(order, line) = self;
        let request = wire::warehouse_allocation(order, line);
        let what = format!("the allocation of line {line} of order {order}");
        let (answer, context) = (origin.read_within(attempts, &what, &request).await?, origin.context);
        let found = match answer.reply.verdict {
            Verdict::Accepted => {
                let decoded = wire::decode_allocations(&answer.reply.body, line);
                Some(context.decode_or_ignore(&answer, decoded).await?)
            }
            _ => None,
        };
        let mut write = context.begin_recording(&answer).await?;
        projection::project_allocations(&mut write, answer.id, answer.sent_at, (order, line), found.as_ref())
            .await?;
        write.commit().await?;
        let unreadable = found.as_ref().filter(|found| found.records.is_empty());
        match unreadable.and_then(|found| found.parked.first()) {
            Some(parked) => Err(JobError::Implausible(format!("{what} is unreadable ({})", parked.why))),
            None => Ok(u64::from(found.is_some()).into()),
        }
    }
}
