//! Tests of due times, as tables of wall clock times.

use super::*;
use chrono::TimeZone;
use proptest::prelude::*;

fn schedule(expression: &str, zone: &str) -> Schedule {
    Schedule::parse(expression, zone, Duration::ZERO, MissedPolicy::RunOnce).unwrap()
}

fn jittered_schedule(expression: &str, seconds: u64, missed: MissedPolicy) -> Schedule {
    Schedule::parse(expression, "UTC", Duration::from_secs(seconds), missed).unwrap()
}

fn at(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap()
}

/// Returns the next `count` due times, each with its zone's offset.
fn due_times(schedule: &Schedule, from: &str, count: usize) -> Vec<String> {
    let mut after = at(from);
    let mut next = || {
        after = schedule.next_due(after).unwrap();
        let local = schedule.timezone.from_utc_datetime(&after.to_datetime().naive_utc());
        local.format("%m-%dT%H:%M%:z").to_string()
    };
    (0..count).map(|_| next()).collect()
}

#[test]
fn due_times_follow_the_wall_clock_through_both_clock_changes() {
    let cases = [
        // An ordinary time keeps its place on the wall clock.
        ("0 30 8 * * *", "Europe/Berlin", "2027-03-27T12:00:00Z", "03-28T08:30+02:00 03-29T08:30+02:00"),
        ("0 30 8 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", "10-25T08:30+01:00 10-26T08:30+01:00"),
        // A fixed time within the hour skipped in spring runs once, right after the gap.
        ("0 30 2 * * *", "Europe/Berlin", "2027-03-27T12:00:00Z", "03-28T03:00+02:00 03-29T02:30+02:00"),
        ("0 30 1 * * *", "Europe/London", "2027-03-27T12:00:00Z", "03-28T02:00+01:00 03-29T01:30+01:00"),
        ("0 30 2 * * *", "America/New_York", "2027-03-13T12:00:00Z", "03-14T03:00-04:00 03-15T02:30-04:00"),
        // Midnight is not in London's gap and must not run twice on that day.
        ("0 0 0 * * *", "Europe/London", "2027-03-27T12:00:00Z", "03-28T00:00+00:00 03-29T00:00+01:00"),
        // A fixed time within the hour repeated in autumn runs only the first time.
        ("0 30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", "10-25T02:30+02:00 10-26T02:30+01:00"),
        ("0 30 1 * * *", "America/New_York", "2026-10-31T12:00:00Z", "11-01T01:30-04:00 11-02T01:30-05:00"),
        // A half-hourly schedule goes on through both clock changes.
        ("0 */30 * * * *", "Europe/Berlin", "2027-03-28T00:15:00Z", "03-28T01:30+01:00 03-28T03:00+02:00"),
        (
            "0 */30 * * * *",
            "Europe/Berlin",
            "2026-10-25T00:15:00Z",
            "10-25T02:30+02:00 10-25T02:00+01:00 10-25T02:30+01:00 10-25T03:00+01:00",
        ),
    ];
    for (expression, zone, from, expected) in cases {
        let due = due_times(&schedule(expression, zone), from, expected.split(' ').count());
        assert_eq!(due.join(" "), expected, "{expression} {zone}");
    }
}

#[test]
fn what_is_no_schedule_is_refused_with_what_would_be() {
    let cases = [
        ("*/5 * * * *", "UTC", "write `0 */5 * * * *`"),
        ("0 0 0 1 1 * 2020", "UTC", "no field for the year"),
        ("", "UTC", "this one has 0"),
        ("@hourly", "UTC", "this one has 1"),
        ("0 0 25 * * *", "UTC", "not understood"),
        ("0 1/5 * * * *", "UTC", "not understood"),
        ("0 0 0 31 2 *", "UTC", "never comes due"),
        ("0 0 0 30 FEB *", "UTC", "never comes due"),
        ("0 0 0 * * *", "Europe/Berlni", "no time zone named `Europe/Berlni`"),
    ];
    for (expression, zone, expected) in cases {
        let refused = Schedule::parse(expression, zone, Duration::ZERO, MissedPolicy::Skip).unwrap_err();
        assert!(refused.to_string().contains(expected), "{expression}: {refused}");
    }
}

