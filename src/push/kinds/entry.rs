//! Changes to be sent in calls of their kind, and the entries of a call.

use crate::client::wire;
use crate::model::{ChangeId, Moment, Operation, ProductId, ShipmentId, Sku};
use crate::outbox::{
    ChangeKind, ChangeState, CreateBody, ProductUpdate, Reason, ShipmentCreate, TrackingSubmit, product_key,
};
use crate::reconcile::creates::first_per_key;
use crate::store::{ChangeOutcome, ClaimEvidence, StockLevelWrite};
use serde_json::Value;
use std::collections::BTreeSet;

/// Kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallKind {
    Shipments,
    Trackings,
    Create,
    Update,
}

impl CallKind {
    /// The kinds in the order of a turn.
    pub(super) const ALL: [Self; 4] = [Self::Shipments, Self::Trackings, Self::Create, Self::Update];

    /// Returns the limit of entries in a call. Each order or shipment costs a read, so more of them would save few
    /// calls and delay the first one.
    pub(super) fn entries_max(self) -> usize {
        match self {
            Self::Shipments | Self::Trackings => 10,
            Self::Create | Self::Update => 1,
        }
    }

    /// Returns the operations that may quarantine an entry.
    pub(super) fn entry_operations(self) -> &'static [Operation] {
        match self {
            Self::Shipments => &[Operation::GetOrderLineItems, Operation::CreateShipments],
            Self::Trackings => &[Operation::ShipmentLineItems, Operation::SubmitTracking],
            Self::Create => &[],
            Self::Update => &[Operation::GetProductBalances],
        }
    }
}

/// Change of a kind of call.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallChange<'w> {
    pub(super) id: ChangeId,
    pub(super) is_urgent: bool,
    /// True if the change was released from a brake.
    pub(super) is_released: bool,
    /// True if a call with the change failed. It is sent last, so that it does not delay the others.
    pub(super) has_failed: bool,
    pub(super) work: CallWork<'w>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum CallWork<'w> {
    Shipment(&'w ShipmentCreate),
    Tracking(ShipmentId, &'w TrackingSubmit),
    Create(&'w CreateBody),
    Update(&'w ProductUpdate),
}

impl CallWork<'_> {
    /// Returns the ordering key. Changes with the same one are sent one at a time.
    pub(super) fn ordering_key(&self) -> String {
        match self {
            Self::Shipment(change) => format!("order {}", change.order_id),
            Self::Tracking(shipment, _) => format!("shipment {shipment}"),
            Self::Create(create) => create.ordering_key(),
            Self::Update(change) => product_key(&change.sku),
        }
    }

    /// Returns the name in the quarantine.
    pub(super) fn entry(&self) -> String {
        match self {
            Self::Shipment(change) => change.order_id.to_string(),
            Self::Tracking(shipment, _) => shipment.to_string(),
            Self::Create(create) => create.name().to_owned(),
            Self::Update(change) => change.sku.to_string(),
        }
    }

    /// Returns the kind of call, and the kind of change.
    pub(super) fn kind(&self) -> (CallKind, ChangeKind) {
        match self {
            Self::Shipment(_) => (CallKind::Shipments, ChangeKind::ShipmentCreate),
            Self::Tracking(..) => (CallKind::Trackings, ChangeKind::TrackingSubmit),
            Self::Create(create) => (CallKind::Create, create.kind()),
            Self::Update(_) => (CallKind::Update, ChangeKind::ProductUpdate),
        }
    }
}

pub(super) struct CallEntry<'w> {
    pub(super) evidence: ClaimEvidence,
    /// Time of its preflight.
    pub(super) seen_at: Moment,
    pub(super) content: EntryContent<'w>,
}

pub(super) enum EntryContent<'w> {
    Shipment(wire::ShipmentOrder),
    Tracking(wire::TrackingSubmission),
    Create(&'w CreateBody),
    Update(UpdateContent),
}

/// Product of an update: the body, and the quantities that it writes.
pub(super) struct UpdateContent {
    pub(super) product: ProductId,
    /// SKU at the platform before the update.
    pub(super) sku: Sku,
    pub(super) body: Value,
    pub(super) writes: Vec<StockLevelWrite>,
}

impl<'w> CallEntry<'w> {
    pub(super) fn new(
        change: &CallChange<'w>,
        evidence: Value,
        seen_at: Moment,
        content: EntryContent<'w>,
    ) -> Self {
        let (kind, ordering_key) = (change.work.kind().1.as_str(), change.work.ordering_key());
        let evidence = ClaimEvidence { id: change.id, kind, ordering_key, evidence };
        Self { evidence, seen_at, content }
    }

    pub(super) fn id(&self) -> ChangeId {
        self.evidence.id
    }
}

/// Returns the orders, shipments or products of a call: the ordering keys without their prefix.
pub(super) fn entry_names<'e>(entries: &'e [CallEntry<'_>]) -> Vec<&'e str> {
    let keys = entries.iter().map(|entry| entry.evidence.ordering_key.as_str());
    keys.map(|key| key.split_once(' ').map_or(key, |(_, name)| name)).collect()
}

/// Returns the first change of each ordering key, previously failed ones last. Leaves out keys with a call in
/// flight or in doubt.
pub(super) fn first_per_ordering_key(
    changes: Vec<CallChange<'_>>,
    under_way: BTreeSet<String>,
) -> Vec<CallChange<'_>> {
    let mut first = first_per_key(changes, |change| change.work.ordering_key(), under_way);
    first.sort_by_key(|change| change.has_failed);
    first
}

pub(super) fn refusal_outcome(id: ChangeId, messages: &[String]) -> ChangeOutcome {
    let message = if messages.is_empty() { "it gave no reason".into() } else { messages.join(" ") };
    let detail = format!("the platform refused it: {message}");
    ChangeOutcome::new(id, ChangeState::Rejected, Some(Reason::ServiceRefused), detail)
}

pub(super) fn unmatched_outcome(id: ChangeId) -> ChangeOutcome {
    let detail = "the answer does not identify this change";
    ChangeOutcome::new(id, ChangeState::InDoubt, Some(Reason::Unmatched), detail)
}
