//! Tests of the health rules, one by one, on possible rows.

use super::*;
use crate::store::{CallRow, EndedRunRow, OrphanTrackingRow, RejectedRow, WaitingRow};

const NOW: Timestamp = Timestamp(1_800_000_000_000);
const MINUTE: Duration = Duration::from_secs(60);
const UPDATE: &str = "POST /api/inventory/updateQuantityOnHand";

fn inputs(daemon: DaemonState) -> HealthInputs {
    HealthInputs {
        daemon,
        limits: limiter::LimiterSettings::default(),
        boot_id: "b".into(),
        now: NOW,
        moment: Moment(9),
    }
}

fn worked(is_once: bool, is_good: bool, ended: Option<u64>) -> HealthRows {
    let ended_ms = ended.map(|minutes| ago(minutes).0);
    let worked = LastSessionRow { started_ms: ago(90).0, ended_ms, is_once, is_good };
    HealthRows { last_session: Some(worked), ..HealthRows::default() }
}

fn ago(minutes: u64) -> Timestamp {
    NOW.minus(Duration::from_secs(minutes * 60))
}

fn judged(rows: HealthRows) -> HealthReport {
    judge_rows(rows, &[], &inputs(DaemonState::Running))
}

/// Returns the codes that need an operator, each once.
fn alarms(health: &HealthReport) -> Vec<&'static str> {
    let mut codes: Vec<_> = health
        .findings
        .iter()
        .filter(|found| found.needs_operator())
        .map(|found| found.code.as_str())
        .collect();
    codes.dedup();
    codes
}

fn job(name: &str, stale: bool) -> JobHealthRow {
    JobHealthRow {
        job: name.into(),
        last_good_at: None,
        age_seconds: Some(700),
        stale,
        next_due_at: None,
        last_outcome: None,
    }
}

fn waiting(kind: &str, why: Option<&str>, changes: i64, minutes: u64) -> WaitingRow {
    WaitingRow {
        kind: kind.into(),
        why: why.map(str::to_owned),
        changes,
        since_ms: ago(minutes).0,
        first_session_ms: None,
        key: "oldest".into(),
        detail: None,
    }
}

fn with_waiting(row: WaitingRow) -> HealthRows {
    HealthRows { waiting: vec![row], ..HealthRows::default() }
}

fn call(operation: &str, verdict: &str, status: Option<i64>, seconds_ago: u64) -> CallRow {
    CallRow {
        operation: operation.into(),
        verdict: verdict.into(),
        status,
        message: Some("its words".into()),
        sent_ms: NOW.minus(Duration::from_secs(seconds_ago)).0,
    }
}

#[test]
fn a_quiet_shop_is_well_and_each_code_is_its_own() {
    let health = judged(HealthRows { jobs: vec![job("balances", false)], ..worked(false, true, None) });
    assert!(health.is_healthy() && health.findings.is_empty(), "{:?}", health.findings);
    assert_eq!(health.status_line(), "all is well");
    let codes: std::collections::BTreeSet<_> = FindingCode::ALL.iter().map(|code| code.as_str()).collect();
    assert_eq!(codes.len(), FindingCode::ALL.len());
    let missing = judged(HealthRows { missing_skus: 3, ..HealthRows::default() });
    assert!(
        missing.is_healthy() && missing.count_of(FindingCode::MissingSkus) == 3,
        "a SKU that is gone is no alarm"
    );
}

#[test]
fn no_daemon_is_missed_at_once_but_for_a_shop_kept_from_cron() {
    let stale = |rows: HealthRows| HealthRows { jobs: vec![job("balances", true)], ..rows };
    let cases: [(HealthRows, &[&str], &str); 7] = [
        (HealthRows::default(), &["no_daemon"], "never worked on this database"),
        (worked(false, true, None), &["no_daemon"], "ended in the middle of its work"),
        (worked(false, false, Some(1)), &["no_daemon"], "it ended in good order at"),
        (worked(true, true, Some(1)), &[], ""),
        (worked(true, false, Some(1)), &["no_daemon"], "did not do all it set out to do"),
        (worked(true, true, None), &["no_daemon"], "ended in the middle of its work"),
        (stale(worked(true, true, Some(60))), &["stale", "no_daemon"], ""),
    ];
    for (rows, codes, words) in cases {
        assert!(
            judge_rows(rows.clone(), &[], &inputs(DaemonState::Running)).count_of(FindingCode::NoDaemon) == 0,
            "one works: {rows:?}"
        );
        let health = judge_rows(rows, &[], &inputs(DaemonState::NotRunning));
        assert_eq!(alarms(&health), codes);
        assert!(health.status_line().contains(words), "{}", health.status_line());
    }
    let health = judge_rows(worked(false, true, None), &[], &inputs(DaemonState::OtherFile));
    assert_eq!(alarms(&health), ["database_replaced"]);
}

