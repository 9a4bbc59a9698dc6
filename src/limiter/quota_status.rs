//! The limiter's stored state at one instant, for `status`. Pure.
//!
//! `status` reads the state from the database, because the limiter may be in another process or not running.

use super::adaptive_limit::{AdaptiveLimit, WHOLE_PERMILLE};
use super::bad_requests;
use super::hold::{HoldReason, HoldScope};
use super::persisted::LimiterState;
use super::settings::LimiterSettings;
use crate::model::{Moment, Timestamp};
use serde::Serialize;
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A hold with a known end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EndingHold {
    /// The operation that the hold stops, or `account`.
    pub what: String,
    /// The reason for the hold.
    pub reason: HoldReason,
    /// Start of the hold.
    pub since: Timestamp,
    /// End of the hold.
    pub until: Timestamp,
}

/// The quota left to us by the platform and by other software.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct QuotaStatus {
    /// The holds in force that end at a known time.
    pub holds: Vec<EndingHold>,
    /// The adaptive limit, in thousandths of the configured part.
    pub share_permille: u32,
    /// The platform throttles us for bad requests: only reads are sent until this time.
    pub reads_only_until: Option<Timestamp>,
}

impl LimiterState {
    /// Returns the part of the state in force at `now`.
    ///
    /// Holds that end by an event are left out, because only the running limiter knows of the event.
    pub fn quota_status(&self, now: Timestamp) -> QuotaStatus {
        let holds = self.holds.iter().filter_map(|hold| {
            let until = hold.since.plus(Duration::from_millis(hold.duration_ms?));
            let what = match hold.scope {
                HoldScope::Account | HoldScope::Key => "account".to_owned(),
                HoldScope::Operation(operation) => operation.to_string(),
            };
            (until > now).then_some(EndingHold { what, reason: hold.reason, since: hold.since, until })
        });
        let shrunk = self.last_reduction.map(|(permille, since)| (permille, Moment(since.0)));
        let share = AdaptiveLimit { last_reduction: shrunk, ..AdaptiveLimit::default() };
        let reads_only_until =
            self.budget_exhausted.map(|(since, _)| since.plus(DAY)).filter(|until| *until > now);
        QuotaStatus {
            holds: holds.collect(),
            share_permille: share.permille(Moment(now.0)).min(WHOLE_PERMILLE),
            reads_only_until,
        }
    }
}

/// The bad-request budget and its forecast.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BadRequestForecast {
    /// Answers of 400 in the last 24 h.
    pub count: usize,
    /// Answers in the last hour: the rate of the forecast.
    pub last_hour: usize,
    /// Count at which bulk pushes stop.
    pub soft: u32,
    /// Count at which every operation that was answered 400 stops.
    pub hard: u32,
    /// Time at which the soft threshold is reached; `None` if not within a day, or reached already.
    pub soft_at: Option<Timestamp>,
    /// Time at which the hard threshold is reached; `None` as in `soft_at`.
    pub hard_at: Option<Timestamp>,
}

/// Extrapolates the last hour's rate of bad requests, while old answers expire one by one.
///
/// `answers`: the times of the answers of 400 in the last 24 h, oldest first.
pub fn forecast_bad_requests(
    answers: &[Timestamp],
    settings: &LimiterSettings,
    now: Timestamp,
) -> BadRequestForecast {
    let (soft, hard) = bad_requests::thresholds(settings.bad_requests_per_day);
    let last_hour = answers.iter().filter(|at| **at > now.minus(HOUR)).count();
    let count_at = |minute: u32| {
        let then = now.plus(MINUTE * minute);
        let old = answers.iter().filter(|at| at.plus(DAY) > then).count();
        old + last_hour * usize::try_from(minute).unwrap_or(0) / 60
    };
    let reached = |line: u32| {
        let line = usize::try_from(line).unwrap_or(usize::MAX);
        let minute = (0..24 * 60).find(|minute| last_hour > 0 && count_at(*minute) >= line);
        minute.filter(|minute| *minute > 0).map(|minute| now.plus(MINUTE * minute))
    };
    BadRequestForecast {
        count: count_at(0),
        last_hour,
        soft,
        hard,
        soft_at: reached(soft),
        hard_at: reached(hard),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limiter::Hold;

    const NOW: Timestamp = Timestamp(1_800_000_000_000);

    fn hold(ago_s: u64, duration_ms: Option<u64>) -> Hold {
        let since = NOW.minus(Duration::from_secs(ago_s));
        Hold {
            scope: HoldScope::Account,
            reason: HoldReason::BadRequests,
            why: String::new(),
            since,
            duration_ms,
        }
    }

    #[test]
    fn only_holds_in_force_are_shown_with_their_ends() {
        let kept = LimiterState {
            holds: vec![hold(10, Some(60_000)), hold(70, Some(60_000)), hold(10, None)],
            last_reduction: Some((750, NOW.minus(MINUTE * 10))),
            budget_exhausted: Some((NOW.minus(HOUR), false)),
            ..LimiterState::default()
        };
        let standing = kept.quota_status(NOW);
        let ends: Vec<_> = standing.holds.iter().map(|hold| hold.until).collect();
        assert_eq!(ends, [NOW.plus(Duration::from_secs(50))]);
        assert_eq!((standing.share_permille, standing.reads_only_until), (850, Some(NOW.plus(HOUR * 23))));
        let later = kept.quota_status(NOW.plus(DAY));
        assert_eq!((later.holds.len(), later.share_permille, later.reads_only_until), (0, 1000, None));
    }

    #[test]
    fn the_forecast_goes_on_with_the_last_hours_rate() {
        let settings = LimiterSettings::default();
        // One each minute for two hours: 120 now, 300 at the soft threshold, 400 at the hard one.
        let steady: Vec<_> = (0..120).rev().map(|minute| NOW.minus(MINUTE * minute)).collect();
        let forecast = forecast_bad_requests(&steady, &settings, NOW);
        assert_eq!((forecast.count, forecast.last_hour), (120, 60));
        assert_eq!(forecast.soft_at, Some(NOW.plus(HOUR * 3)));
        assert_eq!(forecast.hard_at, Some(NOW.plus(MINUTE * 280)));

        let slow: Vec<_> = (0..24).rev().map(|hour| NOW.minus(HOUR * hour)).collect();
        let forecast = forecast_bad_requests(&slow, &settings, NOW);
        assert_eq!(
            (forecast.count, forecast.soft_at, forecast.hard_at),
            (24, None, None),
            "as many go as come"
        );
        let reached = forecast_bad_requests(&vec![NOW; 300], &settings, NOW);
        assert_eq!((reached.count, reached.soft_at), (300, None));
        assert_eq!(forecast_bad_requests(&[], &settings, NOW).hard_at, None);
        assert_eq!(
            forecast_bad_requests(&[NOW.minus(DAY)], &settings, NOW).count,
            0,
            "a day old is forgotten"
        );
    }
}
