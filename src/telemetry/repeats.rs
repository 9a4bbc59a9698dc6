//! Suppression of repeated warnings.
//!
//! A missing key file is noticed every two seconds, and one line a minute is enough. Only warnings and errors
//! that are equal in every field are left out, for at most [`REPEAT_INTERVAL`]. The next line that is written carries
//! the number left out. Lines that differ (another change, another run) are never left out, because an alert
//! may count them. After the last repetition, at most one minute's repetitions stay uncounted.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::fmt::Debug;
use std::hash::{Hash, Hasher};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tracing::field::{Field, Visit};
use tracing::{Event, Level};

/// The interval in which equal lines are written once.
pub(super) const REPEAT_INTERVAL: Duration = Duration::from_secs(60);
/// The number of lines remembered; beyond it every line is written.
const REMEMBERED_MAX: usize = 1024;

/// A function that returns the time since any fixed moment.
pub(crate) type ElapsedFn = fn() -> Duration;

pub(super) struct RepeatFilter {
    elapsed: ElapsedFn,
    lines: Mutex<HashMap<u64, RecentLine>>,
}

struct RecentLine {
    written: Duration,
    suppressed: u64,
}

impl RepeatFilter {
    pub(super) fn new(elapsed: ElapsedFn) -> Self {
        Self { elapsed, lines: Mutex::default() }
    }

    /// Returns the number of equal lines left out before this one, or `None` if this line is to be left out.
    pub(super) fn admit_event(&self, event: &Event<'_>) -> Option<u64> {
        if *event.metadata().level() > Level::WARN {
            return Some(0);
        }
        let mut print = FieldsHash(DefaultHasher::new());
        event.metadata().callsite().hash(&mut print.0);
        event.record(&mut print);
        self.admit_line(print.0.finish(), (self.elapsed)())
    }

    fn admit_line(&self, line: u64, now: Duration) -> Option<u64> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let is_old = |line: &RecentLine| now.saturating_sub(line.written) >= REPEAT_INTERVAL;
        if lines.len() >= REMEMBERED_MAX {
            lines.retain(|_, line| !is_old(line));
        }
        let is_full = lines.len() >= REMEMBERED_MAX;
        let fresh = RecentLine { written: now, suppressed: 0 };
        match lines.get_mut(&line) {
            Some(known) if !is_old(known) => {
                known.suppressed += 1;
                None
            }
            Some(known) => Some(std::mem::replace(known, fresh).suppressed),
            None if is_full => Some(0),
            None => {
                lines.insert(line, fresh);
                Some(0)
            }
        }
    }
}

struct FieldsHash(DefaultHasher);

impl Visit for FieldsHash {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        field.name().hash(&mut self.0);
        format!("{value:?}").hash(&mut self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn an_equal_line_is_written_once_a_minute_with_its_count() {
        let repeats = RepeatFilter::new(|| Duration::ZERO);
        assert_eq!(repeats.admit_line(1, s(0)), Some(0));
        assert_eq!(repeats.admit_line(1, s(2)), None);
        assert_eq!(repeats.admit_line(2, s(2)), Some(0), "another line is not the same line");
        assert_eq!(repeats.admit_line(1, s(59)), None);
        assert_eq!(repeats.admit_line(1, s(60)), Some(2));
        assert_eq!(repeats.admit_line(1, s(61)), None);
        assert_eq!(repeats.admit_line(1, s(200)), Some(1));
    }

    #[test]
    fn what_does_not_fit_into_the_memory_is_written() {
        let repeats = RepeatFilter::new(|| Duration::ZERO);
        for line in 0..REMEMBERED_MAX as u64 {
            assert_eq!(repeats.admit_line(line, s(0)), Some(0));
        }
        assert_eq!((repeats.admit_line(9_999, s(1)), repeats.admit_line(9_999, s(1))), (Some(0), Some(0)));
        assert_eq!(repeats.admit_line(5, s(1)), None, "what is remembered still counts");
        assert_eq!((repeats.admit_line(9_999, s(61)), repeats.admit_line(9_999, s(61))), (Some(0), None));
    }
}
