//! Preview of the next push, byte for byte, from the stored facts. Makes no call and writes nothing.
//!
//! The functions that build requests for sending build them here too, from the same decisions. Unknown
//! answers are not guessed: a change that depends on another one's answer is listed with its reason.

use crate::client::Request;
use crate::exec::{JobError, Settings};
use crate::model::{Cell, Moment, Quantity, Timestamp, WarehouseId, WishId};
use crate::push::{kinds, preview_quantities};
use crate::store::Store;
use std::collections::{BTreeMap, BTreeSet};

/// Preview of the next push.
#[derive(Clone, Debug, Default)]
pub struct Preview {
    /// The requests in their order: preflights before the calls that depend on them.
    pub requests: Vec<Planned>,
    /// Stock levels that would be read first, because their fact is missing or too old.
    pub reads: Vec<Cell>,
    /// Changes without a call, and their outcome or reason.
    pub without_call: Vec<(WishId, String)>,
    /// The keys of all pending changes.
    pub keys: BTreeMap<WishId, String>,
    /// Quantities before and after the calls, by case key and warehouse.
    pub(super) written: BTreeMap<(String, WarehouseId), (Quantity, Quantity)>,
}

/// A request, and the changes that it sends or checks.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The request as it would be sent.
    pub request: Request,
    /// The changes.
    pub wishes: Vec<WishId>,
}

impl Preview {
    /// Lists every remaining pending change as waiting for a call in flight.
    pub(super) fn note_the_rest(&mut self) {
        let carried = self.requests.iter().flat_map(|planned| planned.wishes.iter().copied());
        let mut spoken: BTreeSet<WishId> = carried.collect();
        spoken.extend(self.without_call.iter().map(|(id, _)| *id));
        let why = "waits: a write of its cell is under way or in doubt, or its product is about to be made";
        let rest = self.keys.keys().filter(|id| !spoken.contains(id));
        self.without_call.extend(rest.map(|id| (*id, why.to_owned())));
    }
}

/// Plans the next push from the outbox.
///
/// `at`: the calendar time, and the time since the boot in which the daemon last ran. After another boot the
/// age of facts is an estimate until the daemon runs again.
pub async fn preview(
    store: &Store,
    settings: &Settings,
    at: (Timestamp, Moment),
) -> Result<Preview, JobError> {
    let mut preview = Preview::default();
    for row in store.outbox_pending().await? {
        preview.keys.insert(WishId(row.id), row.key);
    }
    preview_quantities::foresee(store, settings, at, &mut preview).await?;
    kinds::foresee(store, &mut preview).await?;
    preview.note_the_rest();
    Ok(preview)
}
