//! Delivery of all changes other than quantities, in one file per kind. It is a part of the push.
//!
//! Shipments and trackings go beside the quantities, the other kinds behind them. Every kind has the same
//! steps:
//!
//! 1. order: one change at a time per order, shipment, SKU or name;
//! 2. preflight: a fresh read, recorded like any other;
//! 3. plan (pure), from the facts of the preflight. A preview plans from the stored facts ([`facts`]);
//! 4. claim and send. The preflight's result is stored with the claim as evidence for
//!    [`settle`](crate::settle);
//! 5. completion of the answer.
//!
//! A round gives each kind one call. Operators' changes go first, in rounds of their own. A change that
//! cannot be sent now is skipped for the rest of the run; it does not block other changes.

mod creates;
mod entry;
mod facts;
mod preview;
mod product_update;
mod run;
mod shipment;
mod tracking;

pub(super) use preview::preview_deliveries;
pub(super) use run::DeliveryRun;

use self::entry::{CallChange, CallEntry, CallWork, EntryContent};
use self::facts::PlanSource;
use self::tracking::MissingShipment;
use super::claim::RecordAnswer;
use crate::client::PlatformRequest;
use crate::client::wire;
use crate::exec::JobError;
use crate::exec::call::AnsweredExchange;
use crate::model::{ChangeId, Position};
use crate::outbox::{ChangeBody, Reason};
use crate::store::{ChangeOutcome, ChangeRow, Store, StoreError, WriteTransaction};

/// Returns the changes other than quantities, and apart from them the trackings whose shipment does not exist. Leaves
/// out invalid bodies, which the quantities' part rejects.
async fn call_changes<'w>(
    store: &Store,
    pending: &'w [ChangeRow],
) -> Result<(Vec<CallChange<'w>>, Vec<(ChangeId, MissingShipment)>), JobError> {
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for row in pending {
        let work = match &row.content.body {
            Ok(ChangeBody::ShipmentCreate(create)) => CallWork::Shipment(create),
            Ok(ChangeBody::TrackingSubmit(submit)) => match tracking::find_shipment(store, submit).await? {
                Ok(shipment) => CallWork::Tracking(shipment, submit),
                Err(why) => {
                    missing.push((row.id, why));
                    continue;
                }
            },
            Ok(ChangeBody::ProductUpdate(update)) => CallWork::Update(update),
            Ok(ChangeBody::Create(create)) => CallWork::Create(create),
            Ok(ChangeBody::QuantitySet(_) | ChangeBody::QuantityAdjust(_)) | Err(_) => continue,
        };
        let (is_urgent, is_released) = (row.priority > 0, row.released_ms.is_some());
        let has_failed = row.has_reason(Reason::NotSent);
        found.push(CallChange { id: row.id, is_urgent, is_released, has_failed, work });
    }
    Ok((found, missing))
}

/// Plans a change by the facts of the source. `None` if it is not sent now.
async fn plan_entry<'w>(
    source: &mut impl PlanSource,
    change: &CallChange<'w>,
) -> Result<Option<CallEntry<'w>>, JobError> {
    match change.work {
        CallWork::Shipment(create) => shipment::plan_entry(source, change, create).await,
        CallWork::Tracking(id, submit) => tracking::plan_entry(source, change, (id, submit)).await,
        CallWork::Create(create) => creates::plan_entry(source, change, create).await,
        CallWork::Update(update) => product_update::plan_entry(source, change, update).await,
    }
}

/// Returns the request of a call with these entries, which are of one kind.
fn call_request(entries: &[CallEntry<'_>]) -> PlatformRequest {
    let (mut orders, mut trackings) = (Vec::new(), Vec::new());
    for entry in entries {
        match &entry.content {
            EntryContent::Shipment(order) => orders.push(order.clone()),
            EntryContent::Tracking(tracking) => trackings.push(tracking.clone()),
            EntryContent::Create(create) => return creates::create_request(create),
            EntryContent::Update(update) => return wire::update_product(&update.body),
        }
    }
    if orders.is_empty() { wire::submit_tracking(&trackings) } else { wire::create_shipments(&orders) }
}

/// Accepted answer to the call of these entries.
struct AcceptedEntries<'a>(&'a [CallEntry<'a>]);

impl RecordAnswer for AcceptedEntries<'_> {
    async fn record(
        &self,
        write: &mut WriteTransaction,
        answer: &AnsweredExchange,
        ended: Position,
    ) -> Result<Vec<ChangeOutcome>, StoreError> {
        let Some(first) = self.0.first() else { return Ok(Vec::new()) };
        match &first.content {
            EntryContent::Shipment(_) => shipment::record_answer(write, answer, self.0).await,
            EntryContent::Tracking(_) => Ok(tracking::answer_outcomes(answer, self.0)),
            EntryContent::Create(create) => {
                creates::record_answer(write, answer, (first.id(), *create)).await
            }
            EntryContent::Update(update) => {
                product_update::record_answer(write, (answer, ended), (first.id(), update)).await
            }
        }
    }
}
