//! The three creates with a preflight by name: `product.create`, `warehouse.create`,
//! `listing_template.create`.
//!
//! A thing whose name exists already (by case key) is not created again. The ids seen in the preflight are
//! stored with the claim, so that `settle` can tell a created thing from an older one (docs/rules.md 26). A
//! call creates one thing.

use super::look::{self, Looker, Seen};
use super::{Deliver, Fold, Wish, product_create, refusal, template_create, unmatched, warehouse_create};
use crate::client::Request;
use crate::client::wire::{self, Invalid, Malformed, Outcome, Paging, WriteAnswer};
use crate::job::JobError;
use crate::job::call::Answer;
use crate::job::moved::Tally;
use crate::job::record;
use crate::model::{Lane, Position, WishId};
use crate::outbox::{Body, Kind, ListingTemplateCreate, ProductCreate, State, WarehouseCreate};
use crate::reconcile::create::{Found, fold, plan};
use crate::store::{Kept, Store, StoreError, Verdict, Write};
use serde_json::json;

/// Thing to be created.
#[derive(Clone, Copy, Debug)]
pub(in crate::job) enum Create<'a> {
    Product(&'a ProductCreate),
    Warehouse(&'a WarehouseCreate),
    Template(&'a ListingTemplateCreate),
}

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

impl<'a> Create<'a> {
    /// Returns the create of a body; `None` for other kinds.
    pub(in crate::job) fn of(body: &'a Body) -> Option<Self> {
        match body {
            Body::ProductCreate(product) => Some(Create::Product(product)),
            Body::WarehouseCreate(warehouse) => Some(Create::Warehouse(warehouse)),
            Body::ListingTemplateCreate(template) => Some(Create::Template(template)),
            Body::QuantitySet(_)
            | Body::QuantityAdjust(_)
            | Body::ShipmentCreate(_)
            | Body::TrackingSubmit(_)
            | Body::ProductUpdate(_) => None,
        }
    }

    fn kind(&self) -> Kind {
        match self {
            Create::Product(_) => Kind::ProductCreate,
            Create::Warehouse(_) => Kind::WarehouseCreate,
            Create::Template(_) => Kind::ListingTemplateCreate,
        }
    }

    /// Returns the name by which the preflight finds the thing.
    pub(in crate::job) fn name(&self) -> &'a str {
        match self {
            Create::Product(wish) => wish.sku.as_str(),
            Create::Warehouse(wish) => &wish.name,
            Create::Template(wish) => &wish.name,
        }
    }

    pub(super) fn subject(&self) -> String {
        match self {
            Create::Product(wish) => super::sku_subject(&wish.sku),
            Create::Warehouse(wish) => warehouse_create::subject(wish),
            Create::Template(wish) => template_create::subject(wish),
        }
    }

    /// Reads the things with the same or a similar name, each compared with the change.
    pub(in crate::job) async fn look(&self, looker: Looker<'_>) -> Result<Seen<Vec<Found>>, JobError> {
        match self {
            Create::Product(wish) => {
                Ok(product_create::look(wish, &[], looker).await?.map(Option::unwrap_or_default))
            }
            Create::Warehouse(wish) => warehouse_create::look(wish, looker).await,
            Create::Template(wish) => template_create::look(wish, looker).await,
        }
    }

    /// Reads them together with known things, as proof of an empty result. `None` if the answer has nothing
    /// under the name and lacks some of the known things.
    pub(in crate::job) async fn look_beside_others(
        &self,
        looker: Looker<'_>,
    ) -> Result<Seen<Option<Vec<Found>>>, JobError> {
        let store = &looker.context.store;
        let is_listed = |seen: &Seen<Vec<Found>>, id: i64| seen.what.iter().any(|found| found.id == id);
        match self {
            Create::Product(wish) => {
                let mut beside = store.witnesses(std::slice::from_ref(&wish.sku)).await?;
                if store.product_known(&beside).await?.0 == 0 {
                    beside.clear();
                }
                product_create::look(wish, &beside, looker).await
            }
            Create::Warehouse(wish) => {
                let known = store.warehouse_ids().await?;
                let seen = warehouse_create::look(wish, looker).await?;
                let rest_came = known.iter().all(|id| is_listed(&seen, id.0));
                Ok(seen.map(|found| self.vouched(found, rest_came)))
            }
            Create::Template(wish) => {
                let known = store.template_list(Some(wish.storefront_id)).await?;
                let seen = template_create::look_at_all(wish, looker).await?;
                let mut known = known.iter().filter(|row| row.missing_since.is_none());
                let rest_came = known.all(|row| is_listed(&seen, row.id));
                Ok(seen.map(|found| self.vouched(found, rest_came)))
            }
        }
    }

    /// Returns the records found. `None` if the answer is not complete (`rest_came`) and has no record under
    /// the name.
    fn vouched(&self, found: Vec<Found>, rest_came: bool) -> Option<Vec<Found>> {
        let is_there = found.iter().any(|found| fold(&found.name) == fold(self.name()));
        (rest_came || is_there).then_some(found)
    }

    /// Returns the first request of [`Create::look`].
    pub(super) fn first_look(&self) -> Result<Request, Invalid> {
        match self {
            Create::Product(wish) => look::products_request(std::slice::from_ref(&wish.sku)),
            Create::Warehouse(_) => Ok(look::warehouses_request(Paging::FIRST)),
            Create::Template(wish) => {
                Ok(look::templates_request(wish.storefront_id, &wish.name, Paging::FIRST))
            }
        }
    }

    /// Returns the mirror's things that may have the name.
    pub(super) async fn at_hand(&self, store: &Store) -> Result<Vec<Found>, JobError> {
        let found = |id, name: Option<String>| Found { id, name: name.unwrap_or_default(), equal: false };
        Ok(match self {
            Create::Product(wish) => {
                let twins = store.product_twins(&wish.sku.fold()).await?;
                twins.into_iter().map(|(id, sku)| found(id, Some(sku))).collect()
            }
            Create::Warehouse(_) => {
                let listed =
                    store.warehouse_list().await?.into_iter().filter(|row| row.missing_since.is_none());
                listed.map(|row| found(row.id, Some(row.name))).collect()
            }
            Create::Template(wish) => {
                let listed = store.template_list(Some(wish.storefront_id)).await?.into_iter();
                listed.filter(|row| row.missing_since.is_none()).map(|row| found(row.id, row.name)).collect()
            }
        })
    }

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
                record::product_made(write, answer.id, answer.sent_at, product).await?;
            }
            Made::Warehouse(warehouse) => record::warehouse_made(write, answer.id, warehouse).await?,
            // The list of the storefront's templates brings it into the mirror.
            Made::Template(_) => {}
        }
        Ok(())
    }
}
