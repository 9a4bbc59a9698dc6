//! End of a wait that the platform ordered for the account, by an operator's decision.
//!
//! A platform that still requires the wait orders it again with its next answer.

use super::JobContext;
use crate::limiter::{EndingHold, HoldScope, LimiterState};
use crate::model::{Position, Timestamp};
use crate::store::{Durability, QUOTA_LIFTED, Store, StoreError};
use crate::telemetry::event;

/// Ends the account's wait in the database and records an event for a running daemon.
///
/// Returns the wait, if one was in force.
pub async fn lift_wait(store: &Store, at: Timestamp) -> Result<Option<EndingHold>, StoreError> {
    let mut write = store.begin_write(Durability::Full).await?;
    // No other writer runs between this read and the commit.
    let stored = store.limiter_state().await?;
    let mut state: LimiterState =
        stored.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    let (account, others) = state.holds.into_iter().partition(|hold| hold.scope == HoldScope::Account);
    state.holds = account;
    let Some(wait) = state.quota_status(at).holds.pop() else { return Ok(None) };
    state.holds = others;
    write.event_append(at, QUOTA_LIFTED, "account", None).await?;
    let state = serde_json::to_string(&state).expect("the limiter's state has text keys");
    write.limiter_state_store(&state).await?;
    write.commit().await.map(|()| Some(wait))
}

/// Ends the account's wait in the running limiter, if an event after this position says so.
pub(crate) async fn apply_lifted_wait(context: &JobContext, after: Position) -> Result<(), StoreError> {
    if !context.store.event_since(QUOTA_LIFTED, after).await? {
        return Ok(());
    }
    let Some(reason) = context.limiter.lift_order() else { return Ok(()) };
    let reason = reason.as_str();
    tracing::warn!(
        event = event::QUOTA_LIFTED,
        reason,
        "an operator ended the wait that the platform ordered; calls continue"
    );
    let mut write = context.store.begin_write(Durability::Normal).await?;
    context.limiter_save_state(&mut write).await?;
    write.commit().await
}
