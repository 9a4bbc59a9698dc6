//! Order of the reads of a job that makes one call per entry.
//!
//! Entries that failed come last. [`crate::exec::quarantine`] decides on the quarantine.
//!
//! An entry that fails costs one attempt before the others are read, and [`BEHIND`] attempts after them. A
//! quarantined entry costs at most [`DUE`] attempts at each of its delays. Without this order each failing
//! entry would delay all others in each run by all of its attempts. After [`FAILED_MAX`] consecutive failures
//! the run ends, because the fault is then the platform's.

use super::read_summary::Tally;
use crate::exec::pager::Progress;
use crate::exec::quarantine::{self, Way};
use crate::exec::{Context, JobError};
use crate::model::Operation;
use crate::reconcile::isolation::PROOF;

/// Attempts at an entry among the others.
const FIRST: usize = 1;
/// Attempts at an entry that failed, after the others.
const BEHIND: usize = 3;
/// Attempts at a quarantined entry that is due.
const DUE: usize = 2;
/// Limit of consecutive failures, after which the run ends.
const FAILED_MAX: usize = 12;

/// Entry of a job.
pub(super) trait Entry: Copy + Send + Sync {
    /// Name in the table `quarantine`.
    fn subject(&self) -> String;
    /// Name in summaries and messages.
    fn name(&self) -> String;
}

/// Operation that reads one entry per call.
pub(super) trait Asks: Sync {
    /// Entry of the operation.
    type Entry: Entry;
    /// Operation of the calls.
    const OPERATION: Operation;
    /// Reads an entry with at most so many attempts, and records the answer.
    async fn ask(&self, entry: Self::Entry, attempts: usize) -> Result<Came, JobError>;
}

/// Result of an entry's read.
#[derive(Debug, Default)]
pub(super) struct Came {
    /// Number of facts that are new or changed.
    pub(super) changed: u64,
    /// Reason why the answer may be incomplete.
    pub(super) oddity: Option<String>,
}

/// Entries of a run.
pub(super) struct Aside<'a, A: Asks> {
    context: &'a Context,
    asks: A,
    /// Entries quarantined before this run.
    known: quarantine::Aside,
    /// Entries to be read after the others, with their error. Without an error: quarantined before this run,
    /// and due.
    behind: Vec<(A::Entry, Option<JobError>)>,
    /// Number of entries that were read in this run.
    answered: usize,
    failed_in_a_row: usize,
    tally: Tally,
}

impl<'a, A: Asks> Aside<'a, A> {
    pub(super) async fn begin(context: &'a Context, asks: A) -> Result<Self, JobError> {
        let known = context.aside(A::OPERATION).await?;
        let (behind, answered, failed_in_a_row) = (Vec::new(), 0, 0);
        Ok(Self { context, asks, known, behind, answered, failed_in_a_row, tally: Tally::default() })
    }

    /// Returns true if the entry is read among the others. A quarantined entry is read after them if it is
    /// due.
    pub(super) fn admits(&mut self, entry: A::Entry) -> bool {
        let is_known = self.known.contains(&entry.subject());
        match self.known.way(self.context, &entry.subject()) {
            Way::Alone => self.behind.push((entry, None)),
            Way::Later(_, why) if is_known => self.tell(entry, &why),
            // Not delayed, because other entries of the run show if the platform answers again.
            Way::Together | Way::Suspect | Way::Later(..) => return true,
        }
        false
    }

    /// Reads an entry among the others. Returns true if the read succeeded.
    pub(super) async fn ask(&mut self, entry: A::Entry) -> Result<bool, JobError> {
        let error = match self.attempt(entry, FIRST).await {
            Ok(came) => return self.answered(entry, came).await.map(|()| true),
            Err(error) => error,
        };
        let Some(why) = words(&error) else { return Err(error) };
        self.failed_in_a_row += 1;
        if self.failed_in_a_row >= FAILED_MAX {
            return Err(error);
        }
        if self.context.set_aside(A::OPERATION, &entry.subject(), why).await? {
            self.tell(entry, why);
        } else {
            self.behind.push((entry, Some(error)));
        }
        Ok(false)
    }

