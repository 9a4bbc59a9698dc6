//! Health: the findings for `tallyd status`, the metrics file, the log and systemd's status line.
//!
//! The rows come from the database and the rules are pure, so that a command beside the daemon and the daemon
//! itself agree. Orderly operation must never raise an alarm, because operators switch off an alarm that is
//! often false.

mod calls;
mod cause;
mod finding;
mod outbox;
#[cfg(test)]
mod tests;

pub use finding::{Finding, FindingCode};

use crate::limiter::{self, BadRequestStatus, EndingHold, LimiterState, QUOTA_WINDOW, QuotaStatus};
use crate::model::time::{DAY, whole_millis};
use crate::model::{JobKind, Moment, Timestamp, counted, format_age, format_elapsed};
use crate::store::{
    HealthRows, JobHealthRow, LastSessionRow, MismatchRow, PauseRow, QuarantineRow, RunRow, Store, StoreError,
};
use std::path::PathBuf;
use std::time::Duration;

/// Largest age of the last good backup. If the schedule leaves longer gaps, the
/// limit is the gap plus [`BACKUP_GRACE`].
const BACKUP_MAX_AGE: Duration = Duration::from_hours(48);
const BACKUP_GRACE: Duration = Duration::from_hours(12);
const NAMES_MAX: usize = 3;
/// Free disk space below which no change is claimed (docs/rules.md 20). It suffices for the answers of all calls
/// in flight and for the log.
pub(crate) const FREE_FLOOR_BYTES: u64 = 32 * 1024 * 1024;
/// Time after a call's time-out in which its answer is committed.
const COMMIT_MAX: Duration = Duration::from_secs(30);
/// Largest age of the metrics file, which a daemon writes each minute.
pub(crate) const METRICS_MAX_AGE: Duration = Duration::from_mins(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DaemonState {
    /// Held by a process whose open database is the file at its path.
    Running,
    /// Held by a process whose open file was replaced or removed.
    OtherFile,
    NotRunning,
}

#[derive(Clone, Debug)]
pub struct HealthInputs {
    pub daemon: DaemonState,
    pub host: String,
    /// Sources of the integration key and of the gateway key: files, or variables of the environment.
    pub keys: [String; 2],
    pub metrics_file: Option<PathBuf>,
    /// True if a daemon of this host works and the metrics file is older than [`METRICS_MAX_AGE`].
    pub is_metrics_old: bool,
    /// True for somebody who waits: a hold and a call without an answer count before they last.
    pub at_once: bool,
    pub call_timeout: Duration,
    pub limits: limiter::LimiterSettings,
    pub boot_id: String,
    pub now: Timestamp,
    pub moment: Moment,
}

#[derive(Clone, Debug)]
pub struct HealthReport {
    pub findings: Vec<Finding>,
    pub rows: HealthRows,
    pub(crate) quota: QuotaStatus,
    pub(crate) bad_requests: BadRequestStatus,
    pub oldest_pending: Option<Timestamp>,
}

impl HealthReport {
    pub fn is_healthy(&self) -> bool {
        !self.findings.iter().any(Finding::needs_operator)
    }

    pub(crate) fn is_paused(&self, job: &str) -> bool {
        is_paused(&self.rows, job)
    }

    /// Returns the findings to show. Missing SKUs are counted elsewhere.
    pub(crate) fn shown_findings(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|found| found.code != FindingCode::MissingSkus)
    }

    pub fn all_findings(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().flat_map(|found| std::iter::once(found).chain(&found.consequences))
    }

    /// Returns the state in one line.
    pub fn status_line(&self) -> String {
        let mut for_operator = self.findings.iter().filter(|finding| finding.needs_operator());
        let Some(first) = for_operator.next() else {
            let note = self.shown_findings().next();
            return note.map_or_else(|| "all is well".to_owned(), Finding::full_text);
        };
        match for_operator.count() {
            0 => first.full_text(),
            more => format!("{} (and {})", first.full_text(), counted(more, "more finding")),
        }
    }

    pub fn count_of(&self, code: FindingCode) -> i64 {
        self.all_findings().filter(|finding| finding.code == code).map(|finding| finding.count).sum()
    }
}

