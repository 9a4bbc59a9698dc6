//! `product.update`: a full PUT, including the product's quantities (docs/rules.md 13).
//!
//! It occupies all stock levels of its product: it waits for their writes, and they are not written while it
//! is in flight. Its quantities are facts just read, so it can undo only the sales since that read. A change
//! that names other quantities is rejected.

use super::{Deliver, Fold, Wish, refusal, unmatched};
use crate::client::Request;
use crate::client::wire::{self, Invalid, Malformed, Outcome, WriteAnswer};
use crate::exec::JobError;
use crate::exec::balances_reader::Parts;
use crate::exec::call::Answer;
use crate::exec::preflight::sku_subject;
use crate::exec::preflight::{self, Looker};
use crate::exec::quarantine::Way;
use crate::model::{ExchangeId, Lane, Moment, Operation, Position, Quantity, Sku, WarehouseId, WishId};
use crate::outbox::{Body, Kind, ProductUpdate, Reason, Rejection, State};
use crate::projection;
use crate::push::summary::Tally;
use crate::push::trips::judge_update;
use crate::reconcile::update::{Shown, named};
use crate::reconcile::{Lack, Plan};
use crate::store::{CellWrite, Kept, ProductCells, Store, StoreError, Verdict, Write};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

const READ: Operation = Operation::GetProductBalances;

pub(super) async fn deliver(
    deliver: &mut Deliver<'_>,
    lane: Lane,
    wishes: &[Wish],
    tally: &mut Tally,
) -> Result<bool, JobError> {
    let ours = wishes.iter().filter_map(|wish| match &wish.body {
        Body::ProductUpdate(update) => Some((wish.id, sku_subject(&update.sku), (update, wish.is_released))),
        _ => None,
    });
    let turn = deliver.in_turn(ours.collect()).await?;
    let turn = deliver.not_aside(&[READ], turn, |(update, ..)| update.sku.to_string(), tally).await?;
    let aside = deliver.context.aside(Operation::UpdateProduct).await?;
    let mut free = None;
    for (id, subject, (wish, is_released)) in turn {
        let sku = known_sku(&deliver.context.store, wish).await?;
        if let Way::Later(until, why) = aside.way(deliver.context, sku.as_str()) {
            let why = format!("sent and not done ({why}); it is sent again at {until}");
            deliver.wait(&[(id, Reason::NotLanded, why.clone())]).await?;
            deliver.left_alone.insert(id);
            tally.again_at(until);
            tally.note(format!("the update of {sku} was {why}"));
            continue;
        }
        if !deliver.context.store.product_cells(&sku).await?.is_busy() {
            free = Some((id, subject, wish, is_released, sku));
            break;
        }
        let why = format!("a write of {sku} is under way");
        deliver.wait(&[(id, Reason::AwaitsOther, why)]).await?;
        deliver.left_alone.insert(id);
    }
    let Some((id, subject, wish, is_released, sku)) = free else { return Ok(false) };
    let looker = Looker { context: deliver.context, run: deliver.run, lane };
    let look = look(looker, wish, &sku).await;
    let Some((exchange, seen_at, before)) = deliver.seen(id, look, tally).await? else { return Ok(true) };
    let cells = deliver.context.store.product_cells(&sku).await?;
    let Some(fields) = deliver.planned(id, plan(wish, &cells, Some(exchange)), tally).await? else {
        return Ok(true);
    };
    let ours = named(&fields, &before);
    let claimed = json!({"sku": sku, "product_id": wish.product_id, "before": before, "ours": ours});
    let kept = Kept { id, kind: Kind::ProductUpdate.as_str(), subject, claimed };
    let request = request(fields);
    let writes = cells.writes();
    let held = judge_update(deliver.context, id, is_released, &sku, &writes).await?;
    if held > 0 {
        tally.held += held;
        return Ok(true);
    }
    if let Some(answer) = deliver.carry(lane, request, &[kept], &writes, seen_at, tally).await? {
        conclude(deliver, (id, &sku), &writes, &answer, tally).await?;
    }
    Ok(true)
}

/// Returns the platform's present SKU of the product, because the update may change it.
pub(super) async fn known_sku(store: &Store, wish: &ProductUpdate) -> Result<Sku, JobError> {
    let known = store.product_sku(wish.product_id).await?;
    Ok(known.and_then(|sku| Sku::new(sku).ok()).unwrap_or_else(|| wish.sku.clone()))
}

/// Builds the call that replaces the product.
pub(super) fn request(fields: Map<String, Value>) -> Result<Request, Invalid> {
    wire::update_product(&Value::Object(fields))
}

/// Reads the product's balances for this write, and its other fields. A product that was never seen is read
/// twice, as proof of its absence. An absent link is read once more together with other SKUs, because an
/// incomplete answer seldom leaves out the same record twice.
async fn look(
    looker: Looker<'_>,
    wish: &ProductUpdate,
    sku: &Sku,
) -> Result<(ExchangeId, Moment, Shown), JobError> {
    let seen = read(looker, sku, false).await?;
    let cells = looker.context.store.product_cells(sku).await?;
    let is_unseen = cells.product_id.is_none() && !cells.is_missing;
    let lacks_link = matches!(plan(wish, &cells, Some(seen.0)), Plan::Lacking { .. });
    if is_unseen || lacks_link { read(looker, sku, true).await } else { Ok(seen) }
}

