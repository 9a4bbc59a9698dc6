//! `shipment.create`: several orders per call, each once, each read just before. Lines and quantities are
//! explicit.

use super::{
    ApplyAnswer, CallEntry, DeliverableChange, DeliveryRun, order_key, refusal_outcome, unmatched_outcome,
};
use crate::client::PlatformRequest;
use crate::client::wire::{self, CreatedShipment, InvalidRequest, WriteOutcome};
use crate::exec::JobError;
use crate::exec::call::AnsweredExchange;
use crate::exec::preflight::{self, ReadOrigin};
use crate::model::{ChangeId, Lane, LineItemId, Moment, Operation, OrderId, Position};
use crate::outbox::{ChangeBody, ChangeKind, ChangeState, Reason, ShipmentCreate};
use crate::projection;
use crate::push::summary::PushSummary;
use crate::reconcile::ChangePlan;
use crate::reconcile::shipments::{ClaimedLine, plan_shipment};
use crate::store::{ChangeOutcome, ClaimEvidence, Store, StoreError, WriteTransaction};
use serde_json::json;

/// Limit of orders per call. Each order costs a read, so more orders would save few calls and delay the first
/// one.
pub(super) const ORDERS_MAX: usize = 10;

/// Operations that may fail for an order.
const ENTRY_OPERATIONS: &[Operation] = &[Operation::GetOrderLineItems, Operation::CreateShipments];

/// Order of the call.
pub(super) type ShipmentCallEntry = CallEntry<(OrderId, Vec<ClaimedLine>)>;

pub(super) async fn deliver_shipments(
    deliver: &mut DeliveryRun<'_>,
    lane: Lane,
    changes: &[DeliverableChange],
    summary: &mut PushSummary,
) -> Result<bool, JobError> {
    let of_kind = changes.iter().filter_map(|change| match &change.body {
        ChangeBody::ShipmentCreate(create) => Some((change.id, order_key(create), create)),
        _ => None,
    });
    let turn = deliver.ready_changes(of_kind.collect()).await?;
    let turn =
        deliver.select_ready(ENTRY_OPERATIONS, turn, |change| change.order_id.to_string(), summary).await?;
    let turn = deliver.take_for_call(turn, ORDERS_MAX);
    if turn.is_empty() {
        return Ok(false);
    }
    let (mut entries, mut seen_at) = (Vec::new(), None::<Moment>);
    for (id, subject, change) in turn {
        let origin = ReadOrigin { context: deliver.context, run: deliver.run, lane };
        let result = preflight::read_order(origin, change.order_id).await;
        let Some(seen) = deliver.preflight_result(id, result, summary).await? else { continue };
        let plan = plan_from_store(&deliver.context.store, change, &seen.records).await?;
        let Some(lines) = deliver.plan_content(id, plan, summary).await? else { continue };
        seen_at.get_or_insert(seen.sent_moment);
        entries.push(shipment_entry(id, subject, change, lines));
    }
    if let Some(seen_at) = seen_at
        && let Some(answer) =
            deliver.send_entries(lane, shipments_request(&entries), &entries, seen_at, summary).await?
    {
        complete_shipments(deliver, &entries, &answer, summary).await?;
    }
    Ok(true)
}

/// Plans a shipment on an answer. A change without lines ships all that is left. An answer that lacks a known
/// line therefore does not serve such a change.
async fn plan_from_store(
    store: &Store,
    change: &ShipmentCreate,
    seen: &preflight::OrderSnapshot,
) -> Result<ChangePlan<Vec<ClaimedLine>>, StoreError> {
    let shown: Vec<LineItemId> = seen.lines.iter().map(|line| line.line_item_id).collect();
    if change.lines.is_none()
        && !shown.is_empty()
        && let Some(line) = store.order_line_unshown(change.order_id, &shown).await?
    {
        let detail =
            format!("the platform does not show line {line} of order {}; see it there", change.order_id);
        return Ok(ChangePlan::PartMissing { reason: Reason::NoFact, detail });
    }
    Ok(plan_shipment(change, seen.order_fact()))
}

pub(super) fn shipment_entry(
    id: ChangeId,
    subject: String,
    change: &ShipmentCreate,
    lines: Vec<ClaimedLine>,
) -> ShipmentCallEntry {
    let evidence = ClaimEvidence {
        id,
        kind: ChangeKind::ShipmentCreate.as_str(),
        ordering_key: subject,
        evidence: json!(lines),
    };
    CallEntry { evidence, content: (change.order_id, lines) }
}

/// Builds the call that creates these shipments.
pub(super) fn shipments_request(entries: &[ShipmentCallEntry]) -> Result<PlatformRequest, InvalidRequest> {
    wire::create_shipments(&entries.iter().map(wire_order).collect::<Vec<_>>())
}

fn wire_order(entry: &ShipmentCallEntry) -> wire::ShipmentOrder {
    let (order_id, lines) = &entry.content;
    let line = |line: &ClaimedLine| wire::ShipmentOrderLine {
        line_item_id: line.line_item_id,
        quantity: line.quantity,
    };
    wire::ShipmentOrder { order_id: *order_id, lines: lines.iter().map(line).collect() }
}

/// Completes each order by the request that its record echoes. An order with no record, or with two, is in
/// doubt then.
async fn complete_shipments(
    deliver: &mut DeliveryRun<'_>,
    entries: &[ShipmentCallEntry],
    answer: &AnsweredExchange,
    summary: &mut PushSummary,
) -> Result<(), JobError> {
    let records = wire::decode_created_shipments(&answer.reply.body).map(|decoded| decoded.records);
    let records: Vec<CreatedShipment> = records.unwrap_or_default();
    deliver.complete_answer(answer, &ParsedShipmentAnswer { entries, records }, summary).await
}

/// Parsed answer to the creation of shipments.
struct ParsedShipmentAnswer<'a> {
    entries: &'a [ShipmentCallEntry],
    records: Vec<CreatedShipment>,
}

impl ApplyAnswer for ParsedShipmentAnswer<'_> {
    async fn apply_answer(
        &self,
        write: &mut WriteTransaction,
        answer: &AnsweredExchange,
        _: Position,
    ) -> Result<Vec<ChangeOutcome>, StoreError> {
        let orders: Vec<OrderId> = self.entries.iter().map(|entry| entry.content.0).collect();
        projection::project_created_shipments(write, answer.id, answer.sent_at, &orders, &self.records)
            .await?;
        let mut moves = Vec::new();
        for CallEntry { evidence, content: (order_id, _) } in self.entries {
            let record = projection::shipment_record(&self.records, *order_id);
            if let Some(refused) = record.filter(|record| record.outcome() == WriteOutcome::Refused) {
                moves.push(refusal_outcome(evidence.id, &refused.messages));
                continue;
            }
            let Some(made) = record.and_then(|record| projection::created_shipment(record, *order_id)) else {
                moves.push(unmatched_outcome(evidence.id));
                continue;
            };
            write.delivery_created(evidence.id, made.id.0).await?;
            moves.push(ChangeOutcome::new(
                evidence.id,
                ChangeState::Applied,
                None,
                format!("shipment {}", made.id),
            ));
        }
        Ok(moves)
    }
}
