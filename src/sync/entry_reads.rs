//! Order of the reads of a job that makes one call per entry.
//!
//! Entries that failed come last. [`crate::exec::quarantine`] decides on the quarantine.
//!
//! An entry that fails costs one attempt before the others are read, and [`RETRY_ATTEMPTS`] attempts after them. A
//! quarantined entry costs at most [`QUARANTINED_ATTEMPTS`] attempts at each of its delays. Without this order each failing
//! entry would delay all others in each run by all of its attempts. After [`FAILED_MAX`] consecutive failures
//! the run ends, because the fault is then the platform's.

use super::read_summary::ReadSummary;
use crate::exec::pager::ListProgress;
use crate::exec::quarantine::{self, EntryRoute};
use crate::exec::{JobContext, JobError};
use crate::model::Operation;
use crate::reconcile::isolation::PROOF_FAILURES;

/// Attempts at an entry among the others.
const FIRST_ATTEMPTS: usize = 1;
/// Attempts at an entry that failed, after the others.
const RETRY_ATTEMPTS: usize = 3;
/// Attempts at a quarantined entry that is due.
const QUARANTINED_ATTEMPTS: usize = 2;
/// Limit of consecutive failures, after which the run ends.
const FAILED_MAX: usize = 12;

/// Entry of a job.
pub(super) trait JobEntry: Copy + Send + Sync {
    /// Name in the table `quarantine`.
    fn quarantine_key(&self) -> String;
    /// Name in summaries and messages.
    fn display_name(&self) -> String;
}

/// Operation that reads one entry per call.
pub(super) trait EntryOperation: Sync {
    /// Entry of the operation.
    type Entry: JobEntry;
    /// Operation of the calls.
    const OPERATION: Operation;
    /// Reads an entry with at most so many attempts, and records the answer.
    async fn read_entry(&self, entry: Self::Entry, attempts: usize) -> Result<EntryResult, JobError>;
}

/// Result of an entry's read.
#[derive(Debug, Default)]
pub(super) struct EntryResult {
    /// Number of facts that are new or changed.
    pub(super) changed: u64,
    /// Reason why the answer may be incomplete.
    pub(super) anomaly: Option<String>,
}

/// Entries of a run.
pub(super) struct EntryReader<'a, A: EntryOperation> {
    context: &'a JobContext,
    operation: A,
    /// Entries quarantined before this run.
    quarantined: quarantine::QuarantinedEntries,
    /// Entries to be read after the others, with their error. Without an error: quarantined before this run,
    /// and due.
    deferred: Vec<(A::Entry, Option<JobError>)>,
    /// Number of entries that were read in this run.
    answered_count: usize,
    consecutive_failures: usize,
    summary: ReadSummary,
}

impl<'a, A: EntryOperation> EntryReader<'a, A> {
    pub(super) async fn load(context: &'a JobContext, asks: A) -> Result<Self, JobError> {
        let known = context.quarantined_entries(A::OPERATION).await?;
        let (behind, answered, failed_in_a_row) = (Vec::new(), 0, 0);
        Ok(Self {
            context,
            operation: asks,
            quarantined: known,
            deferred: behind,
            answered_count: answered,
            consecutive_failures: failed_in_a_row,
            summary: ReadSummary::default(),
        })
    }

    /// Returns true if the entry is read among the others. A quarantined entry is read after them if it is
    /// due.
    pub(super) fn may_read_now(&mut self, entry: A::Entry) -> bool {
        let is_known = self.quarantined.contains(&entry.quarantine_key());
        match self.quarantined.route_of(self.context, &entry.quarantine_key()) {
            EntryRoute::Isolated => self.deferred.push((entry, None)),
            EntryRoute::Deferred(_, why) if is_known => self.note_unread(entry, &why),
            // Not delayed, because other entries of the run show if the platform answers again.
            EntryRoute::Shared | EntryRoute::Suspect | EntryRoute::Deferred(..) => return true,
        }
        false
    }

    /// Reads an entry among the others. Returns true if the read succeeded.
    pub(super) async fn read_entry(&mut self, entry: A::Entry) -> Result<bool, JobError> {
        let error = match self.attempt_read(entry, FIRST_ATTEMPTS).await {
            Ok(came) => return self.record_answer(entry, came).await.map(|()| true),
            Err(error) => error,
        };
        let Some(why) = entry_failure_message(&error) else { return Err(error) };
        self.consecutive_failures += 1;
        if self.consecutive_failures >= FAILED_MAX {
            return Err(error);
        }
        if self.context.quarantine_entry(A::OPERATION, &entry.quarantine_key(), why).await? {
            self.note_unread(entry, why);
        } else {
            self.deferred.push((entry, Some(error)));
        }
        Ok(false)
    }

