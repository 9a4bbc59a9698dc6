//! The metrics file for node_exporter's textfile collector (`[metrics] textfile`); docs/operations.md lists
//! the metrics.
//!
//! The file is written once a minute under another name and then renamed, because the collector may read at
//! any time. A file that is not renewed is itself the alarm that the daemon is down. The daemon opens no
//! port, which would need protection.

use crate::client::run_aside;
use crate::health::{FindingCode, HealthReport, METRICS_MAX_AGE};
use crate::journal::ExchangeOutcome;
use crate::limiter::QUOTA_WINDOW;
use crate::model::time::whole_millis;
use crate::model::{JobKind, Lane, Operation, Timestamp};
use crate::outbox::{ChangeKind, ChangeState};
use crate::store::{CallInterval, JobHealthRow, Store, StoreError};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Readable for all: the collector runs as another user, and the numbers are not secret.
const FILE_MODE: u32 = 0o644;
/// The label of kinds that only a program's mistake brings into the outbox.
const OTHER_KIND: &str = "other";

/// The calls of this daemon by operation and outcome. Counted from the journal, but since the start: `prune`
/// removes calls, so a count over the journal would fall.
pub(super) struct CallCounter {
    since: Timestamp,
    last_end: i64,
    calls: BTreeMap<(String, String), i64>,
}

impl CallCounter {
    pub(super) async fn start(store: &Store, session_id: i64, now: Timestamp) -> Result<Self, StoreError> {
        let last_end = store.last_answer_before(session_id).await?;
        Ok(Self { since: now, last_end, calls: BTreeMap::new() })
    }

    /// Counts the calls that ended since the last count.
    async fn count(&mut self, store: &Store) -> Result<(), StoreError> {
        for row in store.call_outcomes_after(self.last_end).await? {
            *self.calls.entry((row.operation, row.outcome)).or_default() += row.calls;
            self.last_end = self.last_end.max(row.last_end);
        }
        Ok(())
    }

    fn count_of(&self, operation: Operation, outcome: ExchangeOutcome) -> i64 {
        let name = (operation.as_str().to_owned(), outcome.as_str().to_owned());
        self.calls.get(&name).copied().unwrap_or(0)
    }
}

pub(super) async fn collect_metrics(
    store: &Store,
    limit: u32,
    health: &HealthReport,
    calls: &mut CallCounter,
    now: Timestamp,
) -> Result<String, StoreError> {
    calls.count(store).await?;
    let mut page = MetricsPage::begin(now, None);
    let standbys = i64::try_from(store.standbys().await?.len()).unwrap_or(i64::MAX);
    page.write_gauge("tallyd_standbys", "Hosts that stand by.", standbys);
    let takeover_ms = store.leader().await?.and_then(|leader| leader.takeover_ms);
    let help = "Duration of the last takeover; 0 if no other daemon led before.";
    page.write_gauge("tallyd_takeover_milliseconds", help, takeover_ms.unwrap_or(0));
    page.write_jobs(health);
    page.write_quota(&store.call_intervals(now, whole_millis(QUOTA_WINDOW), 1).await?, limit, health);
    page.write_calls(calls);
    page.write_outbox(health, now);
    let kinds: Vec<&str> = ChangeKind::ALL.iter().map(|kind| kind.as_str()).collect();
    page.write_final_changes(&store.outbox_final_counts(&kinds).await?);
    let conflicts = [
        ("count", store.outbox_open_conflicts().await?),
        ("not_shown", i64::try_from(health.rows.mismatches.len()).unwrap_or(i64::MAX)),
    ];
    let help = "Open conflicts: counts that need a decision, and written quantities that the platform does not show.";
    page.write_samples("tallyd_conflicts_open", help, "kind", conflicts);
    let help = "Units that others took within 24 h between our read and our write of their stock levels.";
    page.write_gauge("tallyd_units_at_risk", help, store.units_at_risk(now).await?.units);
    let codes = FindingCode::ALL.iter().map(|code| (code.as_str(), health.count_of(*code)));
    page.write_samples("tallyd_findings", "Findings of `tallyd status` by code.", "code", codes);
    page.write_mirror(store).await?;
    page.write_database(store, health).await?;
    Ok(page.0)
}

/// Returns the metrics of a host that stands by for a leader whose heartbeat has stood still for `silent`.
pub(super) fn standby_metrics(now: Timestamp, silent: Duration) -> String {
    MetricsPage::begin(now, Some(silent)).0
}

/// Returns true if the metrics file is older than a working daemon lets it become.
pub(crate) async fn is_old(file: Option<&Path>) -> bool {
    let Some(file) = file.map(Path::to_owned) else { return false };
    let written = run_aside("the metrics file", move || file.metadata()?.modified()).await;
    let is_new = |at: SystemTime| at.elapsed().unwrap_or_default() < METRICS_MAX_AGE;
    !written.is_ok_and(|written: io::Result<_>| written.is_ok_and(is_new))
}

