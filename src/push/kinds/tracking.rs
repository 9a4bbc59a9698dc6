//! `tracking.submit`: several shipments per call, each once. Each item gets its number explicitly, after a
//! fresh read.
//!
//! A change that names its shipment by key waits until that shipment exists, without a call.

use super::{Deliver, Parcel, Wish, refusal, shipment_subject, tell, unmatched};
use crate::client::Request;
use crate::client::wire::{self, Invalid, Outcome, TrackingAnswer};
use crate::exec::JobError;
use crate::exec::call::Answer;
use crate::exec::preflight::{self, Looker};
use crate::model::{ExchangeId, Lane, Moment, Operation, ShipmentId, ShipmentItemId, WishId};
use crate::outbox::{Body, Kind, Reason, ShipmentRef, State, TrackingSubmit};
use crate::push::summary::Tally;
use crate::reconcile::Plan;
use crate::reconcile::tracking::{Entry, Item, plan};
use crate::store::{Claim, Durability, Kept, NamedWish, Store, StoreError, Verdict};
use serde_json::json;

/// Limit of shipments per call; each costs a read.
pub(super) const SHIPMENTS_MAX: usize = 10;

/// Operations that may fail for a shipment.
const ENTRY: &[Operation] = &[Operation::ShipmentLineItems, Operation::SubmitTracking];

/// Shipment of the call.
pub(super) type Load = Parcel<wire::TrackingSubmission>;

/// State of the shipment that a change names.
pub(super) enum Shipment {
    There(ShipmentId),
    NotYet(String),
    Never(String),
}

pub(super) async fn deliver(
    deliver: &mut Deliver<'_>,
    lane: Lane,
    wishes: &[Wish],
    tally: &mut Tally,
) -> Result<bool, JobError> {
    let (ours, mut went) = with_shipment(deliver, wishes, tally).await?;
    let turn = deliver.in_turn(ours).await?;
    let turn = deliver.not_aside(ENTRY, turn, |(shipment, _)| shipment.to_string(), tally).await?;
    let turn = deliver.share_call(turn, SHIPMENTS_MAX);
    let (mut loads, mut seen_at) = (Vec::new(), None::<Moment>);
    for (id, subject, (shipment, wish)) in turn {
        went = true;
        let looker = Looker { context: deliver.context, run: deliver.run, lane };
        let look = preflight::shipment(looker, shipment).await;
        let Some(seen) = deliver.seen(id, look, tally).await? else { continue };
        let plan = planned(&deliver.context.store, (shipment, wish), &preflight::tracked(&seen.what)).await?;
        let Some(entries) = deliver.planned(id, plan, tally).await? else { continue };
        if entries.is_empty() {
            agreed(deliver, id, seen.exchange, tally).await?;
            continue;
        }
        seen_at.get_or_insert(seen.sent_moment);
        loads.push(load(id, subject, shipment, wish, &entries));
    }
    if let Some(seen_at) = seen_at
        && let Some(answer) = deliver.carry_parcels(lane, request(&loads), &loads, seen_at, tally).await?
    {
        conclude(deliver, &loads, &answer, tally).await?;
    }
    Ok(went)
}

/// Plans a tracking on an answer. A change without lines covers all items. An answer that lacks a known item
/// does not serve such a change, because that item would get no number.
async fn planned(
    store: &Store,
    (shipment, wish): (ShipmentId, &TrackingSubmit),
    items: &[Item],
) -> Result<Plan<Vec<Entry>>, StoreError> {
    let shown: Vec<ShipmentItemId> = items.iter().map(|item| item.item_id).collect();
    if wish.lines.is_none()
        && !shown.is_empty()
        && let Some(item) = store.shipment_item_unshown(shipment, &shown).await?
    {
        let detail = format!(
            "the service does not show item {item} of shipment {shipment}; name the items if it is no more"
        );
        return Ok(Plan::Lacking { reason: Reason::NoFact, detail });
    }
    Ok(plan(wish, Some(items)))
}

