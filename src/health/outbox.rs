//! Health rules on the outbox: late changes with their reason, changes that need a decision, and rejected
//! changes.

use super::finding::{Finding, FindingCode};
use super::{DaemonState, HealthInputs, is_paused};
use crate::limiter::LimiterState;
use crate::model::{JobKind, Timestamp, counted, format_elapsed, in_words};
use crate::outbox::{Reason, quote_key};
use crate::store::{HealthRows, RejectedRow, WaitingRow};
use std::time::Duration;

/// Least wait of a late change, in addition to holds in force. A change is noticed at once and sent with the
/// next call, so a longer wait has another cause than its turn. A longer hold is not usual under a quota either.
pub(super) const LATE_AFTER: Duration = Duration::from_secs(120);
const CALLS_AHEAD: u64 = 6;
/// Calls of a backlog, in tenths for each change. 25 quantities share a write, and more share
/// a read. Every other change takes a preflight and a call of its own. Both figures are
/// doubled, for polls and earlier calls.
const TENTHS_QUANTITY: u64 = 2;
const TENTHS_OTHER: u64 = 40;

pub(super) fn judge_outbox(rows: &HealthRows, state: &LimiterState, inputs: &HealthInputs) -> Vec<Finding> {
    let queue = BacklogHealth::new(rows, state, inputs);
    // While the pushes are paused, every change waits, and the pause is the finding.
    let waiting =
        rows.waiting.iter().filter(|row| is_being_sent(row) || !is_paused(rows, JobKind::Push.as_str()));
    let mut findings: Vec<_> = waiting.filter_map(|row| queue.late_change(row)).collect();
    findings.extend(rows.restore.as_ref().map(unreleased_restore));
    findings.extend(state_findings(rows));
    findings.extend(rows.rejected.as_ref().map(rejected_changes));
    findings
}

struct BacklogHealth<'a> {
    rows: &'a HealthRows,
    limiter_state: &'a LimiterState,
    inputs: &'a HealthInputs,
    late_after: Duration,
    /// Time that the backlog may take while it moves.
    allowance: Duration,
    /// True if a write was accepted recently: the backlog moves.
    is_moving: bool,
}

impl<'a> BacklogHealth<'a> {
    fn new(rows: &'a HealthRows, limiter_state: &'a LimiterState, inputs: &'a HealthInputs) -> Self {
        let permille = u64::from(limiter_state.quota_status(inputs.now).share_permille.max(1));
        let rate = (u64::from(inputs.limits.own_limit()) * permille / 1000).max(1);
        let tenths = |row: &WaitingRow| {
            let each = if row.kind.starts_with("quantity.") { TENTHS_QUANTITY } else { TENTHS_OTHER };
            each.saturating_mul(u64::try_from(row.changes).unwrap_or(0))
        };
        let calls = rows.waiting.iter().map(tenths).fold(0, u64::saturating_add) / 10;
        let minutes = |calls: u64| Duration::from_millis(calls.saturating_mul(60_000) / rate);
        let late_after = LATE_AFTER + minutes(CALLS_AHEAD);
        let accepted = rows.writes.iter().find(|call| call.verdict.as_deref() == Some("accepted"));
        let is_moving =
            accepted.is_some_and(|call| inputs.now.duration_since(Timestamp(call.sent_ms)) <= late_after);
        Self { rows, limiter_state, inputs, late_after, allowance: late_after + minutes(calls), is_moving }
    }

    fn late_change(&self, row: &WaitingRow) -> Option<Finding> {
        // Without a daemon a change is late only if a session has found it waiting.
        if self.inputs.daemon == DaemonState::NotRunning && row.first_session_ms.is_none() {
            return None;
        }
        let since = Timestamp(row.since_ms);
        let found = row.first_session_ms.map(Timestamp);
        // No change was late before the end of the last pause.
        let froms = [Some(since), found, self.held_until(), self.rows.pushes_resumed];
        let from = froms.into_iter().flatten().max()?;
        let waited = self.inputs.now.duration_since(from);
        let is_in_time = waited <= self.late_after || (self.is_moving && waited <= self.allowance);
        if is_in_time && !is_being_sent(row) {
            return None;
        }
        let waits = format_elapsed(self.inputs.now.duration_since(since));
        let (why, todo) = self.wait_reason(row);
        let text = format!(
            "{} ({}) pending for too long, `{}` for {waits}: {why}",
            counted(row.changes, "change"),
            row.kind,
            row.key
        );
        let todo = format!("{todo}; the oldest: tallyd outbox show {}", quote_key(&row.key));
        let found = Finding::new(FindingCode::Waiting, row.changes, text, todo);
        Some(found.with_since(since).with_subjects([&*row.key]))
    }