pub(super) fn replace_file(file: &Path, page: &str) -> io::Result<()> {
    let mut name = file.as_os_str().to_owned();
    name.push(".new");
    // Never write to a file that a killed daemon left, nor through a link that another user placed there.
    if fs::symlink_metadata(&name).is_ok() {
        fs::remove_file(&name)?;
    }
    fs::File::create_new(&name)?.write_all(page.as_bytes())?;
    fs::set_permissions(&name, Permissions::from_mode(FILE_MODE))?;
    fs::rename(&name, file)
}

#[derive(Default)]
struct MetricsPage(String);

impl MetricsPage {
    /// Begins with the metrics of every host; `silent` is the silence of the leader that a standby sees.
    fn begin(now: Timestamp, silent: Option<Duration>) -> Self {
        let mut page = Self::default();
        let version = env!("CARGO_PKG_VERSION");
        page.write_samples("tallyd_info", "The running version.", "version", [(version, 1)]);
        page.write_gauge("tallyd_written_timestamp_seconds", "When this file was written.", now.0 / 1000);
        page.write_gauge(
            "tallyd_leading",
            "1 on the host that works, 0 on a standby.",
            silent.is_none().into(),
        );
        let help = "On a standby: time without a sign of life of the leader.";
        let silent_ms = silent.map_or(0, whole_millis);
        page.write_gauge("tallyd_leader_silent_milliseconds", help, silent_ms);
        page
    }

    fn write_jobs(&mut self, health: &HealthReport) {
        let jobs = &health.rows.jobs;
        let ages = jobs.iter().filter_map(|row| Some((row.job.as_str(), row.age_seconds?)));
        let help = "The age of a job's data; absent while it was never read.";
        self.write_samples("tallyd_job_age_seconds", help, "task", ages);
        let stale = jobs.iter().map(|row| (row.job.as_str(), i64::from(row.stale)));
        let help = "1 while a job's data is older than twice its interval.";
        self.write_samples("tallyd_job_stale", help, "task", stale);
        let push = JobKind::Push.as_str();
        let names = jobs.iter().map(|row| row.job.as_str()).filter(|job| *job != push).chain([push]);
        let paused = names.map(|job| (job, i64::from(health.is_paused(job))));
        self.write_samples(
            "tallyd_job_paused",
            "1 while an operator's pause of a job is in force.",
            "task",
            paused,
        );
    }

    /// Writes a sample for every state, also for 0, because a graph of an absent sample has no line.
    fn write_outbox(&mut self, health: &HealthReport, now: Timestamp) {
        let counts = &health.rows.changes;
        let count = |state: &ChangeState| {
            counts.iter().find(|(name, _)| name == state.as_str()).map_or(0, |(_, n)| *n)
        };
        let rows = ChangeState::ALL.iter().map(|state| (state.as_str(), count(state)));
        self.write_samples("tallyd_outbox_changes", "Changes by state.", "state", rows);
        let oldest = health.oldest_pending.map_or(0, |since| now.duration_since(since).as_secs());
        let oldest = i64::try_from(oldest).unwrap_or(i64::MAX);
        let help = "Age of the oldest pending change; 0 if none is pending.";
        self.write_gauge("tallyd_outbox_oldest_pending_seconds", help, oldest);
    }

    /// tallyd prunes no change, so the numbers only rise.
    fn write_final_changes(&mut self, counts: &[(String, String, i64)]) {
        let name = "tallyd_changes_total";
        self.write_head(
            name,
            "Changes in a final state by kind and outcome, since the database was made.",
            "counter",
        );
        let kinds = ChangeKind::ALL.iter().map(|kind| kind.as_str()).chain([OTHER_KIND]);
        for kind in kinds {
            for outcome in ChangeState::ALL.iter().filter(|state| state.is_final()) {
                let row = counts.iter().find(|(of, state, _)| of == kind && state == outcome.as_str());
                let count = row.map_or(0, |(.., changes)| *changes);
                self.write_line(format_args!("{name}{{kind=\"{kind}\",outcome=\"{outcome}\"}} {count}"));
            }
        }
    }

    fn write_calls(&mut self, calls: &CallCounter) {
        let help = "Start of the count of calls: the start of the daemon.";
        self.write_gauge("tallyd_start_time_seconds", help, calls.since.0 / 1000);
        let name = "tallyd_calls_total";
        self.write_head(name, "Calls of this daemon by operation and answer, since its start.", "counter");
        for operation in Operation::ALL {
            for answer in ExchangeOutcome::ALL {
                let count = calls.count_of(*operation, *answer);
                self.write_line(format_args!(
                    "{name}{{operation=\"{operation}\",answer=\"{answer}\"}} {count}"
                ));
            }
        }
    }

