//! Log lines about changes, each with the id and the key.
//!
//! People and programs name a change by its key, tables and the journal by its id; both find the lines.
//!
//! A line about one change has `change` and `key`, and a line about a call has `ids` and `keys` of all its
//! changes. Changes held by a brake or after a restore share one line, because thousands of lines would hide
//! the others. A change applied without a call, because the platform has the quantity already, is only
//! counted in its run's line.

use super::JobContext;
use crate::model::{ChangeId, Position};
use crate::outbox::{ChangeState, Reason};
use crate::store::{ChangeOutcome, StoreError};
use crate::telemetry::event;
use std::collections::{BTreeMap, BTreeSet};

/// Logs one line for each transition.
pub(crate) async fn log_outcomes(context: &JobContext, moves: &[ChangeOutcome]) {
    let keys = change_keys(context, &moves.iter().map(|moved| moved.id).collect::<Vec<_>>()).await;
    for moved in moves {
        let (change, key, reason) = (moved.id.0, keys.get(&moved.id).map(String::as_str), moved.reason);
        let (outcome, detail) = (moved.to, moved.detail.as_deref().unwrap_or_default());
        if outcome == ChangeState::Held.as_str() && reason == Some(Reason::Conflict.as_str()) {
            tracing::warn!(event = event::CONFLICT_OPENED, change, key, "{detail}");
        } else if outcome == ChangeState::Held.as_str() {
            tracing::warn!(event = event::OUTBOX_HELD, change, key, reason, "{detail}");
        } else if outcome == ChangeState::InDoubt.as_str() {
            tracing::warn!(event = event::OUTBOX_IN_DOUBT, change, key, reason, "{detail}");
        } else if is_unexpected(moved) {
            tracing::warn!(event = event::OUTBOX_FINISHED, change, key, reason, outcome, "{detail}");
        } else {
            tracing::info!(event = event::OUTBOX_FINISHED, change, key, reason, outcome, "{detail}");
        }
    }
}

/// Returns true for a rejection that was not decided by an operator.
fn is_unexpected(moved: &ChangeOutcome) -> bool {
    let decided = [Reason::Operator, Reason::RemoteWins].map(Reason::as_str);
    moved.to == ChangeState::Rejected.as_str()
        && !moved.reason.is_some_and(|reason| decided.contains(&reason))
}

/// Logs an operator's releases after this position. The daemon logs them, because a command has no log.
pub async fn log_released(context: &JobContext, after: Position) -> Result<(), StoreError> {
    for (trip, changes) in context.store.brake_releases(after).await? {
        let what = trip.map_or_else(|| "the held changes".into(), |trip| format!("trip {trip}"));
        tracing::warn!(
            event = event::BRAKE_RELEASED,
            trip,
            changes,
            "an operator released {what}: {changes} change(s) continue"
        );
    }
    Ok(())
}

/// Returns the fields `ids` and `keys` of a line about several changes, as comma-separated lists in one
/// order.
pub(crate) async fn ids_and_keys(context: &JobContext, changes: &[ChangeId]) -> (String, String) {
    let ids: BTreeSet<ChangeId> = changes.iter().copied().collect();
    let ids: Vec<String> = ids.iter().map(ChangeId::to_string).collect();
    let keys: Vec<String> = change_keys(context, changes).await.into_values().collect();
    (ids.join(", "), keys.join(", "))
}

/// Returns no keys if they cannot be read, because a log line should not fail a run.
async fn change_keys(context: &JobContext, changes: &[ChangeId]) -> BTreeMap<ChangeId, String> {
    context.store.outbox_keys(changes).await.unwrap_or_default()
}
