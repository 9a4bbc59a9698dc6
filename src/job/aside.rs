//! Many things of one operation, one call each, in this order: all others before one that failed. Who is set aside, and
//! when it is tried again, is decided in [`super::apart`].
//!
//! Without this each failing entry costs its whole patience in front of all others, at each run. An entry costs so one
//! attempt in front of the others, [`BEHIND`] behind them, and once it is set aside at most [`DUE`] at each of its delays.
//! With no entry answered, the service is sick and no entry is to blame: the run ends after [`FAILED_MAX`] in a row.

use super::apart::{self, Way};
use super::pages::Progress;
use super::tally::Tally;
use super::{Context, JobError};
use crate::model::Operation;
use crate::reconcile::isolation::PROOF;

/// Attempts at an entry among the others.
const FIRST: usize = 1;
/// Attempts at one that failed, once the others were asked for.
const BEHIND: usize = 3;
/// Attempts at one that is set aside, when its delay is over.
const DUE: usize = 2;
/// Limit of failures in a row, after which the run ends: the next one begins with them.
const FAILED_MAX: usize = 12;

/// An entry as it is named: by the quarantine and to people.
pub(super) trait Entry: Copy + Send + Sync {
    /// Its name in the quarantine.
    fn subject(&self) -> String;
    /// Its name for people.
    fn name(&self) -> String;
}

/// Operation that is asked for one entry at a time.
pub(super) trait Asks: Sync {
    /// Entry that it is asked for.
    type Entry: Entry;
    /// The operation.
    const OPERATION: Operation;
    /// Asks for an entry with so many attempts, and records what comes.
    async fn ask(&self, entry: Self::Entry, attempts: usize) -> Result<Came, JobError>;
}

/// Result of an entry's answer.
#[derive(Debug, Default)]
pub(super) struct Came {
    /// Number of facts that are new or changed.
    pub(super) changed: u64,
    /// Oddity that keeps it from being all there is.
    pub(super) oddity: Option<String>,
}

/// The entries of one run.
pub(super) struct Aside<'a, A: Asks> {
    context: &'a Context,
    asks: A,
    /// Those set aside before this run.
    known: apart::Aside,
    /// To be asked for behind the others, with why they failed; those without a reason were set aside before this run.
    behind: Vec<(A::Entry, Option<JobError>)>,
    /// Entries that were answered in this run.
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

    /// True if the entry goes among the others. One that is set aside goes behind them where it is due, else nowhere.
    pub(super) fn admits(&mut self, entry: A::Entry) -> bool {
        let is_known = self.known.contains(&entry.subject());
        match self.known.way(self.context, &entry.subject()) {
            Way::Alone => self.behind.push((entry, None)),
            Way::Later(_, why) if is_known => self.tell(entry, &why),
            // Others of the run show whether the service answers again, so none of them rests.
            Way::Together | Way::Suspect | Way::Later(..) => return true,
        }
        false
    }

    /// Asks for one entry among the others; true if it was answered.
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

    /// Asks once more for those that failed, and for those whose delay is over.
    pub(super) async fn ask_behind(&mut self) -> Result<(), JobError> {
        let behind = std::mem::take(&mut self.behind);
        // Several that failed since the last answer may be the platform's failure; one is its own.
        if let (1.., 1, Some((last, _))) =
            (self.answered, self.failed_in_a_row, behind.iter().rfind(|(_, first)| first.is_some()))
        {
            self.context.failures().stands_out(A::OPERATION, &last.subject());
        }
        for (entry, first) in behind {
            let asked = match first {
                // Nobody was answered, so it is not to blame, and asking again would not tell more.
                Some(error) if self.answered == 0 => Err(error),
                // A refusal is a refusal: asking again would cost a bad request.
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

    /// The asking operation, and the tally of all entries.
    pub(super) fn ended(self) -> (A, Tally) {
        (self.asks, self.tally)
    }

    /// Asks with so many attempts, and counts those that failed.
    async fn attempt(&self, entry: A::Entry, attempts: usize) -> Result<Came, JobError> {
        let asked = self.asks.ask(entry, attempts).await;
        let failed = match &asked {
            Err(JobError::GivenUp { .. }) => attempts,
            // The service would answer the same again.
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

    /// Tells of one that is not read; one that was set aside before makes no run bad.
    fn tell(&mut self, entry: A::Entry, why: &str) {
        let named = format!("{} ({why})", entry.name());
        if self.known.contains(&entry.subject()) {
            self.tally.set_aside(named);
        } else {
            self.tally.not_read(named);
        }
    }
}

/// Asks for each of these, those that fail behind the others.
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

/// The words of a failure that may be the entry's own.
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

/// Names an entry by a number and a noun.
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