#[test]
fn a_change_is_late_two_minutes_beyond_its_time_and_says_why() {
    for (minutes, is_late) in [(1, false), (2, false), (3, true)] {
        let rows = with_waiting(waiting("quantity.set", None, 4, minutes));
        let health = judged(rows);
        assert_eq!(health.count_of(FindingCode::Waiting), if is_late { 4 } else { 0 }, "{minutes} min");
        assert_eq!(health.oldest_pending, Some(ago(minutes)));
    }
    let reasons = [
        (None, "no push has taken them up"),
        (Some("quarantined"), "is quarantined"),
        (Some("behind_in_doubt"), "in doubt"),
        (Some("behind_held"), "is held"),
        (Some("operation_held"), "operation held"),
        (Some("awaits_shipment"), "awaits shipment"),
        (Some("not_sent"), "not sent"),
        (Some("of another version"), "of another version"),
    ];
    for (why, words) in reasons {
        let health = judged(with_waiting(waiting("quantity.set", why, 1, 9)));
        let text = &health.findings[0].text;
        assert!(text.contains(words) && text.contains("`oldest` for 9 min"), "{text}");
    }
    let refused = HealthRows { is_refused: true, ..with_waiting(waiting("quantity.set", None, 1, 9)) };
    let health = judged(refused);
    assert_eq!(alarms(&health), ["key_refused", "waiting"]);
    assert!(health.findings[1].text.contains("refuses the key"), "{:?}", health.findings);
}

/// A hold that just ended counts too, because the calls that waited for it now go one after the other.
#[test]
fn a_hold_gives_time_to_those_that_need_its_call() {
    let memory = |scope: &str, since: u64, minutes: u64| {
        let (since, lasts) = (ago(since).0, minutes * 60_000);
        format!(
            r#"{{"holds":[{{"scope":{scope},"reason":"rate","why":"","since":{since},"duration_ms":{lasts}}}],
               "last_reduction":null,"guarded_since":null,"budget_exhausted":null}}"#
        )
    };
    let account = r#""account""#;
    let shipments = r#"{"operation":"POST /api/Shipments/Create"}"#;
    let cases = [
        (memory(account, 60, 70), false),
        (memory(account, 60, 59), false),
        (memory(account, 60, 50), true),
        (memory(shipments, 60, 70), true),
    ];
    for (limiter_memory, is_late) in cases {
        let limiter_state = Some(limiter_memory.clone());
        let rows = HealthRows { limiter_state, ..with_waiting(waiting("quantity.set", None, 1, 60)) };
        assert_eq!(judged(rows).count_of(FindingCode::Waiting) == 1, is_late, "{limiter_memory}");
    }
}

#[test]
fn a_backlog_that_moves_is_in_time_and_one_that_stands_is_not() {
    let recount = |accepted: u64, minutes: u64| {
        let writes = vec![call(UPDATE, "accepted", Some(200), accepted)];
        judged(HealthRows { writes, ..with_waiting(waiting("quantity.set", None, 40_000, minutes)) })
    };
    assert_eq!(recount(5, 30).count_of(FindingCode::Waiting), 0, "it takes half an hour of the quota");
    assert_eq!(recount(400, 30).count_of(FindingCode::Waiting), 40_000, "nothing was written for minutes");
    assert_eq!(recount(5, 90).count_of(FindingCode::Waiting), 40_000, "it should be through");
    let writes = vec![call(UPDATE, "accepted", Some(200), 5)];
    let one = HealthRows { writes, ..with_waiting(waiting("quantity.set", None, 1, 9)) };
    assert_eq!(judged(one).count_of(FindingCode::Waiting), 1, "others go, this one does not");
}

