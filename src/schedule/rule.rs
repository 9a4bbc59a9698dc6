//! The rules of one schedule, without a clock: `now` and `after` are arguments.
//!
//! Expressions have exactly six fields, seconds first; croner 4 finds the next one in the schedule's own zone,
//! with daylight saving right (a fixed time that the spring change skips is taken right after the gap, one that
//! autumn repeats is taken once). A year field is not read: a schedule that ends is an outage with a date.
//! Day of month and day of week are alternatives, as in any crontab.

use crate::model::{JobKind, Timestamp};
use chrono::DateTime;
use chrono_tz::Tz;
use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use std::fmt;
use std::time::Duration;

/// Where the gaps of a schedule are sampled from, so that they depend on nothing but the schedule: 2026-01-01.
const SAMPLE_FROM: Timestamp = Timestamp(1_767_225_600_000);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// What is done about an occurrence that passed while nobody could run it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missed {
    /// Nothing: the next occurrence comes.
    Skip,
    /// One run, however many were missed.
    RunOnce,
}

impl Missed {
    /// The word used in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Missed::Skip => "skip",
            Missed::RunOnce => "run_once",
        }
    }
}

/// When a job runs (`[jobs.*]` of the configuration).
#[derive(Clone, PartialEq)]
pub struct Schedule {
    cron: Cron,
    expression: String,
    timezone: Tz,
    jitter: Duration,
    missed: Missed,
}

/// Why a schedule cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// Not six fields.
    #[error("a schedule has six fields (second minute hour day month weekday), this one has {found}{hint}")]
    Fields {
        /// How many there are.
        found: usize,
        /// The likely repair, or nothing.
        hint: String,
    },
    /// A field says something cron does not know.
    #[error("the cron expression is not understood: {0}")]
    Expression(String),
    /// A date that no year has.
    #[error("it never comes due; does the month have that day?")]
    Never,
    /// Not in the zone database.
    #[error("there is no time zone named `{0}`; write one such as `Europe/Berlin` or `UTC`")]
    Timezone(String),
    /// Two occurrences could swap places.
    #[error("a jitter of {jitter:?} reaches into the next occurrence, at times only {gap:?} later")]
    Jitter {
        /// The jitter asked for.
        jitter: Duration,
        /// The shortest gap found.
        gap: Duration,
    },
    /// Ticks fall on whole seconds.
    #[error("jitter is counted in whole seconds")]
    Fraction,
}

impl Schedule {
    /// Reads a schedule; `timezone` is a name of the zone database.
    ///
    /// # Errors
    /// Says which part cannot be used and what would be.
    pub fn parse(
        expression: &str,
        timezone: &str,
        jitter: Duration,
        missed: Missed,
    ) -> Result<Self, ScheduleError> {
        let zone = timezone.parse().map_err(|_| ScheduleError::Timezone(timezone.into()))?;
        let cron = parse_expression(expression)?;
        let schedule = Self { cron, expression: expression.trim().into(), timezone: zone, jitter, missed };
        if schedule.next_due(SAMPLE_FROM).is_none() {
            return Err(ScheduleError::Never);
        }
        schedule.check_jitter()?;
        Ok(schedule)
    }

    /// The expression as it was written.
    pub fn expression(&self) -> &str {
        &self.expression
    }

