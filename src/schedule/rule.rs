//! The rules of one schedule. Pure: `now` and `after` are arguments.
//!
//! Expressions have exactly six fields, seconds first. croner 4 finds the next occurrence in the schedule's
//! own zone and handles daylight saving: a fixed time skipped in spring runs right after the gap, a fixed
//! time repeated in autumn runs once. There is no year field. Day of month and day of week are alternatives,
//! as in any crontab.

use crate::model::time::DAY;
use crate::model::{JobKind, Timestamp, code_enum};
use chrono::DateTime;
use chrono_tz::Tz;
use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use std::time::Duration;

/// The start of the sample of a schedule's gaps: 2026-01-01, so that the result depends only on the schedule.
const SAMPLE_FROM: Timestamp = Timestamp(1_767_225_600_000);

code_enum! {
    /// The policy for an occurrence that passed while no daemon could run it.
    pub(crate) enum MissedPolicy {
        /// Skip it and wait for the next occurrence.
        Skip = "skip",
        /// Run once, independent of the number of missed occurrences.
        RunOnce = "run_once",
    }
}

/// The schedule of a job (`[jobs.*]` of the configuration).
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    cron: Cron,
    expression: String,
    timezone: Tz,
    jitter: Duration,
    missed: MissedPolicy,
}

/// The part of a schedule that cannot be used, with the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ScheduleError {
    #[error("{0}")]
    Expression(String),
    /// The time zone is not in the zone database.
    #[error("there is no time zone named `{0}`; write one such as `Europe/Berlin` or `UTC`")]
    Timezone(String),
    #[error("{0}")]
    Jitter(String),
}

impl Schedule {
    /// Parses a schedule; `timezone` is a name of the zone database. Names the part that cannot
    /// be used, and a valid form.
    pub(crate) fn parse(
        expression: &str,
        timezone: &str,
        jitter: Duration,
        missed: MissedPolicy,
    ) -> Result<Self, ScheduleError> {
        let zone = timezone.parse().map_err(|_| ScheduleError::Timezone(timezone.into()))?;
        let cron = parse_expression(expression)?;
        let schedule = Self { cron, expression: expression.trim().into(), timezone: zone, jitter, missed };
        if schedule.next_due(SAMPLE_FROM).is_none() {
            let why = "it never comes due; does the month have that day?";
            return Err(ScheduleError::Expression(why.into()));
        }
        schedule.check_jitter()?;
        Ok(schedule)
    }

    /// Returns the expression as it was written.
    pub(crate) fn expression(&self) -> &str {
        &self.expression
    }

