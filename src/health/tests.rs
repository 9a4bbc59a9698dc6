//! Tests of the health rules, one by one, on possible rows.

use super::*;
use crate::store::{ExchangeRow, RejectedRow, WaitingRow};

const NOW: Timestamp = Timestamp(1_800_000_000_000);
const UPDATE: &str = "POST /api/inventory/updateQuantityOnHand";
const SHIP: &str = "POST /api/Shipments/Create";

fn seconds_ago(seconds: u64) -> Timestamp {
    NOW.minus(Duration::from_secs(seconds))
}

fn ago(minutes: u64) -> Timestamp {
    seconds_ago(minutes * 60)
}

fn inputs(daemon: DaemonState) -> HealthInputs {
    HealthInputs {
        daemon,
        host: "a".into(),
        keys: ["/k/integration-key".into(), "/k/gateway-key".into()],
        metrics_file: None,
        is_metrics_old: false,
        at_once: false,
        call_timeout: Duration::from_secs(30),
        limits: limiter::LimiterSettings::default(),
        boot_id: "b".into(),
        now: NOW,
        moment: Moment(9),
    }
}

fn judged(rows: HealthRows) -> HealthReport {
    judge_rows(rows, &[], &inputs(DaemonState::Running))
}

/// Checks the codes that need an operator, each once, and that the first one's sentence has these words.
#[track_caller]
fn check_alarms(health: &HealthReport, codes: &[&str], words: &[&str]) {
    let for_operator = health.findings.iter().filter(|found| found.needs_operator());
    let mut alarms: Vec<_> = for_operator.map(|found| found.code.as_str()).collect();
    alarms.dedup();
    assert_eq!(alarms, codes, "{:?}", health.findings);
    let line = health.status_line();
    for word in words {
        assert!(line.contains(word), "no {word} in: {line}");
    }
}

fn worked(is_once: bool, is_good: bool, ended: Option<u64>) -> HealthRows {
    let ended_ms = ended.map(|minutes| ago(minutes).0);
    let worked = LastSessionRow { started_ms: ago(90).0, ended_ms, is_once, is_good };
    HealthRows { last_session: Some(worked), ..HealthRows::default() }
}

fn pause(job: &str, minutes: u64) -> PauseRow {
    PauseRow { job: job.into(), since_ms: ago(minutes).0, until_ms: None, why: "stocktaking".into() }
}

fn jobs(name: &str, stale: bool) -> Vec<JobHealthRow> {
    vec![JobHealthRow {
        job: name.into(),
        last_good_at: None,
        age_seconds: Some(700),
        stale,
        next_due_at: None,
        last_outcome: None,
        since_ms: ago(900).0,
        interval_ms: None,
    }]
}

/// Changes of quantities, the oldest of which waits since `minutes`.
fn waiting(why: Option<&str>, changes: i64, minutes: u64) -> HealthRows {
    let row = WaitingRow {
        kind: "quantity.set".into(),
        why: why.map(str::to_owned),
        changes,
        since_ms: ago(minutes).0,
        first_session_ms: None,
        key: "oldest".into(),
        detail: None,
    };
    HealthRows { waiting: vec![row], ..HealthRows::default() }
}

fn call(operation: &str, verdict: &str, status: Option<i64>, age: u64) -> ExchangeRow {
    ExchangeRow {
        operation: operation.into(),
        verdict: Some(verdict.into()),
        status,
        message: Some("its words".into()),
        sent_ms: seconds_ago(age).0,
        ..ExchangeRow::default()
    }
}

fn accepted(operation: &str, age: u64) -> Vec<ExchangeRow> {
    vec![call(operation, "accepted", Some(200), age)]
}

fn ended_run(outcome: &str, summary: &str, minutes: u64) -> RunRow {
    let (outcome, summary) = (outcome.into(), Some(summary.into()));
    RunRow { outcome, summary, started_ms: ago(minutes).0, ..RunRow::default() }
}

fn held(scope: &str, reason: &str, since: Timestamp, minutes: u64) -> Option<String> {
    let (since, lasts) = (since.0, minutes * 60_000);
    Some(format!(
        r#"{{"holds":[{{"scope":{scope},"reason":"{reason}","why":"","since":{since},"duration_ms":{lasts}}}],
           "last_reduction":null,"guarded_since":null,"budget_exhausted":null}}"#
    ))
}

