//! The three creates with a preflight by name: `product.create`, `warehouse.create`,
//! `listing_template.create`.
//!
//! A thing whose name exists already (by case key) is not created again. The ids seen in the preflight are
//! stored with the claim, so that `settle` can tell a created thing from an older one (docs/rules.md 26). A
//! call creates one thing.

use super::{ApplyAnswer, DeliverableChange, DeliveryRun, refusal_outcome, unmatched_outcome};
use crate::client::PlatformRequest;
use crate::client::wire::{self, InvalidRequest, MalformedBody, WriteAnswer, WriteOutcome};
use crate::exec::JobError;
use crate::exec::call::AnsweredExchange;
use crate::exec::preflight::{CreateBody, ReadOrigin};
use crate::model::{ChangeId, Lane, Position};
use crate::outbox::ChangeState;
use crate::projection;
use crate::push::summary::PushSummary;
use crate::reconcile::creates::plan_create;
use crate::store::{ChangeOutcome, ClaimEvidence, StoreError, WriteTransaction};
use serde_json::json;

/// Thing that the platform created.
enum CreatedRecord {
    Product(Box<wire::Product>),
    Warehouse(Box<wire::Warehouse>),
    Template(wire::ListingTemplate),
}

pub(super) async fn deliver_create(
    deliver: &mut DeliveryRun<'_>,
    lane: Lane,
    changes: &[DeliverableChange],
    summary: &mut PushSummary,
) -> Result<bool, JobError> {
    let of_kind = changes.iter().filter_map(|change| {
        let create = CreateBody::from_body(&change.body)?;
        Some((change.id, create.ordering_key(), create))
    });
    let turn = deliver.ready_changes(of_kind.collect()).await?;
    let Some((id, subject, create)) = deliver.take_for_call(turn, 1).pop() else { return Ok(false) };
    let origin = ReadOrigin { context: deliver.context, run: deliver.run, lane };
    let result = create.preflight_named(origin).await;
    let Some(seen) = deliver.preflight_result(id, result, summary).await? else { return Ok(true) };
    let there = plan_create(create.name(), Some(&seen.records));
    let Some(ids) = deliver.plan_content(id, there, summary).await? else { return Ok(true) };
    let claim_evidence = ClaimEvidence {
        id,
        kind: create.kind().as_str(),
        ordering_key: subject,
        evidence: json!({ "seen": ids }),
    };
    let request = create.create_request();
    if let Some(answer) =
        deliver.claim_and_send(lane, request, &[claim_evidence], &[], seen.sent_moment, summary).await?
    {
        complete_create(deliver, id, create, &answer, summary).await?;
    }
    Ok(true)
}

async fn complete_create(
    deliver: &mut DeliveryRun<'_>,
    id: ChangeId,
    create: CreateBody<'_>,
    answer: &AnsweredExchange,
    summary: &mut PushSummary,
) -> Result<(), JobError> {
    let parsed = create.parse_answer(&answer.reply.body);
    deliver.complete_answer(answer, &ParsedCreateAnswer { id, create, answer: parsed }, summary).await
}

/// Parsed answer to a create.
struct ParsedCreateAnswer<'a> {
    id: ChangeId,
    create: CreateBody<'a>,
    answer: Result<WriteAnswer<CreatedRecord>, MalformedBody>,
}

impl ApplyAnswer for ParsedCreateAnswer<'_> {
    async fn apply_answer(
        &self,
        write: &mut WriteTransaction,
        answer: &AnsweredExchange,
        _: Position,
    ) -> Result<Vec<ChangeOutcome>, StoreError> {
        let (id, name) = (self.id, self.create.name());
        Ok(vec![match &self.answer {
            Ok(parsed) if parsed.outcome() == WriteOutcome::Refused => refusal_outcome(id, &parsed.messages),
            Ok(WriteAnswer { record: Some(made), was_successful: Some(true), .. }) => {
                made.project_record(write, answer).await?;
                write.delivery_created(id, made.id()).await?;
                ChangeOutcome::new(id, ChangeState::Applied, None, format!("`{name}` with id {}", made.id()))
            }
            Ok(_) | Err(_) => unmatched_outcome(id),
        }])
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

    fn parse_answer(&self, body: &[u8]) -> Result<WriteAnswer<CreatedRecord>, MalformedBody> {
        Ok(match self {
            CreateBody::Product(_) => map_record(wire::decode_product_answer(body)?, |product| {
                CreatedRecord::Product(Box::new(product))
            }),
            CreateBody::Warehouse(_) => map_record(wire::decode_created_warehouse(body)?, |house| {
                CreatedRecord::Warehouse(Box::new(house))
            }),
            CreateBody::Template(_) => {
                map_record(wire::decode_created_template(body)?, CreatedRecord::Template)
            }
        })
    }
}

fn map_record<T>(
    answer: WriteAnswer<T>,
    make: impl FnOnce(T) -> CreatedRecord,
) -> WriteAnswer<CreatedRecord> {
    let WriteAnswer { record, was_successful, messages } = answer;
    WriteAnswer { record: record.map(make), was_successful, messages }
}

impl CreatedRecord {
    fn id(&self) -> i64 {
        match self {
            CreatedRecord::Product(product) => product.id.0,
            CreatedRecord::Warehouse(warehouse) => warehouse.id.0,
            CreatedRecord::Template(template) => template.id,
        }
    }

    async fn project_record(
        &self,
        write: &mut WriteTransaction,
        answer: &AnsweredExchange,
    ) -> Result<(), StoreError> {
        match self {
            CreatedRecord::Product(product) => {
                projection::project_product(write, answer.id, answer.sent_at, product).await?;
            }
            CreatedRecord::Warehouse(warehouse) => {
                projection::project_created_warehouse(write, answer.id, warehouse).await?
            }
            // The list of the storefront's templates brings it into the mirror.
            CreatedRecord::Template(_) => {}
        }
        Ok(())
    }
}