#[test]
fn from_cron_a_change_is_late_once_a_run_left_it_behind() {
    for (found, is_late) in [(None, false), (Some(ago(50).0), true)] {
        let row = WaitingRow { first_session_ms: found, ..waiting("quantity.set", None, 1, 60) };
        let health = judge_rows(
            HealthRows { waiting: vec![row], ..worked(true, true, Some(40)) },
            &[],
            &inputs(DaemonState::NotRunning),
        );
        assert_eq!(alarms(&health).contains(&"waiting"), is_late, "{:?}", health.findings);
    }
}

#[test]
fn a_service_that_answers_nothing_is_named_with_the_time_it_began() {
    let silent =
        |ages: &[u64]| ages.iter().map(|age| call(UPDATE, "not_sent", None, *age)).collect::<Vec<_>>();
    let cases: [(Vec<CallRow>, bool); 4] = [
        (silent(&[1, 2]), false),
        (silent(&[1, 2, 3, 4]), false),
        (silent(&[1, 20, 40]), true),
        ([silent(&[1, 20]), vec![call(UPDATE, "transient", Some(500), 30)], silent(&[40])].concat(), false),
    ];
    for (calls, is_gone) in cases {
        let health = judged(HealthRows { calls: calls.clone(), ..HealthRows::default() });
        assert_eq!(alarms(&health) == ["unreachable"], is_gone, "{calls:?}: {:?}", health.findings);
        if is_gone {
            assert_eq!(health.findings[0].since, Some(NOW.minus(Duration::from_secs(40))));
            assert!(health.status_line().contains("its words"), "{}", health.status_line());
        }
    }
}

#[test]
fn calls_that_all_fail_are_named_and_waiting_as_told_is_no_failure() {
    let all = |verdict: &str| (0..12).map(|n| call("GET /x", verdict, Some(500), n * 20)).collect::<Vec<_>>();
    for (verdict, fails) in
        [("transient", true), ("throttled", false), ("refused", false), ("accepted", false)]
    {
        let health = judged(HealthRows { calls: all(verdict), ..HealthRows::default() });
        assert_eq!(alarms(&health) == ["calls_fail"], fails, "{verdict}: {:?}", health.findings);
    }
}

#[test]
fn pushes_that_fail_again_and_again_are_named_while_something_waits_for_them() {
    let failing = || (0..3).map(|n| call(UPDATE, "rejected", Some(404), n * 70)).collect::<Vec<_>>();
    let waits = || with_waiting(waiting("quantity.set", Some("not_sent"), 5, 2));
    let health = judged(HealthRows { writes: failing(), ..waits() });
    assert_eq!(alarms(&health), ["push_fails"]);
    assert!(
        health.status_line().contains("404, its words") && health.status_line().contains(UPDATE),
        "{}",
        health.status_line()
    );
    assert!(
        judged(HealthRows { writes: failing(), ..HealthRows::default() }).is_healthy(),
        "nobody waits for it"
    );
    let other = vec![call("POST /api/Shipments/Create", "accepted", Some(200), 1)];
    let health = judged(HealthRows { writes: [other, failing()].concat(), ..waits() });
    assert_eq!(alarms(&health), ["push_fails"], "shipments go, stock does not");
    let again = vec![call(UPDATE, "accepted", Some(200), 1)];
    let health = judged(HealthRows { writes: [again, failing()].concat(), ..waits() });
    assert!(health.is_healthy(), "{:?}", health.findings);

    let run =
        |n: u64| EndedRunRow { outcome: "failed".into(), summary: Some("why".into()), started_ms: ago(n).0 };
    let pushes = vec![run(0), run(1), run(3)];
    let health = judged(HealthRows { pushes, ..waits() });
    assert_eq!(alarms(&health), ["push_fails"], "it breaks off before it sends");
    assert!(health.status_line().contains("the last: why"), "{}", health.status_line());
}

