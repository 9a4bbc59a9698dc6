//! Health: the findings for `tallyd status`, the metrics file, the log and systemd's status line.
//!
//! The rows come from the database and the rules are pure, so that a command beside the daemon and the daemon
//! itself agree. Orderly operation must never raise an alarm, because operators switch off an alarm that is
//! often false.

mod calls;
mod finding;
mod outbox;
#[cfg(test)]
mod tests;

pub use finding::{Code, Finding, Severity};
pub use {self::Daemon as DaemonState, self::told as told_hold};

use crate::limiter::{self, Kept, LedgerForecast, Standing, StandingHold, ledger_forecast};
use crate::model::{Moment, Timestamp, age};
use crate::store::{
    BackupRow, EndedRunRow, HealthRow, HealthRows, MismatchRow, QuarantineRow, Store, StoreError, WorkedRow,
};
use std::time::Duration;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Longest hold that is usual under a quota. A longer one is a finding.
const LONG_HOLD: Duration = Duration::from_secs(2 * 60);
/// Largest age of the last good backup. If the schedule leaves longer gaps, the limit is the gap plus
/// [`COPY_LATE`].
const COPY_MAX_AGE: Duration = Duration::from_secs(2 * 24 * 60 * 60);
const COPY_LATE: Duration = Duration::from_secs(12 * 60 * 60);
/// Most names in a sentence; the subjects contain all.
const NAMED: usize = 3;

/// State of the lock beside the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Daemon {
    /// Held by a process whose open database is the file at its path.
    Works,
    /// Held by a process whose open file was replaced or removed.
    Elsewhere,
    /// Not held.
    Gone,
}

/// Inputs of the rules beside the rows.
#[derive(Clone, Debug)]
pub struct Look {
    /// State of the lock.
    pub daemon: Daemon,
    /// The account's limits.
    pub limits: limiter::Settings,
    /// Boot id of the host, for the moments of the journal.
    pub boot_id: String,
    /// Calendar time.
    pub now: Timestamp,
    /// Time since boot.
    pub moment: Moment,
}

/// The findings, and the figures behind them.
#[derive(Clone, Debug)]
pub struct Health {
    /// The findings, causes before consequences.
    pub findings: Vec<Finding>,
    /// The rows read.
    pub rows: HealthRows,
    /// The holds in force and the adaptive limit.
    pub standing: Standing,
    /// The bad-request budget.
    pub ledger: LedgerForecast,
    /// Time since which the oldest pending change waits.
    pub oldest_pending: Option<Timestamp>,
}

impl Health {
    /// Returns true if no finding needs an operator.
    pub fn is_well(&self) -> bool {
        !self.findings.iter().any(Finding::needs_a_person)
    }

    /// Returns the state in one line.
    pub fn verdict(&self) -> String {
        let mut persons = self.findings.iter().filter(|finding| finding.needs_a_person());
        let Some(first) = persons.next() else { return "all is well".to_owned() };
        match persons.count() {
            0 => first.sentence(),
            more => format!("{} (and {more} more finding(s))", first.sentence()),
        }
    }

    /// Returns the sum of the counts of a code; 0 without a finding.
    pub fn count(&self, code: Code) -> i64 {
        self.findings.iter().filter(|finding| finding.code == code).map(|finding| finding.count).sum()
    }
}

/// Reads the rows and applies the rules.
///
/// # Errors
/// Fails if the database cannot be read.
pub async fn health(store: &Store, look: &Look) -> Result<Health, StoreError> {
    let rows = store.health_rows(look.now).await?;
    let bad = store.exchange_bad_requests(&look.boot_id, (look.now, look.moment), DAY).await?;
    let bad: Vec<Timestamp> = bad.into_iter().map(|(ago, _)| look.now.minus(ago)).collect();
    Ok(judge(rows, &bad, look))
}