#[test]
fn a_quiet_shop_is_well_and_each_code_is_its_own() {
    let health = judged(HealthRows { jobs: jobs("balances", false), ..worked(false, true, None) });
    assert!(health.is_healthy() && health.findings.is_empty(), "{:?}", health.findings);
    assert_eq!(health.status_line(), "all is well");
    let codes: std::collections::BTreeSet<_> = FindingCode::ALL.iter().map(|code| code.as_str()).collect();
    assert_eq!(codes.len(), FindingCode::ALL.len());
    let missing = judged(HealthRows { missing_skus: 3, ..HealthRows::default() });
    assert!(missing.is_healthy(), "a SKU that is gone is no alarm");
    assert_eq!(missing.count_of(FindingCode::MissingSkus), 3);
}

#[test]
fn no_daemon_is_missed_at_once_but_for_a_shop_kept_from_cron() {
    let stale = HealthRows { jobs: jobs("balances", true), ..worked(true, true, Some(60)) };
    let cases: [(HealthRows, &[&str], &str); 7] = [
        (HealthRows::default(), &["no_daemon"], "has never run on this database"),
        (worked(false, true, None), &["no_daemon"], "ended in the middle of its work"),
        (worked(false, false, Some(1)), &["no_daemon"], "it ended in good order at"),
        (worked(true, true, Some(1)), &[], ""),
        (worked(true, false, Some(1)), &["no_daemon"], "did not complete every job"),
        (worked(true, true, None), &["no_daemon"], "ended in the middle of its work"),
        (stale, &["stale", "no_daemon"], ""),
    ];
    for (rows, codes, words) in cases {
        assert_eq!(judged(rows.clone()).count_of(FindingCode::NoDaemon), 0, "one works: {rows:?}");
        check_alarms(&judge_rows(rows, &[], &inputs(DaemonState::NotRunning)), codes, &[words]);
    }
    let replaced = judge_rows(worked(false, true, None), &[], &inputs(DaemonState::OtherFile));
    check_alarms(&replaced, &["database_replaced"], &[]);
}

#[test]
fn a_change_is_late_two_minutes_beyond_its_time_and_says_why() {
    for (minutes, late) in [(1, 0), (2, 0), (3, 4)] {
        let health = judged(waiting(None, 4, minutes));
        assert_eq!(health.count_of(FindingCode::Waiting), late, "{minutes} min");
        assert_eq!(health.oldest_pending, Some(ago(minutes)));
    }
    let reasons = [
        (None, "no push has claimed them"),
        (Some("quarantined"), "is quarantined"),
        (Some("behind_in_doubt"), "in doubt"),
        (Some("behind_held"), "is held"),
        (Some("awaits_other"), "awaits other"),
        (Some("not_sent"), "not sent"),
        (Some("of another version"), "of another version"),
    ];
    for (why, words) in reasons {
        check_alarms(&judged(waiting(why, 1, 9)), &["waiting"], &[words, "`oldest` for 9 min"]);
    }
}

/// A refused key delays every job and every change: one finding, with the key and its file, and the rest below it.
#[test]
fn a_refused_key_is_one_finding_with_its_file_and_its_consequences_below_it() {
    let refused = |message: &str| ExchangeRow {
        message: Some(message.into()),
        ..call("GET /api/Company/WorkQueue", "refused", Some(403), 30)
    };
    let health = |message: &str| {
        let pushes = [0, 1, 3].map(|minutes| ended_run("failed", "why", minutes)).to_vec();
        let jobs = [jobs("balances", true), jobs("warehouses", true)].concat();
        judged(HealthRows {
            is_refused: true,
            calls: vec![refused(message)],
            pushes,
            jobs,
            ..waiting(None, 1, 9)
        })
    };
    let (gateway, both) = ("the gateway key from /k/gateway-key", "or the gateway key from /k/gateway-key");
    for (message, words) in [
        ("Access denied: the Gateway subscription key is not valid.", gateway),
        ("The key does not belong to a company.", "the integration key from /k/integration-key (`The key"),
        ("Forbidden", both),
    ] {
        let health = health(message);
        check_alarms(&health, &["key_refused"], &[words, message, "sudo systemctl restart tallyd"]);
        let below: Vec<_> = health.findings[0].consequences.iter().map(|found| found.code.as_str()).collect();
        assert_eq!(below, ["push_fails", "stale", "stale", "waiting"]);
        let restarts = health.all_findings().filter(|found| format!("{found:?}").contains("restart")).count();
        assert_eq!(restarts, 1, "one says what to do");
        assert_eq!(health.count_of(FindingCode::Stale), 2, "metrics count them all");
    }
}

