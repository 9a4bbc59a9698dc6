//! A person ends a wait that the service ordered for the whole account: it was a mistake, or the service says that it is
//! over. A service that means it orders the next one with its next answer.

use super::Context;
use crate::limiter::{Kept, Scope, StandingHold};
use crate::model::{Position, Timestamp};
use crate::store::{Durability, LIFTED, Store, StoreError};
use crate::telemetry::event;

/// Ends the account's wait: in the database for the next start, and by an event that a daemon at work hears. The wait is
/// returned, if one was in force.
pub async fn lift_wait(store: &Store, at: Timestamp) -> Result<Option<StandingHold>, StoreError> {
    let mut write = store.begin(Durability::Full).await?;
    // Nobody else writes it from here to the commit.
    let kept = store.limiter_memory().await?;
    let mut kept: Kept = kept.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    let (account, others) = kept.holds.into_iter().partition(|hold| hold.scope == Scope::Account);
    kept.holds = account;
    let Some(wait) = kept.standing(at).holds.pop() else { return Ok(None) };
    kept.holds = others;
    write.event_append(at, LIFTED, "account", None).await?;
    let memory = serde_json::to_string(&kept).expect("what is kept has text keys, which JSON can write");
    write.limiter_remember(&memory).await?;
    write.commit().await.map(|()| Some(wait))
}

/// Ends the account's wait in the limiter at work, if a person said so after this position.
pub async fn hear_lifted(context: &Context, after: Position) -> Result<(), StoreError> {
    if !context.store.event_since(LIFTED, after).await? {
        return Ok(());
    }
    let Some(reason) = context.limiter.lift_order() else { return Ok(()) };
    let reason = reason.as_str();
    tracing::warn!(
        event = event::QUOTA_LIFTED,
        reason,
        "a person ended the wait that the service ordered; calls go on"
    );
    let mut write = context.store.begin(Durability::Normal).await?;
    context.limiter_remember(&mut write).await?;
    write.commit().await
}
