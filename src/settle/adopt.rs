//! Adoption of a shipment that an operator names for a change in doubt.
//!
//! The shipment is read and compared with the content of the claim. It is adopted only if it matches and has
//! no other owner (docs/rules.md 23).

use super::summary::Tally;
use crate::exec::preflight::{self, Looker};
use crate::exec::{Context, JobError};
use crate::model::{Lane, LineItemId, RunId, ShipmentId, WishId};
use crate::outbox::{Reason, State};
use crate::reconcile::shipment::{ClaimedLine, adopt};
use crate::store::{AdoptionRow, Durability, Verdict};
use serde_json::json;

/// Kind of the event of an adoption.
const ADOPTED: &str = "outbox.adopted";

pub(super) async fn run(context: &Context, run: RunId, tally: &mut Tally) -> Result<(), JobError> {
    let looker = Looker { context, run, lane: Lane::Operator };
    for asked in context.store.adoption_list().await? {
        match one(looker, &asked).await {
            Ok(adopted) => {
                tally.looks += 1;
                tally.landed += u64::from(adopted);
            }
            Err(error @ (JobError::GivenUp { .. } | JobError::Implausible(_))) => {
                tally.note(error.to_string());
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Answers a request for adoption. Returns true if the shipment was adopted; otherwise the change's detail
/// has the reason.
async fn one(looker: Looker<'_>, asked: &AdoptionRow) -> Result<bool, JobError> {
    let (context, wish) = (looker.context, WishId(asked.wish_id));
    let shipment = ShipmentId(asked.shipment_id);
    let verdict = compare(looker, asked, shipment).await?;
    let now = context.now();
    let mut write = context.store.begin(Durability::Full).await?;
    write.adoption_end(wish).await?;
    let adopted = verdict.is_ok();
    match verdict {
        Ok(()) => {
            let told = json!({"shipment_id": shipment}).to_string();
            write.event_append(now, ADOPTED, &asked.key, Some(&told)).await?;
            write.delivery_made(wish, shipment.0).await?;
            let detail = format!("shipment {shipment}, adopted by the operator's word");
            let moves = [Verdict::new(wish, State::Applied, None, detail)];
            if write.outbox_move(State::InDoubt, &moves, now).await? == 0 {
                // The change was decided otherwise in the meantime. The next run answers the request with
                // that decision.
                return Ok(false);
            }
        }
        Err(why) => {
            let detail = format!("shipment {shipment} was not adopted: {why}");
            let reason = Some(Reason::LandedOrAnother.as_str());
            let notes = [Verdict::new(wish, State::InDoubt, reason, detail)];
            write.outbox_note(State::InDoubt, &notes, now).await?;
        }
    }
    write.commit().await?;
    Ok(adopted)
}

/// Compares the shipment with the claim. The inner error is the reason against the adoption.
async fn compare(
    looker: Looker<'_>,
    asked: &AdoptionRow,
    shipment: ShipmentId,
) -> Result<Result<(), String>, JobError> {
    if asked.state != State::InDoubt.as_str() {
        return Ok(Err(format!("the wish is {} by now", asked.state)));
    }
    let claimed: Option<Vec<ClaimedLine>> =
        asked.claimed.as_deref().and_then(|claimed| serde_json::from_str(claimed).ok());
    let Some(claimed) = claimed else {
        return Ok(Err("what the wish was sent with cannot be read any more".into()));
    };
    let owner = looker.context.store.shipment_owner(shipment).await?;
    let seen = match preflight::shipment(looker, shipment).await {
        Ok(seen) => seen,
        Err(JobError::Rejected { why, .. }) => {
            return Ok(Err(format!("the service refuses to show it: {why}")));
        }
        Err(error) => return Err(error),
    };
    if seen.what.is_empty() {
        return Ok(Err("the service lists no items of it".into()));
    }
    let items: Vec<(LineItemId, i64)> =
        seen.what.iter().map(|item| (item.line_item_id, item.quantity)).collect();
    Ok(adopt(&claimed, &items, owner))
}
