//! Entries that fail: who goes with the others, who goes alone, who rests, and who is set aside. The rule is
//! [`isolation`](crate::reconcile::isolation); here it meets the database and the log.
//!
//! An entry that is set aside stands in the table `quarantine`. It is left out of all calls of others, tried again by
//! itself with growing delays, and taken back by the first call that succeeds. The others of its operation are tried at once
//! then: what made several fail may have been the platform.

use super::{Context, JobError, probe_key};
use crate::client::{Reply, Verdict};
use crate::model::{Operation, RunId, Timestamp};
use crate::reconcile::isolation::Failures;
use crate::reconcile::proof::Key;
use crate::store::{Durability, QuarantineRow, StoreError};
use crate::telemetry::event;
use std::collections::BTreeMap;
use std::sync::{MutexGuard, PoisonError};

/// The way of an entry to its next call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// With others.
    Together,
    /// Its last call failed: with those alone that failed with it, or by itself.
    Suspect,
    /// It was set aside and is tried again: in a call of its own.
    Alone,
    /// In no call before this time; the words say why.
    Later(Timestamp, String),
}

/// The entries of one operation that are set aside.
#[derive(Debug)]
pub(super) struct Aside {
    operation: Operation,
    rows: BTreeMap<String, QuarantineRow>,
}

/// The meaning of a call that failed as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failed {
    /// Told to wait: it is sent again when the limiter lets it go, and nothing is counted.
    Throttled,
    /// No byte left, or nobody can tell whether the key is meant: its entries do not matter.
    Unsent,
    /// Failure that one of its entries may cause.
    Entries,
}

impl Context {
    /// The entries of an operation that are set aside now.
    pub(super) async fn aside(&self, operation: Operation) -> Result<Aside, StoreError> {
        let rows = self.store.quarantine_of(operation).await?.into_iter();
        Ok(Aside { operation, rows: rows.map(|row| (row.subject.clone(), row)).collect() })
    }

    /// A call of these entries succeeded. One that was alone in it goes with the others again; true if it was set aside.
    pub(super) async fn worked(&self, operation: Operation, entries: &[&str]) -> Result<bool, StoreError> {
        self.failures().worked(operation, entries.iter().copied());
        self.take_back(operation, entries).await
    }

    /// A read of these entries was answered. An answer that shows nothing of what was asked for accuses none of them, and
    /// it does not tell that the platform works: whoever fails beside it may be as innocent. True as of [`Context::worked`].
    pub(super) async fn read_worked(
        &self,
        operation: Operation,
        entries: &[&str],
        shows_some: bool,
    ) -> Result<bool, StoreError> {
        if shows_some {
            return self.worked(operation, entries).await;
        }
        self.failures().acquit(operation, entries.iter().copied());
        self.take_back(operation, entries).await
    }

    /// An entry that was alone in a call which did not fail goes with the others again, and the rest of those set aside is
    /// due at once.
    async fn take_back(&self, operation: Operation, entries: &[&str]) -> Result<bool, StoreError> {
        let [alone] = entries else { return Ok(false) };
        if !self.aside(operation).await?.contains(alone) {
            return Ok(false);
        }
        let mut write = self.store.begin(Durability::Normal).await?;
        let was_aside = write.quarantine_lift(operation, alone).await?;
        if was_aside {
            write.quarantine_retry_all(operation, self.now()).await?;
        }
        write.commit().await?;
        if was_aside {
            let operation = operation.as_str();
            tracing::info!(
                event = event::ENTRY_TAKEN_BACK,
                operation,
                entry = alone,
                "{alone} no longer fails and goes with the others"
            );
        }
        Ok(was_aside)
    }

    /// A call of these entries failed. True if that was proof against the only one of them: it is set aside then.
    pub(super) async fn failed(
        &self,
        operation: Operation,
        entries: &[&str],
        why: &str,
    ) -> Result<bool, StoreError> {
        self.failures().failed(operation, entries.iter().copied(), self.moment());
        let [alone] = entries else { return Ok(false) };
        self.set_aside(operation, alone, why).await
    }

    /// Sets an entry aside that failed alone, if that is proved; one that is set aside is tried again later than before.
    /// True if it is set aside then.
    pub(super) async fn set_aside(
        &self,
        operation: Operation,
        alone: &str,
        why: &str,
    ) -> Result<bool, StoreError> {
        let was_aside = self.aside(operation).await?.contains(alone);
        if !was_aside && !self.failures().is_proved(operation, alone) {
            return Ok(false);
        }
        let mut write = self.store.begin(Durability::Normal).await?;
        write.quarantine_add(operation, alone, why, self.now()).await?;
        write.commit().await?;
        if !was_aside {
            let operation = operation.as_str();
            tracing::warn!(
                event = event::ENTRY_SET_ASIDE,
                operation,
                entry = alone,
                "every call that names {alone} fails ({why}); it is left out of other calls and tried again by itself"
            );
        }
        Ok(true)
    }

    /// The meaning of an answer that is not accepted. A refused key is an error: nothing is sent until it works.
    pub(super) async fn failure(&self, run: RunId, reply: &Reply) -> Result<Failed, JobError> {
        match reply.verdict {
            Verdict::Throttled(_) => Ok(Failed::Throttled),
            Verdict::NotSent => Ok(Failed::Unsent),
            Verdict::Refused { may_be_id: false } => Err(self.refused(reply)),
            Verdict::Refused { may_be_id: true } => match probe_key(self, run).await?.key {
                Key::Works => Ok(Failed::Entries),
                Key::NotKnown => Ok(Failed::Unsent),
                Key::Refused => Err(self.refused(reply)),
            },
            Verdict::Accepted | Verdict::Rejected { .. } | Verdict::Transient | Verdict::InDoubt => {
                Ok(Failed::Entries)
            }
        }
    }

    /// The failures so far. A panic under the lock would be a bug in the counting; the others go on with what it left.
    pub(super) fn failures(&self) -> MutexGuard<'_, Failures> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Aside {
    /// The way of an entry.
    pub(super) fn way(&self, context: &Context, entry: &str) -> Way {
        if let Some(row) = self.rows.get(entry) {
            return match row.is_due(context.now()) {
                true => Way::Alone,
                false => Way::Later(row.next_try(), row.why.clone()),
            };
        }
        let failures = context.failures();
        let (now, moment) = (context.now(), context.moment());
        match failures.rests_until(self.operation, entry) {
            Some(until) if until > moment => {
                Way::Later(now.plus(until.since(moment)), "the service does not answer calls like it".into())
            }
            _ if failures.is_suspect(self.operation, entry) => Way::Suspect,
            _ => Way::Together,
        }
    }

    /// The time until which nothing is asked for an entry that is set aside.
    pub(super) fn later(&self, now: Timestamp, entry: &str) -> Option<Timestamp> {
        self.rows.get(entry).filter(|row| !row.is_due(now)).map(QuarantineRow::next_try)
    }

    /// The entries that are not tried again yet, and when each is.
    pub(super) fn waiting(&self, now: Timestamp) -> impl Iterator<Item = (&str, Timestamp)> {
        let waiting = self.rows.values().filter(move |row| !row.is_due(now));
        waiting.map(|row| (row.subject.as_str(), row.next_try()))
    }

    /// True if an entry is set aside, also one that is due.
    pub(super) fn contains(&self, entry: &str) -> bool {
        self.rows.contains_key(entry)
    }
}