/// Each cause stands once, with what it delays below it.
#[test]
fn a_cause_stands_once_with_its_consequences_below_it() {
    let late = || HealthRows { jobs: jobs("balances", true), ..waiting(None, 4, 60) };
    let silent: Vec<ExchangeRow> =
        [1, 20, 40].iter().map(|age| call(UPDATE, "not_sent", None, *age)).collect();
    let hold = held(r#""account""#, "rate", NOW, 10);
    let cases: [(HealthRows, DaemonState, &str); 4] = [
        (HealthRows { calls: silent, ..late() }, DaemonState::Running, "unreachable"),
        (HealthRows { disk_low: Some("full".into()), ..late() }, DaemonState::Running, "disk_low"),
        (
            HealthRows { limiter_state: hold, ..HealthRows { waiting: vec![], ..late() } },
            DaemonState::Running,
            "quota_hold",
        ),
        (
            HealthRows { last_session: worked(false, false, None).last_session, ..late() },
            DaemonState::NotRunning,
            "no_daemon",
        ),
    ];
    for (rows, daemon, cause) in cases {
        let health = judge_rows(rows, &[], &inputs(daemon));
        check_alarms(&health, &[cause], &[]);
        assert!(
            health.findings[0].consequences.iter().any(|found| found.code == FindingCode::Stale),
            "{cause}"
        );
    }
}

#[test]
fn a_change_in_sending_for_longer_than_a_call_can_take_is_a_finding() {
    let stuck = HealthRows { pauses: vec![pause("push", 9)], ..waiting(Some("sending"), 2, 1) };
    let health = judged(stuck);
    check_alarms(&health, &["waiting"], &["2 changes (quantity.set)", "`oldest` for 60 s", "not recorded"]);
}

#[test]
fn a_host_that_stood_by_is_missed_and_on_itself_no_daemon_runs() {
    for (host, words) in [("a", "does not run here, on a"), ("b", "does not run on b")] {
        let away = vec![(host.to_owned(), ago(3).0)];
        let health = judged(HealthRows { away, ..worked(false, true, None) });
        check_alarms(&health, &["standby_away"], &[words, "sudo systemctl start"]);
    }
}

#[test]
fn keys_of_another_account_are_the_cause_that_no_daemon_runs() {
    let rows = HealthRows { is_other_account: true, ..worked(false, false, Some(1)) };
    let health = judge_rows(rows, &[], &inputs(DaemonState::NotRunning));
    check_alarms(&health, &["other_account"], &["are of another account"]);
    assert_eq!(health.count_of(FindingCode::NoDaemon), 1, "below its cause");
}

/// A short hold and one call without an answer are told to somebody who waits, not by `status`.
#[test]
fn somebody_who_waits_is_told_at_once() {
    let silent = vec![call(UPDATE, "not_sent", None, 1)];
    let hold = held(r#""account""#, "rate", NOW, 1);
    for (rows, code) in [
        (HealthRows { calls: silent, ..HealthRows::default() }, "unreachable"),
        (HealthRows { limiter_state: hold, ..HealthRows::default() }, "quota_hold"),
    ] {
        check_alarms(&judged(rows.clone()), &[], &[]);
        let inputs = HealthInputs { at_once: true, ..inputs(DaemonState::Running) };
        check_alarms(&judge_rows(rows, &[], &inputs), &[code], &[]);
    }
}

#[test]
fn without_a_tracked_sku_the_first_step_is_named() {
    let health = judged(HealthRows { tracks_nothing: true, ..worked(false, true, None) });
    assert!(health.is_healthy());
    check_alarms(&health, &[], &["no SKU is tracked", "tallyd sku import FILE"]);
}

/// A hold that just ended counts too, because the calls that waited for it now go one after the other.
#[test]
fn a_hold_gives_time_to_those_that_wait_for_it() {
    for (minutes, late) in [(70, 0), (59, 0), (50, 1)] {
        let limiter_state = held(r#""account""#, "rate", ago(60), minutes);
        let health = judged(HealthRows { limiter_state, ..waiting(None, 1, 60) });
        assert_eq!(health.count_of(FindingCode::Waiting), late, "{minutes} min");
    }
}

#[test]
fn a_backlog_that_moves_is_in_time_and_one_that_stands_is_not() {
    let late = |changes: i64, last_write: u64, minutes: u64| {
        let writes = accepted(UPDATE, last_write);
        judged(HealthRows { writes, ..waiting(None, changes, minutes) }).count_of(FindingCode::Waiting)
    };
    assert_eq!(late(40_000, 5, 30), 0, "it takes half an hour of the quota");
    assert_eq!(late(40_000, 400, 30), 40_000, "nothing was written for minutes");
    assert_eq!(late(40_000, 5, 90), 40_000, "it should be through");
    assert_eq!(late(1, 5, 9), 1, "others go, this one does not");
}

#[test]
fn from_cron_a_change_is_late_once_a_run_left_it_behind() {
    for (found, late) in [(None, 0), (Some(ago(50).0), 1)] {
        let mut rows = HealthRows { waiting: waiting(None, 1, 60).waiting, ..worked(true, true, Some(40)) };
        rows.waiting[0].first_session_ms = found;
        let health = judge_rows(rows, &[], &inputs(DaemonState::NotRunning));
        assert_eq!(health.count_of(FindingCode::Waiting), late, "{:?}", health.findings);
        let alarms = if late == 0 { &[][..] } else { &["no_daemon"] };
        check_alarms(&health, alarms, &["1 change waits for the next `tallyd run --once`"]);
    }
}

#[test]
fn a_service_that_answers_nothing_is_named_with_the_time_it_began() {
    let silent =
        |ages: &[u64]| ages.iter().map(|age| call(UPDATE, "not_sent", None, *age)).collect::<Vec<_>>();
    let failed = vec![call(UPDATE, "transient", Some(500), 30)];
    for calls in [silent(&[1, 2]), silent(&[1, 2, 3, 4]), [silent(&[1, 20]), failed, silent(&[40])].concat()]
    {
        check_alarms(&judged(HealthRows { calls, ..HealthRows::default() }), &[], &[]);
    }
    let health = judged(HealthRows { calls: silent(&[1, 20, 40]), ..HealthRows::default() });
    check_alarms(&health, &["unreachable"], &["its words"]);
    assert_eq!(health.findings[0].since, Some(seconds_ago(40)));
}

#[test]
fn calls_that_all_fail_are_named_and_waiting_as_told_is_no_failure() {
    let cases: [(&str, &[&str]); 4] =
        [("transient", &["calls_fail"]), ("throttled", &[]), ("refused", &[]), ("accepted", &[])];
    for (verdict, codes) in cases {
        let calls = (0..12).map(|n| call("GET /x", verdict, Some(500), n * 20)).collect();
        check_alarms(&judged(HealthRows { calls, ..HealthRows::default() }), codes, &[]);
    }
}

#[test]
fn pushes_that_fail_again_and_again_are_named_while_something_waits_for_them() {
    let failing = || (0..3).map(|n| call(UPDATE, "rejected", Some(404), n * 70)).collect::<Vec<_>>();
    let health_after = |newest: Vec<ExchangeRow>, rows: HealthRows| {
        judged(HealthRows { writes: [newest, failing()].concat(), ..rows })
    };
    let waits = || waiting(Some("not_sent"), 5, 2);
    check_alarms(&health_after(vec![], waits()), &["push_fails"], &["404, its words", UPDATE]);
    check_alarms(&health_after(vec![], HealthRows::default()), &[], &[]); // no change waits for it
    check_alarms(&health_after(accepted(SHIP, 1), waits()), &["push_fails"], &[]); // stock does not go
    check_alarms(&health_after(accepted(UPDATE, 1), waits()), &[], &[]);

    let pushes = [0, 1, 3].map(|minutes| ended_run("failed", "why", minutes)).to_vec();
    let health = judged(HealthRows { pushes, ..waits() });
    check_alarms(&health, &["push_fails"], &["the last: why"]); // it breaks off before it sends
}

#[test]
fn a_copy_is_too_old_after_two_days_or_its_own_gap() {
    let hours_ago = |hours: u64| ago(hours * 60).0;
    let cases = [
        (Some(47), 900, 24, "stale"),      // the other rule
        (Some(49), 900, 24, "backup_old"), // reported once
        (None, 49, 24, "backup_old"),
        (Some(8 * 24), 900, 7 * 24, "backup_old"),
        (Some(7 * 24 + 6), 900, 7 * 24, "stale"), // a weekly copy is in time
    ];
    for (last_good, since, gap_h, code) in cases {
        let mut jobs = jobs("backup", true);
        jobs[0].last_good_at = last_good.map(|hours| Timestamp(hours_ago(hours)).to_rfc3339());
        jobs[0].since_ms = hours_ago(since);
        jobs[0].interval_ms = Some(gap_h * 3_600_000);
        let rows = HealthRows { jobs, ..HealthRows::default() };
        check_alarms(&judged(rows), &[code], &[]);
    }
}

#[test]
fn a_pruning_that_the_clock_keeps_from_its_work_is_told_with_the_command_to_run() {
    let unpruned = Some(ended_run("partial", "by 40 h", 9));
    let health = judged(HealthRows { unpruned, jobs: jobs("prune", true), ..worked(false, true, None) });
    check_alarms(&health, &["not_pruned"], &["clock jumped", "by 40 h"]);
    assert!(health.status_line().ends_with("then: tallyd job run prune"), "{}", health.status_line());
}

#[test]
fn what_needs_a_person_is_named() {
    let quarantined = |n: i64| QuarantineRow {
        operation: UPDATE.into(),
        subject: format!("SKU-{n}"),
        since_ms: ago(9).0,
        tried_ms: ago(1).0,
        failures: 2,
        why: "no\nsuch".into(),
    };
    let rejected = RejectedRow {
        changes: 3,
        key: "r".into(),
        reason: Some("bad_body".into()),
        detail: Some("no SKU".into()),
        since_ms: ago(5).0,
    };
    let health = judged(HealthRows {
        changes: vec![("held".into(), 2), ("in_doubt".into(), 1), ("pending".into(), 7)],
        rejected: Some(rejected),
        quarantined: (1..=5).map(quarantined).collect(),
        ..HealthRows::default()
    });
    check_alarms(&health, &["held", "in_doubt", "rejected", "quarantined"], &[]);
    let texts: Vec<&str> = health.findings.iter().map(|found| found.text.as_str()).collect();
    assert_eq!((texts[0], texts[1]), ("2 changes held", "1 change in doubt"));
    let newest = "3 changes rejected, the newest is `r` (bad_body: no SKU)";
    assert!(texts[2].contains(newest), "{texts:?}");
    let names = ["SKU-3 (", "and 2 more"];
    assert!(names.iter().all(|name| texts[3].contains(name)) && !texts[3].contains('\n'), "{texts:?}");
    assert_eq!(health.findings[3].subjects.len(), 5, "all of them for programs");
    assert!(health.status_line().ends_with("(and 3 more findings)"), "{}", health.status_line());
}

#[test]
fn a_long_hold_and_a_threshold_of_the_budget_are_told_as_ever() {
    let hold = held(r#""account""#, "bad_requests", NOW, 10);
    let rows = HealthRows { limiter_state: hold, ..HealthRows::default() };
    let health = judge_rows(rows, &[ago(1); 320], &inputs(DaemonState::Running));
    check_alarms(&health, &["quota_hold"], &["by mistake: tallyd quota lift"]);
    assert_eq!(health.count_of(FindingCode::BadRequests), 320, "below the wait that it brought");
}

#[test]
fn a_pause_is_shown_first_and_is_no_alarm_until_it_may_be_forgotten() {
    let failing = (0..3).map(|n| call(UPDATE, "rejected", Some(404), n * 70)).collect::<Vec<_>>();
    let rows = |minutes| HealthRows {
        pauses: vec![pause("push", minutes)],
        writes: failing.clone(),
        ..waiting(None, 4, 600)
    };
    let health = judged(rows(600));
    check_alarms(
        &health,
        &[],
        &["push is paused since", "stocktaking; 4 changes pending", "tallyd resume push"],
    );
    assert_eq!(health.findings[0].code, FindingCode::Paused);
    check_alarms(&judged(rows(24 * 60)), &["paused"], &[]);

    let stale = HealthRows { jobs: jobs("balances", true), ..worked(false, true, None) };
    check_alarms(&judged(stale.clone()), &["stale"], &[]);
    check_alarms(
        &judged(HealthRows { pauses: vec![pause("balances", 9)], ..stale }),
        &[],
        &["balances is paused"],
    );

    let resumed = |minutes| HealthRows { pushes_resumed: Some(ago(minutes)), ..waiting(None, 1, 600) };
    check_alarms(&judged(resumed(1)), &[], &["all is well"]);
    check_alarms(&judged(resumed(9)), &["waiting"], &[]);
}