    fn write_quota(&mut self, used: &[CallInterval], limit: u32, health: &HealthReport) {
        let calls = |lane: &Lane| {
            let of_lane = used.iter().filter(|row| row.lane == lane.as_str());
            (lane.as_str(), of_lane.map(|row| row.calls).sum())
        };
        let lanes = Lane::ALL.iter().map(calls);
        self.write_samples("tallyd_calls_last_minute", "Calls of the last 60 s by lane.", "lane", lanes);
        let throttled = used.iter().map(|row| row.throttled).sum();
        self.write_gauge("tallyd_calls_throttled_last_minute", "Answers of 429 in the last 60 s.", throttled);
        self.write_gauge("tallyd_calls_limit", "Calls that tallyd may make in any 60 s.", limit.into());
        let help =
            "Part of the limit that may be used while other software uses the account, in thousandths.";
        self.write_gauge("tallyd_quota_share_permille", help, health.quota.share_permille.into());
        let budget = &health.bad_requests;
        let count = i64::try_from(budget.count).unwrap_or(i64::MAX);
        self.write_gauge("tallyd_bad_requests_last_day", "Answers of 400 in the last 24 h.", count);
        let lines = [("soft", budget.soft.into()), ("hard", budget.hard.into())];
        let help = "Answers of 400 at which bulk pushes stop (soft), and calls that had one (hard).";
        self.write_samples("tallyd_bad_requests_limit", help, "line", lines);
        let is_refused = i64::from(health.rows.is_refused);
        self.write_gauge("tallyd_key_refused", "1 while the platform refuses the key.", is_refused);
    }

    async fn write_mirror(&mut self, store: &Store) -> Result<(), StoreError> {
        let counts = store.mirror_counts().await?;
        for (name, help, value) in [
            ("tallyd_mirror_skus", "SKUs that the platform returned.", counts.skus),
            ("tallyd_mirror_stock_levels", "Stock levels of the mirror.", counts.stock_levels),
            (
                "tallyd_mirror_missing_skus",
                "Tracked SKUs that the platform does not return.",
                counts.missing_skus,
            ),
            ("tallyd_mirror_parked_records", "Parked records.", counts.parked),
            ("tallyd_orders_followed", "Tracked orders.", counts.orders),
        ] {
            self.write_gauge(name, help, value);
        }
        Ok(())
    }

    async fn write_database(&mut self, store: &Store, health: &HealthReport) -> Result<(), StoreError> {
        let used = store.database_bytes().await?.cast_signed();
        self.write_gauge("tallyd_database_bytes", "Size of the database.", used);
        let free = i64::try_from(store.free_disk_bytes()?).unwrap_or(i64::MAX);
        self.write_gauge("tallyd_disk_free_bytes", "Free space on the disk of `database.path`.", free);
        let backup = health.rows.jobs.iter().find(|row| row.job == JobKind::Backup.as_str());
        let last_backup = backup.and_then(JobHealthRow::last_good).map_or(0, |good| good.0);
        let help = "Time of the last good copy by the job `backup`; 0 if there is none.";
        self.write_gauge("tallyd_last_backup_timestamp_seconds", help, last_backup / 1000);
        Ok(())
    }

    fn write_gauge(&mut self, name: &str, help: &str, value: i64) {
        self.write_head(name, help, "gauge");
        self.write_line(format_args!("{name} {value}"));
    }

    /// Writes a metric with a sample for each value of a label. The values are constants that need no escaping.
    fn write_samples<'a>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        samples: impl IntoIterator<Item = (&'a str, i64)>,
    ) {
        self.write_head(name, help, "gauge");
        for (code, value) in samples {
            self.write_line(format_args!("{name}{{{label}=\"{code}\"}} {value}"));
        }
    }

    fn write_head(&mut self, name: &str, help: &str, kind: &str) {
        self.write_line(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}"));
    }

    fn write_line(&mut self, line: std::fmt::Arguments<'_>) {
        writeln!(self.0, "{line}").expect("text grows in memory, which cannot fail");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_replaced_at_once_and_readable_by_the_collector() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tallyd.prom");
        replace_file(&file, "a 1\n").unwrap();
        let first = fs::File::open(&file).unwrap();
        replace_file(&file, "a 2\n").unwrap();
        assert_eq!(io::read_to_string(first).unwrap(), "a 1\n", "a reader keeps the whole it began with");
        assert_eq!(fs::read_to_string(&file).unwrap(), "a 2\n");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, FILE_MODE);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left behind");
        assert!(replace_file(&folder.path().join("none/x.prom"), "").is_err());
        let other = folder.path().join("other");
        fs::write(&other, "kept").unwrap();
        std::os::unix::fs::symlink(&other, folder.path().join("tallyd.prom.new")).unwrap();
        replace_file(&file, "a 3\n").unwrap();
        assert_eq!(fs::read_to_string(&other).unwrap(), "kept", "a link is not written through");
        assert_eq!(fs::read_to_string(&file).unwrap(), "a 3\n");
    }

    #[test]
    fn a_metric_has_help_type_and_its_samples() {
        let mut page = MetricsPage::default();
        page.write_samples("m", "What it is.", "task", [("push", 3), ("prune", 0)]);
        page.write_gauge("n", "Another.", 4);
        let samples = "# HELP m What it is.\n# TYPE m gauge\nm{task=\"push\"} 3\nm{task=\"prune\"} 0\n";
        assert_eq!(page.0, format!("{samples}# HELP n Another.\n# TYPE n gauge\nn 4\n"));
    }
}
