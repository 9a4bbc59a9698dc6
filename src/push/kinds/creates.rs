//! The three creates with a preflight by name: `product.create`, `warehouse.create`,
//! `listing_template.create`.
//!
//! A thing whose name exists already (by case key) is not created again. The ids seen in the preflight are
//! stored with the claim, so that `settle` can tell a created thing from an older one (docs/rules.md 14). A
//! call creates one thing.

use super::entry::{CallChange, CallEntry, EntryContent, refusal_outcome, unmatched_outcome};
use super::facts::PlanSource;
use crate::client::PlatformRequest;
use crate::client::wire::{self, MalformedBody, WriteAnswer, WriteOutcome};
use crate::exec::JobError;
use crate::exec::call::AnsweredExchange;
use crate::model::ChangeId;
use crate::outbox::{ChangeState, CreateBody, CreatedThing};
use crate::projection;
use crate::reconcile::creates::plan_create;
use crate::store::{ChangeOutcome, PlatformList, StoreError, WriteTransaction};
use serde_json::json;

pub(super) async fn plan_entry<'w>(
    source: &mut impl PlanSource,
    change: &CallChange<'w>,
    create: &'w CreateBody,
) -> Result<Option<CallEntry<'w>>, JobError> {
    let Some(seen) = source.namesakes(change.id, create).await? else { return Ok(None) };
    let plan = plan_create(create.name(), Some(&seen.records));
    let Some(ids) = source.plan_content(change.id, plan, "the platform").await? else { return Ok(None) };
    let content = EntryContent::Create(create);
    Ok(Some(CallEntry::new(change, json!({ "seen": ids }), seen.sent_moment, content)))
}

pub(super) async fn record_answer(
    write: &mut WriteTransaction,
    answer: &AnsweredExchange,
    (id, create): (ChangeId, &CreateBody),
) -> Result<Vec<ChangeOutcome>, StoreError> {
    let body = &answer.reply.body;
    let made = match create.thing {
        CreatedThing::Product(_) => match created_record(id, wire::decode_product_answer(body)) {
            Ok(product) => {
                projection::project_product(write, answer.id, answer.sent_at, &product).await?;
                Ok(product.id.0)
            }
            Err(outcome) => Err(outcome),
        },
        CreatedThing::Warehouse(_) => match created_record(id, wire::decode_created_warehouse(body)) {
            Ok(warehouse) => {
                write.mirror_list(PlatformList::Warehouses, answer.id, &[&warehouse]).await?;
                Ok(warehouse.id.0)
            }
            Err(outcome) => Err(outcome),
        },
        // The list of the storefront's templates brings it into the mirror.
        CreatedThing::Template(..) => {
            created_record(id, wire::decode_created_template(body)).map(|template| template.id)
        }
    };
    let outcome = match made {
        Ok(made) => {
            write.delivery_created(id, made).await?;
            let detail = format!("`{}` with id {made}", create.name());
            ChangeOutcome::new(id, ChangeState::Applied, None, detail)
        }
        Err(outcome) => outcome,
    };
    Ok(vec![outcome])
}

/// Returns the created record, or the outcome of an answer without one.
fn created_record<T>(
    id: ChangeId,
    answer: Result<WriteAnswer<T>, MalformedBody>,
) -> Result<T, ChangeOutcome> {
    match answer {
        Ok(answer) if answer.outcome() == WriteOutcome::Refused => Err(refusal_outcome(id, &answer.messages)),
        Ok(WriteAnswer { record: Some(made), was_successful: Some(true), .. }) => Ok(made),
        Ok(_) | Err(_) => Err(unmatched_outcome(id)),
    }
}

pub(super) fn create_request(create: &CreateBody) -> PlatformRequest {
    let body = &create.fields;
    match create.thing {
        CreatedThing::Product(_) => wire::create_product(body),
        CreatedThing::Warehouse(_) => wire::create_warehouse(body),
        CreatedThing::Template(storefront, _) => wire::create_listing_template(storefront, body),
    }
}
