//! Ten years of due times, compared with a calculation that shares no code with the cron library.
//!
//! The test counts civil dates itself and looks up each local time in the zone's table. The rules around
//! clock changes (docs/configuration.md, *Schedules*): a fixed time that spring skips is due right after the
//! gap. A fixed time that autumn repeats is due once, the first time. An interval continues through both.

#![allow(clippy::unwrap_used, reason = "a helper of a test may end the test")]

use crate::model::{JobKind, Timestamp};
use crate::schedule::{MissedPolicy, Schedule};
use chrono::{
    DateTime, Datelike, Days, LocalResult, NaiveDate, NaiveTime, TimeDelta, TimeZone, Timelike, Utc,
};
use chrono_tz::Tz;
use std::time::Duration;

const ZONES: [&str; 6] =
    ["UTC", "Europe/Berlin", "America/New_York", "America/Santiago", "Asia/Kathmandu", "Pacific/Auckland"];

fn day(year: i32, month: u32, day: u32) -> NaiveDate {
    NaiveDate::from_ymd_opt(year, month, day).unwrap()
}

fn schedule(expression: &str, zone: &str) -> Schedule {
    Schedule::parse(expression, zone, Duration::ZERO, MissedPolicy::RunOnce).unwrap()
}

/// Returns the instant of a wall clock time.
///
/// It is the first of two instants, or the end of the gap for a skipped time.
fn instant(zone: Tz, date: NaiveDate, time: NaiveTime) -> DateTime<Utc> {
    let mut wall = date.and_time(time);
    loop {
        match zone.from_local_datetime(&wall) {
            LocalResult::Single(at) | LocalResult::Ambiguous(at, _) => return at.with_timezone(&Utc),
            LocalResult::None => wall += TimeDelta::seconds(1),
        }
    }
}

/// Returns the fixed time on every day of ten years that `wanted` accepts.
fn fixed(zone: &str, hour: u32, minute: u32, wanted: impl Fn(NaiveDate) -> bool) -> Vec<DateTime<Utc>> {
    let (zone, time): (Tz, _) = (zone.parse().unwrap(), NaiveTime::from_hms_opt(hour, minute, 0).unwrap());
    let days = day(2026, 1, 1).iter_days().take_while(|date| *date < day(2036, 1, 1));
    days.filter(|date| wanted(*date)).map(|date| instant(zone, date, time)).collect()
}

/// Returns `count` due times after `from`.
fn dues(schedule: &Schedule, from: DateTime<Utc>, count: usize) -> Vec<DateTime<Utc>> {
    let mut after = Timestamp(from.timestamp_millis());
    let mut next = || {
        after = schedule.next_due(after).unwrap();
        DateTime::from_timestamp_millis(after.0).unwrap()
    };
    (0..count).map(|_| next()).collect()
}

/// Returns the last second before 2026 in a zone.
fn before_2026(zone: &str) -> DateTime<Utc> {
    instant(zone.parse().unwrap(), day(2026, 1, 1), NaiveTime::MIN) - TimeDelta::seconds(1)
}

#[test]
fn a_fixed_time_comes_once_a_day_for_ten_years_in_every_zone() {
    for zone in ZONES {
        for (hour, minute) in [(0, 0), (0, 30), (1, 30), (2, 0), (2, 30), (3, 0), (8, 15), (23, 59)] {
            let expected = fixed(zone, hour, minute, |_| true);
            let schedule = schedule(&format!("0 {minute} {hour} * * *"), zone);
            let found = dues(&schedule, before_2026(zone), expected.len());
            let differs = expected.iter().zip(&found).find(|(expected, found)| expected != found);
            assert_eq!(differs, None, "{hour}:{minute:02} {zone} (expected, found)");
        }
    }
}