pub async fn check_health(store: &Store, inputs: &HealthInputs) -> Result<HealthReport, StoreError> {
    let rows = store.health_rows(inputs.now, inputs.now.minus(inputs.call_timeout + COMMIT_MAX)).await?;
    let mut report = judge_store(store, rows, inputs).await?;
    let is_new =
        |session: LastSessionRow| inputs.now.duration_since(Timestamp(session.started_ms)) <= METRICS_MAX_AGE;
    let is_old = inputs.is_metrics_old && !report.rows.last_session.is_none_or(is_new);
    report.findings.extend(inputs.metrics_file.as_deref().filter(|_| is_old).map(|file| {
        let file = file.display();
        let text = format!("the metrics file {file} cannot be written: tallyd runs, and it has no new one");
        let todo =
            "make its folder writable for tallyd (ReadWritePaths= in the unit) or empty `metrics.textfile`";
        Finding::new(FindingCode::FileUnwritten, 1, text, todo)
    }));
    report.findings.extend(store.foreign_position_file().as_deref().map(|file| {
        let file = file.display();
        let text = format!(
            "{file} belongs to another user than the database, so a restored older copy may not be noticed"
        );
        Finding::new(FindingCode::FileUnwritten, 1, text, format!("sudo chown tallyd: {file}"))
    }));
    Ok(report)
}

/// Returns the findings that keep a change queued just now from being sent, or a call from being answered, causes first.
pub(crate) async fn find_obstacles(store: &Store, inputs: HealthInputs) -> Result<Vec<Finding>, StoreError> {
    let inputs = HealthInputs { at_once: true, ..inputs };
    let report = judge_store(store, store.obstacle_rows(inputs.now).await?, &inputs).await?;
    let calls = store.call_intervals(inputs.now, whole_millis(QUOTA_WINDOW), 1).await?;
    let used = quota_used(calls.iter().map(|count| count.calls).sum(), &report.quota, &inputs);
    let is_obstacle =
        |found: &Finding| found.code != FindingCode::Paused || found.subjects == [JobKind::Push.as_str()];
    Ok(report.findings.into_iter().filter(is_obstacle).chain(used).collect())
}

fn quota_used(calls: i64, quota: &QuotaStatus, inputs: &HealthInputs) -> Option<Finding> {
    let limit = i64::from(inputs.limits.own_limit()) * i64::from(quota.share_permille) / 1000;
    let text = format!("the quota is used up: {} in the last 60 s, {limit} allowed", counted(calls, "call"));
    let todo = "wait for at most a minute; what the calls are for: tallyd status --all";
    let found = Finding::new(FindingCode::QuotaHold, 1, text, todo).with_subjects(["the quota"]);
    (calls + i64::from(inputs.limits.reserved_calls) >= limit).then_some(found)
}

async fn judge_store(
    store: &Store,
    rows: HealthRows,
    inputs: &HealthInputs,
) -> Result<HealthReport, StoreError> {
    let bad = store.exchange_bad_requests(&inputs.boot_id, (inputs.now, inputs.moment), DAY).await?;
    let bad: Vec<Timestamp> = bad.into_iter().map(|(ago, _)| inputs.now.minus(ago)).collect();
    let disk_low = store.check_free_space(FREE_FLOOR_BYTES).err().map(|error| error.to_string());
    Ok(judge_rows(HealthRows { disk_low, ..rows }, &bad, inputs))
}

fn judge_rows(rows: HealthRows, bad_requests: &[Timestamp], inputs: &HealthInputs) -> HealthReport {
    let stored = rows.limiter_state.as_deref().and_then(|text| serde_json::from_str(text).ok());
    let limiter_state: LimiterState = stored.unwrap_or_default();
    let quota = limiter_state.quota_status(inputs.now);
    let budget = BadRequestStatus::new(bad_requests.len(), &inputs.limits);
    let mut findings: Vec<Finding> =
        rows.pauses.iter().map(|pause| paused_job(pause, &rows, inputs.now)).collect();
    findings.extend((inputs.daemon == DaemonState::OtherFile).then(database_replaced));
    findings.extend(rows.is_other_account.then(other_account));
    findings.extend(key_refused(&rows, &inputs.keys));
    let of_changes = outbox::judge_outbox(&rows, &limiter_state, inputs);
    let is_late = of_changes.iter().any(|found| found.code == FindingCode::Waiting);
    let no_daemon = no_daemon(&rows, inputs, is_late);
    // For a database worked by cron, the stale job is the better message, so it comes first.
    let is_by_cron = !is_late && rows.last_session.is_some_and(is_cron);
    findings.extend(no_daemon.clone().filter(|_| !is_by_cron));
    findings
        .extend(rows.away.iter().map(|(host, seen_ms)| away_host(host, Timestamp(*seen_ms), &inputs.host)));
    findings.extend(rows.disk_low.as_deref().map(disk_low));
    findings.extend(calls::judge_calls(&rows, inputs));
    let least = if inputs.at_once { Duration::ZERO } else { outbox::LATE_AFTER };
    findings.extend(holds_over(&quota, least, inputs.now));
    findings.extend(bad_request_lines(&quota, &budget));
    let backup = rows.jobs.iter().find(|row| row.job == "backup" && !is_paused(&rows, "backup"));
    let backup = backup.and_then(|row| old_backup(row, inputs.now));
    let unpruned = rows.unpruned.as_ref().map(not_pruned);
    let has_finding = |job: &str| match job {
        "backup" if backup.is_some() => true,
        "prune" if unpruned.is_some() => true,
        job => is_paused(&rows, job),
    };
    findings.extend(rows.jobs.iter().filter(|row| row.stale && !has_finding(&row.job)).map(stale_job));
    findings.extend(backup);
    findings.extend(unpruned);
    findings.extend(no_daemon.filter(|_| is_by_cron));
    findings.extend(of_changes);
    findings.extend(unshown_writes(&rows.mismatches));
    findings.extend(quarantined_entries(&rows.quarantined));
    findings.extend(unreadable_records(&rows));
    findings.extend((rows.missing_skus > 0).then(|| missing_skus(rows.missing_skus)));
    findings.extend(rows.tracks_nothing.then(nothing_tracked));
    let findings = cause::group_by_cause(findings);
    let oldest_pending = rows.waiting.iter().map(|row| Timestamp(row.since_ms)).min();
    HealthReport { findings, rows, quota, bad_requests: budget, oldest_pending }
}