    /// Reads the entries again that failed, and the quarantined ones that are due.
    pub(super) async fn ask_behind(&mut self) -> Result<(), JobError> {
        let behind = std::mem::take(&mut self.behind);
        // A single failure since the last success means the entry. Several may mean the platform.
        if let (1.., 1, Some((last, _))) =
            (self.answered, self.failed_in_a_row, behind.iter().rfind(|(_, first)| first.is_some()))
        {
            self.context.failures().stands_out(A::OPERATION, &last.subject());
        }
        for (entry, first) in behind {
            let asked = match first {
                // No read of this run succeeded, so a further attempt proves nothing.
                Some(error) if self.answered == 0 => Err(error),
                // A refusal would be repeated, and each costs a bad request.
                Some(error) if !matches!(error, JobError::GivenUp { .. }) => Err(error),
                Some(_) => self.attempt(entry, BEHIND).await,
                None => self.attempt(entry, DUE).await,
            };
            match asked {
                Ok(came) => self.answered(entry, came).await?,
                Err(error) => {
                    let Some(why) = words(&error) else { return Err(error) };
                    self.context.set_aside(A::OPERATION, &entry.subject(), why).await?;
                    self.tell(entry, why);
                }
            }
        }
        Ok(())
    }

    /// Returns the operation and the summary of all entries.
    pub(super) fn ended(self) -> (A, Tally) {
        (self.asks, self.tally)
    }

    /// Reads an entry with at most so many attempts and counts its failures.
    async fn attempt(&self, entry: A::Entry, attempts: usize) -> Result<Came, JobError> {
        let asked = self.asks.ask(entry, attempts).await;
        let failed = match &asked {
            Err(JobError::GivenUp { .. }) => attempts,
            // A refused or invalid answer would be the same again, so it counts as full proof.
            Err(JobError::Rejected { .. } | JobError::Implausible(_)) => PROOF,
            Ok(_) | Err(JobError::Stopped | JobError::Refused(_) | JobError::Store(_)) => 0,
        };
        let (subject, moment) = (entry.subject(), self.context.moment());
        let mut failures = self.context.failures();
        (0..failed).for_each(|_| failures.failed(A::OPERATION, [subject.as_str()], moment));
        drop(failures);
        asked
    }

    async fn answered(&mut self, entry: A::Entry, came: Came) -> Result<(), JobError> {
        (self.answered, self.failed_in_a_row) = (self.answered + 1, 0);
        self.tally.read(came.changed);
        if let Some(oddity) = came.oddity {
            self.tally.note(format!("{}: {oddity}", entry.name()));
        }
        self.tally.taken_back(self.context.worked(A::OPERATION, &[&entry.subject()]).await?);
        Ok(())
    }

    /// Notes an entry that was not read. An entry quarantined before this run does not make the run partial.
    fn tell(&mut self, entry: A::Entry, why: &str) {
        let named = format!("{} ({why})", entry.name());
        if self.known.contains(&entry.subject()) {
            self.tally.set_aside(named);
        } else {
            self.tally.not_read(named);
        }
    }
}

/// Reads each of these entries; those that fail come last.
pub(super) async fn each<A: Asks>(
    context: &Context,
    asks: A,
    entries: Vec<A::Entry>,
) -> Result<Tally, JobError> {
    let mut aside = Aside::begin(context, asks).await?;
    for entry in entries {
        if aside.admits(entry) {
            aside.ask(entry).await?;
        }
    }
    aside.ask_behind().await?;
    Ok(aside.tally)
}

/// Returns the message of a failure that the entry may cause.
fn words(error: &JobError) -> Option<&str> {
    match error {
        JobError::Rejected { why, .. } | JobError::GivenUp { why, .. } | JobError::Implausible(why) => {
            Some(why)
        }
        JobError::Stopped | JobError::Refused(_) | JobError::Store(_) => None,
    }
}

impl From<u64> for Came {
    fn from(changed: u64) -> Self {
        Self { changed, oddity: None }
    }
}

impl From<Progress> for Came {
    fn from(list: Progress) -> Self {
        Self { changed: list.changed, oddity: list.oddity() }
    }
}

/// Implements [`Entry`] for an id type with a noun.
macro_rules! entry {
    ($id:ty, $noun:literal) => {
        impl Entry for $id {
            fn subject(&self) -> String {
                self.to_string()
            }

            fn name(&self) -> String {
                format!(concat!($noun, " {}"), self)
            }
        }
    };
}

entry!(crate::model::ShipmentId, "shipment");
entry!(crate::model::ProductId, "kit");
entry!(crate::model::StorefrontId, "storefront");
entry!(crate::model::Month, "month");