#[test]
fn weekdays_and_last_days_of_months_are_those_of_the_zones_calendar() {
    let is_workday = |date: NaiveDate| date.weekday().num_days_from_monday() < 5;
    let is_last = |date: NaiveDate| (date + Days::new(1)).day() == 1;
    for zone in ZONES {
        for (expression, expected) in [
            ("0 30 2 * * MON-FRI", fixed(zone, 2, 30, is_workday)),
            ("0 0 22 L * *", fixed(zone, 22, 0, is_last)),
            ("0 15 6 29 2 *", fixed(zone, 6, 15, |date| (date.month(), date.day()) == (2, 29))),
        ] {
            assert!(!expected.is_empty());
            let found = dues(&schedule(expression, zone), before_2026(zone), expected.len());
            assert_eq!(found, expected, "{expression} {zone}");
        }
    }
}

/// Each half hour of the wall clock is an instant whose minute is 0 or 30.
///
/// Hours that autumn repeats come twice, hours that spring skips not at all.
#[test]
fn an_interval_goes_on_through_every_clock_change_of_ten_years() {
    let mut changes = 0;
    for zone in ZONES {
        let tz: Tz = zone.parse().unwrap();
        let schedule = schedule("0 */30 * * * *", zone);
        let is_change = |date: &NaiveDate| {
            let offset =
                |date: NaiveDate| instant(tz, date, NaiveTime::MIN).with_timezone(&tz).offset().to_string();
            offset(*date) != offset(*date + Days::new(1))
        };
        let days = day(2026, 1, 1).iter_days().take_while(|date| *date < day(2036, 1, 1));
        for date in days.filter(is_change) {
            let (from, until) =
                (instant(tz, date, NaiveTime::MIN), instant(tz, date + Days::new(1), NaiveTime::MIN));
            let minutes = (0..).map(|minute| from + TimeDelta::minutes(minute)).take_while(|at| *at < until);
            let expected: Vec<_> = minutes.filter(|at| at.with_timezone(&tz).minute() % 30 == 0).collect();
            let found = dues(&schedule, from - TimeDelta::seconds(1), expected.len());
            assert_eq!(found, expected, "{date} {zone}");
            changes += 1;
        }
    }
    assert!(changes >= 4 * 20, "four of the zones change twice a year, {changes} were seen");
}

/// The driver's own steps over ten years start each due time once, in order, with any jitter.
#[test]
fn with_jitter_each_due_time_of_ten_years_starts_once_and_in_time() {
    let jitter = Duration::from_secs(900);
    let zone = "Europe/Berlin";
    let nightly = Schedule::parse("0 30 2 * * *", zone, jitter, MissedPolicy::RunOnce).unwrap();
    let mut now = Timestamp(before_2026(zone).timestamp_millis());
    for due in fixed(zone, 2, 30, |_| true) {
        now = nightly.next_start(JobKind::Backup, now).unwrap();
        let due = Timestamp(due.timestamp_millis());
        assert!(now >= due && now.duration_since(due) <= jitter, "{now} is no start of {due}");
        assert_eq!(nightly.latest_started(JobKind::Backup, now), Some(due));
        assert!(nightly.latest_started(JobKind::Backup, now) <= Some(due), "{due} ran and was not missed");
    }
}

/// A machine that is off every night runs once each morning, or not at all, by its policy.
#[test]
fn a_machine_that_sleeps_at_night_makes_up_once_or_skips_for_ten_years() {
    let zone = "America/New_York";
    let mut last = None;
    let runs = fixed(zone, 2, 30, |_| true);
    let with = |policy| Schedule::parse("0 30 2 * * *", zone, Duration::ZERO, policy).unwrap();
    let (once, skip) = (with(MissedPolicy::RunOnce), with(MissedPolicy::Skip));
    for (morning, due) in fixed(zone, 7, 0, |_| true).into_iter().zip(runs) {
        let now = Timestamp(morning.timestamp_millis());
        let owed = once.catch_up(JobKind::Prune, last, now);
        assert_eq!(owed, Some(Timestamp(due.timestamp_millis())), "{morning}");
        assert_eq!(skip.catch_up(JobKind::Prune, last, now), None);
        assert_eq!(once.catch_up(JobKind::Prune, owed, now), None, "once is enough");
        last = owed;
    }
}
