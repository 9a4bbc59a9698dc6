//! `order_lines`: the lines of tracked orders, and where new lines are taken from. Each order is one call, and each new
//! line is one more.
//!
//! Three queues take turns, so that none waits for another's end: the orders somebody named or tracked a moment ago, the
//! last of them first; those that are due, stalest first, closed ones behind the open ones; and the lines whose allocation
//! is not known. The first queue is looked at anew before each call: with a pass of hours under way an order that is
//! tracked now is still known after a few calls. Between the passes [`read_named`] reads that queue alone.
//!
//! The operations page but take no page parameters: an answer with more than one page is recorded as incomplete, and
//! no shipment is decided on it. An order that fails is asked for behind the others ([`super::aside`]).
//!
//! Where the work queue's counts of orders did not move, one run in two of the schedule holds the orders back that they
//! vouch for: no order waits longer than two intervals, and one that moves a count is read at once ([`super::work_queue`]).
//! A run that anything else began reads all.

use super::aside::{Aside, Asks, Came, Entry};
use super::{Context, JobError, Report, record};
use crate::client::Verdict;
use crate::client::wire;
use crate::model::{Lane, LineItemId, Operation, OrderId, RunId, Trigger};
use crate::store::{AskedOrder, Durability, StoreError};
use crate::telemetry::event;
use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Allocations asked for in one run. More would keep the orders from being read again for minutes; the next run goes
/// on with the rest.
const ALLOCATIONS_MAX: usize = 200;
/// Named orders that one run of the daemon reads beside the others; those that are left are read between the passes.
const NAMED_MAX: usize = 200;
/// Closed orders that one run looks at again where there is room in the quota, and where there is none.
const CLOSED_MAX: (usize, usize) = (50, 5);

/// Reads these orders, or those that are due where none is named.
pub(super) async fn run(
    context: &Context,
    run: RunId,
    trigger: Trigger,
    only: &[OrderId],
) -> Result<Report, JobError> {
    let named = match trigger {
        _ if !only.is_empty() => 0,
        // Nobody goes on where this run ends.
        Trigger::Once | Trigger::Operator => usize::MAX,
        _ => NAMED_MAX,
    };
    let mut pass = Pass::begin(context, run, named).await?;
    let said = if only.is_empty() { pass.take_due(trigger).await? } else { pass.take(only) };
    pass.take_lines(None).await?;
    pass.work().await?;
    Ok(pass.report(said))
}

/// Reads so many orders that somebody named.
pub(super) async fn read_named(context: &Context, run: RunId, most: usize) -> Result<Report, JobError> {
    let mut pass = Pass::begin(context, run, most).await?;
    pass.work().await?;
    Ok(pass.report(None))
}

/// True if somebody named an order that is not set aside.
pub(super) async fn is_asked(context: &Context) -> Result<bool, StoreError> {
    Ok(context.store.order_asked(&waiting(context).await?).await?.is_some())
}

/// The orders that are set aside and not due.
async fn waiting(context: &Context) -> Result<Vec<OrderId>, StoreError> {
    let aside = context.aside(Operation::GetOrderLineItems).await?;
    let waiting = aside.waiting(context.now()).filter_map(|(subject, _)| subject.parse().ok());
    Ok(waiting.map(OrderId).collect())
}

/// A line whose allocation is asked for.
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

/// An order that is asked for.
#[derive(Clone, Copy, Debug)]
struct Order {
    id: OrderId,
    /// Its turn, where somebody named it.
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

/// Run over the orders.
struct Pass<'a> {
    context: &'a Context,
    run: RunId,
    /// Number of named orders that may still be read.
    named_left: usize,
    /// Named orders that were asked for in this run, or wait aside.
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

    /// Takes in the orders that a person named for this run.
    fn take(&mut self, only: &[OrderId]) -> Option<String> {
        self.due.extend(only);
        None
    }

    /// Takes in the orders that are due; what to say of those that are not read, if that is anything.
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
            // It is set aside and not due, and is told so.
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

    /// Takes in the lines whose allocation is not known: of all orders, or before all others those of `first`.
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

    /// Asks in turns until nobody is left.
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

    /// Asks for an order among the others. The allocations of its new lines are next.
    async fn order(&mut self, order: Order) -> Result<(), JobError> {
        if self.orders.ask(order).await? { self.take_lines(Some(order.id)).await } else { Ok(()) }
    }

    /// The order that was named last and had no turn in this run yet.
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

    /// Report of the run; `said` is said of the orders too.
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
        let changed = record::order_lines(&mut write, answer.id, answer.sent_at, id, &items).await?;
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
    /// Lines of orders that the service does not find.
    not_found: AtomicUsize,
}

impl Asks for Allocations<'_> {
    type Entry = Line;
    const OPERATION: Operation = Operation::WarehouseAllocation;

    /// That the service does not find the order (404) is a fact too, and asked for again after a day.
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
        record::allocations(&mut write, answer.id, answer.sent_at, (order, line), found.as_ref()).await?;
        write.commit().await?;
        self.not_found.fetch_add(usize::from(found.is_none()), Ordering::Relaxed);
        Ok(u64::from(found.is_some()).into())
    }
}