/// Applies the rules. Pure.
fn judge(rows: HealthRows, bad_requests: &[Timestamp], look: &Look) -> Health {
    let kept = rows.limiter_memory.as_deref().and_then(|text| serde_json::from_str(text).ok());
    let kept: Kept = kept.unwrap_or_default();
    let standing = kept.standing(look.now);
    let ledger = ledger_forecast(bad_requests, &look.limits, look.now);
    let mut findings = Vec::new();
    findings.extend((look.daemon == Daemon::Elsewhere).then(replaced));
    findings.extend(key_refused(&rows));
    let gone = no_daemon(&rows, look.daemon);
    let is_by_cron = rows.worked.is_some_and(is_cron);
    findings.extend(gone.clone().filter(|_| !is_by_cron));
    findings.extend(calls::judge(&rows, look.now));
    findings.extend(holds(&standing, look.now));
    findings.extend(bad_request_lines(&standing, &ledger));
    let copies = rows.backup.and_then(|backup| old_copies(backup, look.now));
    let unpruned = rows.unpruned.as_ref().map(not_pruned);
    let is_said = |job: &str| match job {
        "backup" => copies.is_some(),
        "prune" => unpruned.is_some(),
        _ => false,
    };
    findings.extend(rows.jobs.iter().filter(|row| row.stale && !is_said(&row.job)).map(stale));
    findings.extend(copies);
    findings.extend(unpruned);
    // For a database worked by cron, the stale job is the better message, so it comes first.
    findings.extend(gone.filter(|_| is_by_cron));
    findings.extend(outbox::judge(&rows, &kept, look));
    findings.extend(unshown(&rows.mismatches));
    findings.extend(quarantined(&rows.quarantined));
    findings.extend(unreadable(&rows));
    findings.extend((rows.missing_skus > 0).then(|| missing(rows.missing_skus)));
    let oldest_pending = rows.waiting.iter().map(|row| Timestamp(row.since_ms)).min();
    Health { findings, rows, standing, ledger, oldest_pending }
}

/// Returns the finding for a daemon whose database is not the file at its path.
pub fn replaced() -> Finding {
    let text =
        "the database that tallyd has open is not the file at its path: the file was removed or replaced";
    let todo = "tallyd ends by itself and systemd starts it again; without systemd, restart it";
    Finding::new(Code::DatabaseReplaced, 1, text, todo)
}

fn key_refused(rows: &HealthRows) -> Option<Finding> {
    rows.is_refused.then(|| {
        let todo = "put the right one into its file; under the packaged unit, then: systemctl restart tallyd";
        Finding::new(Code::KeyRefused, 1, "the service refuses the key", todo)
    })
}

/// Returns true if `run --once` works on the database, for instance from cron, and its last run was good.
fn is_cron(worked: WorkedRow) -> bool {
    worked.is_once && worked.is_good && worked.ended_ms.is_some()
}

fn no_daemon(rows: &HealthRows, daemon: Daemon) -> Option<Finding> {
    let todo = "start it: systemctl start tallyd; the reason for its end: journalctl -u tallyd -n 50";
    let is_stale = rows.jobs.iter().any(|row| row.stale);
    let found = |text: String| Some(Finding::new(Code::NoDaemon, 1, text, todo));
    match rows.worked {
        _ if daemon != Daemon::Gone => None,
        None => found("tallyd does not run, and never worked on this database".to_owned()),
        Some(worked) if is_cron(worked) && !is_stale => None,
        Some(WorkedRow { started_ms, ended_ms: None, .. }) => found(format!(
            "tallyd does not run: the one that started at {} ended in the middle of its work",
            Timestamp(started_ms)
        )),
        Some(WorkedRow { ended_ms: Some(ended), is_once: true, is_good: false, .. }) => found(format!(
            "tallyd does not run, and the last `tallyd run --once`, which ended at {}, did not do all it set out to do",
            Timestamp(ended)
        )),
        Some(WorkedRow { ended_ms: Some(ended), .. }) => {
            found(format!("tallyd does not run; it ended in good order at {}", Timestamp(ended)))
        }
    }
    .map(|finding| {
        let since = rows.worked.and_then(|worked| worked.ended_ms).map(Timestamp);
        Finding { since, ..finding }
    })
}

fn holds(standing: &Standing, now: Timestamp) -> Vec<Finding> {
    let long = standing.holds.iter().filter(|hold| hold.until.since(now) > LONG_HOLD);
    let finding = |hold: &StandingHold| {
        let found = Finding::new(
            Code::QuotaHold,
            1,
            told(hold, now),
            "wait; if the service says that it ordered that by mistake: tallyd quota lift",
        );
        found.since(hold.since).about([hold.what.clone()])
    };
    long.map(finding).collect()
}

/// Returns a hold as text.
pub fn told(hold: &StandingHold, now: Timestamp) -> String {
    let left = i64::try_from(hold.until.since(now).as_secs()).unwrap_or(i64::MAX);
    format!("{} waits ({}) until {}, {} more", hold.what, hold.reason.as_str(), hold.until, age(left))
}

fn bad_request_lines(standing: &Standing, ledger: &LedgerForecast) -> Vec<Finding> {
    let full = standing.reads_only_until.map(|until| {
        let text =
            format!("the service throttled this account for bad requests: only reads go until {until}");
        Finding::new(Code::ReadsOnly, 1, text, "see tallyd job list")
    });
    let count = ledger.count;
    let over = |line: u32| count >= usize::try_from(line).unwrap_or(usize::MAX);
    let text = if over(ledger.hard) {
        let hard = ledger.hard;
        Some(format!("{count} answers of 400 in 24 h: every operation that had one stopped at {hard}"))
    } else if over(ledger.soft) {
        Some(format!("{count} answers of 400 in 24 h: bulk pushes stopped at {}", ledger.soft))
    } else {
        None
    };
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    let todo = "what causes them: tallyd job list --kind push";
    full.into_iter().chain(text.map(|text| Finding::new(Code::BadRequests, count, text, todo))).collect()
}

