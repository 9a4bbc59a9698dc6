//! Rows of stock levels and their changes: reads and conversions. An invalid value is an error.

use crate::model::{Sku, StockLevel, Timestamp};
use crate::outbox::{ChangeState, Reason};
use crate::reconcile::count_base::HistoryFact;
use crate::reconcile::{CountMark, CountResolution, QuantityState};
use crate::store::{ChangeOutcome, ChangeRow, OpenChange, OutboxWindow, StockLevelRow, Store, StoreError};
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn parse_time(text: &str) -> Result<Timestamp, StoreError> {
    Timestamp::parse(text).ok_or_else(|| StoreError::UnknownValue("a date", text.to_owned()))
}

pub(super) fn last_set(row: &StockLevelRow) -> Result<Option<CountMark>, StoreError> {
    let (Some(id), Some(inserted)) = (row.last_set_id, &row.last_set_at) else { return Ok(None) };
    let counted_at = row.last_set_counted_at.as_deref().map(parse_time).transpose()?;
    Ok(Some(CountMark { id, created_at: parse_time(inserted)?, counted_at }))
}

/// Returns the operator's resolution of the count, which overrides the policy.
pub(super) fn count_resolution(change: &ChangeRow) -> Option<CountResolution> {
    let (number, quantity, own_delta) = change.count_resolution?;
    Some(match (number, quantity.zip(own_delta)) {
        (Some(number), Some((quantity, own_delta))) => {
            CountResolution::Exactly { quantity: number, base: QuantityState { quantity, own_delta } }
        }
        (None, _) | (_, None) => CountResolution::Mine,
    })
}

/// Returns the sum of the applied adjusts whose goods moved after a count.
pub(super) fn applied_after(count: &CountMark, row: &StockLevelRow) -> Result<i64, StoreError> {
    let mut sum = 0_i64;
    for (id, delta, inserted) in &row.applied_adjusts {
        if count.precedes_adjust(*id, parse_time(inserted)?) {
            sum = sum.saturating_add(*delta);
        }
    }
    Ok(sum)
}

/// Returns the facts of the stock level, oldest first. Each has the times at which it was first and last
/// observed.
pub(super) fn past_facts(row: &StockLevelRow) -> Vec<HistoryFact> {
    let facts = row.quantity_states.iter().flat_map(|(quantity, own_delta, first, last)| {
        let state = QuantityState { quantity: *quantity, own_delta: *own_delta };
        let times = [*first, (*last).max(*first)].into_iter().flatten();
        times.map(move |observed_at| HistoryFact { state, observed_at })
    });
    facts.collect()
}

/// Returns the time at which a change was inserted. If the program's clock was ahead, it is the time at which
/// the daemon first read the change. It is never in the future.
pub(super) fn created_at(change: &ChangeRow, now: Timestamp) -> Result<Timestamp, StoreError> {
    Ok(parse_time(change.dated_at.as_deref().unwrap_or(&change.created_at))?.min(now))
}

pub(super) fn awaits_fact(change: &ChangeRow) -> bool {
    change.state == ChangeState::Held && change.has_reason(Reason::NotShown)
}

/// Returns the case keys of SKUs that a pending change creates. Their quantity changes wait for the product
/// instead of being rejected.
pub(super) async fn awaited_products(store: &Store) -> Result<BTreeSet<String>, StoreError> {
    let creates = store.outbox_open_product_creates().await?;
    let bodies = creates.iter().filter_map(|row| row.content.body.as_ref().ok());
    Ok(bodies.filter_map(|body| body.sku().map(Sku::case_key)).collect())
}

pub(super) fn invalid_outcome(change: &ChangeRow) -> Option<ChangeOutcome> {
    let why = change.content.body.as_ref().err()?;
    Some(ChangeOutcome::new(change.id, ChangeState::Rejected, Some(why.reason), &*why.detail))
}

/// Returns the valid open changes of a window by stock level (SKU and warehouse). Adds the rejections of the invalid
/// ones that are pending.
pub(super) async fn open_changes(
    store: &Store,
    window: &OutboxWindow,
    levels: &[StockLevel],
    rejected: &mut Vec<ChangeOutcome>,
) -> Result<BTreeMap<(String, i64), Vec<ChangeRow>>, StoreError> {
    let mut open: BTreeMap<(String, i64), Vec<ChangeRow>> = BTreeMap::new();
    for OpenChange { change, stock_level_sku, warehouse_id } in
        store.outbox_open_changes(window, levels).await?
    {
        match invalid_outcome(&change) {
            None => open.entry((stock_level_sku, warehouse_id)).or_default().push(change),
            Some(verdict) => rejected.extend((change.state == ChangeState::Pending).then_some(verdict)),
        }
    }
    Ok(open)
}
