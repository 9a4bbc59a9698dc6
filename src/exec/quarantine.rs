//! Quarantine of entries for which calls fail. The rule is [`isolation`](crate::reconcile::isolation); this
//! module connects it with the database and the log.
//!
//! A quarantined entry is a row of the table `quarantine`. It is left out of shared calls and tried in a call
//! of its own with growing delays. The first success ends the quarantine. All other quarantined entries of
//! the operation are then due at once, because the platform may have caused several failures.

use super::call::reply_message;
use super::{JobContext, JobError};
use crate::client::{CallReply, Verdict};
use crate::model::{Operation, RunId, Timestamp};
use crate::reconcile::isolation::EntryFailures;
use crate::reconcile::proof::KeyState;
use crate::store::{Durability, QuarantineRow, StoreError};
use crate::telemetry::event;
use std::sync::{MutexGuard, PoisonError};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EntryRoute {
    /// In a call shared with any other entries.
    Shared,
    /// In a call of few suspect entries, because its last call failed.
    Suspect,
    /// Isolated: a quarantined entry that is due.
    Isolated,
    /// In no call before this time; the text is the reason.
    Deferred(Timestamp, String),
}

/// Quarantined entries of all operations.
pub(crate) struct Quarantine<'a> {
    context: &'a JobContext,
    rows: Vec<QuarantineRow>,
}

/// Meaning of a call that failed as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureCause {
    /// Throttled: the call is repeated when the limiter allows it, and no failure is counted.
    Throttled,
    /// No byte was sent, or the failure may mean the key. No failure of an entry is counted.
    Unsent,
    /// Failure that an entry may cause.
    Entry,
}

impl JobContext {
    pub(crate) async fn quarantine(&self) -> Result<Quarantine<'_>, StoreError> {
        Ok(Quarantine { context: self, rows: self.store.quarantine_list().await? })
    }

    /// Records an answered call of these entries. An answer that shows none of them proves neither a failure
    /// of theirs nor that the platform works. An isolated entry leaves the quarantine; then all others of the
    /// operation are due at once. Returns true if it was there.
    pub(crate) async fn record_success(
        &self,
        operation: Operation,
        entries: &[&str],
        shows_some: bool,
    ) -> Result<bool, StoreError> {
        if shows_some {
            self.entry_failures().record_success(operation, entries.iter().copied());
        } else {
            self.entry_failures().clear_failures(operation, entries.iter().copied());
        }
        let [entry] = entries else { return Ok(false) };
        if !self.quarantine().await?.contains(operation, entry) {
            return Ok(false);
        }
        let mut write = self.store.begin_write(Durability::Normal).await?;
        if !write.quarantine_lift(operation, entry).await? {
            return Ok(false);
        }
        write.quarantine_retry_all(operation, self.now()).await?;
        write.commit().await?;
        let operation = operation.as_str();
        tracing::info!(
            event = event::ENTRY_TAKEN_BACK,
            operation,
            entry,
            "{entry} no longer fails; its quarantine ends"
        );
        Ok(true)
    }

    /// Returns true if the last call with the entry failed, or it is quarantined.
    pub(crate) async fn has_failed(&self, operation: Operation, entry: &str) -> Result<bool, StoreError> {
        Ok(self.entry_failures().is_suspect(operation, entry)
            || self.quarantine().await?.contains(operation, entry))
    }

    /// Records a failed call of these entries. Returns true if the call had a single entry and that entry is
    /// now quarantined.
    pub(crate) async fn record_failure(
        &self,
        operation: Operation,
        entries: &[&str],
        why: &str,
    ) -> Result<bool, StoreError> {
        self.entry_failures().record_failure(operation, entries.iter().copied(), self.moment());
        let [entry] = entries else { return Ok(false) };
        self.quarantine_entry(operation, entry, why).await
    }

    /// Quarantines an isolated entry that failed, if the failures are proof. A quarantined entry gets a
    /// longer delay, unless entries outside the quarantine fail too: it then stays due, because the platform
    /// may have caused the failure. Returns true if the entry is quarantined and not due.
    pub(crate) async fn quarantine_entry(
        &self,
        operation: Operation,
        entry: &str,
        why: &str,
    ) -> Result<bool, StoreError> {
        let quarantine = self.quarantine().await?;
        let was_quarantined = quarantine.contains(operation, entry);
        let is_guilty = if was_quarantined {
            !self.entry_failures().is_amid_others(operation, |other| quarantine.contains(operation, other))
        } else {
            self.entry_failures().is_proved_guilty(operation, entry)
        };
        if !is_guilty {
            return Ok(false);
        }
        let mut write = self.store.begin_write(Durability::Normal).await?;
        write.quarantine_add(operation, entry, why, self.now()).await?;
        write.commit().await?;
        if !was_quarantined {
            let operation = operation.as_str();
            tracing::warn!(
                event = event::ENTRY_SET_ASIDE,
                operation,
                entry,
                "every call that names {entry} fails ({why}); it is quarantined: left out of shared calls and \
                 tried in a call of its own"
            );
        }
        Ok(true)
    }

    /// Returns the meaning of an answer that is not accepted. May send a probe.
    ///
    /// # Errors
    /// [`JobError::KeyRefused`] if the key is refused.
    pub(crate) async fn classify_failure(
        &self,
        run: RunId,
        reply: &CallReply,
    ) -> Result<FailureCause, JobError> {
        match reply.verdict {
            Verdict::Throttled(_) => Ok(FailureCause::Throttled),
            Verdict::NotSent => Ok(FailureCause::Unsent),
            Verdict::Refused => Err(JobError::KeyRefused(reply_message(reply))),
            Verdict::Rejected { status: 403 } => match Box::pin(super::probe_key(self, run)).await?.key {
                KeyState::Works => Ok(FailureCause::Entry),
                KeyState::NotKnown => Ok(FailureCause::Unsent),
                KeyState::Refused => Err(JobError::KeyRefused(reply_message(reply))),
            },
            Verdict::Accepted | Verdict::Rejected { .. } | Verdict::Transient | Verdict::InDoubt => {
                Ok(FailureCause::Entry)
            }
        }
    }

    /// Returns the failures so far. A poisoned lock is used as it is.
    pub(crate) fn entry_failures(&self) -> MutexGuard<'_, EntryFailures> {
        self.entry_failures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns what the changes of a deferred entry wait for.
