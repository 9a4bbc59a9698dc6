//! Many things of one operation, one call each: one that fails is asked for again behind the others, and set aside where
//! the others are answered. It is then tried by itself, with growing delays, until it is answered.
//!
//! Without this each failing entry costs its whole patience in front of all others, at each run. An entry costs so one
//! attempt in front of the others, [`BEHIND`] behind them, and from then on at most [`DUE`] at each of its delays.
//! With no entry answered, the service is sick and no entry is to blame: the run ends after [`FAILED_MAX`] in a row.

use super::pages::Progress;
use super::tally::Tally;
use super::{Context, JobError};
use crate::model::Operation;
use crate::store::Durability;
use std::collections::BTreeMap;

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
    /// Those set aside, with the service's words and whether they are due.
    known: BTreeMap<String, (String, bool)>,
    /// To be asked for behind the others, with why they failed; those without a reason were set aside before this run.
    behind: Vec<(A::Entry, Option<JobError>)>,
    /// Entries that were answered in this run.
    answered: usize,
    failed_in_a_row: usize,
    tally: Tally,
}

impl<'a, A: Asks> Aside<'a, A> {
    pub(super) async fn begin(context: &'a Context, asks: A) -> Result<Self, JobError> {
        let now = context.now();
        let rows = context.store.quarantine_of(A::OPERATION).await?.into_iter();
        let known = rows.map(|row| (row.subject.clone(), (row.why.clone(), row.is_due(now)))).collect();
        let (behind, answered, failed_in_a_row) = (Vec::new(), 0, 0);
        Ok(Self { context, asks, known, behind, answered, failed_in_a_row, tally: Tally::default() })
    }

    /// True if the entry goes among the others. One that is set aside goes behind them where it is due, else nowhere.
    pub(super) fn admits(&mut self, entry: A::Entry) -> bool {
        match self.known.get(&entry.subject()) {
            None => true,
            Some((_, true)) => {
                self.behind.push((entry, None));
                false
            }
            Some((why, false)) => {
                self.tally.set_aside(format!("{} ({why})", entry.name()));
                false
            }
        }
    }

    /// Asks for one entry among the others; true if it was answered.
    pub(super) async fn ask(&mut self, entry: A::Entry) -> Result<bool, JobError> {
        match self.asks.ask(entry, FIRST).await {
            Ok(came) => self.answered(entry, came).await.map(|()| true),
            Err(error) if !is_its_own(&error) => Err(error),
            Err(error) => {
                self.failed_in_a_row += 1;
                if self.failed_in_a_row >= FAILED_MAX {
                    return Err(error);
                }
                self.behind.push((entry, Some(error)));
                Ok(false)
            }
        }
    }

    /// Asks once more for those that failed, and for those whose delay is over; who fails again is set aside.
    pub(super) async fn ask_behind(&mut self) -> Result<(), JobError> {
        for (entry, first) in std::mem::take(&mut self.behind) {
            let asked = match first {
                // Nobody was answered, so it is not to blame, and asking again would not tell more.
                Some(error) if self.answered == 0 => Err(error),
                // A refusal is a refusal: asking again would cost a bad request.
                Some(error) if !matches!(error, JobError::GivenUp { .. }) => Err(error),
                Some(_) => self.asks.ask(entry, BEHIND).await,
                None => self.asks.ask(entry, DUE).await,
            };
            match asked {
                Ok(came) => self.answered(entry, came).await?,
                Err(error) if is_its_own(&error) => self.failed(entry, error).await?,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The asking operation, and the tally of all entries.
    pub(super) fn ended(self) -> (A, Tally) {
        (self.asks, self.tally)
    }

    async fn answered(&mut self, entry: A::Entry, came: Came) -> Result<(), JobError> {
        (self.answered, self.failed_in_a_row) = (self.answered + 1, 0);
        self.context.failures().worked(A::OPERATION, [entry.subject().as_str()]);
        self.tally.read(came.changed);
        if let Some(oddity) = came.oddity {
            self.tally.note(format!("{}: {oddity}", entry.name()));
        }
        if self.known.remove(&entry.subject()).is_some() {
            let mut write = self.context.store.begin(Durability::Normal).await?;
            write.quarantine_lift(A::OPERATION, &entry.subject()).await?;
            write.commit().await?;
        }
        Ok(())
    }

    async fn failed(&mut self, entry: A::Entry, error: JobError) -> Result<(), JobError> {
        let (subject, why) = (entry.subject(), words(error));
        let was_known = self.known.contains_key(&subject);
        if was_known || self.answered > 0 {
            let mut write = self.context.store.begin(Durability::Normal).await?;
            write.quarantine_add(A::OPERATION, &subject, &why, self.context.now()).await?;
            write.commit().await?;
        }
        let named = format!("{} ({why})", entry.name());
        if was_known {
            self.tally.set_aside(named);
        } else {
            self.tally.not_read(named);
        }
        Ok(())
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

/// True if the failure may be the entry's own.
fn is_its_own(error: &JobError) -> bool {
    matches!(error, JobError::Rejected { .. } | JobError::GivenUp { .. } | JobError::Implausible(_))
}

fn words(error: JobError) -> String {
    match error {
        JobError::Rejected { why, .. } | JobError::GivenUp { why, .. } | JobError::Implausible(why) => why,
        other => other.to_string(),
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