#[test]
fn a_copy_is_too_old_after_two_days_or_its_own_gap() {
    const HOUR: u64 = 60;
    let backup = |last_good: Option<u64>, since: u64, gap_h: i64| {
        let backup = BackupRow {
            last_good_ms: last_good.map(|hours| ago(hours * HOUR).0),
            since_ms: ago(since * HOUR).0,
            interval_ms: gap_h * 3_600_000,
        };
        judged(HealthRows { backup: Some(backup), jobs: vec![job("backup", true)], ..HealthRows::default() })
    };
    let alarm = |health: &HealthReport| alarms(health).join(" ");
    assert_eq!(alarm(&backup(Some(47), 900, 24)), "stale", "the other rule");
    assert_eq!(alarm(&backup(Some(49), 900, 24)), "backup_old", "said once");
    assert_eq!(alarm(&backup(None, 49, 24)), "backup_old");
    assert_eq!(backup(Some(8 * 24), 900, 7 * 24).count_of(FindingCode::BackupOld), 1);
    assert_eq!(
        backup(Some(7 * 24 + 6), 900, 7 * 24).count_of(FindingCode::BackupOld),
        0,
        "a weekly copy is in time"
    );
}

#[test]
fn a_pruning_that_the_clock_keeps_from_its_work_is_told_with_the_command_to_run() {
    let run =
        EndedRunRow { outcome: "partial".into(), summary: Some("by 40 h".into()), started_ms: ago(9).0 };
    let rows =
        HealthRows { unpruned: Some(run), jobs: vec![job("prune", true)], ..worked(false, true, None) };
    let health = judged(rows);
    assert_eq!(alarms(&health), ["not_pruned"], "said once");
    let said = health.status_line();
    assert!(said.contains("clock jumped") && said.contains("by 40 h"), "{said}");
    assert!(said.ends_with("then: tallyd job run prune"), "{said}");
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
    let rows = HealthRows {
        changes: vec![("held".into(), 2), ("in_doubt".into(), 1), ("pending".into(), 7)],
        rejected: Some(RejectedRow {
            changes: 3,
            key: "r".into(),
            reason: Some("unknown_sku".into()),
            detail: Some("no SKU".into()),
            since_ms: ago(5).0,
        }),
        orphans: vec![OrphanTrackingRow { key: "t".into(), shipment_key: "s".into(), since_ms: ago(5).0 }],
        quarantined: (1..=5).map(quarantined).collect(),
        ..HealthRows::default()
    };
    let health = judged(rows);
    assert_eq!(alarms(&health), ["awaits_nobody", "held", "in_doubt", "rejected", "quarantined"]);
    let texts: Vec<&str> = health.findings.iter().map(|found| found.text.as_str()).collect();
    assert!(texts[0].contains("`t` names `s`"), "{texts:?}");
    assert_eq!((texts[1], texts[2]), ("2 change(s) are held", "1 change(s) are in doubt"));
    assert!(
        texts[3].contains("3 change(s) were rejected, the newest is `r` (unknown_sku: no SKU)"),
        "{texts:?}"
    );
    assert!(
        texts[4].contains("SKU-3 (") && texts[4].contains("and 2 more") && !texts[4].contains('\n'),
        "{texts:?}"
    );
    assert_eq!(health.findings[4].subjects.len(), 5, "all of them for programs");
    assert!(health.status_line().ends_with("(and 4 more finding(s))"), "{}", health.status_line());
}

#[test]
fn a_long_hold_and_a_threshold_of_the_budget_are_told_as_ever() {
    let hold = format!(
        r#"{{"holds":[{{"scope":"account","reason":"bad_requests","why":"","since":{},"duration_ms":600000}}],
           "last_reduction":null,"guarded_since":null,"budget_exhausted":null}}"#,
        NOW.0
    );
    let rows = HealthRows { limiter_state: Some(hold), ..HealthRows::default() };
    let health = judge_rows(rows, &[NOW.minus(MINUTE); 320], &inputs(DaemonState::Running));
    assert_eq!(alarms(&health), ["quota_hold", "bad_requests"]);
    assert!(
        health.findings[0].full_text().ends_with("by mistake: tallyd quota lift"),
        "{:?}",
        health.findings
    );
}