    #[cfg(test)]
    pub(crate) fn timezone(&self) -> &'static str {
        self.timezone.name()
    }

    /// Returns the policy for missed occurrences.
    pub(crate) fn missed_policy(&self) -> MissedPolicy {
        self.missed
    }

    /// Returns the first due time after `after`.
    pub(crate) fn next_due(&self, after: Timestamp) -> Option<Timestamp> {
        let found = self.cron.find_next_occurrence(&self.local_time(after), false).ok()?;
        Some(Timestamp(found.timestamp_millis()))
    }

    fn last_due(&self, now: Timestamp) -> Option<Timestamp> {
        let found = self.cron.find_previous_occurrence(&self.local_time(now), true).ok()?;
        Some(Timestamp(found.timestamp_millis()))
    }

    /// Returns the start of the occurrence due at `due`. The offset is a hash of job and due time. So every
    /// reader of the configuration computes the same start, and a restart does not change it.
    pub(crate) fn start_of(&self, job: JobKind, due: Timestamp) -> Timestamp {
        let offset = match self.jitter.as_secs() {
            0 => 0,
            most => fnv1a(job.as_str(), due) % (most + 1),
        };
        due.plus(Duration::from_secs(offset))
    }

    /// Returns the first start after `after`.
    pub fn next_start(&self, job: JobKind, after: Timestamp) -> Option<Timestamp> {
        // Jitter is shorter than any gap, so starts keep the order of due times and one step back suffices.
        let mut due = self.next_due(after.minus(self.jitter + Duration::from_secs(1)))?;
        while self.start_of(job, due) <= after {
            due = self.next_due(due)?;
        }
        Some(self.start_of(job, due))
    }

    /// Returns the newest due time whose start is at or before `now`.
    pub(crate) fn latest_started(&self, job: JobKind, now: Timestamp) -> Option<Timestamp> {
        let due = self.last_due(now)?;
        if self.start_of(job, due) <= now {
            return Some(due);
        }
        self.last_due(due.minus(Duration::from_secs(1)))
    }

    /// Returns the due time to run at once at a start of the daemon. A job that never ran counts as missed,
    /// so that a new mirror is filled at once. Any number of missed occurrences leads to one run.
    pub fn catch_up(&self, job: JobKind, last_due: Option<Timestamp>, now: Timestamp) -> Option<Timestamp> {
        let due = self.latest_started(job, now)?;
        let owed = self.missed == MissedPolicy::RunOnce && last_due.is_none_or(|last| due > last);
        owed.then_some(due)
    }

    /// Returns the longest time between two consecutive due times; data older than twice this is stale.
    /// Sampled over a year from a fixed day, so nights, weekends and short months count. Gaps that only a
    /// leap year has are not seen.
    pub(crate) fn interval_hint(&self) -> Duration {
        if self.repeats_daily() {
            return self.longest_gap(SAMPLE_FROM.plus(DAY * 2), Duration::from_hours(1));
        }
        let hourly = self.longest_gap(SAMPLE_FROM.plus(DAY * 14), Duration::from_hours(1));
        hourly.max(self.longest_gap(SAMPLE_FROM.plus(DAY * 400), DAY))
    }

    /// Returns true if each day is like every other: all days are due, in a zone without clock changes.
    fn repeats_daily(&self) -> bool {
        self.timezone == Tz::UTC && self.expression.split_whitespace().skip(3).all(|field| field == "*")
    }

    /// Returns the longest gap until `until`: all gaps longer than `step` count, shorter gaps are sampled.
    fn longest_gap(&self, until: Timestamp, step: Duration) -> Duration {
        let (mut at, mut longest) = (SAMPLE_FROM, Duration::ZERO);
        while at < until {
            let (Some(before), Some(after)) = (self.last_due(at), self.next_due(at)) else { break };
            longest = longest.max(after.duration_since(before));
            at = after.max(at.plus(step));
        }
        longest
    }

    /// Checks that the jitter is below the shortest gap of the first 300 occurrences.
    fn check_jitter(&self) -> Result<(), ScheduleError> {
        if self.jitter.subsec_nanos() != 0 {
            return Err(ScheduleError::Jitter("jitter is counted in whole seconds".into()));
        }
        let mut due = SAMPLE_FROM;
        for _ in 0..if self.jitter.is_zero() { 0 } else { 300 } {
            let Some(next) = self.next_due(due) else { break };
            let gap = next.duration_since(due);
            if due != SAMPLE_FROM && gap <= self.jitter {
                return Err(ScheduleError::Jitter(format!(
                    "a jitter of {:?} reaches into the next occurrence, at times only {gap:?} later",
                    self.jitter
                )));
            }
            due = next;
        }
        Ok(())
    }

    /// Returns the zone and the settings for `tallyd check`, which shows the next starts too. The library's words for
    /// an expression are left out: they say *every 90 minutes* for `*/90`, which starts hourly.
    pub(crate) fn check_description(&self) -> String {
        let mut text = self.timezone.name().to_owned();
        if !self.jitter.is_zero() {
            text.push_str(&format!(", up to {} s later", self.jitter.as_secs()));
        }
        text.push_str(match self.missed {
            MissedPolicy::Skip => "; missed runs are skipped",
            MissedPolicy::RunOnce => "; after downtime it runs once",
        });
        text
    }

    /// Formats a time in the schedule's zone, with the offset, which tells the
    /// halves of a repeated hour apart.
    pub(crate) fn format_local(&self, at: Timestamp) -> String {
        self.local_time(at).format("%Y-%m-%d %H:%M:%S %:z").to_string()
    }

    /// Returns the time in the schedule's zone, rounded down to whole seconds; occurrences have no fractions.
    fn local_time(&self, at: Timestamp) -> DateTime<Tz> {
        let floor = Timestamp(at.0.div_euclid(1000).saturating_mul(1000));
        floor.to_datetime().with_timezone::<Tz>(&self.timezone)
    }
}

fn parse_expression(expression: &str) -> Result<Cron, ScheduleError> {
    let found = expression.split_whitespace().count();
    if found != 6 {
        let hint = match found {
            5 => format!("; seconds come first: write `0 {}`", expression.trim()),
            7 => "; there is no field for the year".into(),
            _ => String::new(),
        };
        return Err(ScheduleError::Expression(format!(
            "a schedule has six fields (second minute hour day month weekday), this one has {found}{hint}"
        )));
    }
    let parser = CronParser::builder().seconds(Seconds::Required).year(Year::Disallowed).build();
    let wrong = |error| ScheduleError::Expression(format!("the cron expression is not understood: {error}"));
    parser.parse(expression).map_err(wrong)
}

/// Returns the FNV-1a hash, which is equal in every build; the standard library's hasher is not.
fn fnv1a(job: &str, due: Timestamp) -> u64 {
    let bytes = job.bytes().chain(due.0.to_le_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests;
