//! The health check that the daemon makes each minute and reports to the log, the metrics file and systemd.
//!
//! `health::check_health` makes the judgement; `tallyd status` prints the same. A finding is logged when it
//! appears, each hour while it lasts, and when it clears. Stale data is logged each minute, so that an alert
//! can rely on it.

use super::metrics::CallCounter;
use super::notifiers::Notifiers;
use super::{metrics, settings, systemd};
use crate::client::run_aside;
use crate::config::Config;
use crate::exec::JobContext;
use crate::health::{DaemonState, Finding, FindingCode, HealthInputs, HealthReport, check_health};
use crate::journal::RunOutcome;
use crate::model::time::whole_millis;
use crate::model::{Clock, Moment, Timestamp, counted};
use crate::store::StoreError;
use crate::telemetry::event;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

const LOG_INTERVAL: Duration = Duration::from_secs(60 * 60);

pub(super) struct HealthMonitor {
    /// Inputs of the judgement; the times are those of the start or reload.
    inputs: HealthInputs,
    started: Timestamp,
    /// The count of calls for the metrics; `None` before the first page.
    calls: Option<CallCounter>,
    /// The findings that are logged and open, each with the time it was last logged.
    logged: BTreeMap<(FindingCode, Vec<String>), Moment>,
    pub(super) summary: String,
    pub(super) notifiers: Notifiers,
    hour: HourSummary,
}

/// Runs since the last summary in the log.
#[derive(Default)]
struct HourSummary {
    since: Option<Moment>,
    runs: u64,
    failed: u64,
}

impl HealthMonitor {
    pub(super) fn new(config: &Config, clock: &dyn Clock, started: Timestamp) -> Self {
        let inputs = settings::health_inputs(config, clock, DaemonState::Running);
        let (logged, summary, notifiers) = (BTreeMap::new(), "working".to_owned(), Notifiers::new(config));
        Self { inputs, started, calls: None, logged, summary, notifiers, hour: HourSummary::default() }
    }

    pub(super) fn reload(&mut self, config: &Config, clock: &dyn Clock) {
        self.inputs = settings::health_inputs(config, clock, DaemonState::Running);
        self.notifiers.reload(config);
    }

    /// Writes the first metrics and logs nothing. Work that waited while no daemon ran gets its first
    /// minute before a finding is logged.
    pub(super) async fn write_first_metrics(&mut self, context: &JobContext) -> Result<(), StoreError> {
        let (health, _) = self.judge_health(context).await?;
        self.write_metrics(context, &health).await
    }

    pub(super) async fn check_health(&mut self, context: &JobContext) -> Result<(), StoreError> {
        let (health, now) = self.judge_health(context).await?;
        self.log_findings(&health, now);
        self.log_hour(context, &health, now).await?;
        let line = health.status_line();
        if line != self.summary {
            systemd::notify_status(&line);
            self.summary = line;
        }
        self.notifiers.collect(context, &health).await?;
        context.store.note_standbys().await?;
        self.write_metrics(context, &health).await
    }

    /// Collects and delivers notices, for a process that runs each job once.
    pub(super) async fn tell_once(&mut self, context: &JobContext) -> Result<(), StoreError> {
        if !self.notifiers.is_empty() {
            let (health, _) = self.judge_health(context).await?;
            self.notifiers.collect(context, &health).await?;
        }
        match self.notifiers.start_delivery(context) {
            Some(delivery) => delivery.await,
            None => Ok(()),
        }
    }

    async fn judge_health(&self, context: &JobContext) -> Result<(HealthReport, Moment), StoreError> {
        let is_metrics_old = metrics::is_old(self.inputs.metrics_file.as_deref()).await;
        let (now, moment) = (context.now(), context.moment());
        let inputs = HealthInputs { is_metrics_old, now, moment, ..self.inputs.clone() };
        Ok((check_health(&context.store, &inputs).await?, inputs.moment))
    }

    async fn write_metrics(&mut self, context: &JobContext, health: &HealthReport) -> Result<(), StoreError> {
        let Some(file) = &self.inputs.metrics_file else { return Ok(()) };
        let (store, limit, now) = (&context.store, self.inputs.limits.own_limit(), context.now());
        let calls = match &mut self.calls {
            Some(calls) => calls,
            none => none.insert(CallCounter::start(store, context.session_id, self.started).await?),
        };
        let page = metrics::collect_metrics(store, limit, health, calls, now).await?;
        replace_metrics(file, page).await;
        Ok(())
    }

    /// Counts a run for the summary of the hour.
    pub(super) fn count_run(&mut self, outcome: RunOutcome) {
        self.hour.runs += 1;
        self.hour.failed += u64::from(matches!(outcome, RunOutcome::Failed | RunOutcome::Partial));
    }