#[test]
fn day_of_month_and_weekday_are_alternatives() {
    let friday_or_13th = schedule("0 0 0 13 * FRI", "UTC");
    let due = due_times(&friday_or_13th, "2026-11-21T00:00:00Z", 4);
    assert_eq!(due[2..], ["12-11T00:00+00:00", "12-13T00:00+00:00"]);
}

#[test]
fn a_jitter_as_long_as_a_gap_is_refused() {
    let parse = |expression, jitter| Schedule::parse(expression, "UTC", jitter, MissedPolicy::Skip);
    assert!(parse("0 */5 * * * *", Duration::from_secs(299)).is_ok());
    let gap = Duration::from_secs(300);
    let refused = parse("0 */5 * * * *", gap).unwrap_err().to_string();
    assert_eq!(refused, "a jitter of 300s reaches into the next occurrence, at times only 300s later");
    // The shortest gap of a minute occurs once a day, between the two minutes of the list.
    assert!(parse("0 0,1 8 * * *", Duration::from_secs(60)).is_err());
    let refused = parse("0 0 8 * * *", Duration::from_millis(1500)).unwrap_err().to_string();
    assert_eq!(refused, "jitter is counted in whole seconds");
}

#[test]
fn missed_occurrences_are_made_up_for_by_the_policy() {
    const DUE: &str = "2026-11-21T02:00:00Z";
    // (policy, last due time that ran, now) -> the due time to run at once
    let cases = [
        (MissedPolicy::RunOnce, Some("2026-11-20T02:00:00Z"), "2026-11-21T08:00:00Z", Some(DUE)),
        (MissedPolicy::RunOnce, Some("2026-11-02T02:00:00Z"), "2026-11-21T08:00:00Z", Some(DUE)), // many: one run
        (MissedPolicy::RunOnce, Some(DUE), "2026-11-21T08:00:00Z", None), // none missed
        (MissedPolicy::RunOnce, None, "2026-11-21T08:00:00Z", Some(DUE)), // never ran
        (MissedPolicy::RunOnce, Some("2027-11-20T02:00:00Z"), "2026-11-21T08:00:00Z", None), // the clock was set back
        (MissedPolicy::RunOnce, Some("2026-11-20T02:00:00Z"), "2026-11-21T01:59:59Z", None), // not due yet
        (MissedPolicy::RunOnce, Some("2026-11-20T02:00:00Z"), "2026-11-21T02:00:00Z", Some(DUE)), // due this moment
        (MissedPolicy::Skip, Some("2026-11-20T02:00:00Z"), "2026-11-21T08:00:00Z", None),
        (MissedPolicy::Skip, None, "2026-11-21T08:00:00Z", None),
    ];
    for (policy, last, now, expected) in cases {
        let daily = jittered_schedule("0 0 2 * * *", 0, policy);
        let (last, now) = (last.map(at), at(now));
        let caught_up = daily.catch_up(JobKind::Suppliers, last, now);
        assert_eq!(caught_up, expected.map(at), "{policy:?} {last:?} {now}");
        if let Some(last) = last {
            assert_eq!(
                daily.latest_started(JobKind::Suppliers, now).is_some_and(|due| due > last),
                due_passed(&daily, last, now)
            );
        }
    }
}

fn due_passed(schedule: &Schedule, last: Timestamp, now: Timestamp) -> bool {
    schedule.next_due(last).is_some_and(|due| due <= now)
}

#[test]
fn two_days_show_the_longest_gap_of_a_schedule_that_repeats_daily() {
    let (seconds, minutes, hours) =
        (["0", "7,41"], ["*", "*/5", "13", "0,50", "30"], ["*", "2", "8-17", "0,23", "*/6"]);
    let fields = seconds.iter().flat_map(|second| minutes.map(|minute| format!("{second} {minute}")));
    for expression in fields.flat_map(|fields| hours.map(|hour| format!("{fields} {hour} * * *"))) {
        let schedule = schedule(&expression, "UTC");
        let hourly = schedule.longest_gap(SAMPLE_FROM.plus(DAY * 14), Duration::from_hours(1));
        let over_a_year = hourly.max(schedule.longest_gap(SAMPLE_FROM.plus(DAY * 400), DAY));
        assert_eq!(schedule.interval_hint(), over_a_year, "{expression}");
    }
}

