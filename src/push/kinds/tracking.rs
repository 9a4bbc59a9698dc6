//! `tracking.submit`: several shipments per call, each once. Each item gets its number explicitly, after a
//! fresh read.
//!
//! A change that names its shipment by key waits until that shipment exists, without a call.

use super::{
    CallEntry, DeliverableChange, DeliveryRun, log_outcomes, refusal_outcome, shipment_key, unmatched_outcome,
};
use crate::client::PlatformRequest;
use crate::client::wire::{self, InvalidRequest, TrackingAnswer, WriteOutcome};
use crate::exec::JobError;
use crate::exec::call::AnsweredExchange;
use crate::exec::preflight::{self, ReadOrigin};
use crate::model::{ChangeId, ExchangeId, Lane, Moment, Operation, ShipmentId, ShipmentItemId};
use crate::outbox::{ChangeBody, ChangeKind, ChangeState, Reason, ShipmentRef, TrackingSubmit};
use crate::push::claim::store_wait_reasons;
use crate::push::summary::PushSummary;
use crate::reconcile::ChangePlan;
use crate::reconcile::tracking::{ItemFact, TrackingItem, plan_tracking};
use crate::store::{
    ChangeOutcome, ClaimEvidence, ClaimedChange, Durability, ReferencedChange, Store, StoreError,
};
use serde_json::json;

/// Limit of shipments per call; each costs a read.
pub(super) const SHIPMENTS_MAX: usize = 10;

/// Operations that may fail for a shipment.
const ENTRY_OPERATIONS: &[Operation] = &[Operation::ShipmentLineItems, Operation::SubmitTracking];

/// Shipment of the call.
pub(super) type TrackingCallEntry = CallEntry<wire::TrackingSubmission>;

/// State of the shipment that a change names.
pub(super) enum NamedShipment {
    Exists(ShipmentId),
    Pending(String),
    Impossible(String),
}

pub(super) async fn deliver_trackings(
    deliver: &mut DeliveryRun<'_>,
    lane: Lane,
    changes: &[DeliverableChange],
    summary: &mut PushSummary,
) -> Result<bool, JobError> {
    let (of_kind, mut was_sent) = with_shipment(deliver, changes, summary).await?;
    let turn = deliver.ready_changes(of_kind).await?;
    let turn =
        deliver.select_ready(ENTRY_OPERATIONS, turn, |(shipment, _)| shipment.to_string(), summary).await?;
    let turn = deliver.take_for_call(turn, SHIPMENTS_MAX);
    let (mut call_entries, mut seen_at) = (Vec::new(), None::<Moment>);
    for (id, subject, (shipment, change)) in turn {
        was_sent = true;
        let origin = ReadOrigin { context: deliver.context, run: deliver.run, lane };
        let result = preflight::read_shipment(origin, shipment).await;
        let Some(seen) = deliver.preflight_result(id, result, summary).await? else { continue };
        let plan = plan_from_store(
            &deliver.context.store,
            (shipment, change),
            &preflight::tracking_items(&seen.records),
        )
        .await?;
        let Some(entries) = deliver.plan_content(id, plan, summary).await? else { continue };
        if entries.is_empty() {
            apply_agreed(deliver, id, seen.exchange, summary).await?;
            continue;
        }
        seen_at.get_or_insert(seen.sent_moment);
        call_entries.push(tracking_entry(id, subject, shipment, change, &entries));
    }
    if let Some(seen_at) = seen_at
        && let Some(answer) = deliver
            .send_entries(lane, trackings_request(&call_entries), &call_entries, seen_at, summary)
            .await?
    {
        complete_trackings(deliver, &call_entries, &answer, summary).await?;
    }
    Ok(was_sent)
}

/// Plans a tracking on an answer. A change without lines covers all items. An answer that lacks a known item
/// does not serve such a change, because that item would get no number.
async fn plan_from_store(
    store: &Store,
    (shipment, change): (ShipmentId, &TrackingSubmit),
    items: &[ItemFact],
) -> Result<ChangePlan<Vec<TrackingItem>>, StoreError> {
    let shown: Vec<ShipmentItemId> = items.iter().map(|item| item.item_id).collect();
    if change.lines.is_none()
        && !shown.is_empty()
        && let Some(item) = store.shipment_item_unshown(shipment, &shown).await?
    {
        let detail = format!(
            "the platform does not show item {item} of shipment {shipment}; name the items if it is no more"
        );
        return Ok(ChangePlan::PartMissing { reason: Reason::NoFact, detail });
    }
    Ok(plan_tracking(change, Some(items)))
}

