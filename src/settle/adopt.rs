//! Adoption of a shipment that an operator names for a change in doubt.
//!
//! The shipment is read and compared with the content of the claim. It is adopted only if it matches and has
//! no other owner (docs/rules.md 14).

use super::SettleRun;
use crate::exec::JobError;
use crate::exec::preflight;
use crate::exec::reads::ReadOrigin;
use crate::model::{Lane, LineItemId, ShipmentId};
use crate::outbox::{ChangeState, Reason};
use crate::reconcile::shipments::{ClaimedLine, check_adoption};
use crate::store::{AdoptionRow, ChangeOutcome, Durability};
use serde_json::json;

const ADOPTED_EVENT: &str = "outbox.adopted";

impl SettleRun<'_> {
    pub(super) async fn adopt_named(&mut self) -> Result<(), JobError> {
        for request in self.context.store.adoption_list().await? {
            let adopted = adopt_one(self.origin(Lane::Operator), &request).await;
            self.summary.took_effect += u64::from(matches!(adopted, Ok(true)));
            self.summary.note_read(adopted.map(|_| 1))?;
        }
        Ok(())
    }
}

/// Answers a request for adoption. Returns true if the shipment was adopted; otherwise the change's detail
/// has the reason.
async fn adopt_one(origin: ReadOrigin<'_>, request: &AdoptionRow) -> Result<bool, JobError> {
    let (context, change) = (origin.context, request.change_id);
    let shipment = ShipmentId(request.shipment_id);
    let verdict = compare_claim(origin, request, shipment).await?;
    let now = context.now();
    let mut write = context.store.begin_write(Durability::Full).await?;
    write.adoption_end(change).await?;
    let adopted = verdict.is_ok();
    match verdict {
        Ok(()) => {
            let answer = json!({"shipment_id": shipment}).to_string();
            write.event_append(now, ADOPTED_EVENT, &request.key, Some(&answer)).await?;
            write.delivery_created(change, shipment.0).await?;
            let detail = format!("shipment {shipment}, adopted by the operator's decision");
            let moves = [ChangeOutcome::new(change, ChangeState::Applied, None, detail)];
            if write.outbox_transition(ChangeState::InDoubt, &moves, now).await? == 0 {
                // The change was decided otherwise in the meantime. The next run answers the request with
                // that decision.
                return Ok(false);
            }
        }
        Err(why) => {
            let detail = format!("shipment {shipment} was not adopted: {why}");
            let reason = Some(Reason::LandedOrAnother);
            let notes = [ChangeOutcome::new(change, ChangeState::InDoubt, reason, detail)];
            write.outbox_transition(ChangeState::InDoubt, &notes, now).await?;
        }
    }
    write.commit().await?;
    Ok(adopted)
}

/// Compares the shipment with the claim. The inner error is the reason against the adoption.
async fn compare_claim(
    origin: ReadOrigin<'_>,
    request: &AdoptionRow,
    shipment: ShipmentId,
) -> Result<Result<(), String>, JobError> {
    if request.state != ChangeState::InDoubt {
        return Ok(Err(format!("the change is {} now", request.state)));
    }
    let claimed: Option<Vec<ClaimedLine>> =
        request.evidence.as_deref().and_then(|claimed| serde_json::from_str(claimed).ok());
    let Some(claimed) = claimed else {
        return Ok(Err("the change's claim is unreadable".into()));
    };
    let owner = origin.context.store.shipment_creator(shipment).await?;
    let seen = match preflight::read_shipment(origin, shipment).await {
        Ok(seen) => seen,
        Err(JobError::Rejected { why, .. }) => {
            return Ok(Err(format!("the platform refuses to show it: {why}")));
        }
        Err(error) => return Err(error),
    };
    if seen.records.is_empty() {
        return Ok(Err("the platform lists no items of it".into()));
    }
    let items: Vec<(LineItemId, i64)> =
        seen.records.iter().map(|item| (item.line_item_id, item.quantity)).collect();
    Ok(check_adoption(&claimed, &items, owner))
}
