//! Log lines about changes, each with the id and the key.
//!
//! People and programs name a change by its key, tables and the journal by its id; both find the lines.
//!
//! A line about one change has `wish` and `key`, and a line about a call has `ids` and `keys` of all its
//! changes. Changes held by a brake or after a restore share one line, because thousands of lines would hide
//! the others. A change applied without a call, because the platform has the quantity already, is only
//! counted in its run's line.

use super::Context;
use crate::model::{Position, WishId};
use crate::outbox::{Reason, State};
use crate::store::{StoreError, Verdict};
use crate::telemetry::event;
use std::collections::{BTreeMap, BTreeSet};

/// Logs one line for each transition.
pub(crate) async fn tell(context: &Context, moves: &[Verdict]) {
    let keys = keys(context, &moves.iter().map(|verdict| verdict.id).collect::<Vec<_>>()).await;
    for verdict in moves {
        let (wish, key, reason) = (verdict.id.0, keys.get(&verdict.id).map(String::as_str), verdict.reason);
        let detail = verdict.detail.as_deref().unwrap_or_default();
        if verdict.to == State::Held.as_str() && reason == Some(Reason::Conflict.as_str()) {
            tracing::warn!(event = event::CONFLICT_OPENED, wish, key, "{detail}");
        } else if verdict.to == State::Held.as_str() {
            tracing::warn!(event = event::OUTBOX_HELD, wish, key, reason, "{detail}");
        } else if verdict.to == State::InDoubt.as_str() {
            tracing::warn!(event = event::OUTBOX_IN_DOUBT, wish, key, reason, "{detail}");
        } else if is_news(verdict) {
            let outcome = verdict.to;
            tracing::warn!(event = event::OUTBOX_SETTLED, wish, key, reason, outcome, "{detail}");
        } else {
            let outcome = verdict.to;
            tracing::info!(event = event::OUTBOX_SETTLED, wish, key, reason, outcome, "{detail}");
        }
    }
}

/// Returns true for a rejection that was not decided by an operator.
fn is_news(verdict: &Verdict) -> bool {
    let decided = [Reason::Operator, Reason::RemoteWins].map(Reason::as_str);
    verdict.to == State::Rejected.as_str() && !verdict.reason.is_some_and(|reason| decided.contains(&reason))
}

/// Logs an operator's releases after this position. The daemon logs them, because a command has no log.
pub async fn tell_released(context: &Context, after: Position) -> Result<(), StoreError> {
    for (trip, wishes) in context.store.brake_released(after).await? {
        let what = trip.map_or_else(|| "what was held".into(), |trip| format!("trip {trip}"));
        tracing::warn!(
            event = event::BRAKE_RELEASED,
            trip,
            wishes,
            "a person released {what}: {wishes} wish(es) go on"
        );
    }
    Ok(())
}

/// Returns the fields `ids` and `keys` of a line about several changes, as comma-separated lists in one
/// order.
pub(crate) async fn listed(context: &Context, wishes: &[WishId]) -> (String, String) {
    let ids: BTreeSet<WishId> = wishes.iter().copied().collect();
    let ids: Vec<String> = ids.iter().map(WishId::to_string).collect();
    let keys: Vec<String> = keys(context, wishes).await.into_values().collect();
    (ids.join(", "), keys.join(", "))
}

/// Returns no keys if they cannot be read, because a log line should not fail a run.
async fn keys(context: &Context, wishes: &[WishId]) -> BTreeMap<WishId, String> {
    context.store.outbox_keys(wishes).await.unwrap_or_default()
}