async fn read(
    looker: Looker<'_>,
    sku: &Sku,
    beside_others: bool,
) -> Result<(ExchangeId, Moment, Shown), JobError> {
    let Looker { context, run, lane } = looker;
    let mut page = vec![sku.clone()];
    let known = context.store.product_cells(sku).await?;
    if beside_others || known.product_id.is_none() || known.lack.is_some() {
        page.extend(context.store.witnesses(&page).await?);
    }
    let (page, witnesses) = page.split_at(1);
    let mut parts = Parts::new(context, run, lane, page, 1);
    if !witnesses.is_empty() {
        parts = parts.with_witnesses();
    }
    let Some((answer, _)) = parts.next_page().await? else {
        let (what, why) = (format!("the balances of {sku}"), parts.unread.unwrap_or_default());
        return Err(JobError::GivenUp { what, why });
    };
    let decoded = wire::decode_balances(&answer.reply.body);
    let decoded = decoded.map_err(|why| JobError::Implausible(why.to_string()))?;
    let product = decoded.records.iter().find(|product| product.sku == *sku);
    Ok((answer.id, answer.sent_moment, product.map(preflight::shown).unwrap_or_default()))
}

/// Plans the body from the facts of `read`, or from the known facts without a read.
pub(super) fn plan(
    wish: &ProductUpdate,
    cells: &ProductCells,
    read: Option<ExchangeId>,
) -> Plan<Map<String, Value>> {
    let sku = &wish.sku;
    let is_of_read = |exchange: Option<i64>| read.is_none_or(|read| exchange == Some(read.0));
    if !is_of_read(cells.read_by) {
        return Plan::Read;
    }
    let unseen = cells.product_id.is_none().then_some(Lack::Silent);
    match cells.lack.or(unseen) {
        Some(Lack::Absent) if cells.is_missing => {
            let detail = format!("the service does not return {sku}; create it, or correct the SKU");
            return Plan::Rejected { reason: Reason::UnknownSku, detail };
        }
        Some(lack) => return Plan::Held { reason: Reason::NoFact, detail: lack.sentence(sku, None) },
        None => {}
    }
    let Some(product_id) = cells.product_id else { return Plan::Read };
    if product_id != wish.product_id.0 {
        let detail =
            format!("{sku} is product {product_id} at the service and the update names {}", wish.product_id);
        return Plan::Rejected { reason: Reason::BadBody, detail };
    }
    if cells.is_busy() || cells.cells.iter().any(|cell| !is_of_read(cell.fact_exchange_id)) {
        return Plan::Read;
    }
    let facts: BTreeMap<WarehouseId, Quantity> =
        cells.cells.iter().map(|cell| (WarehouseId(cell.warehouse_id), Quantity(cell.quantity))).collect();
    let total = cells.total.unwrap_or_else(|| facts.values().map(|quantity| quantity.0).sum());
    match wish.with_quantities(&facts, Quantity(total)) {
        Ok(fields) => Plan::Go(fields),
        // The answer has no such link.
        Err(Rejection { reason: reason @ Reason::UnknownWarehouse, detail }) => {
            Plan::Lacking { reason, detail }
        }
        Err(Rejection { reason, detail }) => Plan::Rejected { reason, detail },
    }
}

/// Completes an accepted answer. In doubt, the stock levels stay occupied until the update can no longer take
/// effect.
async fn conclude(
    deliver: &mut Deliver<'_>,
    (id, sku): (WishId, &Sku),
    writes: &[CellWrite],
    answer: &Answer,
    tally: &mut Tally,
) -> Result<(), JobError> {
    let told = wire::decode_product_answer(&answer.reply.body);
    deliver.conclude(answer, &Told { id, sku, writes, told }, tally).await
}

/// Parsed answer to an update.
struct Told<'a> {
    id: WishId,
    sku: &'a Sku,
    writes: &'a [CellWrite],
    told: Result<WriteAnswer<wire::Product>, Malformed>,
}

impl Fold for Told<'_> {
    async fn fold(
        &self,
        write: &mut Write,
        answer: &Answer,
        ended: Position,
    ) -> Result<Vec<Verdict>, StoreError> {
        let id = self.id;
        if let Ok(told) = &self.told {
            let when = (ended, answer.sent_at);
            projection::product_updated(write, answer.id, when, self.writes, told).await?;
            write.quarantine_lift(Operation::UpdateProduct, self.sku.as_str()).await?;
        }
        Ok(vec![match &self.told {
            Ok(told) if told.outcome() == Outcome::Refused => refusal(id, &told.messages),
            // No record is required, because an update creates no id.
            Ok(told) if told.was_successful == Some(true) => {
                Verdict::new(id, State::Applied, None, "the product was updated; its quantities stayed")
            }
            Ok(_) | Err(_) => unmatched(id),
        }])
    }
}
