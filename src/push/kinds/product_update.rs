//! `product.update`: a full PUT, including the product's quantities (docs/rules.md 9).
//!
//! It occupies all stock levels of its product: it waits for their writes, and they are not written while it
//! is in flight. Its quantities are facts just read, so it can undo only the sales since that read. A change
//! that names other quantities is rejected.

use super::entry::{CallChange, CallEntry, EntryContent, UpdateContent, refusal_outcome, unmatched_outcome};
use super::facts::{PlanSource, ProductFacts};
use crate::client::wire::{self, WriteOutcome};
use crate::exec::JobError;
use crate::exec::balances_reader::{PageRead, read_page};
use crate::exec::call::AnsweredExchange;
use crate::exec::preflight;
use crate::exec::reads::{ReadOrigin, TimedRead};
use crate::model::{ChangeId, ExchangeId, Operation, Position, Quantity, Sku, WarehouseId};
use crate::outbox::{ChangeRejection, ChangeState, ProductUpdate, Reason};
use crate::projection;
use crate::reconcile::product_update::{ShownFields, checkable_fields};
use crate::reconcile::{ChangePlan, ProductLack};
use crate::store::{ChangeOutcome, ProductStock, Store, StoreError, WriteTransaction};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

pub(super) async fn plan_entry<'w>(
    source: &mut impl PlanSource,
    call: &CallChange<'w>,
    change: &ProductUpdate,
) -> Result<Option<CallEntry<'w>>, JobError> {
    let sku = current_sku(source.store(), change).await?;
    let Some(seen) = source.product(call.id, &sku).await? else { return Ok(None) };
    let ProductFacts { levels, read, shown } = seen.records;
    let plan = plan_update(change, &levels, read);
    let Some(fields) = source.plan_content(call.id, plan, "its product").await? else { return Ok(None) };
    let checkable = checkable_fields(&fields, &shown);
    let evidence = json!({"sku": sku, "product_id": change.product_id, "before": shown, "ours": checkable});
    let (product, body, writes) = (change.product_id, Value::Object(fields), levels.unchanged_writes());
    let content = EntryContent::Update(UpdateContent { product, sku, body, writes });
    Ok(Some(CallEntry::new(call, evidence, seen.sent_moment, content)))
}

/// Returns the platform's present SKU of the product, because the update may change it.
pub(super) async fn current_sku(store: &Store, change: &ProductUpdate) -> Result<Sku, JobError> {
    let known = store.product_sku_by_id(change.product_id).await?;
    Ok(known.and_then(|sku| Sku::new(sku).ok()).unwrap_or_else(|| change.sku.clone()))
}

/// Reads the product's balances for this write, and its other fields.
pub(super) async fn preflight_update(
    origin: ReadOrigin<'_>,
    sku: &Sku,
) -> Result<TimedRead<ShownFields>, JobError> {
    let answer = match read_page(origin, std::slice::from_ref(sku)).await? {
        PageRead::Recorded(page) => page.answer,
        PageRead::Failed { why, .. } | PageRead::Unsent(why) => {
            return Err(JobError::GivenUp { what: format!("the balances of {sku}"), why });
        }
    };
    let decoded = wire::decode_balances(&answer.reply.body)?;
    let product = decoded.records.iter().find(|product| product.sku == *sku);
    Ok(TimedRead::from_answer(&answer, product.map(preflight::shown_fields).unwrap_or_default()))
}

/// Plans the body from the facts of `read`, or from the known facts without a read.
fn plan_update(
    change: &ProductUpdate,
    levels: &ProductStock,
    read: Option<ExchangeId>,
) -> ChangePlan<Map<String, Value>> {
    let sku = &change.sku;
    let is_of_read = |exchange: Option<i64>| read.is_none_or(|read| exchange == Some(read.0));
    if levels.read_exchange_id.is_none() || !is_of_read(levels.read_exchange_id) {
        return ChangePlan::ReadFirst;
    }
    let unseen = levels.product_id.is_none().then_some(ProductLack::Absent);
    if let Some(lack) = levels.lack.or(unseen) {
        return ChangePlan::Held { reason: Reason::NotShown, detail: lack.hold_detail(sku) };
    }
    let Some(product_id) = levels.product_id else { return ChangePlan::ReadFirst };
    if product_id != change.product_id.0 {
        let detail = format!(
            "{sku} is product {product_id} at the platform, but the update names {}",
            change.product_id
        );
        return ChangePlan::Rejected { reason: Reason::BadBody, detail };
    }
    if levels.is_busy() || levels.stock_levels.iter().any(|level| !is_of_read(level.fact_exchange_id)) {
        return ChangePlan::ReadFirst;
    }
    let facts: BTreeMap<WarehouseId, Quantity> = levels
        .stock_levels
        .iter()
        .map(|level| (WarehouseId(level.warehouse_id), Quantity(level.quantity)))
        .collect();
    let total = levels.total.unwrap_or_else(|| facts.values().map(|quantity| quantity.0).sum());
    match change.with_quantities(&facts, Quantity(total)) {
        Ok(fields) => ChangePlan::Send(fields),
        // The answer has no such link.
        Err(ChangeRejection { reason: reason @ Reason::NotShown, detail }) => {
            ChangePlan::Held { reason, detail }
        }
        Err(ChangeRejection { reason, detail }) => ChangePlan::Rejected { reason, detail },
    }
}

/// Records an accepted answer. The stock levels of the product keep their quantities.
pub(super) async fn record_answer(
    write: &mut WriteTransaction,
    (answer, ended): (&AnsweredExchange, Position),
    (id, update): (ChangeId, &UpdateContent),
) -> Result<Vec<ChangeOutcome>, StoreError> {
    let parsed = wire::decode_product_update(&answer.reply.body, update.product);
    if let Ok(parsed) = &parsed {
        let when = (ended, answer.sent_at);
        projection::project_product_answer(write, answer.id, when, &update.writes, parsed).await?;
        write.quarantine_lift(Operation::UpdateProduct, update.sku.as_str()).await?;
    }
    let outcome = match parsed {
        Ok(parsed) if parsed.outcome() == WriteOutcome::Refused => refusal_outcome(id, &parsed.messages),
        // No record is required, because an update creates no id.
        Ok(parsed) if parsed.was_successful == Some(true) => {
            let detail = "the product was updated; its quantities are unchanged";
            ChangeOutcome::new(id, ChangeState::Applied, None, detail)
        }
        Ok(_) | Err(_) => unmatched_outcome(id),
    };
    Ok(vec![outcome])
}
