//! The sandbox's clock: the source of its time, and the offset that the control plane added.
//!
//! All time in the sandbox is read here, in milliseconds since 1970 (UTC). Limits, orders and reports use it.
//! The source is the host's clock, or a function of a simulation. The host's clock is read once and continued
//! by the monotonic clock, so that a correction of the host's time neither empties nor fills a window. The
//! clock only moves forward.

use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use chrono::{DateTime, Datelike, Months, NaiveDate, NaiveDateTime, SecondsFormat, Utc};

pub(super) const DAY_MS: i64 = 24 * 3_600_000;

/// A source of time in milliseconds, with an offset that only grows.
pub struct SandboxClock {
    source: Box<dyn Fn() -> i64 + Send + Sync>,
    offset_ms: AtomicI64,
}

impl fmt::Debug for SandboxClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clock").field("now_ms", &self.now_ms()).finish()
    }
}

impl SandboxClock {
    /// Returns a clock that starts at the host's time and follows its monotonic clock.
    #[must_use]
    #[allow(
        clippy::disallowed_methods,
        reason = "the sandbox is an island with a clock of its own, and this is it"
    )]
    pub(crate) fn from_host() -> Self {
        let started = Instant::now();
        let epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self::from_source(move || i64::try_from((epoch + started.elapsed()).as_millis()).unwrap_or(i64::MAX))
    }

    /// Returns a clock on `now_ms` (milliseconds since 1970, never falling), for simulations.
    pub fn from_source(now_ms: impl Fn() -> i64 + Send + Sync + 'static) -> Self {
        Self { source: Box::new(now_ms), offset_ms: AtomicI64::new(0) }
    }

    /// Returns milliseconds since 1970, UTC, including the offset of [`SandboxClock::advance_by`].
    #[must_use]
    pub fn now_ms(&self) -> i64 {
        (self.source)() + self.offset_ms.load(Ordering::Relaxed)
    }

    /// Moves the clock forward; it cannot move back.
    pub(crate) fn advance_by(&self, by: Duration) {
        self.offset_ms.fetch_add(i64::try_from(by.as_millis()).unwrap_or(0), Ordering::Relaxed);
    }
}

pub(super) fn rfc3339(at_ms: i64) -> String {
    utc_instant(at_ms).to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// Returns the year and month (1-12) of an instant.
pub(super) fn month_of(at_ms: i64) -> (i32, u32) {
    let at = utc_instant(at_ms);
    (at.year(), at.month())
}

pub(super) fn months_before(at_ms: i64, back: u32) -> (i32, u32) {
    let (year, month) = month_of(at_ms);
    let first = NaiveDate::from_ymd_opt(year, month, 1).unwrap_or_default();
    let earlier = first.checked_sub_months(Months::new(back)).unwrap_or_default();
    (earlier.year(), earlier.month())
}

/// Parses a date or date-time: `2026-11-21`, with a time, with or without a zone. Without a zone it is
/// UTC. `None` if it is neither.
pub(super) fn parse_date(text: &str) -> Option<i64> {
    if let Ok(with_zone) = DateTime::parse_from_rfc3339(text) {
        return Some(with_zone.timestamp_millis());
    }
    if let Ok(local) = NaiveDateTime::parse_from_str(text, "%Y-%m-%dT%H:%M:%S%.f") {
        return Some(local.and_utc().timestamp_millis());
    }
    let day = NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?;
    Some(day.and_hms_opt(0, 0, 0)?.and_utc().timestamp_millis())
}

fn utc_instant(at_ms: i64) -> DateTime<Utc> {
    DateTime::from_timestamp_millis(at_ms).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_adds_exactly_its_advances() {
        let clock = SandboxClock::from_source(|| 1_000);
        clock.advance_by(Duration::from_millis(500));
        clock.advance_by(Duration::ZERO);
        assert_eq!(clock.now_ms(), 1_500);
    }

    #[test]
    fn a_date_is_read_with_and_without_time_and_zone() {
        let noon = Some(1_763_726_400_000);
        for (text, expected) in [
            ("2025-11-21T12:00:00", noon),
            ("2025-11-21T12:00:00.000", noon),
            ("2025-11-21T12:00:00Z", noon),
            ("2025-11-21T14:00:00+02:00", noon),
            ("2025-11-21", Some(1_763_683_200_000)),
            ("21.11.2025", None),
            ("2025-02-30", None),
            ("", None),
        ] {
            assert_eq!(parse_date(text), expected, "{text}");
        }
    }

    #[test]
    fn months_are_counted_back_over_the_year() {
        let january = parse_date("2026-01-31").unwrap();
        assert_eq!(months_before(january, 0), (2026, 1));
        assert_eq!(months_before(january, 1), (2025, 12));
        assert_eq!(months_before(january, 24), (2024, 1));
    }
}