    /// Logs the summary of the hour once it has passed: with runs that changed nothing left out,
    /// it shows that the daemon works.
    async fn log_hour(
        &mut self,
        context: &JobContext,
        health: &HealthReport,
        now: Moment,
    ) -> Result<(), StoreError> {
        let since = *self.hour.since.get_or_insert(now);
        if now.duration_since(since) < LOG_INTERVAL {
            return Ok(());
        }
        let counts = context.store.call_intervals(context.now(), whole_millis(LOG_INTERVAL), 1).await?;
        let calls: i64 = counts.iter().map(|count| count.calls).sum();
        let throttled: i64 = counts.iter().map(|count| count.throttled).sum();
        let HourSummary { runs, failed, .. } = std::mem::take(&mut self.hour);
        self.hour.since = Some(now);
        let of = |wanted: &str| {
            let count = health.rows.changes.iter().find(|(state, _)| state == wanted);
            count.map_or(0, |(_, count)| *count)
        };
        let (pending, held, in_doubt) = (of("pending"), of("held"), of("in_doubt"));
        tracing::info!(
            event = event::HOUR_PASSED,
            runs,
            failed,
            calls,
            throttled,
            pending,
            held,
            in_doubt,
            "the last hour: {}, {failed} failed or incomplete; {}, {throttled} answered 429; {} pending, {held} held, \
             {in_doubt} in doubt; {}",
            counted(runs, "run"),
            counted(calls, "call"),
            counted(pending, "change"),
            health.status_line()
        );
        Ok(())
    }

    fn log_findings(&mut self, health: &HealthReport, now: Moment) {
        let before = std::mem::take(&mut self.logged);
        for finding in health.all_findings().filter(|finding| finding.needs_operator()) {
            if finding.code == FindingCode::Stale {
                log_stale_jobs(health, finding);
                continue;
            }
            let name = finding.identity();
            // A consequence is in the line of its cause, and stays open if it was logged before.
            if !health.findings.contains(finding) && !before.contains_key(&name) {
                continue;
            }
            let last = before.get(&name).copied().filter(|last| now.duration_since(*last) < LOG_INTERVAL);
            if last.is_none() && !self.logged.contains_key(&name) {
                log_finding(finding, health);
            }
            self.logged.insert(name, last.unwrap_or(now));
        }
        for (code, subjects) in before.keys().filter(|name| !self.logged.contains_key(*name)) {
            let (code, subjects) = (code.as_str(), subjects.join(", "));
            tracing::info!(event = event::HEALTH_CLEARED, code, subjects, "the finding {code} has cleared");
        }
    }
}

/// Replaces the metrics file; a failure is logged.
pub(super) async fn replace_metrics(file: &Path, page: String) {
    let to = file.to_owned();
    let replaced = run_aside("the metrics file", move || metrics::replace_file(&to, &page)).await;
    if let Err(error) = replaced.and_then(|replaced| replaced.map_err(|error| error.to_string())) {
        tracing::warn!(
            event = event::DAEMON_WARNING,
            "the metrics file {} cannot be written: {error}; make its folder writable for tallyd \
             (ReadWritePaths= in the unit) or empty `metrics.textfile`",
            file.display()
        );
    }
}

fn log_finding(finding: &Finding, health: &HealthReport) {
    let equal = health.findings.iter().filter(|other| other.identity() == finding.identity());
    let (code, count) = (finding.code.as_str(), equal.map(|other| other.count).sum::<i64>());
    let (since, subjects) = (finding.since.map(|since| since.to_rfc3339()), finding.subjects.join(", "));
    tracing::warn!(event = event::HEALTH_FINDING, code, count, since, subjects, "{}", finding.full_text());
}

/// Logs each job whose data is stale by age, independent of the scheduler.
fn log_stale_jobs(health: &HealthReport, finding: &Finding) {
    for row in health.rows.jobs.iter().filter(|row| finding.subjects.contains(&row.job)) {
        let age = row.age_seconds.map_or_else(|| "never read".into(), |age| format!("{age} s old"));
        let (job, outcome) = (&row.job, row.last_outcome.as_deref().unwrap_or("not run yet"));
        tracing::warn!(
            event = event::STALE,
            job,
            age_seconds = row.age_seconds,
            "the data of {job} is {age}; its last run: {outcome}; see `tallyd job list --kind {job}`"
        );
    }
}

/// Fails and logs if the open database is no longer the file at its path. Data written after that would
/// be lost to the next start.
pub(super) fn check_database_file(context: &JobContext) -> Result<(), StoreError> {
    let in_place = context.store.check_in_place();
    in_place.inspect_err(|error| tracing::error!(event = event::DATABASE_REPLACED, "{error}"))
}
