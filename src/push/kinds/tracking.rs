//! `tracking.submit`: several shipments per call, each once. Each item gets its number explicitly, after a
//! fresh read.
//!
//! A change that names its shipment by key waits until that shipment exists, without a call.

use super::{
    CallEntry, DeliverableChange, DeliveryRun, KeyedChange, PlanSource, refusal_outcome, unmatched_outcome,
};
use crate::client::PlatformRequest;
use crate::client::wire::{self, InvalidRequest, WriteOutcome};
use crate::exec::JobError;
use crate::exec::call::AnsweredExchange;
use crate::model::{ChangeId, Operation, Position, ShipmentId, ShipmentItemId, counted};
use crate::outbox::{ChangeBody, ChangeKind, ChangeState, Reason, ShipmentRef, TrackingSubmit};
use crate::push::claim::{RecordAnswer, store_wait_reasons};
use crate::reconcile::ChangePlan;
use crate::reconcile::tracking::{ItemFact, TrackingItem, plan_tracking};
use crate::store::{ChangeOutcome, ReferencedChange, Store, StoreError, WriteTransaction};
use serde_json::json;

/// Limit of shipments per call; each costs a read.
pub(super) const SHIPMENTS_MAX: usize = 10;

const ENTRY_OPERATIONS: &[Operation] = &[Operation::ShipmentLineItems, Operation::SubmitTracking];

pub(super) type TrackingCallEntry = CallEntry<wire::TrackingSubmission>;

/// Shipment that does not exist, with the reason.
pub(super) enum MissingShipment {
    Pending(String),
    Impossible(String),
}

pub(super) type NamedTracking<'w> = (ShipmentId, &'w TrackingSubmit);
/// Tracking without a shipment.
pub(super) type UnsentTracking = (ChangeId, MissingShipment);

pub(super) async fn deliver_trackings(
    deliver: &mut DeliveryRun,
    changes: &[DeliverableChange],
) -> Result<bool, JobError> {
    let (of_kind, others) = find_shipments(&deliver.context.store, changes).await?;
    let (mut waiting, mut was_sent) = (Vec::new(), false);
    for (id, shipment) in others {
        match shipment {
            MissingShipment::Pending(why) => waiting.push((id, Reason::AwaitsShipment, why)),
            MissingShipment::Impossible(why) => {
                deliver.finish_change(id, ChangeState::Rejected, Reason::NoShipment, why).await?;
                was_sent = true;
            }
        }
    }
    store_wait_reasons(&deliver.context, waiting).await?;
    let turn = deliver.ready_changes(of_kind).await?;
    let turn = deliver.select_ready(ENTRY_OPERATIONS, turn, |(shipment, _)| shipment.to_string()).await?;
    let turn = deliver.take_for_call(turn, SHIPMENTS_MAX);
    was_sent |= !turn.is_empty();
    let mut entries = Vec::new();
    for change in turn {
        entries.extend(plan_entry(deliver, change).await?);
    }
    deliver.send_entries(trackings_request(&entries), &entries, &[], &AcceptedTrackings(&entries)).await?;
    Ok(was_sent)
}

pub(super) async fn plan_entry(
    source: &mut impl PlanSource,
    (id, key, (shipment, change)): KeyedChange<NamedTracking<'_>>,
) -> Result<Option<TrackingCallEntry>, JobError> {
    let Some(seen) = source.items(id, shipment).await? else { return Ok(None) };
    let plan = plan_items(source.store(), (shipment, change), seen.records.as_deref()).await?;
    let Some(items) = source.plan_content(id, plan, "its shipment").await? else { return Ok(None) };
    if items.is_empty() {
        source.apply_agreed(id, seen.exchange).await?;
        return Ok(None);
    }
    let numbers: Vec<_> = items.iter().map(|item| json!([item.item_id, item.info.tracking_number])).collect();
    let evidence = json!({"shipment_id": shipment, "items": numbers});
    let content = tracking_submission(shipment, change, &items);
    Ok(Some(CallEntry::new((id, key), ChangeKind::TrackingSubmit, evidence, seen.sent_moment, content)))
}

/// Plans a tracking on an answer. A change without lines covers all items. An answer that lacks a known item
/// does not serve such a change, because that item would get no number.
async fn plan_items(
    store: &Store,
    (shipment, change): NamedTracking<'_>,
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
        return Ok(ChangePlan::PartMissing { reason: Reason::NoFact, detail });
    }
    Ok(plan_tracking(change, items))
}

/// Returns the changes of this kind whose shipment exists, with their ordering keys, and the others.
pub(super) async fn find_shipments<'w>(
    store: &Store,
    changes: &'w [DeliverableChange],
) -> Result<(Vec<KeyedChange<NamedTracking<'w>>>, Vec<UnsentTracking>), JobError> {
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for change in changes {
        let ChangeBody::TrackingSubmit(submit) = &change.body else { continue };
        match find_shipment(store, &submit.shipment).await? {
            Ok(shipment) => found.push((change.id, format!("shipment {shipment}"), (shipment, submit))),
            Err(why) => missing.push((change.id, why)),
        }
    }
    Ok((found, missing))
}

/// Returns the shipment of a change: by id, or by the change that creates it.
async fn find_shipment(
    store: &Store,
    shipment: &ShipmentRef,
) -> Result<Result<ShipmentId, MissingShipment>, JobError> {
    let key = match shipment {
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

pub(super) fn trackings_request(entries: &[TrackingCallEntry]) -> Result<PlatformRequest, InvalidRequest> {
    wire::submit_tracking(&entries.iter().map(|entry| entry.content.clone()).collect::<Vec<_>>())
}

/// Accepted answer to the call of these entries. Each shipment is completed by the request that its record
/// echoes. A shipment with no record, or with two, is in doubt then.
struct AcceptedTrackings<'a>(&'a [TrackingCallEntry]);

impl RecordAnswer for AcceptedTrackings<'_> {
    async fn record(
        &self,
        _: &mut WriteTransaction,
        answer: &AnsweredExchange,
        _: Position,
    ) -> Result<Vec<ChangeOutcome>, StoreError> {
        let decoded = wire::decode_tracking_answers(&answer.reply.body);
        let records = decoded.map(|decoded| decoded.records).unwrap_or_default();
        let moves = self.0.iter().map(|entry| {
            let (id, shipment) = (entry.evidence.id, entry.content.shipment_id);
            let mut of_shipment = records.iter().filter(|record| record.shipment_id() == Some(shipment));
            match (of_shipment.next(), of_shipment.next()) {
                (Some(only), None) if only.outcome() == WriteOutcome::Done => {
                    let detail =
                        format!("{} of shipment {shipment}", counted(entry.content.lines.len(), "item"));
                    ChangeOutcome::new(id, ChangeState::Applied, None, detail)
                }
                (Some(only), None) if only.outcome() == WriteOutcome::Refused => {
                    refusal_outcome(id, &only.messages)
                }
                _ => unmatched_outcome(id),
            }
        });
        Ok(moves.collect())
    }
}
