//! What the next push would do, as [`super::plan`] and the rooms it asks put it together.

use crate::client::Request;
use crate::model::{Cell, Quantity, WarehouseId, WishId};
use std::collections::{BTreeMap, BTreeSet};

/// What the next push would do.
#[derive(Clone, Debug, Default)]
pub struct Preview {
    /// The requests in their order: the looks before the calls that depend on them.
    pub requests: Vec<Planned>,
    /// Cells that would be read first, because their fact is missing or too old.
    pub reads: Vec<Cell>,
    /// Wishes that no call carries, and what would become of them.
    pub without_call: Vec<(WishId, String)>,
    /// The keys of all pending wishes.
    pub keys: BTreeMap<WishId, String>,
    /// What the calls make of cells, by folded SKU and warehouse: from, to.
    pub(super) written: BTreeMap<(String, WarehouseId), (Quantity, Quantity)>,
}

/// A request, and the wishes it carries or looks for.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The request as it would be sent.
    pub request: Request,
    /// The wishes.
    pub wishes: Vec<WishId>,
}

impl Preview {
    /// What is pending and was not spoken of waits for something that is under way.
    pub(super) fn note_the_rest(&mut self) {
        let carried = self.requests.iter().flat_map(|planned| planned.wishes.iter().copied());
        let mut spoken: BTreeSet<WishId> = carried.collect();
        spoken.extend(self.without_call.iter().map(|(id, _)| *id));
        let why = "waits: a write of its cell is under way or in doubt, or its product is about to be made";
        let rest = self.keys.keys().filter(|id| !spoken.contains(id));
        self.without_call.extend(rest.map(|id| (*id, why.to_owned())));
    }
}
