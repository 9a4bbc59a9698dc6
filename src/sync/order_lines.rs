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
//! If the work queue's counts of orders did not change, every second scheduled run skips the orders that the
//! counts confirm. No order waits longer than two intervals, and an order that changes a count is read at
//! once ([`super::work_queue`]). A run with any other trigger reads all due orders.

use super::entry_reads::{Aside, Asks, Came, Entry};
use crate::client::Verdict;
use crate::client::wire;
use crate::exec::{Context, JobError, Report};
use crate::model::{Lane, LineItemId, Operation, OrderId, RunId, Trigger};
use crate::projection;
use crate::store::{AskedOrder, Durability, StoreError};
use crate::telemetry::event;
use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Most allocations asked for in one run, because more would delay the orders by minutes. The next run
/// continues.
const ALLOCATIONS_MAX: usize = 200;
/// Most named orders that one run of the daemon reads. The others are read between the passes.
const NAMED_MAX: usize = 200;
/// Most closed orders read in one run, with room in the quota and without.
const CLOSED_MAX: (usize, usize) = (50, 5);

/// Reads these orders, or the due ones if none is named.
pub(crate) async fn run(
    context: &Context,
    run: RunId,
    trigger: Trigger,
    only: &[OrderId],
) -> Result<Report, JobError> {
    let named = match trigger {
        _ if !only.is_empty() => 0,
        // No run between the passes follows these.
        Trigger::Once | Trigger::Operator => usize::MAX,
        _ => NAMED_MAX,
    };
    let mut pass = Pass::begin(context, run, named).await?;
    let said = if only.is_empty() { pass.take_due(trigger).await? } else { pass.take(only) };
    pass.take_lines(None).await?;
    pass.work().await?;
    Ok(pass.report(said))
}

/// Reads at most `most` named orders.
pub(super) async fn read_named(context: &Context, run: RunId, most: usize) -> Result<Report, JobError> {
    let mut pass = Pass::begin(context, run, most).await?;
    pass.work().await?;
    Ok(pass.report(None))
}

/// Returns true if a named order exists that is not quarantined.
pub(super) async fn is_asked(context: &Context) -> Result<bool, StoreError> {
    Ok(context.store.order_asked(&waiting(context).await?).await?.is_some())
}

/// Returns the quarantined orders that are not due.
async fn waiting(context: &Context) -> Result<Vec<OrderId>, StoreError> {
    let aside = context.aside(Operation::GetOrderLineItems).await?;
    let waiting = aside.waiting(context.now()).filter_map(|(subject, _)| subject.parse().ok());
    Ok(waiting.map(OrderId).collect())
}

/// A line to read the allocation of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Line(OrderId, LineItemId);

impl Entry for Line {
    fn subject(&self) -> String {
        format!("{}/{}", self.0, self.1)
    }

    fn name(&self) -> String {
        format!("line {} of order {}", self.1, self.0)
    }
}

/// An order to read.
#[derive(Clone, Copy, Debug)]
struct Order {
    id: OrderId,
    /// The operator's request, if the order was named.
    asked: Option<AskedOrder>,
}

impl Entry for Order {
    fn subject(&self) -> String {
        self.id.to_string()
    }

    fn name(&self) -> String {
        format!("order {}", self.id)
    }
}

/// Pass over the orders.
struct Pass<'a> {
    context: &'a Context,
    run: RunId,
    /// Number of named orders that may still be read.
    named_left: usize,
    /// Named orders that were asked for in this run or are quarantined.
    named_done: Vec<OrderId>,
    due: VecDeque<OrderId>,
    lines: VecDeque<Line>,
    lines_seen: BTreeSet<Line>,
    orders: Aside<'a, Orders<'a>>,
    allocations: Aside<'a, Allocations<'a>>,
}

impl<'a> Pass<'a> {
    async fn begin(context: &'a Context, run: RunId, named_left: usize) -> Result<Self, JobError> {
        let not_found = AtomicUsize::new(0);
        Ok(Self {
            context,
            run,
            named_left,
            named_done: waiting(context).await?,
            due: VecDeque::new(),
            lines: VecDeque::new(),
            lines_seen: BTreeSet::new(),
            orders: Aside::begin(context, Orders { context, run }).await?,
            allocations: Aside::begin(context, Allocations { context, run, not_found }).await?,
        })
    }

    /// Queues the orders that an operator gave this run.
    fn take(&mut self, only: &[OrderId]) -> Option<String> {
        self.due.extend(only);
        None
    }

    /// Queues the due orders. Returns a remark about orders that are not read, for the summary.
    async fn take_due(&mut self, trigger: Trigger) -> Result<Option<String>, JobError> {
        let (context, now) = (self.context, self.context.now());
        let mut orders = context.store.tracked_order_due(now).await?;
        let mut said = match trigger {
            Trigger::Schedule => hold_back(context, self.run, &mut orders.open).await?,
            _ => None,
        };
        let (roomy, busy) = CLOSED_MAX;
        let most = if context.limiter.budget().has_room() { roomy } else { busy };
        let later = orders.closed.len().saturating_sub(most);
        if later > 0 {
            said.get_or_insert_default().push_str(&format!("; {later} closed order(s) are looked at later"));
        }
        orders.closed.truncate(most);
        let voucher = context.store.order_to_vouch(&self.named_done).await?;
        self.due.extend(voucher);
        for id in orders.named.into_iter().filter(|order| self.named_done.contains(order)) {
            // Counts the order as quarantined in the summary.
            self.orders.admits(Order { id, asked: None });
        }
        let due = orders.open.into_iter().chain(orders.closed);
        for order in due.filter(|order| Some(*order) != voucher) {
            if self.orders.admits(Order { id: order, asked: None }) {
                self.due.push_back(order);
            }
        }
        Ok(said)
    }

