//! `shipment.create`: several orders per call, each once, each read just before.

use super::entry::{CallChange, CallEntry, EntryContent, refusal_outcome, unmatched_outcome};
use super::facts::PlanSource;
use crate::client::wire::{self, WriteOutcome};
use crate::exec::JobError;
use crate::exec::call::AnsweredExchange;
use crate::model::{ChangeId, LineItemId, OrderId};
use crate::outbox::{ChangeState, Reason, ShipmentCreate};
use crate::projection;
use crate::reconcile::ChangePlan;
use crate::reconcile::shipments::{ClaimedLine, OrderSnapshot, is_whole_order, plan_shipment};
use crate::store::{ChangeOutcome, Store, StoreError, WriteTransaction};
use serde_json::json;

pub(super) async fn plan_entry<'w>(
    source: &mut impl PlanSource,
    call: &CallChange<'w>,
    change: &ShipmentCreate,
) -> Result<Option<CallEntry<'w>>, JobError> {
    let Some(seen) = source.order(call.id, change.order_id).await? else { return Ok(None) };
    let plan = plan_order(source.store(), change, seen.records.as_ref()).await?;
    let Some(lines) = source.plan_content(call.id, plan, "its order").await? else { return Ok(None) };
    let content = EntryContent::Shipment(wire_order(change, &lines));
    Ok(Some(CallEntry::new(call, json!(lines), seen.sent_moment, content)))
}

/// Plans a shipment on an answer. A change without lines ships all that is left. An answer that lacks a known
/// line therefore does not serve such a change.
async fn plan_order(
    store: &Store,
    change: &ShipmentCreate,
    seen: Option<&OrderSnapshot>,
) -> Result<ChangePlan<Vec<ClaimedLine>>, StoreError> {
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
        return Ok(ChangePlan::Held { reason: Reason::NotShown, detail });
    }
    let has_shipment = !store.order_shipments(change.order_id).await?.is_empty();
    Ok(plan_shipment(change, seen, has_shipment))
}

fn wire_order(change: &ShipmentCreate, claimed: &[ClaimedLine]) -> wire::ShipmentOrder {
    let line = |line: &ClaimedLine| wire::ShipmentOrderLine {
        line_item_id: line.line_item_id,
        quantity: line.quantity,
    };
    let lines = (!is_whole_order(change, claimed)).then(|| claimed.iter().map(line).collect());
    wire::ShipmentOrder { order_id: change.order_id, lines }
}

/// Records an accepted answer. Each order is completed by the request that its record echoes. An order with no
/// record, or with two, is in doubt then.
pub(super) async fn record_answer(
    write: &mut WriteTransaction,
    answer: &AnsweredExchange,
    entries: &[CallEntry<'_>],
) -> Result<Vec<ChangeOutcome>, StoreError> {
    let decoded = wire::decode_created_shipments(&answer.reply.body);
    let records = &decoded.map(|decoded| decoded.records).unwrap_or_default();
    let order = |entry: &CallEntry<'_>| match &entry.content {
        EntryContent::Shipment(order) => Some((entry.id(), order.order_id)),
        _ => None,
    };
    let sent: Vec<(ChangeId, OrderId)> = entries.iter().filter_map(order).collect();
    let orders: Vec<OrderId> = sent.iter().map(|(_, order)| *order).collect();
    projection::project_created_shipments(write, answer.id, answer.sent_at, &orders, records).await?;
    let mut moves = Vec::new();
    for (id, order) in sent {
        let created = projection::shipment_record(records, order);
        if let Some(refused) = created.filter(|created| created.outcome() == WriteOutcome::Refused) {
            moves.push(refusal_outcome(id, &refused.messages));
            continue;
        }
        let Some(made) = created.and_then(|created| projection::created_shipment(created, order)) else {
            moves.push(unmatched_outcome(id));
            continue;
        };
        write.delivery_created(id, made.id.0).await?;
        let detail = format!("shipment {}", made.id);
        moves.push(ChangeOutcome::new(id, ChangeState::Applied, None, detail));
    }
    Ok(moves)
}
