//! What the next push would send, byte for byte, from the facts at hand; makes no call and writes nothing.
//!
//! Every request is built by the function that builds it for sending, from the same decision. What cannot be known
//! without a call is not guessed: a wish that depends on the answer to another one is named with what it waits for.

use super::{JobError, Settings, deliver, push};
use crate::client::Request;
use crate::model::{Cell, Moment, Quantity, Timestamp, WarehouseId, WishId};
use crate::store::Store;
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

/// Looks at the outbox as the next push would. `at`: the time by the calendar, and since the boot in which the daemon
/// last ran; after another boot the age of facts is a guess until it runs again.
pub async fn preview(
    store: &Store,
    settings: &Settings,
    at: (Timestamp, Moment),
) -> Result<Preview, JobError> {
    let mut preview = Preview::default();
    for row in store.outbox_pending().await? {
        preview.keys.insert(WishId(row.id), row.key);
    }
    push::foresee(store, settings, at, &mut preview).await?;
    deliver::foresee(store, &mut preview).await?;
    preview.note_the_rest();
    Ok(preview)
}

impl Preview {
    /// What is pending and was not spoken of waits for something that is under way.
    fn note_the_rest(&mut self) {
        let carried = self.requests.iter().flat_map(|planned| planned.wishes.iter().copied());
        let mut spoken: BTreeSet<WishId> = carried.collect();
        spoken.extend(self.without_call.iter().map(|(id, _)| *id));
        let why = "waits: a write of its cell is under way or in doubt, or its product is about to be made";
        let rest = self.keys.keys().filter(|id| !spoken.contains(id));
        self.without_call.extend(rest.map(|id| (*id, why.to_owned())));
    }
}