    /// Queues the lines without a known allocation: of all orders, or those of `first` before all others.
    async fn take_lines(&mut self, first: Option<OrderId>) -> Result<(), JobError> {
        let unread = self.context.store.allocation_unread(self.context.now(), first).await?;
        for (order, line) in unread {
            let line = Line(order, line);
            if !self.lines_seen.insert(line) || !self.allocations.admits(line) {
                continue;
            }
            if first.is_some() { self.lines.push_front(line) } else { self.lines.push_back(line) }
        }
        Ok(())
    }

    /// Makes calls in turns until the queues are empty.
    async fn work(&mut self) -> Result<(), JobError> {
        let mut allocations = 0;
        loop {
            let asked = self.next_named().await?;
            if let Some(asked) = asked {
                self.order(Order { id: OrderId(asked.order_id), asked: Some(asked) }).await?;
            }
            let due = self.due.pop_front();
            if let Some(id) = due {
                self.order(Order { id, asked: None }).await?;
            }
            let line = if allocations < ALLOCATIONS_MAX { self.lines.pop_front() } else { None };
            if let Some(line) = line {
                allocations += 1;
                self.allocations.ask(line).await?;
            }
            if asked.is_none() && due.is_none() && line.is_none() {
                break;
            }
        }
        self.orders.ask_behind().await?;
        self.allocations.ask_behind().await
    }

    /// Reads an order. The allocations of its new lines come next.
    async fn order(&mut self, order: Order) -> Result<(), JobError> {
        if self.orders.ask(order).await? { self.take_lines(Some(order.id)).await } else { Ok(()) }
    }

    /// Returns the order named last that was not yet read in this run.
    async fn next_named(&mut self) -> Result<Option<AskedOrder>, JobError> {
        if self.named_left == 0 {
            return Ok(None);
        }
        let named = self.context.store.order_asked(&self.named_done).await?;
        if let Some(asked) = named {
            self.named_left -= 1;
            self.named_done.push(OrderId(asked.order_id));
        }
        Ok(named)
    }

    /// Returns the report of the run; `said` is a remark about the orders.
    fn report(self, said: Option<String>) -> Report {
        let (_, orders) = self.orders.ended();
        let mut orders = orders.report("order(s)", "line(s)");
        orders.summary.extend(said);
        let (asked, lines) = self.allocations.ended();
        if self.lines.is_empty() && lines.is_empty() {
            return orders;
        }
        let mut lines = lines.report("line(s)", "allocation(s)");
        match asked.not_found.into_inner() {
            0 => {}
            lost => lines.summary.push_str(&format!(", {lost} of an order the service does not find")),
        }
        if !self.lines.is_empty() {
            lines.summary.push_str(&format!(", {} are left to the next run", self.lines.len()));
        }
        orders.and(&lines)
    }
}

/// Removes orders confirmed by the work queue's counts from `due`. Returns a remark for the summary.
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

/// *Get line items of a sales order*.
struct Orders<'a> {
    context: &'a Context,
    run: RunId,
}

impl Asks for Orders<'_> {
    type Entry = Order;
    const OPERATION: Operation = Operation::GetOrderLineItems;

    async fn ask(&self, Order { id, asked }: Order, attempts: usize) -> Result<Came, JobError> {
        let (context, request) = (self.context, wire::get_order_line_items(id));
        let what = format!("the lines of order {id}");
        let answer = context.read_within(attempts, self.run, Lane::Poll, &what, &request).await?;
        let items = context.decoded(&answer, wire::decode_order_line_items(&answer.reply.body)).await?;
        let mut write = context.store.begin(Durability::Normal).await?;
        context.exchange_end(&mut write, &answer).await?;
        let changed = projection::order_lines(&mut write, answer.id, answer.sent_at, id, &items).await?;
        if let Some(asked) = asked {
            write.order_asked_done(asked).await?;
        }
        write.commit().await?;
        Ok(changed.into())
    }
}

/// *Get warehouse allocation of an order line item*.
struct Allocations<'a> {
    context: &'a Context,
    run: RunId,
    /// Lines of orders that the platform does not find.
    not_found: AtomicUsize,
}

impl Asks for Allocations<'_> {
    type Entry = Line;
    const OPERATION: Operation = Operation::WarehouseAllocation;

    /// Reads and records an allocation. A 404 of the order is a fact too, and asked for again after a day.
    async fn ask(&self, Line(order, line): Line, attempts: usize) -> Result<Came, JobError> {
        let (context, request) = (self.context, wire::warehouse_allocation(order, line));
        let what = format!("the allocation of line {line} of order {order}");
        let answer = context.read_or_not_found(attempts, self.run, Lane::Poll, &what, &request).await?;
        let found = match answer.reply.verdict {
            Verdict::Accepted => {
                Some(context.decoded(&answer, wire::decode_allocations(&answer.reply.body)).await?)
            }
            _ => None,
        };
        let mut write = context.store.begin(Durability::Normal).await?;
        context.exchange_end(&mut write, &answer).await?;
        projection::allocations(&mut write, answer.id, answer.sent_at, (order, line), found.as_ref()).await?;
        write.commit().await?;
        self.not_found.fetch_add(usize::from(found.is_none()), Ordering::Relaxed);
        Ok(u64::from(found.is_some()).into())
    }
}
