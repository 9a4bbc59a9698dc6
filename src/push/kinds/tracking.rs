//! `tracking.submit`: several shipments per call, each once. Each item gets its number explicitly, after a
//! fresh read.
//!
//! A change that names its shipment by key waits until that shipment exists, without a call.

use super::entry::{CallChange, CallEntry, EntryContent, refusal_outcome, unmatched_outcome};
use super::facts::PlanSource;
use crate::client::wire::{self, WriteOutcome};
use crate::exec::JobError;
use crate::exec::call::AnsweredExchange;
use crate::model::{ShipmentId, ShipmentItemId, counted};
use crate::outbox::{ChangeKind, ChangeState, Reason, ShipmentRef, TrackingSubmit};
use crate::reconcile::ChangePlan;
use crate::reconcile::tracking::{ItemFact, TrackingItem, plan_tracking};
use crate::store::{ChangeOutcome, ReferencedChange, Store, StoreError};
use serde_json::json;

/// Shipment that does not exist, with the reason.
pub(super) enum MissingShipment {
    Pending(String),
    Impossible(String),
}

pub(super) async fn plan_entry<'w>(
    source: &mut impl PlanSource,
    call: &CallChange<'w>,
    (shipment, change): (ShipmentId, &TrackingSubmit),
) -> Result<Option<CallEntry<'w>>, JobError> {
    let Some(seen) = source.items(call.id, shipment).await? else { return Ok(None) };
    let plan = plan_items(source.store(), (shipment, change), seen.records.as_deref()).await?;
    let Some(items) = source.plan_content(call.id, plan, "its shipment").await? else { return Ok(None) };
    if items.is_empty() {
        source.apply_agreed(call.id, seen.exchange).await?;
        return Ok(None);
    }
    let numbers: Vec<_> = items.iter().map(|item| json!([item.item_id, item.info.tracking_number])).collect();
    let evidence = json!({"shipment_id": shipment, "items": numbers});
    let content = EntryContent::Tracking(tracking_submission(shipment, change, &items));
    Ok(Some(CallEntry::new(call, evidence, seen.sent_moment, content)))
}

/// Plans a tracking on an answer. A change without lines covers all items. An answer that lacks a known item
/// does not serve such a change, because that item would get no number.
async fn plan_items(
    store: &Store,
    (shipment, change): (ShipmentId, &TrackingSubmit),
    items: Option<&[ItemFact]>,
) -> Result<ChangePlan<Vec<TrackingItem>>, StoreError> {
    let shown: Vec<ShipmentItemId> = items.into_iter().flatten().map(|item| item.item_id).collect();
    if change.lines.is_none()
        && !shown.is_empty()
        && let Some(item) = store.shipment_item_unshown(shipment, &shown).await?
    {
        let detail = format!(
            "the platform does not show item {item} of shipment {shipment}; if the item was removed, name the items"
        );
        return Ok(ChangePlan::Held { reason: Reason::NotShown, detail });
    }
    Ok(plan_tracking(change, items))
}

/// Returns the shipment of a change: by id, or by the change that creates it.
pub(super) async fn find_shipment(
    store: &Store,
    change: &TrackingSubmit,
) -> Result<Result<ShipmentId, MissingShipment>, JobError> {
    let key = match &change.shipment {
        ShipmentRef::Id(id) => return Ok(Ok(*id)),
        ShipmentRef::Key(key) => key,
    };
    Ok(match store.delivery_by_key(key).await? {
        Some(named) => judge_named_change(key, &named),
        None => Err(MissingShipment::Pending(format!("no change has the key `{key}` yet"))),
    })
}

fn judge_named_change(key: &str, named: &ReferencedChange) -> Result<ShipmentId, MissingShipment> {
    let (kind, state) = (&named.kind, &named.state);
    if *kind != ChangeKind::ShipmentCreate.as_str() {
        let why = format!("the change `{key}` is a {kind}, which creates no shipment");
        return Err(MissingShipment::Impossible(why));
    }
    Err(match (state.parse::<ChangeState>(), named.created_id) {
        (Ok(ChangeState::Applied), Some(id)) => return Ok(ShipmentId(id)),
        (Ok(ChangeState::Rejected | ChangeState::Cancelled), _) => MissingShipment::Impossible(format!(
            "the change `{key}`, which was to create its shipment, is {state}"
        )),
        (Ok(ChangeState::Applied), None) => {
            MissingShipment::Impossible(format!("the shipment that the change `{key}` created is unknown"))
        }
        _ => MissingShipment::Pending(format!("the change `{key}`, which creates its shipment, is {state}")),
    })
}

/// Builds the entry of a shipment. Each line has its own carrier and number, so those of the entry never
/// apply.
fn tracking_submission(
    shipment_id: ShipmentId,
    change: &TrackingSubmit,
    items: &[TrackingItem],
) -> wire::TrackingSubmission {
    let line = |item: &TrackingItem| wire::ShipmentItemTracking {
        item_id: item.item_id,
        carrier_id: item.info.carrier_id,
        tracking_number: item.info.tracking_number.clone(),
        tracking_url: item.info.tracking_url.clone(),
        estimated_delivery_date: item.info.estimated_delivery_date.clone(),
    };
    wire::TrackingSubmission {
        shipment_id,
        carrier_id: change.info.carrier_id,
        tracking_number: None,
        tracking_url: None,
        shipped_date: change.shipped_date.clone(),
        lines: items.iter().map(line).collect(),
    }
}

/// Returns the outcomes of an accepted answer. Each shipment is completed by the request that its record echoes. A
/// shipment with no record, or with two, is in doubt then.
pub(super) fn answer_outcomes(answer: &AnsweredExchange, entries: &[CallEntry<'_>]) -> Vec<ChangeOutcome> {
    let decoded = wire::decode_tracking_answers(&answer.reply.body);
    let records = decoded.map(|decoded| decoded.records).unwrap_or_default();
    let outcome = |entry: &CallEntry<'_>| {
        let EntryContent::Tracking(sent) = &entry.content else { return None };
        let (id, shipment) = (entry.id(), sent.shipment_id);
        let mut of_shipment = records.iter().filter(|record| record.shipment_id() == Some(shipment));
        Some(match (of_shipment.next(), of_shipment.next()) {
            (Some(only), None) if only.submission_outcome() == WriteOutcome::Done => {
                let detail = format!("{} of shipment {shipment}", counted(sent.lines.len(), "item"));
                ChangeOutcome::new(id, ChangeState::Applied, None, detail)
            }
            (Some(only), None) if only.submission_outcome() == WriteOutcome::Refused => {
                refusal_outcome(id, &only.messages)
            }
            _ => unmatched_outcome(id),
        })
    };
    entries.iter().filter_map(outcome).collect()
}