fn is_paused(rows: &HealthRows, job: &str) -> bool {
    rows.pauses.iter().any(|pause| pause.job == job)
}

/// Returns the finding for a paused job. It needs an operator only if the pause may be forgotten.
fn paused_job(pause: &PauseRow, rows: &HealthRows, now: Timestamp) -> Finding {
    let since = Timestamp(pause.since_ms);
    let mut text = pause.to_text();
    if pause.job == JobKind::Push.as_str() {
        let waiting: i64 = rows.waiting.iter().map(|row| row.changes).sum();
        if waiting > 0 {
            text.push_str(&format!("; {} pending", counted(waiting, "change")));
        }
    }
    let found = Finding::new(FindingCode::Paused, 1, text, format!("to end it: tallyd resume {}", pause.job));
    // A pause is for hours and may be forgotten.
    found.with_since(since).with_subjects([&*pause.job]).note_if(now.duration_since(since) < DAY)
}

pub(crate) fn database_replaced() -> Finding {
    let text =
        "the database that tallyd has open is not the file at its path: the file was removed or replaced";
    let todo = "tallyd ends by itself and systemd starts it again; without systemd, restart it";
    Finding::new(FindingCode::DatabaseReplaced, 1, text, todo)
}

fn other_account() -> Finding {
    let text = "the keys or the address are of another account than the database, so nothing is sent";
    let todo = "write the right ones, then: sudo systemctl restart tallyd";
    Finding::new(FindingCode::OtherAccount, 1, text, todo)
}

/// Returns the finding for a refused key. The platform's message tells which key it means, as far as anything does.
fn key_refused(rows: &HealthRows, [integration, gateway]: &[String; 2]) -> Option<Finding> {
    let refused = rows.calls.iter().find(|call| call.verdict.as_deref() == Some("refused"));
    let message = refused.and_then(|call| call.message.as_deref());
    let key = match message.map(str::to_lowercase) {
        Some(message) if message.contains("gateway") => format!("the gateway key from {gateway}"),
        Some(message) if message.contains("company") => format!("the integration key from {integration}"),
        _ => format!("the integration key from {integration}, or the gateway key from {gateway}"),
    };
    let message = message.map_or_else(String::new, |message| format!(" (`{message}`)"));
    let text = format!("the platform refuses {key}{message}");
    let todo = "write the right key there, then: sudo systemctl restart tallyd";
    rows.is_refused.then(|| Finding::new(FindingCode::KeyRefused, 1, text, todo))
}

fn away_host(host: &str, seen: Timestamp, this_host: &str) -> Finding {
    let place = if host == this_host { "here, on" } else { "on" };
    let text = format!(
        "tallyd does not run {place} {host}, which stood by or led until {seen}: it takes nothing over"
    );
    let todo = "start it there: sudo systemctl start tallyd; a host that is gone for good is named for a day";
    Finding::new(FindingCode::StandbyAway, 1, text, todo).with_since(seen).with_subjects([host])
}

