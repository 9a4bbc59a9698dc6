//! Order of the reads of a job that makes one call per entry.
//!
//! Entries that failed come last. [`crate::exec::quarantine`] decides on the quarantine.
//!
//! An entry that fails costs one attempt before the others are read, and [`PROOF_FAILURES`] attempts after
//! them. A quarantined entry costs at most [`PREFLIGHT_ATTEMPTS`] attempts at each of its delays. Without
//! this order each failing entry would delay all others in each run by all of its attempts. After
//! [`FAILURES_MAX`] consecutive failures the run ends, because the fault is then the platform's.

use super::read_summary::ReadSummary;
use crate::exec::pager::ListProgress;
use crate::exec::quarantine::{EntryRoute, Quarantine};
use crate::exec::reads::{PREFLIGHT_ATTEMPTS, ReadOrigin};
use crate::exec::{JobContext, JobError};
use crate::model::{Lane, Operation, RunId};
use crate::reconcile::isolation::{FAILURES_MAX, PROOF_FAILURES};

/// Entry of a job, read by one call. Its text is its name in the table `quarantine`.
pub(super) trait JobEntry: Copy + std::fmt::Display + Send + Sync {
    const OPERATION: Operation;
    const NOUN: &'static str;

    fn display_name(&self) -> String {
        format!("{} {self}", Self::NOUN)
    }

    /// Reads the entry with at most so many attempts, and records the answer.
    async fn read(self, origin: ReadOrigin<'_>, attempts: usize) -> Result<EntryResult, JobError>;
}

#[derive(Debug, Default)]
pub(super) struct EntryResult {
    pub(super) changed: u64,
    pub(super) anomaly: Option<String>,
}

pub(super) struct EntryReader<'a, E> {
    context: &'a JobContext,
    run: RunId,
    /// Entries quarantined before this run.
    quarantine: Quarantine<'a>,
    /// Entries to be read after the others, with their error. Without an error: quarantined before this run,
    /// and due.
    deferred: Vec<(E, Option<JobError>)>,
    consecutive_failures: usize,
    pub(super) summary: ReadSummary,
}

impl<'a, E: JobEntry> EntryReader<'a, E> {
    pub(super) async fn load(context: &'a JobContext, run: RunId) -> Result<Self, JobError> {
        Ok(Self {
            context,
            run,
            quarantine: context.quarantine().await?,
            deferred: Vec::new(),
            consecutive_failures: 0,
            summary: ReadSummary::default(),
        })
    }

    /// Returns true if the entry is read among the others. A quarantined entry is read after them if it is
    /// due.
    pub(super) fn may_read_now(&mut self, entry: E) -> bool {
        match self.quarantine.read_route(E::OPERATION, &entry.to_string()) {
            EntryRoute::Isolated => self.deferred.push((entry, None)),
            EntryRoute::Deferred(_, why) => self.note_unread(entry, &why),
            EntryRoute::Shared | EntryRoute::Suspect => return true,
        }
        false
    }

    /// Reads an entry among the others. Returns true if the read succeeded.
    pub(super) async fn read_entry(&mut self, entry: E) -> Result<bool, JobError> {
        let error = match self.attempt_read(entry, 1).await {
            Ok(result) => return self.record_answer(entry, result).await.map(|()| true),
            Err(error) => error,
        };
        let Some(why) = error.entry_failure() else { return Err(error) };
        self.consecutive_failures += 1;
        if self.consecutive_failures >= FAILURES_MAX {
            return Err(error);
        }
        if self.context.quarantine_entry(E::OPERATION, &entry.to_string(), &why).await? {
            self.note_unread(entry, &why);
        } else {
            self.deferred.push((entry, Some(error)));
        }
        Ok(false)
    }

    pub(super) async fn read_deferred(&mut self) -> Result<(), JobError> {
        let deferred = std::mem::take(&mut self.deferred);
        // A single failure since the last success means the entry. Several may mean the platform.
        if let (1.., 1, Some((last, _))) = (
            self.summary.read_count,
            self.consecutive_failures,
            deferred.iter().rfind(|(_, first)| first.is_some()),
        ) {
            self.context.entry_failures().note_isolated_failure(E::OPERATION, &last.to_string());
        }
        for (entry, first) in deferred {
            let read = match first {
                // No read of this run succeeded, so a further attempt proves nothing.
                Some(error) if self.summary.read_count == 0 => Err(error),
                // A refusal would be repeated, and each costs a bad request.
                Some(error) if !matches!(error, JobError::GivenUp { .. }) => Err(error),
                Some(_) => self.attempt_read(entry, PROOF_FAILURES).await,
                None => self.attempt_read(entry, PREFLIGHT_ATTEMPTS).await,
            };
            match read {
                Ok(result) => self.record_answer(entry, result).await?,
                Err(error) => {
                    let Some(why) = error.entry_failure() else { return Err(error) };
                    self.context.quarantine_entry(E::OPERATION, &entry.to_string(), &why).await?;
                    self.note_unread(entry, &why);
                }
            }
        }
        Ok(())
    }

    async fn attempt_read(&self, entry: E, attempts: usize) -> Result<EntryResult, JobError> {
        let origin = ReadOrigin { context: self.context, run: self.run, lane: Lane::Poll };
        let read = entry.read(origin, attempts).await;
        let failed = match &read {
            Err(JobError::GivenUp { .. }) => attempts,
            // A refused or invalid answer would be the same again, so it counts as full proof.
            Err(error) if error.entry_failure().is_some() => PROOF_FAILURES,
            Ok(_) | Err(_) => 0,
        };
        let (subject, moment) = (entry.to_string(), self.context.moment());
        let mut failures = self.context.entry_failures();
        (0..failed).for_each(|_| failures.record_failure(E::OPERATION, [subject.as_str()], moment));
        drop(failures);
        read
    }

    async fn record_answer(&mut self, entry: E, result: EntryResult) -> Result<(), JobError> {
        self.consecutive_failures = 0;
        let summary = &mut self.summary;
        (summary.read_count, summary.changed) = (summary.read_count + 1, summary.changed + result.changed);
        let anomaly = result.anomaly.map(|anomaly| format!("{}: {anomaly}", entry.display_name()));
        summary.anomalies.extend(anomaly);
        summary.has_ended_quarantine |=
            self.context.record_success(E::OPERATION, &[&entry.to_string()], true).await?;
        Ok(())
    }

    /// Notes an entry that was not read. An entry quarantined before this run does not make the run partial.
    fn note_unread(&mut self, entry: E, why: &str) {
        let ReadSummary { unread, quarantined, .. } = &mut self.summary;
        let was_quarantined = self.quarantine.contains(E::OPERATION, &entry.to_string());
        let entries = if was_quarantined { quarantined } else { unread };
        entries.push(format!("{} ({why})", entry.display_name()));
    }
}

/// Reads each of these entries; those that fail come last.
pub(super) async fn read_each<E: JobEntry>(
    context: &JobContext,
    run: RunId,
    entries: Vec<E>,
) -> Result<ReadSummary, JobError> {
    let mut reader = EntryReader::load(context, run).await?;
    for entry in entries {
        if reader.may_read_now(entry) {
            reader.read_entry(entry).await?;
        }
    }
    reader.read_deferred().await?;
    Ok(reader.summary)
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