fn stale(row: &HealthRow) -> Finding {
    let how_old = row.age_seconds.map_or_else(|| "never read".into(), |s| format!("{} old", age(s)));
    let since = row.last_good_at.as_deref().and_then(Timestamp::parse);
    let todo = format!("see: tallyd job list --kind {}", row.job);
    let found = Finding::new(Code::Stale, 1, format!("{} is stale ({how_old})", row.job), todo);
    Finding { since, ..found.about([row.job.clone()]) }
}

fn old_copies(backup: BackupRow, now: Timestamp) -> Option<Finding> {
    let gap = Duration::from_millis(u64::try_from(backup.interval_ms).unwrap_or(0)) + COPY_LATE;
    let since = Timestamp(backup.last_good_ms.unwrap_or(backup.since_ms));
    if now.since(since) <= COPY_MAX_AGE.max(gap) {
        return None;
    }
    let old = age(i64::try_from(now.since(since).as_secs()).unwrap_or(i64::MAX));
    let text = match backup.last_good_ms {
        Some(_) => format!("the last good copy of the database is {old} old"),
        None => format!("no copy of the database was made since the job `backup` was enabled, {old} ago"),
    };
    let todo = "see: tallyd job list --kind backup; a copy now: tallyd job run backup";
    Some(Finding::new(Code::BackupOld, 1, text, todo).since(since))
}

fn not_pruned(run: &EndedRunRow) -> Finding {
    let text = format!(
        "the host's clock jumped, so nothing of the journal goes by its age and the database grows ({})",
        run.summary.as_deref().unwrap_or("prune did not say by how much")
    );
    let todo = "see that the clock is right now (timedatectl), then: tallyd job run prune";
    Finding::new(Code::NotPruned, 1, text, todo).since(Timestamp(run.started_ms))
}

fn unshown(rows: &[MismatchRow]) -> Option<Finding> {
    let MismatchRow { sku, warehouse_id, written, shown } = rows.first()?;
    let (all, shown) = (rows.len(), shown.map_or_else(|| "-".to_owned(), |shown| shown.to_string()));
    let text = format!(
        "{all} written quantities do not show at the service, {sku} in warehouse {warehouse_id} for one: {written} was \
         accepted, {shown} is shown"
    );
    let todo = "look there, then: tallyd quantity set";
    let found = Finding::new(Code::NotShown, i64::try_from(all).unwrap_or(i64::MAX), text, todo);
    Some(found.about(rows.iter().map(|row| row.sku.clone())))
}

fn quarantined(rows: &[QuarantineRow]) -> Option<Finding> {
    let since = rows.iter().map(|row| row.since_ms).min()?;
    let named = rows
        .iter()
        .map(|row| format!("{} ({}: {}; next try {})", row.subject, row.operation, row.why, row.next_try()));
    let text = format!(
        "{} entry(ies) fail alone and are tried by themselves: {}",
        rows.len(),
        few(named, rows.len())
    );
    let todo = "correct them at the service, then: tallyd quarantine retry ENTRY";
    let found = Finding::new(Code::Quarantined, i64::try_from(rows.len()).unwrap_or(i64::MAX), text, todo);
    Some(found.since(Timestamp(since)).about(rows.iter().map(|row| row.subject.clone())))
}

fn unreadable(rows: &HealthRows) -> Option<Finding> {
    let rows = &rows.unreadable;
    let since = rows.iter().map(|row| row.since_ms).min()?;
    let named = rows.iter().map(|row| format!("{} ({}: {})", row.subject, row.job, row.why));
    let text = format!(
        "{} record(s) could not be read at any poll since {}, so what is known of them is old: {}",
        rows.len(),
        Timestamp(since),
        few(named, rows.len())
    );
    let todo = "correct them at the service; what it sent: tallyd journal list";
    let found = Finding::new(Code::Unreadable, i64::try_from(rows.len()).unwrap_or(i64::MAX), text, todo);
    Some(found.since(Timestamp(since)).about(rows.iter().map(|row| row.subject.clone())))
}

fn missing(skus: i64) -> Finding {
    let text = format!("{skus} tracked SKU(s) are missing at the service");
    Finding::new(Code::MissingSkus, skus, text, "see: tallyd sku list").noted()
}

/// Returns the first names, and the number of the others.
fn few(named: impl Iterator<Item = String>, all: usize) -> String {
    let names: Vec<String> = named.take(NAMED).collect();
    let rest = all.saturating_sub(names.len());
    let more = if rest == 0 { String::new() } else { format!(", and {rest} more") };
    format!("{}{more}", names.join(", "))
}