/// Returns the changes whose shipment exists. The flag is true if a change was rejected because its shipment
/// will never exist.
async fn with_shipment<'w>(
    deliver: &mut DeliveryRun<'_>,
    changes: &'w [DeliverableChange],
    summary: &mut PushSummary,
) -> Result<(Vec<(ChangeId, String, (ShipmentId, &'w TrackingSubmit))>, bool), JobError> {
    let (mut ready, mut waiting, mut was_sent) = (Vec::new(), Vec::new(), false);
    for change in changes {
        let ChangeBody::TrackingSubmit(submit) = &change.body else { continue };
        match find_shipment(&deliver.context.store, &submit.shipment).await? {
            NamedShipment::Exists(id) => ready.push((change.id, shipment_key(id), (id, submit))),
            NamedShipment::Pending(why) => waiting.push((change.id, Reason::AwaitsShipment, why)),
            NamedShipment::Impossible(why) => {
                deliver
                    .finish_change(change.id, ChangeState::Rejected, Reason::NoShipment, why, summary)
                    .await?;
                was_sent = true;
            }
        }
    }
    store_wait_reasons(deliver.context, waiting).await?;
    Ok((ready, was_sent))
}

/// Returns the shipment of a change: by id, or by the change that creates it.
pub(super) async fn find_shipment(store: &Store, shipment: &ShipmentRef) -> Result<NamedShipment, JobError> {
    let key = match shipment {
        ShipmentRef::Id(id) => return Ok(NamedShipment::Exists(*id)),
        ShipmentRef::Key(key) => key,
    };
    let Some(named) = store.delivery_by_key(key).await? else {
        return Ok(NamedShipment::Pending(format!("no change has the key `{key}` yet")));
    };
    Ok(judge_named_change(key, &named))
}

fn judge_named_change(key: &str, named: &ReferencedChange) -> NamedShipment {
    if named.kind != ChangeKind::ShipmentCreate.as_str() {
        return NamedShipment::Impossible(format!(
            "the change `{key}` is a {} and makes no shipment",
            named.kind
        ));
    }
    let state = named.state.parse::<ChangeState>();
    match (state, named.created_id) {
        (Ok(ChangeState::Applied), Some(id)) => NamedShipment::Exists(ShipmentId(id)),
        (Ok(ChangeState::Rejected | ChangeState::Cancelled), _) => NamedShipment::Impossible(format!(
            "the change `{key}` that was to make its shipment is {}",
            named.state
        )),
        (Ok(ChangeState::Applied), None) => {
            NamedShipment::Impossible(format!("the answer to the change `{key}` did not name its shipment"))
        }
        _ => NamedShipment::Pending(format!("the change `{key}` that makes its shipment is {}", named.state)),
    }
}

/// Applies a change whose items all have their number already. The exchange of the claim is the read that
/// showed them.
async fn apply_agreed(
    deliver: &mut DeliveryRun<'_>,
    id: ChangeId,
    exchange: ExchangeId,
    summary: &mut PushSummary,
) -> Result<(), JobError> {
    let mut write = deliver.context.store.begin_write(Durability::Full).await?;
    let claims = [ClaimedChange { id, written: None }];
    if write.outbox_claim(exchange, &claims, deliver.context.now()).await? != 1 {
        // The change is no longer pending; the next round reads its new state.
        return Ok(());
    }
    let detail = "the shipment carried this number already";
    let moves = [ChangeOutcome::new(id, ChangeState::Applied, None, detail)];
    write.outbox_transition(ChangeState::Sending, &moves, deliver.context.now()).await?;
    write.commit().await?;
    log_outcomes(deliver.context, &moves).await;
    summary.count_outcomes(&moves);
    Ok(())
}

/// Builds the entry of a shipment. Each line has its own carrier and number, so those of the entry never
/// apply.
pub(super) fn tracking_entry(
    id: ChangeId,
    subject: String,
    shipment_id: ShipmentId,
    change: &TrackingSubmit,
    entries: &[TrackingItem],
) -> TrackingCallEntry {
    let line = |entry: &TrackingItem| wire::ShipmentItemTracking {
        item_id: entry.item_id,
        carrier_id: entry.info.carrier_id,
        tracking_number: entry.info.tracking_number.clone(),
        tracking_url: entry.info.tracking_url.clone(),
        estimated_delivery_date: entry.info.estimated_delivery_date.clone(),
    };
    let submission = wire::TrackingSubmission {
        shipment_id,
        carrier_id: change.info.carrier_id,
        tracking_number: None,
        tracking_url: None,
        shipped_date: change.shipped_date.clone(),
        lines: entries.iter().map(line).collect(),
    };
    let items: Vec<_> = entries.iter().map(|e| json!([e.item_id, e.info.tracking_number])).collect();
    let claimed = json!({"shipment_id": shipment_id, "items": items});
    let evidence = ClaimEvidence {
        id,
        kind: ChangeKind::TrackingSubmit.as_str(),
        ordering_key: subject,
        evidence: claimed,
    };
    CallEntry { evidence, content: submission }
}

/// Builds the call that submits these numbers.
pub(super) fn trackings_request(
    call_entries: &[TrackingCallEntry],
) -> Result<PlatformRequest, InvalidRequest> {
    wire::submit_tracking(&call_entries.iter().map(|load| load.content.clone()).collect::<Vec<_>>())
}

/// Completes each shipment by the request that its record echoes. A shipment with no record, or with two, is
/// in doubt then.
async fn complete_trackings(
    deliver: &mut DeliveryRun<'_>,
    call_entries: &[TrackingCallEntry],
    answer: &AnsweredExchange,
    summary: &mut PushSummary,
) -> Result<(), JobError> {
    let records = wire::decode_tracking_answers(&answer.reply.body).map(|decoded| decoded.records);
    let records: Vec<TrackingAnswer> = records.unwrap_or_default();
    let moves = call_entries.iter().map(|load| {
        let (id, shipment) = (load.evidence.id, load.content.shipment_id);
        let mut of_shipment = records.iter().filter(|record| record.shipment_id() == Some(shipment));
        match (of_shipment.next(), of_shipment.next()) {
            (Some(only), None) if only.outcome() == WriteOutcome::Done => {
                let detail = format!("{} item(s) of shipment {shipment}", load.content.lines.len());
                ChangeOutcome::new(id, ChangeState::Applied, None, detail)
            }
            (Some(only), None) if only.outcome() == WriteOutcome::Refused => {
                refusal_outcome(id, &only.messages)
            }
            _ => unmatched_outcome(id),
        }
    });
    let moves: Vec<ChangeOutcome> = moves.collect();
    deliver.complete_answer(answer, &moves, summary).await
}
