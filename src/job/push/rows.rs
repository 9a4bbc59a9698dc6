//! Rows of a cell and its wishes, read strictly: an error where they make no sense.

use crate::model::{Quantity, Sku, Timestamp, WishId};
use crate::reconcile::base::PastFact;
use crate::reconcile::{CountMark, Pair, Word};
use crate::store::{CellRow, StoreError, WishRow};
use serde::de::DeserializeOwned;

/// Value that the database holds, read; an error where it makes no sense. It never becomes nothing: a list of movements
/// that cannot be read is no list without movements.
fn read<T: DeserializeOwned>(what: &'static str, json: &str) -> Result<T, StoreError> {
    serde_json::from_str(json).map_err(|_| StoreError::Foreign { what, value: json.to_owned() })
}

pub(super) fn moment_of(text: &str) -> Result<Timestamp, StoreError> {
    Timestamp::parse(text).ok_or_else(|| StoreError::Foreign { what: "a date", value: text.to_owned() })
}

pub(super) fn known_sku(text: &str) -> Result<Sku, StoreError> {
    Sku::new(text).map_err(|_| StoreError::Foreign { what: "a SKU", value: text.to_owned() })
}

/// The count last applied to the cell.
pub(super) fn last_set(row: &CellRow) -> Result<Option<CountMark>, StoreError> {
    let (Some(id), Some(inserted)) = (row.last_set_id, &row.last_set_at) else { return Ok(None) };
    let counted_at = row.last_set_counted_at.as_deref().map(moment_of).transpose()?;
    Ok(Some(CountMark { id: WishId(id), created_at: moment_of(inserted)?, counted_at }))
}

/// A person's word on the count, which stands above the policy.
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

/// The sum of the applied adjusts whose goods moved after a count.
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

/// The facts the cell had and has, oldest first: each pair as it was first seen, and as it was last.
pub(super) fn pairs(row: &CellRow) -> Result<Vec<PastFact>, StoreError> {
    let held: Vec<(i64, i64, Option<i64>, Option<i64>)> = read("a list of earlier facts", &row.pairs)?;
    let facts = held.into_iter().flat_map(|(quantity, ours, first, last)| {
        let pair = Pair { quantity: Quantity(quantity), ours };
        let seen = [first, last.max(first)].into_iter().flatten();
        seen.map(move |at| PastFact { pair, observed_at: Timestamp(at) })
    });
    Ok(facts.collect())
}

/// Time at which a wish was inserted. No insertion lies in the future: where the clock of the program was ahead, it is
/// the moment at which the daemon first saw the wish.
pub(super) fn created_at(wish: &WishRow, now: Timestamp) -> Result<Timestamp, StoreError> {
    Ok(moment_of(wish.dated_at.as_deref().unwrap_or(&wish.created_at))?.min(now))
}

pub(super) fn twins(row: &CellRow) -> Result<Vec<Sku>, StoreError> {
    let names: Vec<String> = read("a list of SKUs", &row.twin_skus)?;
    names.iter().map(|name| known_sku(name)).collect()
}
