//! Preview of the next push, byte for byte, from the stored facts. Makes no call and writes nothing.
//!
//! The functions that build requests for sending build them here too, from the same decisions. Unknown
//! answers are not guessed: a change that depends on another one's answer is listed with its reason.

use crate::client::PlatformRequest;
use crate::exec::{JobError, JobSettings};
use crate::model::{ChangeId, Moment, Quantity, StockLevel, Timestamp, WarehouseId};
use crate::push::{kinds, preview_quantities};
use crate::store::Store;
use std::collections::{BTreeMap, BTreeSet};

/// Preview of the next push.
#[derive(Clone, Debug, Default)]
pub struct PushPreview {
    /// The requests in their order: preflights before the calls that depend on them.
    pub requests: Vec<PlannedRequest>,
    /// Stock levels that would be read first, because their fact is missing or too old.
    pub reads: Vec<StockLevel>,
    /// Changes without a call, and their outcome or reason.
    pub changes_without_call: Vec<(ChangeId, String)>,
    /// The keys of all pending changes.
    pub change_keys: BTreeMap<ChangeId, String>,
    /// Quantities before and after the calls, by case key and warehouse.
    pub(super) written_levels: BTreeMap<(String, WarehouseId), (Quantity, Quantity)>,
}

/// A request, and the changes that it sends or checks.
#[derive(Clone, Debug)]
pub struct PlannedRequest {
    /// The request as it would be sent.
    pub request: PlatformRequest,
    /// The changes.
    pub changes: Vec<ChangeId>,
}

impl PushPreview {
    /// Lists every remaining pending change as waiting for a call in flight.
    pub(super) fn note_remaining(&mut self) {
        let carried = self.requests.iter().flat_map(|planned| planned.changes.iter().copied());
        let mut spoken: BTreeSet<ChangeId> = carried.collect();
        spoken.extend(self.changes_without_call.iter().map(|(id, _)| *id));
        let why =
            "waits: a write of its stock level is under way or in doubt, or its product is about to be made";
        let rest = self.change_keys.keys().filter(|id| !spoken.contains(id));
        self.changes_without_call.extend(rest.map(|id| (*id, why.to_owned())));
    }
}

/// Plans the next push from the outbox.
///
/// `at`: the calendar time, and the time since the boot in which the daemon last ran. After another boot the
/// age of facts is an estimate until the daemon runs again.
pub async fn preview_push(
    store: &Store,
    settings: &JobSettings,
    at: (Timestamp, Moment),
) -> Result<PushPreview, JobError> {
    let mut preview = PushPreview::default();
    for row in store.outbox_pending().await? {
        preview.change_keys.insert(row.id, row.key);
    }
    preview_quantities::preview_quantities(store, settings, at, &mut preview).await?;
    kinds::preview_deliveries(store, &mut preview).await?;
    preview.note_remaining();
    Ok(preview)
}