/// Returns the changes whose shipment exists. The flag is true if a change was rejected because its shipment
/// will never exist.
async fn with_shipment<'w>(
    deliver: &mut Deliver<'_>,
    wishes: &'w [Wish],
    tally: &mut Tally,
) -> Result<(Vec<(WishId, String, (ShipmentId, &'w TrackingSubmit))>, bool), JobError> {
    let (mut ready, mut waiting, mut went) = (Vec::new(), Vec::new(), false);
    for wish in wishes {
        let Body::TrackingSubmit(submit) = &wish.body else { continue };
        match shipment_of(&deliver.context.store, &submit.shipment).await? {
            Shipment::There(id) => ready.push((wish.id, shipment_subject(id), (id, submit))),
            Shipment::NotYet(why) => waiting.push((wish.id, Reason::AwaitsShipment, why)),
            Shipment::Never(why) => {
                deliver.stop(wish.id, State::Rejected, Reason::NoShipment, why, tally).await?;
                went = true;
            }
        }
    }
    deliver.wait(&waiting).await?;
    Ok((ready, went))
}

/// Returns the shipment of a change: by id, or by the change that creates it.
pub(super) async fn shipment_of(store: &Store, shipment: &ShipmentRef) -> Result<Shipment, JobError> {
    let key = match shipment {
        ShipmentRef::Id(id) => return Ok(Shipment::There(*id)),
        ShipmentRef::Key(key) => key,
    };
    let Some(named) = store.delivery_named(key).await? else {
        return Ok(Shipment::NotYet(format!("no wish has the key `{key}` yet")));
    };
    Ok(judge(key, &named))
}

fn judge(key: &str, named: &NamedWish) -> Shipment {
    if named.kind != Kind::ShipmentCreate.as_str() {
        return Shipment::Never(format!("the wish `{key}` is a {} and makes no shipment", named.kind));
    }
    let state = named.state.parse::<State>();
    match (state, named.made_id) {
        (Ok(State::Applied), Some(id)) => Shipment::There(ShipmentId(id)),
        (Ok(State::Rejected | State::Cancelled), _) => {
            Shipment::Never(format!("the wish `{key}` that was to make its shipment is {}", named.state))
        }
        (Ok(State::Applied), None) => {
            Shipment::Never(format!("nobody said which shipment the wish `{key}` made"))
        }
        _ => Shipment::NotYet(format!("the wish `{key}` that makes its shipment is {}", named.state)),
    }
}

/// Applies a change whose items all have their number already. The exchange of the claim is the read that
/// showed them.
async fn agreed(
    deliver: &mut Deliver<'_>,
    id: WishId,
    exchange: ExchangeId,
    tally: &mut Tally,
) -> Result<(), JobError> {
    let mut write = deliver.context.store.begin(Durability::Full).await?;
    let claims = [Claim { id, written: None }];
    if write.outbox_claim(exchange, &claims, deliver.context.now()).await? != 1 {
        // The change is no longer pending; the next round reads its new state.
        return Ok(());
    }
    let detail = "the shipment carried this number already";
    let moves = [Verdict::new(id, State::Applied, None, detail)];
    write.outbox_move(State::Sending, &moves, deliver.context.now()).await?;
    write.commit().await?;
    tell(deliver.context, &moves).await;
    tally.count(&moves);
    Ok(())
}

/// Builds the entry of a shipment. Each line has its own carrier and number, so those of the entry never
/// apply.
pub(super) fn load(
    id: WishId,
    subject: String,
    shipment_id: ShipmentId,
    wish: &TrackingSubmit,
    entries: &[Entry],
) -> Load {
    let line = |entry: &Entry| wire::TrackingLine {
        item_id: entry.item_id,
        carrier_id: entry.info.carrier_id,
        tracking_number: entry.info.tracking_number.clone(),
        tracking_url: entry.info.tracking_url.clone(),
        estimated_delivery_date: entry.info.estimated_delivery_date.clone(),
    };
    let submission = wire::TrackingSubmission {
        shipment_id,
        carrier_id: wish.info.carrier_id,
        tracking_number: None,
        tracking_url: None,
        shipped_date: wish.shipped_date.clone(),
        estimated_delivery_date: None,
        lines: entries.iter().map(line).collect(),
    };
    let items: Vec<_> = entries.iter().map(|e| json!([e.item_id, e.info.tracking_number])).collect();
    let claimed = json!({"shipment_id": shipment_id, "items": items});
    let kept = Kept { id, kind: Kind::TrackingSubmit.as_str(), subject, claimed };
    Parcel { kept, entry: submission }
}

/// Builds the call that submits these numbers.
pub(super) fn request(loads: &[Load]) -> Result<Request, Invalid> {
    wire::submit_tracking(&loads.iter().map(|load| load.entry.clone()).collect::<Vec<_>>())
}

/// Completes each shipment by the request that its record echoes. A shipment with no record, or with two, is
/// in doubt then.
async fn conclude(
    deliver: &mut Deliver<'_>,
    loads: &[Load],
    answer: &Answer,
    tally: &mut Tally,
) -> Result<(), JobError> {
    let records = wire::decode_tracking_answers(&answer.reply.body).map(|decoded| decoded.records);
    let records: Vec<TrackingAnswer> = records.unwrap_or_default();
    let moves = loads.iter().map(|load| {
        let (id, shipment) = (load.kept.id, load.entry.shipment_id);
        let mut ours = records.iter().filter(|record| record.shipment_id() == Some(shipment));
        match (ours.next(), ours.next()) {
            (Some(only), None) if only.outcome() == Outcome::Done => {
                let detail = format!("{} item(s) of shipment {shipment}", load.entry.lines.len());
                Verdict::new(id, State::Applied, None, detail)
            }
            (Some(only), None) if only.outcome() == Outcome::Refused => refusal(id, &only.messages),
            _ => unmatched(id),
        }
    });
    let moves: Vec<Verdict> = moves.collect();
    deliver.conclude(answer, &moves, tally).await
}