    /// The zone's name.
    pub fn timezone(&self) -> &'static str {
        self.timezone.name()
    }

    /// The most a start is put off.
    pub fn jitter(&self) -> Duration {
        self.jitter
    }

    /// The policy for missed occurrences.
    pub fn policy(&self) -> Missed {
        self.missed
    }

    /// The first due time after `after`.
    pub fn next_due(&self, after: Timestamp) -> Option<Timestamp> {
        let found = self.cron.find_next_occurrence(&self.local(after), false).ok()?;
        Some(Timestamp(found.timestamp_millis()))
    }

    /// The last due time at or before `now`.
    fn last_due(&self, now: Timestamp) -> Option<Timestamp> {
        let found = self.cron.find_previous_occurrence(&self.local(now), true).ok()?;
        Some(Timestamp(found.timestamp_millis()))
    }

    /// When the occurrence due at `due` starts: later by an offset hashed from job and due time, so that every
    /// reader of the configuration knows it and a restart does not draw another.
    pub fn start_of(&self, job: JobKind, due: Timestamp) -> Timestamp {
        let offset = match self.jitter.as_secs() {
            0 => 0,
            most => fnv1a(job.as_str(), due) % (most + 1),
        };
        due.plus(Duration::from_secs(offset))
    }

    /// The first start after `after`.
    pub fn next_start(&self, job: JobKind, after: Timestamp) -> Option<Timestamp> {
        // Jitter is shorter than any gap, so starts keep the order of due times and one step back suffices.
        let mut due = self.next_due(after.minus(self.jitter + Duration::from_secs(1)))?;
        while self.start_of(job, due) <= after {
            due = self.next_due(due)?;
        }
        Some(self.start_of(job, due))
    }

    /// The newest due time whose start is at or before `now`.
    pub fn latest_started(&self, job: JobKind, now: Timestamp) -> Option<Timestamp> {
        let due = self.last_due(now)?;
        if self.start_of(job, due) <= now {
            return Some(due);
        }
        self.last_due(due.minus(Duration::from_secs(1)))
    }

    /// Whether an occurrence passed unrun, the last one run being due at `last_due`. One whose start is still
    /// to come is not missed: the driver will start it.
    pub fn missed(&self, job: JobKind, last_due: Timestamp, now: Timestamp) -> bool {
        self.latest_started(job, now).is_some_and(|due| due > last_due)
    }

    /// The due time to run at once, at a start of the daemon. A job that never ran has missed its occurrences:
    /// a fresh mirror is not to wait for tonight. However many were missed, one run makes up for them.
    pub fn catch_up(&self, job: JobKind, last_due: Option<Timestamp>, now: Timestamp) -> Option<Timestamp> {
        let due = self.latest_started(job, now)?;
        let owed = self.missed == Missed::RunOnce && last_due.is_none_or(|last| due > last);
        owed.then_some(due)
    }

    /// The longest time between two consecutive due times, nights, weekends and short months included: data
    /// older than twice this is stale. Sampled over a year from a fixed day; gaps that only a leap year has are
    /// not seen.
    pub fn interval_hint(&self) -> Duration {
        let hourly = self.longest_gap(SAMPLE_FROM.plus(DAY * 14), HOUR);
        hourly.max(self.longest_gap(SAMPLE_FROM.plus(DAY * 400), DAY))
    }

    /// Every gap longer than `step` until `until` is seen, of the shorter ones a sample.
    fn longest_gap(&self, until: Timestamp, step: Duration) -> Duration {
        let (mut at, mut longest) = (SAMPLE_FROM, Duration::ZERO);
        while at < until {
            let (Some(before), Some(after)) = (self.last_due(at), self.next_due(at)) else { break };
            longest = longest.max(after.since(before));
            at = after.max(at.plus(step));
        }
        longest
    }

    /// Jitter stays below the shortest gap of a few hundred occurrences.
    fn check_jitter(&self) -> Result<(), ScheduleError> {
        if self.jitter.subsec_nanos() != 0 {
            return Err(ScheduleError::Fraction);
        }
        let mut due = SAMPLE_FROM;
        for _ in 0..if self.jitter.is_zero() { 0 } else { 300 } {
            let Some(next) = self.next_due(due) else { break };
            let gap = next.since(due);
            if due != SAMPLE_FROM && gap <= self.jitter {
                return Err(ScheduleError::Jitter { jitter: self.jitter, gap });
            }
            due = next;
        }
        Ok(())
    }

    /// What it means, for `check`.
    pub fn explain(&self) -> String {
        let mut text = format!("{} ({})", self.cron.describe().trim_end_matches('.'), self.timezone.name());
        if !self.jitter.is_zero() {
            text.push_str(&format!(", up to {} s later", self.jitter.as_secs()));
        }
        text.push_str(match self.missed {
            Missed::Skip => "; missed runs are skipped",
            Missed::RunOnce => "; missed runs are made up for by one",
        });
        text
    }

    /// A time as the wall clock of the zone shows it, with the offset that tells a repeated hour's halves apart.
    pub fn on_the_wall(&self, at: Timestamp) -> String {
        self.local(at).format("%Y-%m-%d %H:%M:%S %:z").to_string()
    }

    /// Whole seconds in the schedule's zone: occurrences have no fractions, so rounding down loses none.
    fn local(&self, at: Timestamp) -> DateTime<Tz> {
        let floor = Timestamp(at.0.div_euclid(1000).saturating_mul(1000));
        floor.datetime().with_timezone::<Tz>(&self.timezone)
    }
}

impl fmt::Debug for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { expression, timezone, jitter, missed, .. } = self;
        write!(f, "Schedule({expression:?} {timezone} jitter {jitter:?} missed {})", missed.as_str())
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
        return Err(ScheduleError::Fields { found, hint });
    }
    let parser = CronParser::builder().seconds(Seconds::Required).year(Year::Disallowed).build();
    parser.parse(expression).map_err(|error| ScheduleError::Expression(error.to_string()))
}

/// FNV-1a: small, and the same in every build (the standard library's hasher promises neither).
fn fnv1a(job: &str, due: Timestamp) -> u64 {
    let bytes = job.bytes().chain(due.0.to_le_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
#[path = "rule_tests.rs"]
mod tests;
