//! Records missing from answers: confirmed by a second check minutes later, with the key proved after both.
//!
//! A change may name an order, a line, a shipment or a warehouse that an answer does not contain. The change
//! then stays pending with the missing record as its reason. If a second check misses it too, the change is
//! held for an operator. The record may exist nevertheless, because a platform may omit the same record in
//! each answer. A held change is therefore checked again after growing delays, and continues with the first
//! answer that contains the record. It is rejected only on positive evidence.

use super::{JobContext, JobError, KeyStatus, probe_key};
use crate::model::{ChangeId, Moment, RunId, Timestamp};
use crate::reconcile::proof::{ABSENCE_CHECKS_APART, CheckTime, KeyState};
use crate::store::{Durability, StoreError, SuspectedAbsenceRow};
use std::collections::BTreeMap;
use std::time::Duration;

/// Longest time between checks of a pending change.
const CHECK_DELAY_MAX: Duration = Duration::from_secs(30 * 60);
/// Longest time between checks of a held change, whose record probably does not exist.
const HELD_CHECK_DELAY_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Result of a check that missed a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AbsenceProof {
    /// A second check, minutes later, missed it too.
    Proved,
    /// Not proved yet: the reason, with the time of the next check.
    NotProved(String),
}

#[derive(Clone, Debug, Default)]
pub(crate) struct SuspectedAbsences(BTreeMap<String, SuspectedAbsenceRow>);

impl SuspectedAbsences {
    pub(crate) async fn load(context: &JobContext) -> Result<Self, StoreError> {
        let rows = context.store.suspected_absence_list().await?;
        Ok(Self(rows.into_iter().map(|row| (row.subject.clone(), row)).collect()))
    }

    /// Returns the missing record of a subject whose next check is not due.
    pub(crate) fn undue_absence(&self, context: &JobContext, subject: &str) -> Option<&str> {
        let row = self.0.get(subject)?;
        (!row.wait_left(current_check(context), CHECK_DELAY_MAX).is_zero()).then_some(row.what.as_str())
    }

    pub(crate) fn is_suspected(&self, subject: &str) -> bool {
        self.0.contains_key(subject)
    }
}

fn current_check(context: &JobContext) -> CheckTime {
    CheckTime { at: context.now(), moment: context.moment() }
}

impl SuspectedAbsenceRow {
    fn first_check(&self) -> Option<CheckTime> {
        Some(CheckTime { at: Timestamp(self.first_ms?), moment: Moment(self.first_moment?) })
    }

    fn wait_left(&self, now: CheckTime, longest: Duration) -> Duration {
        let last = CheckTime { at: Timestamp(self.last_ms), moment: Moment(self.last_moment) };
        // After a clock went back the elapsed time is unknown.
        if now.measured_from(Some(last)) != last {
            return Duration::ZERO;
        }
        check_delay(self.checks, longest).saturating_sub(now.moment.duration_since(last.moment))
    }
}

fn check_delay(checks: i64, longest: Duration) -> Duration {
    let doublings = u32::try_from(checks.saturating_sub(1)).unwrap_or(u32::MAX).min(16);
    ABSENCE_CHECKS_APART.saturating_mul(1 << doublings).min(longest)
}

/// Returns the changes held for missing records, with the time of the next check of each.
pub(crate) async fn held_checks(context: &JobContext) -> Result<Vec<(ChangeId, Timestamp)>, StoreError> {
    let now = current_check(context);
    let next = |(id, row): (ChangeId, SuspectedAbsenceRow)| {
        (id, now.at.plus(row.wait_left(now, HELD_CHECK_DELAY_MAX)))
    };
    Ok(context.store.suspected_absence_held().await?.into_iter().map(next).collect())
}

/// Records an answer without `what`, and makes a probe. The answer counts as a check only if the probe proves
/// the key.
pub(crate) async fn judge_absence(
    context: &JobContext,
    run: RunId,
    subject: &str,
    what: &str,
) -> Result<AbsenceProof, JobError> {
    let KeyStatus { key, why } = probe_key(context, run).await?;
    let unwell = (key != KeyState::Works).then(|| format!("the key is not proved ({why})"));
    note_absence(context, subject, what, unwell.as_deref()).await
}

/// Records an answer without `what`. `unwell`: the reason why the answer does not count as a check.
pub(crate) async fn note_absence(
    context: &JobContext,
    subject: &str,
    what: &str,
    unwell: Option<&str>,
) -> Result<AbsenceProof, JobError> {
    let rows = context.store.suspected_absence_list().await?;
    let before = rows.into_iter().find(|row| row.subject == subject && row.what == what);
    let first = before.as_ref().and_then(SuspectedAbsenceRow::first_check);
    let mut write = context.store.begin_write(Durability::Normal).await?;
    let check = current_check(context);
    let is_proved = check.proves_absent(first, unwell.is_none());
    let is_first = unwell.is_none() && first.is_none();
    let first = if unwell.is_none() { Some(check.measured_from(first)) } else { first };
    let checks = if is_first { 1 } else { before.map_or(0, |row| row.checks) + 1 };
    let row = SuspectedAbsenceRow {
        subject: subject.to_owned(),
        what: what.to_owned(),
        first_ms: first.map(|first| first.at.0),
        first_moment: first.map(|first| first.moment.0),
        last_ms: check.at.0,
        last_moment: check.moment.0,
        checks,
    };
    write.suspected_absence_store(&row).await?;
    write.commit().await?;
    if is_proved {
        return Ok(AbsenceProof::Proved);
    }
    let because = unwell.unwrap_or("one answer proves nothing");
    let again = check.at.plus(check_delay(checks, CHECK_DELAY_MAX)).to_rfc3339();
    Ok(AbsenceProof::NotProved(format!("{what}; {because}: it is checked again at {again}")))
}

pub(crate) async fn end_absence(context: &JobContext, subject: &str) -> Result<(), StoreError> {
    let mut write = context.store.begin_write(Durability::Normal).await?;
    write.suspected_absence_end(subject).await?;
    write.commit().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_made_two_minutes_apart_and_then_less_and_less_often() {
        let minutes = |checks| check_delay(checks, CHECK_DELAY_MAX).as_secs() / 60;
        assert_eq!([1, 2, 3, 4, 5, 6, 1000].map(minutes), [2, 4, 8, 16, 30, 30, 30]);
        assert_eq!(check_delay(1000, HELD_CHECK_DELAY_MAX), HELD_CHECK_DELAY_MAX);
    }
}
