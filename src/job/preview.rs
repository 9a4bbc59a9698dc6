//! Preview of the next push, filled by [`super::plan`] and the modules that it calls.

use crate::client::Request;
use crate::model::{Cell, Quantity, WarehouseId, WishId};
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
