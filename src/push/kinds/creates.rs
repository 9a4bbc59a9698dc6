//! The three creates with a preflight by name: `product.create`, `warehouse.create`,
//! `listing_template.create`.
//!
//! A thing whose name exists already (by case key) is not created again. The ids seen in the preflight are
//! stored with the claim, so that `settle` can tell a created thing from an older one (docs/rules.md 26). A
//! call creates one thing.

use super::{Deliver, Fold, Wish, refusal, unmatched};
use crate::client::Request;
use crate::client::wire::{self, Invalid, Malformed, Outcome, WriteAnswer};
use crate::exec::JobError;
use crate::exec::call::Answer;
use crate::exec::preflight::{Create, Looker};
use crate::model::{Lane, Position, WishId};
use crate::outbox::State;
use crate::projection;
use crate::push::summary::Tally;
use crate::reconcile::create::plan;
use crate::store::{Kept, StoreError, Verdict, Write};
use serde_json::json;

/// Thing that the platform created.
enum Made {
    Product(Box<wire::Product>),
    Warehouse(Box<wire::Warehouse>),
    Template(wire::ListingTemplate),
}

pub(super) async fn deliver(
    deliver: &mut Deliver<'_>,
    lane: Lane,
    wishes: &[Wish],
    tally: &mut Tally,
) -> Result<bool, JobError> {
    let ours = wishes.iter().filter_map(|wish| {
        let create = Create::of(&wish.body)?;
        Some((wish.id, create.subject(), create))
    });
    let turn = deliver.in_turn(ours.collect()).await?;
    let Some((id, subject, create)) = deliver.share_call(turn, 1).pop() else { return Ok(false) };
    let looker = Looker { context: deliver.context, run: deliver.run, lane };
    let look = create.look(looker).await;
    let Some(seen) = deliver.seen(id, look, tally).await? else { return Ok(true) };
    let there = plan(create.name(), Some(&seen.what));
    let Some(ids) = deliver.planned(id, there, tally).await? else { return Ok(true) };
    let kept = Kept { id, kind: create.kind().as_str(), subject, claimed: json!({ "seen": ids }) };
    let request = create.request();
    if let Some(answer) = deliver.carry(lane, request, &[kept], &[], seen.sent_moment, tally).await? {
        conclude(deliver, id, create, &answer, tally).await?;
    }
    Ok(true)
}

async fn conclude(
    deliver: &mut Deliver<'_>,
    id: WishId,
    create: Create<'_>,
    answer: &Answer,
    tally: &mut Tally,
) -> Result<(), JobError> {
    let told = create.read(&answer.reply.body);
    deliver.conclude(answer, &Told { id, create, told }, tally).await
}

/// Parsed answer to a create.
struct Told<'a> {
    id: WishId,
    create: Create<'a>,
    told: Result<WriteAnswer<Made>, Malformed>,
}

impl Fold for Told<'_> {
    async fn fold(
        &self,
        write: &mut Write,
        answer: &Answer,
        _: Position,
    ) -> Result<Vec<Verdict>, StoreError> {
        let (id, name) = (self.id, self.create.name());
        Ok(vec![match &self.told {
            Ok(told) if told.outcome() == Outcome::Refused => refusal(id, &told.messages),
            Ok(WriteAnswer { record: Some(made), was_successful: Some(true), .. }) => {
                made.record(write, answer).await?;
                write.delivery_made(id, made.id()).await?;
                Verdict::new(id, State::Applied, None, format!("`{name}` with id {}", made.id()))
            }
            Ok(_) | Err(_) => unmatched(id),
        }])
    }
}

impl Create<'_> {
    pub(super) fn request(&self) -> Result<Request, Invalid> {
        match self {
            Create::Product(wish) => wire::create_product(&wish.fields.clone().into()),
            Create::Warehouse(wish) => wire::create_warehouse(&wish.fields.clone().into()),
            Create::Template(wish) => wire::create_listing_template(&wish.fields.clone().into()),
        }
    }

    fn read(&self, body: &[u8]) -> Result<WriteAnswer<Made>, Malformed> {
        Ok(match self {
            Create::Product(_) => {
                made(wire::decode_product_answer(body)?, |product| Made::Product(Box::new(product)))
            }
            Create::Warehouse(_) => {
                made(wire::decode_created_warehouse(body)?, |house| Made::Warehouse(Box::new(house)))
            }
            Create::Template(_) => made(wire::decode_created_template(body)?, Made::Template),
        })
    }
}

fn made<T>(answer: WriteAnswer<T>, make: impl FnOnce(T) -> Made) -> WriteAnswer<Made> {
    let WriteAnswer { record, was_successful, messages } = answer;
    WriteAnswer { record: record.map(make), was_successful, messages }
}

impl Made {
    fn id(&self) -> i64 {
        match self {
            Made::Product(product) => product.id.0,
            Made::Warehouse(warehouse) => warehouse.id.0,
            Made::Template(template) => template.id,
        }
    }

    async fn record(&self, write: &mut Write, answer: &Answer) -> Result<(), StoreError> {
        match self {
            Made::Product(product) => {
                projection::product_made(write, answer.id, answer.sent_at, product).await?;
            }
            Made::Warehouse(warehouse) => projection::warehouse_made(write, answer.id, warehouse).await?,
            // The list of the storefront's templates brings it into the mirror.
            Made::Template(_) => {}
        }
        Ok(())
    }
}
