//! The health check that the daemon makes each minute and reports to the log, the metrics file and systemd.
//!
//! `health::health` makes the judgement; `tallyd status` prints the same. A finding is logged when it
//! appears, each hour while it lasts, and when it clears. Stale data is logged each minute, so that an alert
//! can rely on it.

use super::{boot_id, metrics, systemd};
use crate::exec::Context;
use crate::health::{Code, DaemonState, Finding, Health, Look, health};
use crate::limiter;
use crate::model::Moment;
use crate::store::StoreError;
use crate::telemetry::event;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// The interval after which a lasting finding is logged again.
const SAID_AGAIN: Duration = Duration::from_secs(60 * 60);

/// The health check's state.
pub(super) struct Checkup {
    /// The path of the metrics file.
    metrics: Option<PathBuf>,
    limits: limiter::Settings,
    /// The findings that are logged and open, each with the time it was last logged.
    said: BTreeMap<(Code, Vec<String>), Moment>,
    verdict: String,
}

impl Checkup {
    pub(super) fn new(metrics: Option<PathBuf>, limits: limiter::Settings) -> Self {
        Self { metrics, limits, said: BTreeMap::new(), verdict: "working".to_owned() }
    }

    /// Replaces the settings after a configuration reload.
    pub(super) fn reload(&mut self, metrics: Option<PathBuf>, limits: limiter::Settings) {
        (self.metrics, self.limits) = (metrics, limits);
    }

    /// Returns the last verdict, in one line.
    pub(super) fn verdict(&self) -> &str {
        &self.verdict
    }

    /// Writes the first metrics and logs nothing.
    ///
    /// Work that waited while no daemon ran gets its first minute before a finding is logged.
    pub(super) async fn begin(&self, context: &Context) -> Result<(), StoreError> {
        let (health, _) = self.judge(context).await?;
        self.write_metrics(context, &health).await
    }

    /// Judges the health and reports it to the log, systemd and the metrics file.
    pub(super) async fn look(&mut self, context: &Context) -> Result<(), StoreError> {
        let (health, now) = self.judge(context).await?;
        self.say(&health, now);
        let verdict = health.verdict();
        if verdict != self.verdict {
            systemd::status(&verdict);
            self.verdict = verdict;
        }
        self.write_metrics(context, &health).await
    }

    async fn judge(&self, context: &Context) -> Result<(Health, Moment), StoreError> {
        let look = Look {
            daemon: DaemonState::Works,
            limits: self.limits.clone(),
            boot_id: boot_id(&*context.clock),
            now: context.now(),
            moment: context.moment(),
        };
        Ok((health(&context.store, &look).await?, look.moment))
    }

    async fn write_metrics(&self, context: &Context, health: &Health) -> Result<(), StoreError> {
        let Some(file) = &self.metrics else { return Ok(()) };
        let page = metrics::collect(&context.store, self.limits.limit(), health, context.now()).await?;
        if let Err(error) = metrics::replace(file, &page) {
            tracing::warn!(
                event = event::DAEMON_WARNING,
                "the metrics file {} cannot be written: {error}; make its folder writable for tallyd \
                 (ReadWritePaths= in the unit) or empty `metrics.textfile`",
                file.display()
            );
        }
        Ok(())
    }

    fn say(&mut self, health: &Health, now: Moment) {
        let before = std::mem::take(&mut self.said);
        for finding in health.findings.iter().filter(|finding| finding.needs_a_person()) {
            if finding.code == Code::Stale {
                say_stale(health, finding);
                continue;
            }
            let name = name(finding);
            let last = before.get(&name).copied().filter(|last| now.since(*last) < SAID_AGAIN);
            if last.is_none() && !self.said.contains_key(&name) {
                say(finding, health);
            }
            self.said.insert(name, last.unwrap_or(now));
        }
        for (code, subjects) in before.keys().filter(|name| !self.said.contains_key(*name)) {
            let (code, subjects) = (code.as_str(), subjects.join(", "));
            tracing::info!(event = event::HEALTH_CLEARED, code, subjects, "over: {code} {subjects}");
        }
    }
}

/// Returns the identity of a finding for repeated logging.
///
/// The operation or account is part of the identity. Changes and records are not, because their number may
/// differ each minute.
fn name(finding: &Finding) -> (Code, Vec<String>) {
    let keeps = matches!(finding.code, Code::QuotaHold | Code::PushFails);
    (finding.code, if keeps { finding.subjects.clone() } else { Vec::new() })
}

fn say(finding: &Finding, health: &Health) {
    let all = health.findings.iter().filter(|other| name(other) == name(finding));
    let (code, count) = (finding.code.as_str(), all.map(|other| other.count).sum::<i64>());
    let (since, subjects) = (finding.since.map(|since| since.rfc3339()), finding.subjects.join(", "));
    tracing::warn!(event = event::HEALTH_FINDING, code, count, since, subjects, "{}", finding.sentence());
}

/// Logs each job whose data is stale by age, independent of the scheduler.
fn say_stale(health: &Health, finding: &Finding) {
    let stale = health.rows.jobs.iter().filter(|row| finding.subjects.contains(&row.job));
    for row in stale {
        let age = row.age_seconds.map_or_else(|| "never read".into(), |age| format!("{age} s old"));
        let outcome = row.last_outcome.as_deref().unwrap_or("not run yet");
        tracing::warn!(
            event = event::STALE,
            job = row.job,
            age_seconds = row.age_seconds,
            "the data of {} is {age}; its last run: {outcome}; see `tallyd job list --kind {}`",
            row.job,
            row.job
        );
    }
}

/// Fails and logs if the open database is no longer the file at its path.
///
/// Data written after that would be lost to the next start.
pub(super) fn in_place(context: &Context) -> Result<(), StoreError> {
    context.store.in_place().inspect_err(|error| {
        tracing::error!(event = event::DATABASE_REPLACED, "{error}");
    })
}