    /// Returns the end of the last hold. The limiter's memory keeps a hold that has ended until the next is set.
    /// Changes that waited for it have their time from its end.
    fn held_until(&self) -> Option<Timestamp> {
        let holds = self.limiter_state.holds.iter();
        holds.filter_map(|hold| Some(hold.since.plus(Duration::from_millis(hold.duration_ms?)))).max()
    }

    fn wait_reason(&self, row: &WaitingRow) -> (String, String) {
        let reason = |why: &str, todo: &str| (why.to_owned(), todo.to_owned());
        if self.inputs.daemon != DaemonState::Running {
            return reason("no daemon runs on this database", "start it: sudo systemctl start tallyd");
        }
        match row.why.as_deref() {
            Some("sending") => reason(
                "they are being sent for longer than a call can take, so the outcome of a call was not recorded",
                "sudo systemctl restart tallyd, which checks them at the platform",
            ),
            Some("quarantined") => reason(
                "an entry of the changes is quarantined, because calls with it fail",
                "see: tallyd quarantine list",
            ),
            Some("behind_in_doubt") => reason(
                "another change of the same stock level is in doubt",
                "see: tallyd outbox list --state in_doubt",
            ),
            Some("behind_held") => reason(
                "another change of the same stock level is held",
                "see: tallyd outbox list --state held",
            ),
            Some(code) => {
                let todo = Reason::from_code(code).map(|reason| reason.advice_for(&row.key));
                let detail = row.detail.as_deref().unwrap_or(code);
                let todo = todo.unwrap_or_else(|| "see: tallyd job list --kind push".to_owned());
                (format!("{} ({detail})", in_words(code)), todo)
            }
            None => reason("no push has claimed them", "see: tallyd job list --kind push"),
        }
    }
}

fn is_being_sent(row: &WaitingRow) -> bool {
    row.why.as_deref() == Some("sending")
}

fn unreleased_restore((sign, at_ms): &(String, i64)) -> Finding {
    let text = format!(
        "{sign}; the changes in it, and new ones that may have been sent before, are held until a person releases them"
    );
    let todo = "let the programs insert again what was lost; release or cancel the changes in: tallyd outbox list \
                --state held; then end it: tallyd outbox release --all";
    Finding::new(FindingCode::Restored, 1, text, todo).with_since(Timestamp(*at_ms))
}

fn state_findings(rows: &HealthRows) -> Vec<Finding> {
    let states = [("held", FindingCode::Held, "held"), ("in_doubt", FindingCode::InDoubt, "in doubt")];
    let finding = |(state, code, text): (&str, FindingCode, &str)| {
        let (_, count) = rows.changes.iter().find(|(name, count)| name == state && *count > 0)?;
        let todo = format!("see: tallyd outbox list --state {state}");
        Some(Finding::new(code, *count, format!("{} {text}", counted(*count, "change")), todo))
    };
    states.into_iter().filter_map(finding).collect()
}

fn rejected_changes(row: &RejectedRow) -> Finding {
    let RejectedRow { changes, key, reason, detail, since_ms } = row;
    let (reason, detail) = (reason.as_deref().unwrap_or("-"), detail.as_deref().unwrap_or("-"));
    let text = format!("{} rejected, the newest is `{key}` ({reason}: {detail})", counted(changes, "change"));
    let todo = "see: tallyd outbox list --state rejected; then: tallyd outbox acknowledge KEY… or --all";
    let found = Finding::new(FindingCode::Rejected, *changes, text, todo);
    found.with_since(Timestamp(*since_ms)).with_subjects([&**key])
}