pub(crate) fn deferral_detail(entry: impl std::fmt::Display, why: &str, until: Timestamp) -> String {
    format!("calls that name {entry} fail: {why}; the next attempt, in a call of its own, is at {until}")
}

impl Quarantine<'_> {
    fn row(&self, operation: Operation, entry: &str) -> Option<&QuarantineRow> {
        self.rows.iter().find(|row| row.operation == operation.as_str() && row.subject == entry)
    }

    /// Returns the route of a read. A mere suspicion does not separate it from the others.
    pub(crate) fn read_route(&self, operation: Operation, entry: &str) -> EntryRoute {
        match self.row(operation, entry) {
            None => EntryRoute::Shared,
            Some(row) if row.is_due(self.context.now()) => EntryRoute::Isolated,
            Some(row) => EntryRoute::Deferred(row.next_try(), row.why.clone()),
        }
    }

    pub(crate) fn route_of(&self, operation: Operation, entry: &str) -> EntryRoute {
        let quarantined = self.read_route(operation, entry);
        if quarantined != EntryRoute::Shared {
            return quarantined;
        }
        let (now, moment) = (self.context.now(), self.context.moment());
        let failures = self.context.entry_failures();
        match failures.paused_until(operation, entry) {
            Some(until) if until > moment => EntryRoute::Deferred(
                now.plus(until.duration_since(moment)),
                "calls with it were not answered".into(),
            ),
            _ if failures.is_suspect(operation, entry) => EntryRoute::Suspect,
            _ => EntryRoute::Shared,
        }
    }

    /// Returns the entries of an operation whose next attempt is in the future, with its time.
    pub(crate) fn deferred_entries(&self, operation: Operation) -> Vec<(&str, Timestamp)> {
        let now = self.context.now();
        let waits = |row: &&QuarantineRow| row.operation == operation.as_str() && !row.is_due(now);
        self.rows.iter().filter(waits).map(|row| (row.subject.as_str(), row.next_try())).collect()
    }

    /// Returns true if the entry is quarantined, also if it is due.
    pub(crate) fn contains(&self, operation: Operation, entry: &str) -> bool {
        self.row(operation, entry).is_some()
    }
}
