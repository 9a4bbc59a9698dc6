//! Facts that an answer lacks: proved absent by a second look minutes later, with the platform well both times.
//!
//! A change that names an order, a line, a shipment or a warehouse which an answer does not show is refused for good only
//! on that proof. Until then it stays pending, is looked at again after growing delays, and says what it waits for.

use super::probe::{Probed, probe_key};
use super::{Context, JobError};
use crate::model::{Moment, RunId, Timestamp};
use crate::reconcile::proof::{Key, LOOKS_APART, Look};
use crate::store::{Durability, LackingRow, StoreError};
use std::collections::BTreeMap;
use std::time::Duration;

/// The longest time from one look to the next.
const LONGEST: Duration = Duration::from_secs(30 * 60);

/// The meaning of an answer that lacks something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Lacks {
    /// It is not there.
    Proved,
    /// Not known yet; the reason, and when the next look is due.
    NotProved(String),
}

/// All that answers lacked lately, by subject.
#[derive(Clone, Debug, Default)]
pub(super) struct Lacking(BTreeMap<String, LackingRow>);

impl Lacking {
    /// Reads what was noted.
    pub(super) async fn read(context: &Context) -> Result<Self, StoreError> {
        let rows = context.store.lacking().await?;
        Ok(Self(rows.into_iter().map(|row| (row.subject.clone(), row)).collect()))
    }

    /// The missing record of a subject that is not to be looked at yet.
    pub(super) fn not_yet(&self, context: &Context, subject: &str) -> Option<&str> {
        let row = self.0.get(subject)?;
        let last = Look { at: Timestamp(row.last_ms), moment: Moment(row.last_moment) };
        // After a clock that went back nobody knows how long ago it was.
        let now = now(context);
        let is_known = now.first(Some(last)) == last;
        (is_known && now.moment.since(last.moment) < delay(row.looks)).then_some(row.what.as_str())
    }
}

fn now(context: &Context) -> Look {
    Look { at: context.now(), moment: context.moment() }
}

impl LackingRow {
    /// The first look that counts.
    fn first(&self) -> Option<Look> {
        Some(Look { at: Timestamp(self.first_ms?), moment: Moment(self.first_moment?) })
    }
}

/// The time from a look to the next one.
fn delay(looks: i64) -> Duration {
    let doublings = u32::try_from(looks.saturating_sub(1)).unwrap_or(u32::MAX).min(8);
    LOOKS_APART.saturating_mul(1 << doublings).min(LONGEST)
}

/// Judges an answer that lacks `what` and nothing else vouches for: the platform is well if the key is proved now.
pub(super) async fn judge(
    context: &Context,
    run: RunId,
    subject: &str,
    what: &str,
) -> Result<Lacks, JobError> {
    let Probed { key, why } = probe_key(context, run).await?;
    let unwell = (key != Key::Works).then(|| format!("the platform is not well ({why})"));
    note(context, subject, what, unwell.as_deref()).await
}

/// Judges an answer that lacks `what`; `unwell` says why it does not count as a look.
pub(super) async fn note(
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
    // The first look that counts begins the proof, and what is proved is looked at again for the next change that names it.
    let begins = unwell.is_none() && (first.is_none() || is_proved);
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
    let again = look.at.plus(delay(row.looks)).rfc3339();
    Ok(Lacks::NotProved(format!("{what}; {because}: it is looked at again at {again}")))
}

/// Forgets what was lacking.
pub(super) async fn end(context: &Context, subject: &str) -> Result<(), StoreError> {
    let mut write = context.store.begin(Durability::Normal).await?;
    write.lacking_end(subject).await?;
    write.commit().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_made_two_minutes_apart_and_then_less_and_less_often() {
        let minutes = |looks| delay(looks).as_secs() / 60;
        assert_eq!([1, 2, 3, 4, 5, 6, 1000].map(minutes), [2, 4, 8, 16, 30, 30, 30]);
    }
}
