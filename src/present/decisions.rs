//! Decisions of people on changes, with the sentences about them. The command line and the page take them here.
//!
//! A decision is journalled and applied in one transaction. An impossible one changes nothing and names the reason.

use super::{DecisionSentences, ViewError, write_and_commit};
use crate::model::{Timestamp, counted};
use crate::outbox::{ChangeState, Resolution};
use crate::store::{BrakeTripRow, DecisionResult, Store, StoreError, WriteTransaction};
use std::time::Duration;

/// Decisions of one commit, so that programs beside it can write in between.
const BATCH: usize = 200;

/// A decision on a change that needs no more than its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyDecision {
    Release,
    Retry,
    Cancel,
    Acknowledge,
}

impl KeyDecision {
    /// Returns the verb, its past, and the states of changes that it applies to.
    pub(crate) fn words(self) -> (&'static str, &'static str, &'static [ChangeState]) {
        match self {
            Self::Release => ("release", "released", &[ChangeState::Held]),
            Self::Retry => ("retry", "retried", &[ChangeState::Held]),
            Self::Cancel => ("cancel", "cancelled", &[ChangeState::Pending, ChangeState::Held]),
            Self::Acknowledge => ("acknowledge", "acknowledged", &[ChangeState::Rejected]),
        }
    }

    pub(crate) fn from_verb(verb: &str) -> Option<Self> {
        let all = [Self::Release, Self::Retry, Self::Cancel, Self::Acknowledge];
        all.into_iter().find(|decision| decision.words().0 == verb)
    }

    async fn apply(
        self,
        write: &mut WriteTransaction,
        key: &str,
        now: Timestamp,
    ) -> Result<DecisionResult<()>, StoreError> {
        match self {
            Self::Release => write.outbox_release(key, now).await,
            Self::Retry => write.outbox_retry(key, now).await,
            Self::Cancel => write.outbox_cancel(key, now).await,
            Self::Acknowledge => write.outbox_acknowledge(key, now).await,
        }
    }
}

pub(crate) struct DecidedChanges {
    pub(crate) decision: KeyDecision,
    pub(crate) done: Vec<String>,
    /// Keys or names, each with the reason for which nothing was decided.
    pub(crate) refused: Vec<(String, String)>,
}

impl DecidedChanges {
    pub(crate) fn summary(&self) -> String {
        format!("{} {}", counted(self.done.len(), "change"), self.decision.words().1)
    }

    pub(crate) fn refusals(&self) -> impl Iterator<Item = String> {
        let (_, past, _) = self.decision.words();
        self.refused.iter().map(move |(name, why)| format!("{name}: not {past}: {why}"))
    }
}

/// Decides on each change, with an event for each.
pub(crate) async fn decide(
    store: &Store,
    decision: KeyDecision,
    keys: &[String],
    now: Timestamp,
) -> Result<DecidedChanges, StoreError> {
    let mut all = DecidedChanges { decision, done: Vec::new(), refused: Vec::new() };
    for batch in keys.chunks(BATCH) {
        let decided = write_and_commit(store, async |write| {
            let mut decided = Vec::new();
            for key in batch {
                decided.push((key.clone(), decision.apply(write, key, now).await?));
            }
            Ok(decided)
        });
        for (key, decided) in decided.await? {
            match decided {
                Ok(()) => all.done.push(key),
                Err(why) => all.refused.push((key, why)),
            }
        }
    }
    Ok(all)
}

/// Releases the changes of all open trips, and returns a sentence about each trip and one about their changes.
pub(crate) async fn release_all(store: &Store, now: Timestamp) -> DecisionSentences {
    let trips = store.brake_trip_list().await?;
    if trips.is_empty() {
        let why = "no brake holds a change; changes held for another reason: tallyd outbox list --state held";
        return Err(ViewError::Refused(why.into()));
    }
    let released = write_and_commit(store, async |write| write.brake_release(&[], now).await).await?;
    let trip =
        |trip: &BrakeTripRow| format!("trip {}: {} ({})", trip.id, trip.what, counted(trip.held, "change"));
    let mut sentences: Vec<String> = trips.iter().map(trip).collect();
    sentences.push(format!("{} released", counted(released, "change")));
    if trips.iter().any(|trip| trip.is_restore) {
        sentences
            .push("new changes are sent again; one that repeats a lost change would be done twice".into());
    }
    Ok(sentences)
}

/// Resolves a change that is in doubt or in conflict, and returns a sentence about each change that it decides.
pub(crate) async fn resolve(
    store: &Store,
    key: &str,
    resolution: Resolution,
    max_base_age: Duration,
    now: Timestamp,
) -> DecisionSentences {
    let resolved =
        write_and_commit(store, async |write| write.outbox_resolve(key, resolution, max_base_age, now).await);
    let refused = |why| ViewError::Refused(format!("{key}: not resolved: {why}"));
    let done = resolved.await?.map_err(refused)?;
    Ok(done.keys.iter().map(|key| format!("{key}: {}; {}", done.state, done.next)).collect())
}
