//! Facts that an answer lacks: confirmed by a second look minutes later, with the key proved after both.
//!
//! A change that names an order, a line, a shipment or a warehouse which an answer does not show stays pending and says
//! what it waits for. Once a second look lacks it too, the change is held for a person. An order or a line that no answer
//! shows may be there all the same, and a change for it be right: a service may leave out the same record each time it is
//! asked. So a held change is looked at again after growing delays, and goes on by itself with the first answer that shows
//! what it names. It is refused for good only where what is known speaks against it.

use super::probe::{Probed, probe_key};
use super::{Context, JobError};
use crate::model::{Moment, RunId, Timestamp, WishId};
use crate::reconcile::proof::{Key, LOOKS_APART, Look};
use crate::store::{Durability, LackingRow, StoreError};
use std::collections::BTreeMap;
use std::time::Duration;

/// The longest time from one look to the next, while the platform is not well.
const LONGEST: Duration = Duration::from_secs(30 * 60);
/// The same for a change that is held: what it names is probably not there.
const LONGEST_HELD: Duration = Duration::from_secs(24 * 60 * 60);

/// The meaning of an answer that lacks something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Lacks {
    /// A second look, minutes later, lacks it too.
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
        (!row.wait(now(context), LONGEST).is_zero()).then_some(row.what.as_str())
    }

    /// True if an answer lacked something of the subject lately.
    pub(super) fn has(&self, subject: &str) -> bool {
        self.0.contains_key(subject)
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

    /// The time until the next look.
    fn wait(&self, now: Look, longest: Duration) -> Duration {
        let last = Look { at: Timestamp(self.last_ms), moment: Moment(self.last_moment) };
        // After a clock that went back nobody knows how long ago it was.
        if now.first(Some(last)) != last {
            return Duration::ZERO;
        }
        delay(self.looks, longest).saturating_sub(now.moment.since(last.moment))
    }
}

/// The time from a look to the next one.
fn delay(looks: i64, longest: Duration) -> Duration {
    let doublings = u32::try_from(looks.saturating_sub(1)).unwrap_or(u32::MAX).min(16);
    LOOKS_APART.saturating_mul(1 << doublings).min(longest)
}

/// The changes that are held because looks lacked what they name, and when each is looked at again.
pub(super) async fn held(context: &Context) -> Result<Vec<(WishId, Timestamp)>, StoreError> {
    let now = now(context);
    let next = |(id, row): (WishId, LackingRow)| (id, now.at.plus(row.wait(now, LONGEST_HELD)));
    Ok(context.store.lacking_held().await?.into_iter().map(next).collect())
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
        let minutes = |looks| delay(looks, LONGEST).as_secs() / 60;
        assert_eq!([1, 2, 3, 4, 5, 6, 1000].map(minutes), [2, 4, 8, 16, 30, 30, 30]);
        assert_eq!(delay(1000, LONGEST_HELD), LONGEST_HELD);
    }
}
