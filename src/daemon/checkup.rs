//! The look at its own health that the daemon takes each minute, and those it tells: the log, the metrics file and systemd.
//!
//! The judgement is `job::health`, the same that `tallyd status` prints. A finding is logged when it comes, each hour while
//! it lasts, and when it is over; data that is stale is said each minute, as an alert may count on.

use super::{boot_id, metrics, notify};
use crate::job::{Code, Context, DaemonState, Finding, Health, Look, health};
use crate::limiter;
use crate::model::Moment;
use crate::store::StoreError;
use crate::telemetry::event;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// A finding that lasts is said again after this time.
const SAID_AGAIN: Duration = Duration::from_secs(60 * 60);

/// The daemon's look at its own health.
pub(super) struct Checkup {
    /// The file the metrics go to.
    metrics: Option<PathBuf>,
    limits: limiter::Settings,
    /// The findings that were logged and last, and when that was.
    said: BTreeMap<(Code, Vec<String>), Moment>,
    verdict: String,
}

impl Checkup {
    pub(super) fn new(metrics: Option<PathBuf>, limits: limiter::Settings) -> Self {
        Self { metrics, limits, said: BTreeMap::new(), verdict: "working".to_owned() }
    }

    /// Takes what a changed configuration says.
    pub(super) fn reload(&mut self, metrics: Option<PathBuf>, limits: limiter::Settings) {
        (self.metrics, self.limits) = (metrics, limits);
    }

    /// The last verdict, in one line.
    pub(super) fn verdict(&self) -> &str {
        &self.verdict
    }

    /// Writes the first figures. Nothing is said yet: what lay still while no daemon worked has its first minute.
    pub(super) async fn begin(&self, context: &Context) -> Result<(), StoreError> {
        let (health, _) = self.judge(context).await?;
        self.write_metrics(context, &health).await
    }

    /// Judges, and tells everybody who listens.
    pub(super) async fn look(&mut self, context: &Context) -> Result<(), StoreError> {
        let (health, now) = self.judge(context).await?;
        self.say(&health, now);
        let verdict = health.verdict();
        if verdict != self.verdict {
            notify::status(&verdict);
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

/// A finding is the same as long as it is about the same operation or account; of wishes and records there may be more or
/// fewer the next minute.
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

/// By the age of the data, whatever the scheduler thinks.
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

/// Fails where the open database is not the file at its path any more, and says so: nothing that is written from then on
/// would be found again.
pub(super) fn in_place(context: &Context) -> Result<(), StoreError> {
    context.store.in_place().inspect_err(|error| {
        tracing::error!(event = event::DATABASE_REPLACED, "{error}");
    })
}
