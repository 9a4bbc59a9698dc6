//! Health rules on the last calls: the platform can be reached, and pushes succeed.

use super::finding::{Finding, FindingCode};
use super::outbox::LATE_AFTER;
use super::{HealthInputs, is_paused};
use crate::model::{JobKind, Timestamp, counted, format_elapsed};
use crate::store::{ExchangeRow, HealthRows};
use std::collections::BTreeMap;
use std::time::Duration;

/// Calls in a row without an answer, and their least time span, because single calls
/// may be lost on any network.
const UNANSWERED_CALLS: (usize, Duration) = (3, Duration::from_secs(30));
const UNACCEPTED_CALLS: (usize, Duration) = (10, Duration::from_secs(120));
const FAILING_PUSHES: (usize, Duration) = (3, Duration::from_secs(120));

pub(super) fn judge_calls(rows: &HealthRows, inputs: &HealthInputs) -> Vec<Finding> {
    let (now, least) = (inputs.now, if inputs.at_once { (1, Duration::ZERO) } else { UNANSWERED_CALLS });
    if let Some(found) = platform_unreachable(&rows.calls, least, now) {
        return vec![found];
    }
    calls_fail(&rows.calls, now).into_iter().chain(failing_pushes(rows, now)).collect()
}

/// Returns the newest calls, or runs, up to a good one: their number, the newest, and the time of the oldest.
/// `None` if they are too few or span too little time.
fn failing_streak<'a, T>(
    failed: impl Iterator<Item = &'a T>,
    start_ms: impl Fn(&T) -> i64,
    (least, spanning): (usize, Duration),
    now: Timestamp,
) -> Option<(usize, &'a T, Timestamp)> {
    let failed: Vec<&T> = failed.collect();
    let (newest, oldest) = (failed.first()?, failed.last()?);
    let since = Timestamp(start_ms(oldest));
    (failed.len() >= least && now.duration_since(since) >= spanning).then_some((failed.len(), *newest, since))
}

fn platform_unreachable(calls: &[ExchangeRow], least: (usize, Duration), now: Timestamp) -> Option<Finding> {
    let unanswered = calls.iter().take_while(|call| call.status.is_none());
    let (count, newest, since) = failing_streak(unanswered, |call| call.sent_ms, least, now)?;
    let text = format!(
        "the platform cannot be reached: {} without an answer since {since} ({})",
        counted(count, "call"),
        call_message(newest)
    );
    let todo = "check the network, `service.base_url`, and `service.proxy` and `service.ca_file` if they are set: tallyd \
                check --online";
    Some(Finding::new(FindingCode::Unreachable, count, text, todo).with_since(since))
}

fn calls_fail(calls: &[ExchangeRow], now: Timestamp) -> Option<Finding> {
    let failed = counted_calls(calls).take_while(|call| !is_accepted(call));
    let (count, newest, since) = failing_streak(failed, |call| call.sent_ms, UNACCEPTED_CALLS, now)?;
    let text = format!(
        "every call fails: none of the last {count} calls, since {since}, was accepted; the last ({}): {}",
        newest.operation,
        call_message(newest)
    );
    let todo = "ask the platform; see: tallyd job list";
    Some(Finding::new(FindingCode::CallsFail, count, text, todo).with_since(since))
}

/// Returns the calls that count. A throttled call is no failure, and a refused key is a finding of its own.
fn counted_calls(calls: &[ExchangeRow]) -> impl Iterator<Item = &ExchangeRow> {
    calls.iter().filter(|call| !matches!(call.verdict.as_deref(), Some("throttled" | "refused")))
}

fn is_accepted(call: &ExchangeRow) -> bool {
    call.verdict.as_deref() == Some("accepted")
}

fn failing_pushes(rows: &HealthRows, now: Timestamp) -> Vec<Finding> {
    if is_paused(rows, JobKind::Push.as_str()) {
        return Vec::new();
    }
    let in_doubt = rows.changes.iter().any(|(state, count)| state == "in_doubt" && *count > 0);
    let waits = rows.waiting.iter().any(|row| now.duration_since(Timestamp(row.since_ms)) >= LATE_AFTER);
    if !(in_doubt || waits) {
        return Vec::new();
    }
    let mut by_operation: BTreeMap<&str, Vec<&ExchangeRow>> = BTreeMap::new();
    for call in counted_calls(&rows.writes) {
        by_operation.entry(&call.operation).or_default().push(call);
    }
    let failing = by_operation.values().filter_map(|calls| {
        let failed = calls.iter().copied().take_while(|call| !is_accepted(call));
        failing_streak(failed, |call| call.sent_ms, FAILING_PUSHES, now)
    });
    let found: Vec<Finding> = failing
        .map(|(count, newest, since)| {
            let text = format!(
                "the pushes fail: the last {count} calls of {}, since {since}, were refused or lost; the platform: {}",
                newest.operation,
                call_message(newest)
            );
            push_fails(count, text, since).with_subjects([newest.operation.clone()])
        })
        .collect();
    if found.is_empty() { failing_runs(rows, now).into_iter().collect() } else { found }
}

fn failing_runs(rows: &HealthRows, now: Timestamp) -> Option<Finding> {
    let failed = rows.pushes.iter().take_while(|run| matches!(run.outcome.as_str(), "failed" | "partial"));
    let (count, newest, since) = failing_streak(failed, |run| run.started_ms, FAILING_PUSHES, now)?;
    if rows.writes.iter().any(|call| is_accepted(call) && call.sent_ms >= since.0) {
        return None;
    }
    let text = format!(
        "the pushes fail: the last {count} runs, for {}, sent nothing; the last: {}",
        format_elapsed(now.duration_since(since)),
        newest.summary.as_deref().unwrap_or("no reason was recorded")
    );
    Some(push_fails(count, text, since))
}

fn push_fails(count: usize, text: String, since: Timestamp) -> Finding {
    Finding::new(FindingCode::PushFails, count, text, "see: tallyd job list --kind push").with_since(since)
}

fn call_message(call: &ExchangeRow) -> String {
    match (&call.message, call.status) {
        (Some(message), Some(status)) if !message.contains(&status.to_string()) => {
            format!("{status}, {message}")
        }
        (Some(message), _) => message.clone(),
        (None, Some(status)) => format!("answered {status}"),
        (None, None) => "no answer".to_owned(),
    }
}