    /// Reads the entries again that failed, and the quarantined ones that are due.
    pub(super) async fn read_deferred(&mut self) -> Result<(), JobError> {
        let behind = std::mem::take(&mut self.deferred);
        // A single failure since the last success means the entry. Several may mean the platform.
        if let (1.., 1, Some((last, _))) = (
            self.answered_count,
            self.consecutive_failures,
            behind.iter().rfind(|(_, first)| first.is_some()),
        ) {
            self.context.entry_failures().note_isolated_failure(A::OPERATION, &last.quarantine_key());
        }
        for (entry, first) in behind {
            let asked = match first {
                // No read of this run succeeded, so a further attempt proves nothing.
                Some(error) if self.answered_count == 0 => Err(error),
                // A refusal would be repeated, and each costs a bad request.
                Some(error) if !matches!(error, JobError::GivenUp { .. }) => Err(error),
                Some(_) => self.attempt_read(entry, RETRY_ATTEMPTS).await,
                None => self.attempt_read(entry, QUARANTINED_ATTEMPTS).await,
            };
            match asked {
                Ok(came) => self.record_answer(entry, came).await?,
                Err(error) => {
                    let Some(why) = entry_failure_message(&error) else { return Err(error) };
                    self.context.quarantine_entry(A::OPERATION, &entry.quarantine_key(), why).await?;
                    self.note_unread(entry, why);
                }
            }
        }
        Ok(())
    }

    /// Returns the operation and the summary of all entries.
    pub(super) fn into_parts(self) -> (A, ReadSummary) {
        (self.operation, self.summary)
    }

    /// Reads an entry with at most so many attempts and counts its failures.
    async fn attempt_read(&self, entry: A::Entry, attempts: usize) -> Result<EntryResult, JobError> {
        let asked = self.operation.read_entry(entry, attempts).await;
        let failed = match &asked {
            Err(JobError::GivenUp { .. }) => attempts,
            // A refused or invalid answer would be the same again, so it counts as full proof.
            Err(JobError::Rejected { .. } | JobError::Implausible(_)) => PROOF_FAILURES,
            Ok(_) | Err(JobError::Stopped | JobError::KeyRefused(_) | JobError::Store(_)) => 0,
        };
        let (subject, moment) = (entry.quarantine_key(), self.context.moment());
        let mut failures = self.context.entry_failures();
        (0..failed).for_each(|_| failures.record_failure(A::OPERATION, [subject.as_str()], moment));
        drop(failures);
        asked
    }

    async fn record_answer(&mut self, entry: A::Entry, came: EntryResult) -> Result<(), JobError> {
        (self.answered_count, self.consecutive_failures) = (self.answered_count + 1, 0);
        self.summary.count_read(came.changed);
        if let Some(oddity) = came.anomaly {
            self.summary.note_anomaly(format!("{}: {oddity}", entry.display_name()));
        }
        self.summary.note_quarantine_end(
            self.context.record_success(A::OPERATION, &[&entry.quarantine_key()]).await?,
        );
        Ok(())
    }

    /// Notes an entry that was not read. An entry quarantined before this run does not make the run partial.
    fn note_unread(&mut self, entry: A::Entry, why: &str) {
        let named = format!("{} ({why})", entry.display_name());
        if self.quarantined.contains(&entry.quarantine_key()) {
            self.summary.note_quarantined(named);
        } else {
            self.summary.note_unread(named);
        }
    }
}

/// Reads each of these entries; those that fail come last.
pub(super) async fn read_each<A: EntryOperation>(
    context: &JobContext,
    asks: A,
    entries: Vec<A::Entry>,
) -> Result<ReadSummary, JobError> {
    let mut aside = EntryReader::load(context, asks).await?;
    for entry in entries {
        if aside.may_read_now(entry) {
            aside.read_entry(entry).await?;
        }
    }
    aside.read_deferred().await?;
    Ok(aside.summary)
}

/// Returns the message of a failure that the entry may cause.
fn entry_failure_message(error: &JobError) -> Option<&str> {
    match error {
        JobError::Rejected { why, .. } | JobError::GivenUp { why, .. } | JobError::Implausible(why) => {
            Some(why)
        }
        JobError::Stopped | JobError::KeyRefused(_) | JobError::Store(_) => None,
    }
}

impl From<u64> for EntryResult {
    fn from(changed: u64) -> Self {
        Self { changed, anomaly: None }
    }
}

impl From<ListProgress> for EntryResult {
    fn from(list: ListProgress) -> Self {
        Self { changed: list.changed, anomaly: list.anomaly_text() }
    }
}

/// Implements [`JobEntry`] for an id type with a noun.
macro_rules! job_entry {
    ($id:ty, $noun:literal) => {
        impl JobEntry for $id {
            fn quarantine_key(&self) -> String {
                self.to_string()
            }

            fn display_name(&self) -> String {
                format!(concat!($noun, " {}"), self)
            }
        }
    };
}

job_entry!(crate::model::ShipmentId, "shipment");
job_entry!(crate::model::ProductId, "kit");
job_entry!(crate::model::StorefrontId, "storefront");
job_entry!(crate::model::Month, "month");
