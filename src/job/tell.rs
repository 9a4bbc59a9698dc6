//! Log lines about wishes, in one place: each carries the id and the key. People and programs know a wish by its key,
//! tables and journal by its id, and whoever has one of them finds the lines.
//!
//! A line about one wish has `wish` and `key`; one about a call has `ids` and `keys` of all its wishes. What a brake or a
//! restore holds is one line in all: thousands would hide the others. A wish that is applied without a call, because the
//! service holds the quantity already, is counted in its run's line, or a daily feed of all stock would be a line a cell.

use super::Context;
use crate::model::{Position, WishId};
use crate::outbox::{Reason, State};
use crate::store::{StoreError, Verdict};
use crate::telemetry::event;
use std::collections::{BTreeMap, BTreeSet};

/// Says where wishes went, a line each.
pub(super) async fn tell(context: &Context, moves: &[Verdict]) {
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

/// True for a rejection that nobody decided: somebody wanted it, and it will not be done.
fn is_news(verdict: &Verdict) -> bool {
    let decided = [Reason::Operator, Reason::RemoteWins].map(Reason::as_str);
    verdict.to == State::Rejected.as_str() && !verdict.reason.is_some_and(|reason| decided.contains(&reason))
}

/// Says what a person released after this position. It is said by whoever hears it: a command has no log.
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

/// The fields `ids` and `keys` of a line about several wishes: lists with commas, in one order.
pub(super) async fn listed(context: &Context, wishes: &[WishId]) -> (String, String) {
    let ids: BTreeSet<WishId> = wishes.iter().copied().collect();
    let ids: Vec<String> = ids.iter().map(WishId::to_string).collect();
    let keys: Vec<String> = keys(context, wishes).await.into_values().collect();
    (ids.join(", "), keys.join(", "))
}

/// A line without its keys is better than a run that fails because they cannot be read.
async fn keys(context: &Context, wishes: &[WishId]) -> BTreeMap<WishId, String> {
    context.store.outbox_keys(wishes).await.unwrap_or_default()
}