#[test]
fn the_interval_is_the_longest_gap_nights_weekends_and_clock_changes_included() {
    let hours = |hours: u64| Duration::from_secs(hours * 3600);
    let cases = [
        ("*/10 * * * * *", "UTC", Duration::from_secs(10)),
        ("0 */5 * * * *", "UTC", Duration::from_secs(300)),
        ("0 */5 8-17 * * *", "UTC", hours(14) + Duration::from_secs(300)),
        ("0 0 8-17 * * MON-FRI", "UTC", hours(63)),
        ("0 0 3 * * *", "UTC", hours(24)),
        ("0 0 8 * * *", "Europe/Berlin", hours(25)),
        ("0 0 3 1 * *", "UTC", hours(31 * 24)),
    ];
    for (expression, zone, expected) in cases {
        assert_eq!(schedule(expression, zone).interval_hint(), expected, "{expression}");
    }
}

#[test]
fn an_explanation_names_zone_jitter_and_policy() {
    let explained = jittered_schedule("0 */5 * * * *", 20, MissedPolicy::RunOnce).check_description();
    for part in ["UTC", "up to 20 s later", "after downtime it runs once"] {
        assert!(explained.contains(part), "{explained}");
    }
}

proptest! {
    /// Jitter moves starts, but not their number or order: a walk by starts visits each due time once.
    #[test]
    fn every_due_time_starts_once_whatever_the_jitter(jitter in 0u64..60, from in 0i64..4_000_000_000_000) {
        let schedule = jittered_schedule("0 * * * * *", jitter, MissedPolicy::RunOnce);
        let mut due = schedule.next_due(Timestamp(from)).unwrap();
        let mut now = schedule.start_of(JobKind::WorkQueue, due);
        for _ in 0..5 {
            prop_assert_eq!(schedule.latest_started(JobKind::WorkQueue, now), Some(due));
            prop_assert!(now.duration_since(due) <= Duration::from_secs(jitter));
            now = schedule.next_start(JobKind::WorkQueue, now).unwrap();
            due = schedule.next_due(due).unwrap();
        }
    }
}

/// The offsets are fixed, because a release with other offsets could run an occurrence twice after a restart.
#[test]
fn a_job_starts_as_much_later_in_every_build() {
    let nightly = jittered_schedule("0 0 2 * * *", 1800, MissedPolicy::Skip);
    let due = at("2026-11-21T02:00:00Z");
    for (job, offset_s) in [(JobKind::Balances, 224), (JobKind::Suppliers, 1569)] {
        assert_eq!(nightly.start_of(job, due).duration_since(due), Duration::from_secs(offset_s), "{job}");
    }
    let started = nightly.latest_started(JobKind::Suppliers, due);
    assert_eq!(started, Some(at("2026-11-20T02:00:00Z")), "the occurrence due has not started");
}

#[test]
fn a_schedule_tells_what_it_was_made_of() {
    let (expression, jitter) = (" 0 30 8 * * * ", Duration::from_secs(90));
    let schedule = Schedule::parse(expression, "Europe/Berlin", jitter, MissedPolicy::Skip).unwrap();
    assert_eq!((schedule.expression(), schedule.timezone()), ("0 30 8 * * *", "Europe/Berlin"));
    assert_eq!(schedule.missed_policy(), MissedPolicy::Skip);
    assert_eq!((MissedPolicy::Skip.as_str(), MissedPolicy::RunOnce.as_str()), ("skip", "run_once"));
    assert_eq!(schedule.format_local(at("2026-10-25T00:30:00Z")), "2026-10-25 02:30:00 +02:00");
    assert_eq!(schedule.format_local(at("2026-10-25T01:30:00Z")), "2026-10-25 02:30:00 +01:00");
}

#[test]
fn a_time_within_a_second_is_before_the_next_due_time() {
    let each_second = schedule("* * * * * *", "UTC");
    let next = |ms: i64| each_second.next_due(Timestamp(ms)).map(|due| due.0);
    assert_eq!((next(1_999), next(2_000), next(-1)), (Some(2_000), Some(3_000), Some(0)));
}

/// The library's words would say *every 90 minutes*, and the job starts each hour.
#[test]
fn a_description_names_no_interval_and_no_jitter_that_is_not() {
    for expression in ["0 */5 * * * *", "0 */90 * * * *"] {
        assert_eq!(schedule(expression, "UTC").check_description(), "UTC; after downtime it runs once");
    }
}