/// Returns true if `run --once` works on the database, for instance from cron, and its last run was good.
fn is_cron(session: LastSessionRow) -> bool {
    session.is_once && session.is_good && session.ended_ms.is_some()
}

/// Returns the finding for no daemon. Between two runs of `run --once` it is a note, as long as no change is late.
fn no_daemon(rows: &HealthRows, inputs: &HealthInputs, is_late: bool) -> Option<Finding> {
    let todo =
        "start it: sudo systemctl start tallyd; the reason for its end: sudo journalctl -u tallyd -n 50";
    let is_overdue = is_late || rows.jobs.iter().any(|row| row.stale);
    let waiting: i64 = rows.waiting.iter().map(|row| row.changes).sum();
    let since = rows.last_session.and_then(|session| session.ended_ms).map(Timestamp);
    let text = match (rows.last_session, since) {
        _ if inputs.daemon != DaemonState::NotRunning => return None,
        _ if inputs.at_once => {
            "no daemon runs: nothing is sent until one starts, or `tallyd run --once` runs".to_owned()
        }
        (None, _) => "tallyd does not run, and has never run on this database".to_owned(),
        (Some(session), _) if is_cron(session) && waiting == 0 && !is_overdue => return None,
        (Some(session), Some(ended)) if is_cron(session) && waiting > 0 => format!(
            "no daemon runs, and {} for the next `tallyd run --once`; the last one ended at {ended}",
            if waiting == 1 { "1 change waits".to_owned() } else { format!("{waiting} changes wait") }
        ),
        (Some(session), None) => format!(
            "tallyd does not run: the one that started at {} ended in the middle of its work",
            Timestamp(session.started_ms)
        ),
        (Some(LastSessionRow { is_once: true, is_good: false, .. }), Some(ended)) => format!(
            "tallyd does not run, and the last `tallyd run --once`, which ended at {ended}, did not complete every job"
        ),
        (Some(_), Some(ended)) => format!("tallyd does not run; it ended in good order at {ended}"),
    };
    let is_between_runs = rows.last_session.is_some_and(is_cron) && !is_overdue;
    Some(Finding::new(FindingCode::NoDaemon, 1, text, todo).with_since(since).note_if(is_between_runs))
}

fn holds_over(quota: &QuotaStatus, least: Duration, now: Timestamp) -> Vec<Finding> {
    let todo = "wait for its end; if the platform ordered it by mistake: tallyd quota lift";
    let finding = |hold: &EndingHold| {
        let found = Finding::new(FindingCode::QuotaHold, 1, hold_text(hold, now), todo);
        found.with_since(hold.since).with_subjects([&*hold.what])
    };
    quota.holds.iter().filter(|hold| hold.until.duration_since(now) > least).map(finding).collect()
}

pub(crate) fn hold_text(hold: &EndingHold, now: Timestamp) -> String {
    let left = format_elapsed(hold.until.duration_since(now));
    format!("{} waits ({}) until {}, {left} more", hold.what, hold.reason.as_str(), hold.until)
}

fn bad_request_lines(quota: &QuotaStatus, budget: &BadRequestStatus) -> Vec<Finding> {
    let full = quota.reads_only_until.map(|until| {
        let text = format!(
            "the platform throttled this account for bad requests: only reads are sent until {until}"
        );
        Finding::new(FindingCode::ReadsOnly, 1, text, "see: tallyd job list")
    });
    let count = budget.count;
    let over = |line: u32| count >= usize::try_from(line).unwrap_or(usize::MAX);
    let text = if over(budget.hard) {
        let hard = budget.hard;
        Some(format!("{count} answers of 400 in 24 h: every operation that had one stopped at {hard}"))
    } else if over(budget.soft) {
        Some(format!("{count} answers of 400 in 24 h: bulk pushes stopped at {}", budget.soft))
    } else {
        None
    };
    let todo = "their causes: tallyd job list --kind push";
    full.into_iter()
        .chain(text.map(|text| Finding::new(FindingCode::BadRequests, count, text, todo)))
        .collect()
}

fn stale_job(row: &JobHealthRow) -> Finding {
    let how_old = row.age_seconds.map_or_else(|| "never read".into(), |s| format!("{} old", format_age(s)));
    let since = row.last_good();
    let todo = format!("see: tallyd job list --kind {}", row.job);
    let found = Finding::new(FindingCode::Stale, 1, format!("{} is stale ({how_old})", row.job), todo);
    found.with_since(since).with_subjects([row.job.clone()])
}

