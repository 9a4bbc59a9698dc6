//! Conversions of the rows of a stock level and its changes. An invalid value is an error.

use crate::model::{Quantity, Sku, Timestamp, WishId};
use crate::reconcile::base::PastFact;
use crate::reconcile::{CountMark, Pair, Word};
use crate::store::{CellRow, StoreError, WishRow};
use serde::de::DeserializeOwned;

/// Parses a JSON value of the database. An invalid value is an error, never an empty list: ignoring a list of
/// adjusts would change a quantity.
fn read<T: DeserializeOwned>(what: &'static str, json: &str) -> Result<T, StoreError> {
    serde_json::from_str(json).map_err(|_| StoreError::Foreign { what, value: json.to_owned() })
}

pub(super) fn moment_of(text: &str) -> Result<Timestamp, StoreError> {
    Timestamp::parse(text).ok_or_else(|| StoreError::Foreign { what: "a date", value: text.to_owned() })
}

pub(super) fn known_sku(text: &str) -> Result<Sku, StoreError> {
    Sku::new(text).map_err(|_| StoreError::Foreign { what: "a SKU", value: text.to_owned() })
}

/// Returns the count last applied to the stock level.
pub(super) fn last_set(row: &CellRow) -> Result<Option<CountMark>, StoreError> {
    let (Some(id), Some(inserted)) = (row.last_set_id, &row.last_set_at) else { return Ok(None) };
    let counted_at = row.last_set_counted_at.as_deref().map(moment_of).transpose()?;
    Ok(Some(CountMark { id: WishId(id), created_at: moment_of(inserted)?, counted_at }))
}

/// Returns the operator's resolution of the count, which overrides the policy.
pub(super) fn word(wish: &WishRow) -> Result<Option<Word>, StoreError> {
    let Some(word) = wish.word.as_deref() else { return Ok(None) };
    let (number, quantity, ours): (Option<i64>, Option<i64>, Option<i64>) = read("a word on a count", word)?;
    Ok(Some(match (number, quantity.zip(ours)) {
        (Some(number), Some((quantity, ours))) => {
            Word::Exactly { quantity: Quantity(number), base: Pair { quantity: Quantity(quantity), ours } }
        }
        (None, _) | (_, None) => Word::Mine,
    }))
}

/// Returns the sum of the applied adjusts whose goods moved after a count.
pub(super) fn applied_after(count: &CountMark, row: &CellRow) -> Result<i64, StoreError> {
    let applied: Vec<(i64, i64, String)> = read("a list of movements", &row.applied_adjusts)?;
    let mut sum = 0_i64;
    for (id, delta, inserted) in applied {
        if count.precedes_adjust(WishId(id), moment_of(&inserted)?) {
            sum = sum.saturating_add(delta);
        }
    }
    Ok(sum)
}

/// Returns the facts of the stock level, oldest first. Each has the times at which it was first and last
/// observed.
pub(super) fn pairs(row: &CellRow) -> Result<Vec<PastFact>, StoreError> {
    let held: Vec<(i64, i64, Option<i64>, Option<i64>)> = read("a list of earlier facts", &row.pairs)?;
    let facts = held.into_iter().flat_map(|(quantity, ours, first, last)| {
        let pair = Pair { quantity: Quantity(quantity), ours };
        let seen = [first, last.max(first)].into_iter().flatten();
        seen.map(move |at| PastFact { pair, observed_at: Timestamp(at) })
    });
    Ok(facts.collect())
}

/// Returns the time at which a change was inserted. If the program's clock was ahead, it is the time at which
/// the daemon first read the change. It is never in the future.
pub(super) fn created_at(wish: &WishRow, now: Timestamp) -> Result<Timestamp, StoreError> {
    Ok(moment_of(wish.dated_at.as_deref().unwrap_or(&wish.created_at))?.min(now))
}

pub(super) fn twins(row: &CellRow) -> Result<Vec<Sku>, StoreError> {
    let names: Vec<String> = read("a list of SKUs", &row.twin_skus)?;
    names.iter().map(|name| known_sku(name)).collect()
}
