//! Log lines about changes, each with the id and the key.
//!
//! People and programs name a change by its key, tables and the journal by its id; both find the lines.
//!
//! A line about one change has `change` and `key`, and a line about a call has `ids` and `keys` of all its
//! changes. Changes held by a brake or after a restore share one line, because thousands of lines would hide
//! the others. A change applied without a call, because the platform has the quantity already, is only
//! counted in its run's line.

use super::JobContext;
use crate::model::{ChangeId, Position, counted};
use crate::outbox::{ChangeState, Reason};
use crate::store::{ChangeOutcome, StoreError};
use crate::telemetry::event;
use std::collections::{BTreeMap, BTreeSet};

pub(crate) async fn log_outcomes(context: &JobContext, moves: &[ChangeOutcome]) {
    let keys = change_keys(context, &moves.iter().map(|verdict| verdict.id).collect::<Vec<_>>()).await;
    for verdict in moves {
        let (change, key) = (verdict.id.0, keys.get(&verdict.id).map(String::as_str));
        let (reason, outcome) = (verdict.reason.map(Reason::as_str), verdict.to.as_str());
        let detail = verdict.detail.as_deref().unwrap_or_default();
        if verdict.to == ChangeState::Held && verdict.reason == Some(Reason::Conflict) {
            tracing::warn!(event = event::CONFLICT_OPENED, change, key, "{detail}");
        } else if verdict.to == ChangeState::Held {
            tracing::warn!(event = event::OUTBOX_HELD, change, key, reason, "{detail}");
        } else if verdict.to == ChangeState::InDoubt {
            tracing::warn!(event = event::OUTBOX_IN_DOUBT, change, key, reason, "{detail}");
        } else if verdict.to == ChangeState::Rejected
            && !matches!(verdict.reason, Some(Reason::Operator | Reason::RemoteWins))
        {
            tracing::warn!(event = event::OUTBOX_FINISHED, change, key, reason, outcome, "{detail}");
        } else {
            tracing::info!(event = event::OUTBOX_FINISHED, change, key, reason, outcome, "{detail}");
        }
    }
}

/// Returns one outcome for several changes.
pub(crate) fn outcomes_to(
    changes: &[ChangeId],
    to: ChangeState,
    reason: Option<Reason>,
    detail: &str,
) -> Vec<ChangeOutcome> {
    changes.iter().map(|id| ChangeOutcome::new(*id, to, reason, detail)).collect()
}

/// Logs an operator's releases after this position. The daemon logs them, because a command has no log.
pub(crate) async fn log_released(context: &JobContext, after: Position) -> Result<(), StoreError> {
    for (trip, changes) in context.store.brake_releases(after).await? {
        let what = trip.map_or_else(|| "the held changes".into(), |trip| format!("trip {trip}"));
        tracing::warn!(
            event = event::BRAKE_RELEASED,
            trip,
            changes,
            "an operator released {what}, with {}",
            counted(changes, "change")
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
