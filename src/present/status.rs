//! The health of the account, with the figures behind it.

use super::call_budget::CallBudgetReport;
use super::daemon_state::{daemon_state, lock_state};
use super::listing::{ListColumns, columns, time_cell};
use super::{ViewError, time_text};
use crate::config::Config;
use crate::daemon;
use crate::health::{self, DaemonState, Finding, HealthReport};
use crate::model::{Clock, format_age};
use crate::store::{JobHealthRow, LeaderRow, MirrorCounts, PauseRow, SnapshotRow, Store, UnitsAtRisk};
use serde_json::{Map, Value, json};

/// The findings, and the figures that `status` prints beside them.
pub(crate) struct StatusReport {
    pub(crate) health: HealthReport,
    pub(crate) call_budget: CallBudgetReport,
    pub(crate) counts: MirrorCounts,
    pub(crate) units_at_risk: UnitsAtRisk,
    pub(crate) snapshot: Option<SnapshotRow>,
    /// State of the leader of a server's schema, and true if it lives; `None` for a file.
    pub(crate) leader: Option<(LeaderRow, bool)>,
    pub(crate) standbys: Vec<String>,
}

impl StatusReport {
    /// Reads the figures beside `health`.
    pub(crate) async fn load(
        config: &Config,
        clock: &dyn Clock,
        store: &Store,
        health: HealthReport,
    ) -> Result<Self, ViewError> {
        let lives = daemon_state(config, store).await? == DaemonState::Running;
        let leader = store.leader().await?.map(|leader| (leader, lives));
        let now = clock.now();
        Ok(Self {
            call_budget: CallBudgetReport::read(config, store, now).await?,
            counts: store.mirror_counts().await?,
            units_at_risk: store.units_at_risk(now).await?,
            snapshot: store.snapshot_last().await?,
            standbys: store.standbys().await?,
            leader,
            health,
        })
    }

    pub(crate) fn to_json(&self) -> Value {
        let HealthReport { findings, rows, .. } = &self.health;
        let changes: Map<String, Value> =
            rows.changes.iter().map(|(state, count)| (state.clone(), (*count).into())).collect();
        let journal = |snapshot: SnapshotRow| {
            json!({
                "snapshot_at": time_text(snapshot.taken_ms), "snapshot_position": snapshot.position,
                "pruned_to": snapshot.pruned_to, "pruned_by_size": snapshot.by_size,
            })
        };
        let pause = |pause: &PauseRow| {
            json!({"job": pause.job, "since": time_text(pause.since_ms), "until": pause.until_ms.map(time_text),
                   "why": pause.why})
        };
        let troubles = findings.iter().filter(|finding| finding.needs_operator()).map(Finding::full_text);
        json!({
            "well": self.health.is_healthy(), "troubles": troubles.collect::<Vec<_>>(), "findings": findings,
            "paused": rows.pauses.iter().map(pause).collect::<Vec<_>>(),
            "jobs": rows.jobs, "outbox": changes, "mirror": self.counts,
            "units_at_risk": self.units_at_risk,
            "journal": self.snapshot.map(journal), "budget": self.call_budget.to_json(&self.health),
            "leader": self.leader.as_ref().and_then(|(row, lives)| leader_json(row, *lives)), "standbys": self.standbys,
        })
    }
}

/// Reads the findings with all that this host shows. Fails on a database that was moved.
pub(crate) async fn load_health(
    config: &Config,
    clock: &dyn Clock,
    store: &Store,
) -> Result<HealthReport, ViewError> {
    let mut inputs = daemon::health_inputs(config, clock, lock_state(config)?);
    store.refuse_moved().await?;
    // Only a daemon on this host writes the file.
    let metrics = config.metrics_file.as_deref().filter(|_| inputs.daemon == DaemonState::Running);
    inputs.is_metrics_old = daemon::is_metrics_old(metrics).await;
    inputs.daemon = daemon_state(config, store).await?;
    Ok(health::check_health(store, &inputs).await?)
}

pub(crate) fn job_health_columns(row: &JobHealthRow) -> ListColumns {
    columns! {
        "job": row.job, "last successful run": time_cell(row.last_good_at.as_deref()),
        "age": row.age_seconds.map(format_age),
        "limit": row.interval_ms.map(|interval| format_age(2 * interval / 1000)),
        "next start": time_cell(row.next_due_at.as_deref()),
        "last outcome": row.last_outcome,
    }
}

fn leader_json(leader: &LeaderRow, lives: bool) -> Option<Value> {
    let session = leader.session_id?;
    Some(json!({
        "host": leader.host_name, "session": session, "since": leader.began_ms.map(time_text),
        "lives": lives, "silent_ms": leader.silent_ms, "takeover_ms": leader.takeover_ms,
    }))
}

/// Returns the findings that keep a change queued just now from being sent, the first cause first; none if it goes.
pub(crate) async fn find_obstacles(
    config: &Config,
    clock: &dyn Clock,
    store: &Store,
) -> Result<Vec<Finding>, ViewError> {
    let inputs = daemon::health_inputs(config, clock, daemon_state(config, store).await?);
    Ok(health::find_obstacles(store, inputs).await?)
}