fn old_backup(backup: &JobHealthRow, now: Timestamp) -> Option<Finding> {
    let gap =
        Duration::from_millis(u64::try_from(backup.interval_ms.unwrap_or(0)).unwrap_or(0)) + BACKUP_GRACE;
    let since = backup.last_good().unwrap_or(Timestamp(backup.since_ms));
    if now.duration_since(since) <= BACKUP_MAX_AGE.max(gap) {
        return None;
    }
    let old = format_elapsed(now.duration_since(since));
    let text = match backup.last_good() {
        Some(_) => format!("the last good copy of the database is {old} old"),
        None => format!("no copy of the database was made since the job `backup` was enabled, {old} ago"),
    };
    let todo = "see: tallyd job list --kind backup; a copy now: tallyd job run backup";
    Some(Finding::new(FindingCode::BackupOld, 1, text, todo).with_since(since))
}

fn disk_low(text: &str) -> Finding {
    let todo = "free space on that disk; work continues by itself";
    Finding::new(FindingCode::DiskLow, 1, text, todo)
}

fn not_pruned(run: &RunRow) -> Finding {
    let text = format!(
        "the host's clock jumped, so `prune` deletes nothing by age and the database grows ({})",
        run.summary.as_deref().unwrap_or("the size of the jump was not recorded")
    );
    let todo = "check the clock (timedatectl), then: tallyd job run prune";
    Finding::new(FindingCode::NotPruned, 1, text, todo).with_since(Timestamp(run.started_ms))
}

fn unshown_writes(rows: &[MismatchRow]) -> Option<Finding> {
    let MismatchRow { sku, warehouse_id, written, shown } = rows.first()?;
    let (all, shown) = (rows.len(), shown.map_or_else(|| "-".to_owned(), |shown| shown.to_string()));
    let text = format!(
        "the platform does not show {all} accepted quantities, such as {sku} in warehouse {warehouse_id}: {written} was \
         accepted, {shown} is shown"
    );
    let todo = "check them at the platform, then: tallyd quantity set";
    let found = Finding::new(FindingCode::NotShown, all, text, todo);
    Some(found.with_subjects(rows.iter().map(|row| row.sku.clone())))
}

fn quarantined_entries(rows: &[QuarantineRow]) -> Option<Finding> {
    let since = Timestamp(rows.iter().map(|row| row.since_ms).min()?);
    let reasons =
        rows.iter().map(|row| format!("{}: {}; next try {}", row.operation, row.why, row.next_try()));
    let what = format!(
        "{} in quarantine, because every call with such an entry fails",
        counted(rows.len(), "entry")
    );
    let todo = "correct them at the platform, then: tallyd quarantine retry ENTRY";
    let named = rows.iter().map(|row| row.subject.clone()).zip(reasons).collect();
    Some(named_entries(FindingCode::Quarantined, &what, named, todo).with_since(since))
}

fn unreadable_records(HealthRows { unreadable: rows, .. }: &HealthRows) -> Option<Finding> {
    let since = Timestamp(rows.iter().map(|row| row.since_ms).min()?);
    let what = format!(
        "{} unreadable at each poll since {since}, so what they show is old",
        counted(rows.len(), "record")
    );
    let todo = "correct them at the platform; its answers: tallyd journal show";
    let named = rows.iter().map(|row| (row.subject.clone(), format!("{}: {}", row.job, row.why))).collect();
    Some(named_entries(FindingCode::Unreadable, &what, named, todo).with_since(since))
}

/// Returns a finding about entries with a reason each, of which it names the first.
fn named_entries(code: FindingCode, what: &str, entries: Vec<(String, String)>, todo: &str) -> Finding {
    let all = entries.len();
    let names = entries.iter().take(NAMES_MAX).map(|(subject, why)| format!("{subject} ({why})"));
    let names = names.collect::<Vec<_>>().join(", ");
    let more = if all > NAMES_MAX { format!(", and {} more", all - NAMES_MAX) } else { String::new() };
    let found = Finding::new(code, all, format!("{what}: {names}{more}"), todo);
    found.with_subjects(entries.into_iter().map(|(subject, _)| subject))
}

fn missing_skus(skus: i64) -> Finding {
    let text = format!("{} missing at the platform", counted(skus, "tracked SKU"));
    Finding::new(FindingCode::MissingSkus, skus, text, "see: tallyd sku list --missing").note_if(true)
}

fn nothing_tracked() -> Finding {
    let text = "no SKU is tracked, so no stock is read from the platform";
    let todo = "track the SKUs: tallyd sku add SKU, or tallyd sku import FILE";
    Finding::new(FindingCode::NothingTracked, 1, text, todo).note_if(true)
}
