//! Ordering keys of changes, the order of a round, and the outcomes that all kinds share.

use super::KeyedChange;
use crate::model::{ChangeId, ShipmentId};
use crate::outbox::{ChangeState, Reason, ShipmentCreate};
use crate::reconcile::creates;
use crate::store::{ChangeOutcome, ChangeRow};
use std::collections::BTreeSet;

pub(super) fn changes_with_reason(pending: &[ChangeRow], reason: Reason) -> BTreeSet<ChangeId> {
    pending.iter().filter(|row| row.has_reason(reason)).map(|row| row.id).collect()
}

/// Returns the first change of each ordering key, previously failed ones last. Leaves out keys with a call in
/// flight or in doubt.
pub(super) fn first_per_key<T>(
    changes: Vec<KeyedChange<T>>,
    under_way: &BTreeSet<String>,
    previously_failed: &BTreeSet<ChangeId>,
) -> Vec<KeyedChange<T>> {
    let subjects: Vec<String> = changes.iter().map(|(_, subject, _)| subject.clone()).collect();
    let turn: BTreeSet<usize> = creates::first_per_key(&subjects, under_way).into_iter().collect();
    let first = changes.into_iter().enumerate().filter(|(index, _)| turn.contains(index));
    let mut first: Vec<_> = first.map(|(_, change)| change).collect();
    first.sort_by_key(|(id, ..)| previously_failed.contains(id));
    first
}

pub(super) fn order_key(change: &ShipmentCreate) -> String {
    format!("order {}", change.order_id)
}

pub(super) fn absence_subject(change: ChangeId) -> String {
    format!("change {change}")
}

pub(super) fn shipment_key(shipment: ShipmentId) -> String {
    format!("shipment {shipment}")
}

pub(super) fn refusal_outcome(id: ChangeId, messages: &[String]) -> ChangeOutcome {
    let message = if messages.is_empty() { "it gave no reason".into() } else { messages.join(" ") };
    let detail = format!("the platform refused it: {message}");
    ChangeOutcome::new(id, ChangeState::Rejected, Some(Reason::ServiceRefused), detail)
}

pub(super) fn unmatched_outcome(id: ChangeId) -> ChangeOutcome {
    let detail = "the answer does not say what became of it";
    ChangeOutcome::new(id, ChangeState::InDoubt, Some(Reason::Unmatched), detail)
}
