//! `shipment.create`: several orders per call, each once, each read just before. Lines and quantities are
//! explicit.

use super::{Deliver, Fold, Parcel, Wish, order_subject, refusal, unmatched};
use crate::client::Request;
use crate::client::wire::{self, CreatedShipment, Invalid, Outcome};
use crate::exec::JobError;
use crate::exec::call::Answer;
use crate::exec::preflight::{self, Looker};
use crate::model::{Lane, LineItemId, Moment, Operation, OrderId, Position, WishId};
use crate::outbox::{Body, Kind, Reason, ShipmentCreate, State};
use crate::projection;
use crate::push::summary::Tally;
use crate::reconcile::Plan;
use crate::reconcile::shipment::{ClaimedLine, plan};
use crate::store::{Kept, Store, StoreError, Verdict, Write};
use serde_json::json;

/// Limit of orders per call. Each order costs a read, so more orders would save few calls and delay the first
/// one.
pub(super) const ORDERS_MAX: usize = 10;

/// Operations that may fail for an order.
const ENTRY: &[Operation] = &[Operation::GetOrderLineItems, Operation::CreateShipments];

/// Order of the call.
pub(super) type Load = Parcel<(OrderId, Vec<ClaimedLine>)>;

pub(super) async fn deliver(
    deliver: &mut Deliver<'_>,
    lane: Lane,
    wishes: &[Wish],
    tally: &mut Tally,
) -> Result<bool, JobError> {
    let ours = wishes.iter().filter_map(|wish| match &wish.body {
        Body::ShipmentCreate(create) => Some((wish.id, order_subject(create), create)),
        _ => None,
    });
    let turn = deliver.in_turn(ours.collect()).await?;
    let turn = deliver.not_aside(ENTRY, turn, |wish| wish.order_id.to_string(), tally).await?;
    let turn = deliver.share_call(turn, ORDERS_MAX);
    if turn.is_empty() {
        return Ok(false);
    }
    let (mut loads, mut seen_at) = (Vec::new(), None::<Moment>);
    for (id, subject, wish) in turn {
        let looker = Looker { context: deliver.context, run: deliver.run, lane };
        let look = preflight::order(looker, wish.order_id).await;
        let Some(seen) = deliver.seen(id, look, tally).await? else { continue };
        let plan = planned(&deliver.context.store, wish, &seen.what).await?;
        let Some(lines) = deliver.planned(id, plan, tally).await? else { continue };
        seen_at.get_or_insert(seen.sent_moment);
        loads.push(load(id, subject, wish, lines));
    }
    if let Some(seen_at) = seen_at
        && let Some(answer) = deliver.carry_parcels(lane, request(&loads), &loads, seen_at, tally).await?
    {
        conclude(deliver, &loads, &answer, tally).await?;
    }
    Ok(true)
}

/// Plans a shipment on an answer. A change without lines ships all that is left. An answer that lacks a known
/// line therefore does not serve such a change.
async fn planned(
    store: &Store,
    wish: &ShipmentCreate,
    seen: &preflight::Order,
) -> Result<Plan<Vec<ClaimedLine>>, StoreError> {
    let shown: Vec<LineItemId> = seen.lines.iter().map(|line| line.line_item_id).collect();
    if wish.lines.is_none()
        && !shown.is_empty()
        && let Some(line) = store.order_line_unshown(wish.order_id, &shown).await?
    {
        let detail =
            format!("the service does not show line {line} of order {}; see it there", wish.order_id);
        return Ok(Plan::Lacking { reason: Reason::NoFact, detail });
    }
    Ok(plan(wish, seen.fact()))
}

pub(super) fn load(id: WishId, subject: String, wish: &ShipmentCreate, lines: Vec<ClaimedLine>) -> Load {
    let kept = Kept { id, kind: Kind::ShipmentCreate.as_str(), subject, claimed: json!(lines) };
    Parcel { kept, entry: (wish.order_id, lines) }
}

/// Builds the call that creates these shipments.
pub(super) fn request(loads: &[Load]) -> Result<Request, Invalid> {
    wire::create_shipments(&loads.iter().map(order).collect::<Vec<_>>())
}

fn order(load: &Load) -> wire::ShipmentOrder {
    let (order_id, lines) = &load.entry;
    let line =
        |line: &ClaimedLine| wire::ShipmentLine { line_item_id: line.line_item_id, quantity: line.quantity };
    wire::ShipmentOrder { order_id: *order_id, lines: lines.iter().map(line).collect() }
}

/// Completes each order by the request that its record echoes. An order with no record, or with two, is in
/// doubt then.
async fn conclude(
    deliver: &mut Deliver<'_>,
    loads: &[Load],
    answer: &Answer,
    tally: &mut Tally,
) -> Result<(), JobError> {
    let records = wire::decode_created_shipments(&answer.reply.body).map(|decoded| decoded.records);
    let records: Vec<CreatedShipment> = records.unwrap_or_default();
    deliver.conclude(answer, &Told { loads, records }, tally).await
}

/// Parsed answer to the creation of shipments.
struct Told<'a> {
    loads: &'a [Load],
    records: Vec<CreatedShipment>,
}

impl Fold for Told<'_> {
    async fn fold(
        &self,
        write: &mut Write,
        answer: &Answer,
        _: Position,
    ) -> Result<Vec<Verdict>, StoreError> {
        let orders: Vec<OrderId> = self.loads.iter().map(|load| load.entry.0).collect();
        projection::shipments_made(write, answer.id, answer.sent_at, &orders, &self.records).await?;
        let mut moves = Vec::new();
        for Parcel { kept, entry: (order_id, _) } in self.loads {
            let ours = projection::shipment_record(&self.records, *order_id);
            if let Some(refused) = ours.filter(|ours| ours.outcome() == Outcome::Refused) {
                moves.push(refusal(kept.id, &refused.messages));
                continue;
            }
            let Some(made) = ours.and_then(|ours| projection::shipment_of(ours, *order_id)) else {
                moves.push(unmatched(kept.id));
                continue;
            };
            write.delivery_made(kept.id, made.id.0).await?;
            moves.push(Verdict::new(kept.id, State::Applied, None, format!("shipment {}", made.id)));
        }
        Ok(moves)
    }
}
