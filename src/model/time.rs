//! Time values: a [`Timestamp`] of the calendar, and a [`Moment`] for durations.
//!
//! Only `daemon` and `cli` read the clock. All other code receives a value or the injected [`Clock`]. A
//! `Moment` includes suspends and has no clock steps, so waits and windows use it. A `Timestamp` is
//! only stored and compared across boots.

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::pin::Pin;
use std::time::Duration;

pub(crate) const DAY: Duration = Duration::from_hours(24);

/// Time of the calendar, in milliseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Returns UTC in RFC 3339 with milliseconds, as in all views and JSON outputs.
    pub fn to_rfc3339(self) -> String {
        self.to_datetime().to_rfc3339_opts(SecondsFormat::Millis, true)
    }

    /// Returns the instant as a calendar value, clamped to the calendar's range.
    pub(crate) fn to_datetime(self) -> DateTime<Utc> {
        let edge = if self.0 < 0 { DateTime::<Utc>::MIN_UTC } else { DateTime::<Utc>::MAX_UTC };
        DateTime::from_timestamp_millis(self.0).unwrap_or(edge)
    }

    /// Parses RFC 3339. A date or date-time without a zone is UTC, because the platform sends such times.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if let Ok(zoned) = DateTime::parse_from_rfc3339(text) {
            return Some(Self(zoned.timestamp_millis()));
        }
        let naive = text.parse::<chrono::NaiveDateTime>().ok().or_else(|| {
            let date = text.parse::<chrono::NaiveDate>().ok()?;
            date.and_hms_opt(0, 0, 0)
        })?;
        Some(Self(naive.and_utc().timestamp_millis()))
    }

    /// Returns the time later by `duration`.
    pub fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(whole_millis(duration)))
    }

    /// Returns the time earlier by `duration`.
    pub fn minus(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(whole_millis(duration)))
    }

    /// Returns the time since `earlier`; zero if the clock was set back.
    pub fn duration_since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_rfc3339())
    }
}

/// Milliseconds since the host's boot, including suspends (`CLOCK_BOOTTIME`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(pub i64);

impl Moment {
    /// Returns the moment later by `duration`.
    pub(crate) fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(whole_millis(duration)))
    }

    /// Returns the moment earlier by `duration`, possibly before the boot.
    pub(crate) fn minus(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(whole_millis(duration)))
    }

    /// Returns the time since `earlier`; zero if `earlier` is in the future.
    pub(crate) fn duration_since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

/// The source of time: the system's clocks in the daemon, a manual clock in tests.
pub trait Clock: Send + Sync + 'static {
    fn now(&self) -> Timestamp;
    fn moment(&self) -> Moment;
    /// Returns the id of the boot that moments are counted from; `None`, the default, is that of this machine.
    ///
    /// A simulation has hosts, and boots, of its own.
    fn boot_id(&self) -> Option<String> {
        None
    }
    /// Waits by the host's timer; a simulation, which sets its time itself, overrides it.
    fn sleep(&self, duration: Duration) -> SleepFuture {
        Box::pin(tokio::time::sleep(duration))
    }
}

pub type SleepFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Returns whole milliseconds, clamped to the largest `i64`.
pub fn whole_millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// Returns a duration for people, such as `3 h 20 min`.
pub(crate) fn format_elapsed(duration: Duration) -> String {
    format_age(i64::try_from(duration.as_secs()).unwrap_or(i64::MAX))
}

/// Returns an age in seconds for people, such as `3 h 20 min`.
pub(crate) fn format_age(seconds: i64) -> String {
    let s = seconds.max(0);
    match s {
        0..=119 => format!("{s} s"),
        120..=7_199 => format!("{} min", s / 60),
        7_200..=172_799 => format!("{} h {} min", s / 3_600, s % 3_600 / 60),
        _ => format!("{} d {} h", s / 86_400, s % 86_400 / 3_600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_with_and_without_a_zone() {
        let cases = [
            ("2020-01-09T16:57:08", "2020-01-09T16:57:08.000Z"),
            ("2020-01-09T16:57:08.25Z", "2020-01-09T16:57:08.250Z"),
            ("2020-01-09T16:57:08+01:00", "2020-01-09T15:57:08.000Z"),
            ("2020-01-09", "2020-01-09T00:00:00.000Z"),
        ];
        for (text, expected) in cases {
            assert_eq!(Timestamp::parse(text).unwrap().to_rfc3339(), expected, "{text}");
        }
        assert_eq!(Timestamp::parse("yesterday"), None);
    }

    #[test]
    fn a_clock_set_back_makes_no_negative_age() {
        assert_eq!(Timestamp(5).duration_since(Timestamp(9)), Duration::ZERO);
    }
}
