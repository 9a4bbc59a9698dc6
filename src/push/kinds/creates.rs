//! The three creates with a preflight by name: `product.create`, `warehouse.create`,
//! `listing_template.create`.
//!
//! A thing whose name exists already (by case key) is not created again. The ids seen in the preflight are
//! stored with the claim, so that `settle` can tell a created thing from an older one (docs/rules.md 26). A
//! call creates one thing.

use super::{
    CallEntry, DeliverableChange, DeliveryRun, KeyedChange, PlanSource, refusal_outcome, unmatched_outcome,
};
use crate::client::PlatformRequest;
use crate::client::wire::{self, InvalidRequest, MalformedBody, WriteAnswer, WriteOutcome};
use crate::exec::JobError;
use crate::exec::call::AnsweredExchange;
use crate::exec::preflight::CreateBody;
use crate::model::{ChangeId, Position};
use crate::outbox::ChangeState;
use crate::projection;
use crate::push::claim::RecordAnswer;
use crate::reconcile::creates::plan_create;
use crate::store::{ChangeOutcome, StoreError, WriteTransaction};
use serde_json::json;

pub(super) fn of_kind(changes: &[DeliverableChange]) -> Vec<KeyedChange<CreateBody<'_>>> {
    let of_kind = changes.iter().filter_map(|change| {
        let create = CreateBody::from_body(&change.body)?;
        Some((change.id, create.ordering_key(), create))
    });
    of_kind.collect()
}

pub(super) async fn deliver_create(
    deliver: &mut DeliveryRun,
    changes: &[DeliverableChange],
) -> Result<bool, JobError> {
    let turn = deliver.ready_changes(of_kind(changes)).await?;
    let Some(change) = deliver.take_for_call(turn, 1).pop() else { return Ok(false) };
    let Some(entry) = plan_entry(deliver, change).await? else { return Ok(true) };
    let (id, create) = (entry.evidence.id, entry.content);
    deliver.send_entries(create.create_request(), &[entry], &[], &AcceptedCreate { id, create }).await?;
    Ok(true)
}

pub(super) async fn plan_entry<'w>(
    source: &mut impl PlanSource,
    (id, key, create): KeyedChange<CreateBody<'w>>,
) -> Result<Option<CallEntry<CreateBody<'w>>>, JobError> {
    let Some(seen) = source.namesakes(id, create).await? else { return Ok(None) };
    let plan = plan_create(create.name(), Some(&seen.records));
    let Some(ids) = source.plan_content(id, plan, "the platform").await? else { return Ok(None) };
    Ok(Some(CallEntry::new((id, key), create.kind(), json!({ "seen": ids }), seen.sent_moment, create)))
}

/// Accepted answer to a create.
struct AcceptedCreate<'a> {
    id: ChangeId,
    create: CreateBody<'a>,
}

impl RecordAnswer for AcceptedCreate<'_> {
    async fn record(
        &self,
        write: &mut WriteTransaction,
        answer: &AnsweredExchange,
        _: Position,
    ) -> Result<Vec<ChangeOutcome>, StoreError> {
        let body = &answer.reply.body;
        let made = match self.create {
            CreateBody::Product(_) => match self.created(wire::decode_product_answer(body)) {
                Ok(product) => {
                    projection::project_product(write, answer.id, answer.sent_at, &product).await?;
                    Ok(product.id.0)
                }
                Err(outcome) => Err(outcome),
            },
            CreateBody::Warehouse(_) => match self.created(wire::decode_created_warehouse(body)) {
                Ok(warehouse) => {
                    projection::project_created_warehouse(write, answer.id, &warehouse).await?;
                    Ok(warehouse.id.0)
                }
                Err(outcome) => Err(outcome),
            },
            // The list of the storefront's templates brings it into the mirror.
            CreateBody::Template(_) => {
                self.created(wire::decode_created_template(body)).map(|template| template.id)
            }
        };
        let outcome = match made {
            Ok(id) => {
                write.delivery_created(self.id, id).await?;
                let detail = format!("`{}` with id {id}", self.create.name());
                ChangeOutcome::new(self.id, ChangeState::Applied, None, detail)
            }
            Err(outcome) => outcome,
        };
        Ok(vec![outcome])
    }
}

impl AcceptedCreate<'_> {
    /// Returns the created record, or the outcome of an answer without one.
    fn created<T>(&self, answer: Result<WriteAnswer<T>, MalformedBody>) -> Result<T, ChangeOutcome> {
        match answer {
            Ok(answer) if answer.outcome() == WriteOutcome::Refused => {
                Err(refusal_outcome(self.id, &answer.messages))
            }
            Ok(WriteAnswer { record: Some(made), was_successful: Some(true), .. }) => Ok(made),
            Ok(_) | Err(_) => Err(unmatched_outcome(self.id)),
        }
    }
}

impl CreateBody<'_> {
    pub(super) fn create_request(&self) -> Result<PlatformRequest, InvalidRequest> {
        match self {
            CreateBody::Product(change) => wire::create_product(&change.fields.clone().into()),
            CreateBody::Warehouse(change) => wire::create_warehouse(&change.fields.clone().into()),
            CreateBody::Template(change) => wire::create_listing_template(&change.fields.clone().into()),
        }
    }
}
