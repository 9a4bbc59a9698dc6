//! `shipment.create`: several orders per call, each once, each read just before.

use super::{
    CallEntry, DeliverableChange, DeliveryRun, KeyedChange, PlanSource, refusal_outcome, unmatched_outcome,
};
use crate::client::PlatformRequest;
use crate::client::wire::{self, CreatedShipment, InvalidRequest, WriteOutcome};
use crate::exec::JobError;
use crate::exec::call::AnsweredExchange;
use crate::exec::preflight::OrderSnapshot;
use crate::model::{LineItemId, Operation, OrderId, Position};
use crate::outbox::{ChangeBody, ChangeKind, ChangeState, Reason, ShipmentCreate};
use crate::projection;
use crate::push::claim::RecordAnswer;
use crate::reconcile::ChangePlan;
use crate::reconcile::shipments::{ClaimedLine, KnownOrder, OrderFact, is_whole_order, plan_shipment};
use crate::store::{ChangeOutcome, Store, StoreError, WriteTransaction};
use serde_json::json;

/// Limit of orders per call. Each order costs a read, so more orders would save few calls and delay the first
/// one.
pub(super) const ORDERS_MAX: usize = 10;

const ENTRY_OPERATIONS: &[Operation] = &[Operation::GetOrderLineItems, Operation::CreateShipments];

pub(super) type ShipmentCallEntry = CallEntry<wire::ShipmentOrder>;

pub(super) fn of_kind(changes: &[DeliverableChange]) -> Vec<KeyedChange<&ShipmentCreate>> {
    let of_kind = changes.iter().filter_map(|change| match &change.body {
        ChangeBody::ShipmentCreate(create) => Some((change.id, format!("order {}", create.order_id), create)),
        _ => None,
    });
    of_kind.collect()
}

pub(super) async fn deliver_shipments(
    deliver: &mut DeliveryRun,
    changes: &[DeliverableChange],
) -> Result<bool, JobError> {
    let turn = deliver.ready_changes(of_kind(changes)).await?;
    let turn = deliver.select_ready(ENTRY_OPERATIONS, turn, |change| change.order_id.to_string()).await?;
    let turn = deliver.take_for_call(turn, ORDERS_MAX);
    if turn.is_empty() {
        return Ok(false);
    }
    let mut entries = Vec::new();
    for change in turn {
        entries.extend(plan_entry(deliver, change).await?);
    }
    deliver.send_entries(shipments_request(&entries), &entries, &[], &AcceptedShipments(&entries)).await?;
    Ok(true)
}

pub(super) async fn plan_entry(
    source: &mut impl PlanSource,
    (id, key, change): KeyedChange<&ShipmentCreate>,
) -> Result<Option<ShipmentCallEntry>, JobError> {
    let Some(seen) = source.order(id, change.order_id).await? else { return Ok(None) };
    let plan = plan_order(source.store(), change, seen.records.as_ref()).await?;
    let Some(lines) = source.plan_content(id, plan, "its order").await? else { return Ok(None) };
    let (kind, content) = (ChangeKind::ShipmentCreate, wire_order(change, &lines));
    Ok(Some(CallEntry::new((id, key), kind, json!(lines), seen.sent_moment, content)))
}

/// Plans a shipment on an answer. A change without lines ships all that is left. An answer that lacks a known
/// line therefore does not serve such a change.
async fn plan_order(
    store: &Store,
    change: &ShipmentCreate,
    seen: Option<&OrderSnapshot>,
) -> Result<ChangePlan<Vec<ClaimedLine>>, StoreError> {
    let fact = match seen {
        None => OrderFact::Unread,
        Some(OrderSnapshot { is_complete: false, .. }) => OrderFact::Incomplete,
        Some(OrderSnapshot { lines, .. }) if lines.is_empty() => OrderFact::Unknown,
        Some(OrderSnapshot { lines, has_unreadable, .. }) => {
            let has_shipment = !store.order_shipments(change.order_id).await?.is_empty();
            OrderFact::Known(KnownOrder { lines, has_unreadable: *has_unreadable, has_shipment })
        }
    };
    let shown = seen.iter().flat_map(|seen| &seen.lines).map(|line| line.line_item_id);
    let shown: Vec<LineItemId> = shown.collect();
    if change.lines.is_none()
        && !shown.is_empty()
        && let Some(line) = store.order_line_unshown(change.order_id, &shown).await?
    {
        let detail = format!(
            "the platform does not show line {line} of order {}; check the order at the platform",
            change.order_id
        );
        return Ok(ChangePlan::PartMissing { reason: Reason::NoFact, detail });
    }
    Ok(plan_shipment(change, fact))
}

pub(super) fn shipments_request(entries: &[ShipmentCallEntry]) -> Result<PlatformRequest, InvalidRequest> {
    wire::create_shipments(&entries.iter().map(|entry| entry.content.clone()).collect::<Vec<_>>())
}

fn wire_order(change: &ShipmentCreate, claimed: &[ClaimedLine]) -> wire::ShipmentOrder {
    let line = |line: &ClaimedLine| wire::ShipmentOrderLine {
        line_item_id: line.line_item_id,
        quantity: line.quantity,
    };
    let lines = (!is_whole_order(change, claimed)).then(|| claimed.iter().map(line).collect());
    wire::ShipmentOrder { order_id: change.order_id, lines }
}

/// Accepted answer to the call of these entries. Each order is completed by the request that its record echoes.
/// An order with no record, or with two, is in doubt then.
struct AcceptedShipments<'a>(&'a [ShipmentCallEntry]);

impl RecordAnswer for AcceptedShipments<'_> {
    async fn record(
        &self,
        write: &mut WriteTransaction,
        answer: &AnsweredExchange,
        _: Position,
    ) -> Result<Vec<ChangeOutcome>, StoreError> {
        let decoded = wire::decode_created_shipments(&answer.reply.body);
        let records: &[CreatedShipment] = &decoded.map(|decoded| decoded.records).unwrap_or_default();
        let orders: Vec<OrderId> = self.0.iter().map(|entry| entry.content.order_id).collect();
        projection::project_created_shipments(write, answer.id, answer.sent_at, &orders, records).await?;
        let mut moves = Vec::new();
        for CallEntry { evidence, content: wire::ShipmentOrder { order_id, .. }, .. } in self.0 {
            let created = projection::shipment_record(records, *order_id);
            if let Some(refused) = created.filter(|created| created.outcome() == WriteOutcome::Refused) {
                moves.push(refusal_outcome(evidence.id, &refused.messages));
                continue;
            }
            let Some(made) = created.and_then(|created| projection::created_shipment(created, *order_id))
            else {
                moves.push(unmatched_outcome(evidence.id));
                continue;
            };
            write.delivery_created(evidence.id, made.id.0).await?;
            let detail = format!("shipment {}", made.id);
            moves.push(ChangeOutcome::new(evidence.id, ChangeState::Applied, None, detail));
        }
        Ok(moves)
    }
}
