//! Records missing from answers: confirmed by a second check minutes later, with the key proved after both.
//!
//! A change may name an order, a line, a shipment or a warehouse that an answer does not contain. The change
//! then stays pending with the missing record as its reason. If a second check misses it too, the change is
//! held for an operator. The record may exist nevertheless, because a platform may omit the same record in
//! each answer. A held change is therefore checked again after growing delays, and continues with the first
//! answer that contains the record. It is rejected only on positive evidence.

use super::{Context, JobError};
use super::{Probed, probe_key};
use crate::model::{Moment, RunId, Timestamp, WishId};
use crate::reconcile::proof::{Key, LOOKS_APART, Look};
use crate::store::{Durability, LackingRow, StoreError};
use std::collections::BTreeMap;
use std::time::Duration;

/// Longest time between checks of a pending change.
const LONGEST: Duration = Duration::from_secs(30 * 60);
/// Longest time between checks of a held change, whose record probably does not exist.
const LONGEST_HELD: Duration = Duration::from_secs(24 * 60 * 60);

/// Result of a check that missed a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Lacks {
    /// A second check, minutes later, missed it too.
    Proved,
    /// Not proved yet: the reason, with the time of the next check.
    NotProved(String),
}

/// Missing records by subject.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lacking(BTreeMap<String, LackingRow>);

impl Lacking {
    /// Reads the stored rows.
    pub(crate) async fn read(context: &Context) -> Result<Self, StoreError> {
        let rows = context.store.lacking().await?;
        Ok(Self(rows.into_iter().map(|row| (row.subject.clone(), row)).collect()))
    }

    /// Returns the missing record of a subject whose next check is not due.
    pub(crate) fn not_yet(&self, context: &Context, subject: &str) -> Option<&str> {
        let row = self.0.get(subject)?;
        (!row.wait(now(context), LONGEST).is_zero()).then_some(row.what.as_str())
    }

    /// Returns true if a missing record of the subject is stored.
    pub(crate) fn has(&self, subject: &str) -> bool {
        self.0.contains_key(subject)
    }
}

fn now(context: &Context) -> Look {
    Look { at: context.now(), moment: context.moment() }
}

impl LackingRow {
    /// Returns the first check that counts.
    fn first(&self) -> Option<Look> {
        Some(Look { at: Timestamp(self.first_ms?), moment: Moment(self.first_moment?) })
    }

    /// Returns the time until the next check.
    fn wait(&self, now: Look, longest: Duration) -> Duration {
        let last = Look { at: Timestamp(self.last_ms), moment: Moment(self.last_moment) };
        // After a clock went back the elapsed time is unknown.
        if now.first(Some(last)) != last {
            return Duration::ZERO;
        }
        delay(self.looks, longest).saturating_sub(now.moment.since(last.moment))
    }
}

/// Returns the time from a check to the next one.
fn delay(looks: i64, longest: Duration) -> Duration {
    let doublings = u32::try_from(looks.saturating_sub(1)).unwrap_or(u32::MAX).min(16);
    LOOKS_APART.saturating_mul(1 << doublings).min(longest)
}

/// Returns the changes held for missing records, with the time of the next check of each.
pub(crate) async fn held(context: &Context) -> Result<Vec<(WishId, Timestamp)>, StoreError> {
    let now = now(context);
    let next = |(id, row): (WishId, LackingRow)| (id, now.at.plus(row.wait(now, LONGEST_HELD)));
    Ok(context.store.lacking_held().await?.into_iter().map(next).collect())
}

/// Records an answer without `what`, and makes a probe. The answer counts as a check only if the probe proves
/// the key.
pub(crate) async fn judge(
    context: &Context,
    run: RunId,
    subject: &str,
    what: &str,
) -> Result<Lacks, JobError> {
    let Probed { key, why } = probe_key(context, run).await?;
    let unwell = (key != Key::Works).then(|| format!("the platform is not well ({why})"));
    note(context, subject, what, unwell.as_deref()).await
}

/// Records an answer without `what`. `unwell`: the reason why the answer does not count as a check.
pub(crate) async fn note(
    context: &Context,
    subject: &str,
    what: &str,
    unwell: Option<&str>,
) -> Result<Lacks, JobError> {
    let before = context.store.lacking().await?.into_iter().find(|row| row.subject == subject);
    let before = before.filter(|row| row.what == what);
    let first = before.as_ref().and_then(LackingRow::first);
    let mut write = context.store.begin(Durability::Normal).await?;
    let look = now(context);
    let is_proved = look.proves_absent(first, unwell.is_none());
    let begins = unwell.is_none() && first.is_none();
    let first = if unwell.is_none() { Some(look.first(first)) } else { first };
    let looks = if begins { 1 } else { before.as_ref().map_or(0, |row| row.looks) + 1 };
    let row = LackingRow {
        subject: subject.to_owned(),
        what: what.to_owned(),
        first_ms: first.map(|first| first.at.0),
        first_moment: first.map(|first| first.moment.0),
        last_ms: look.at.0,
        last_moment: look.moment.0,
        looks,
    };
    write.lacking_note(&row).await?;
    write.commit().await?;
    if is_proved {
        return Ok(Lacks::Proved);
    }
    let because = unwell.unwrap_or("one answer proves nothing");
    let again = look.at.plus(delay(row.looks, LONGEST)).rfc3339();
    Ok(Lacks::NotProved(format!("{what}; {because}: it is looked at again at {again}")))
}

/// Deletes the stored row of a subject.
pub(crate) async fn end(context: &Context, subject: &str) -> Result<(), StoreError> {
    let mut write = context.store.begin(Durability::Normal).await?;
    write.lacking_end(subject).await?;
    write.commit().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_made_two_minutes_apart_and_then_less_and_less_often() {
        let minutes = |looks| delay(looks, LONGEST).as_secs() / 60;
        assert_eq!([1, 2, 3, 4, 5, 6, 1000].map(minutes), [2, 4, 8, 16, 30, 30, 30]);
        assert_eq!(delay(1000, LONGEST_HELD), LONGEST_HELD);
    }
}
