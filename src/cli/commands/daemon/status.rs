//! `status`: the health of the daemon by `health::health`; exit 3 if a finding needs an operator.
//!
//! The findings come first, for `head` and for a person who reads from the top. The verdict is the last line, so that
//! a small terminal shows it although many findings scrolled away.

use super::call_budget::CallBudgetReport;
use crate::cli::context::CliContext;
use crate::cli::daemon_state::{leader_state, leads_elsewhere, lock_state};
use crate::cli::local_time::{local_sentence, local_text, local_time};
use crate::cli::output::{TextTable, cells, format_age, plain_line, time_text};
use crate::cli::{CommandFailure, CommandOutput, CommandResult, OutputArgs};
use crate::config::Config;
use crate::daemon;
use crate::health::{self, DaemonState, Finding, HealthInputs, HealthReport};
use crate::model::{Clock, Timestamp};
use crate::store::{JobHealthRow, LeaderRow, MirrorCounts, PauseRow, SnapshotRow, UnitsAtRisk};
use serde_json::{Map, Value, json};
use std::io::IsTerminal;

#[derive(Clone, Copy, Debug, clap::Args)]
pub(in crate::cli) struct StatusArgs {
    /// Show also the jobs, and the calls of the last hour by operation
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    output: OutputArgs,
}

struct StatusReport {
    health: HealthReport,
    call_budget: CallBudgetReport,
    counts: MirrorCounts,
    units_at_risk: UnitsAtRisk,
    snapshot: Option<SnapshotRow>,
    /// State of the leader of a server's schema, and true if it lives; `None` for a file.
    leader: Option<(LeaderRow, bool)>,
    /// Hosts that stand by.
    standbys: Vec<String>,
}

impl StatusReport {
    /// Reads all data; only the finding if a daemon works on a database that no longer exists at its path.
    async fn load(context: &CliContext) -> Result<Result<Self, Finding>, CommandFailure> {
        let config = context.config()?;
        let mut inputs = health_inputs(context, &config)?;
        let store = match context.open_store().await {
            Err(_)
                if inputs.daemon == DaemonState::OtherFile
                    && config.database.location()?.is_missing_file() =>
            {
                return Ok(Err(health::database_replaced()));
            }
            store => store?,
        };
        store.refuse_moved().await?;
        let leader = store.leader().await?;
        if let Some(leader) = &leader
            && leads_elsewhere(leader, &config)?
        {
            inputs.daemon = leader_state(leader);
        }
        let leader = leader.map(|leader| (leader, inputs.daemon == DaemonState::Running));
        let health = health::check_health(&store, &inputs).await?;
        Ok(Ok(Self {
            call_budget: CallBudgetReport::read(&config, &store, inputs.now).await?,
            counts: store.mirror_counts().await?,
            units_at_risk: store.units_at_risk(inputs.now).await?,
            snapshot: store.snapshot_last().await?,
            standbys: store.standbys().await?,
            leader,
            health,
        }))
    }

    fn to_text(&self, with_tables: bool) -> String {
        let sentences = self.health.shown_findings().map(Finding::full_text);
        let mut text: String =
            sentences.map(|text| format!("{}\n", plain_line(&local_sentence(text)))).collect();
        if self.health.is_healthy() {
            text.push_str(if text.is_empty() { "all is well\n" } else { "all else is well\n" });
        }
        let counts = &self.counts;
        text.push_str(&format!(
            "\nmirror  {} SKU(s), {} stock level(s), {} order(s) tracked; {} SKU(s) missing, {} record(s) parked\n",
            counts.skus, counts.stock_levels, counts.orders, counts.missing_skus, counts.parked
        ));
        text.push_str(&self.call_budget.summary_text(&self.health, std::io::stdout().is_terminal()));
        let states: Vec<String> =
            self.health.rows.changes.iter().map(|(state, count)| format!("{count} {state}")).collect();
        let states = if states.is_empty() { "empty".into() } else { states.join(", ") };
        text.push_str(&format!("outbox  {states}\n"));
        text.push_str(&self.units_at_risk_text());
        if let Some((leader, lives)) = &self.leader {
            text.push_str(&format!("leader  {}\n", plain_line(&self.leader_text(leader, *lives))));
        }
        if self.snapshot.is_some_and(|snapshot| snapshot.by_size) {
            text.push_str("journal bodies were removed before journal.keep_bodies, because journal.max_size is reached\n");
        }
        if with_tables {
            text.push_str(&self.tables_text());
        }
        if !self.health.is_healthy() {
            let count = self.health.findings.iter().filter(|finding| finding.needs_operator()).count();
            let tables = if with_tables { "" } else { "; jobs and calls: tallyd status --all" };
            text.push_str(&format!("\n{count} finding(s) need attention{tables}\n"));
        }
        text
    }

    /// Returns the line of the units at risk; empty if there were none.
    fn units_at_risk_text(&self) -> String {
        let UnitsAtRisk { units, affected, stock_levels } = &self.units_at_risk;
        let Some(most) = stock_levels.first() else { return String::new() };
        format!(
            "at risk {units} unit(s) of {affected} stock level(s) were taken by others within 24 h while changes waited; \
             most of {} in warehouse {}: {}\n",
            plain_line(&most.sku),
            most.warehouse_id,
            most.units
        )
    }

    fn leader_text(&self, leader: &LeaderRow, lives: bool) -> String {
        let (since, silent) =
            (leader.began_ms.map(|ms| local_time(Timestamp(ms))), format_age(leader.silent_ms / 1000));
        let mut text = match (&leader.host_name, leader.session_id, since) {
            (Some(host), Some(_), Some(since)) => format!("{host} since {since}"),
            (_, Some(_), _) => "a tallyd that starts".into(),
            _ => "none: no daemon works".into(),
        };
        if leader.session_id.is_some() && !lives {
            text.push_str(&format!(", silent for {silent}"));
        }
        if let Some(takeover_ms) = leader.takeover_ms.filter(|ms| *ms > 0) {
            text.push_str(&format!(
                "; it took over within {}.{} s",
                takeover_ms / 1000,
                takeover_ms % 1000 / 100
            ));
        }
        match self.standbys.is_empty() {
            true => text + "; no host stands by",
            false => text + "; standing by: " + &self.standbys.join(", "),
        }
    }

    fn tables_text(&self) -> String {
        let columns = |row: &JobHealthRow| {
            let JobHealthRow { job, last_good_at, age_seconds, next_due_at, last_outcome, .. } = row;
            let (last_good_at, next_due_at) =
                (last_good_at.as_ref().map(local_text), next_due_at.as_ref().map(local_text));
            cells![job, last_good_at, age_seconds.map(format_age), next_due_at, last_outcome]
        };
        let headings = ["job", "last successful run", "age", "next start", "last outcome"];
        let jobs = TextTable::new(headings, self.health.rows.jobs.iter().map(columns));
        let jobs = jobs.to_text("no job is enabled, or the daemon has never run");
        format!("\n{jobs}\n{}", self.call_budget.last_hour_table())
    }

    fn to_json(&self) -> Value {
        let HealthReport { findings, rows, .. } = &self.health;
        let changes: Map<String, Value> =
            rows.changes.iter().map(|(state, count)| (state.clone(), (*count).into())).collect();
        let journal = |snapshot: SnapshotRow| {
            json!({
                "snapshot_at": time_text(snapshot.taken_ms), "snapshot_position": snapshot.position,
                "pruned_to": snapshot.pruned_to, "pruned_by_size": snapshot.by_size,
            })
        };
        json!({
            "well": self.health.is_healthy(), "troubles": finding_sentences(findings), "findings": findings,
            "paused": rows.pauses.iter().map(pause_json).collect::<Vec<_>>(),
            "jobs": rows.jobs, "outbox": changes, "mirror": self.counts,
            "units_at_risk": self.units_at_risk,
            "journal": self.snapshot.map(journal), "budget": self.call_budget.to_json(&self.health),
            "leader": self.leader.as_ref().and_then(|(row, lives)| leader_json(row, *lives)), "standbys": self.standbys,
        })
    }
}

/// Returns the leader as JSON; `None` if nobody leads.
fn leader_json(leader: &LeaderRow, lives: bool) -> Option<Value> {
    let session = leader.session_id?;
    Some(json!({
        "host": leader.host_name, "session": session, "since": leader.began_ms.map(time_text),
        "lives": lives, "silent_ms": leader.silent_ms, "takeover_ms": leader.takeover_ms,
    }))
}

fn pause_json(pause: &PauseRow) -> Value {
    json!({
        "job": pause.job, "since": time_text(pause.since_ms), "until": pause.until_ms.map(time_text),
        "why": pause.why,
    })
}

/// Returns the findings that need an operator, each with the next step.
fn finding_sentences(findings: &[Finding]) -> Vec<String> {
    findings.iter().filter(|finding| finding.needs_operator()).map(Finding::full_text).collect()
}

/// Returns the inputs of the health check beside the database: the lock, the account's limits and the time.
fn health_inputs(context: &CliContext, config: &Config) -> Result<HealthInputs, CommandFailure> {
    let daemon = lock_state(config)?;
    let clock = context.clock();
    let (now, moment) = (clock.now(), clock.moment());
    Ok(HealthInputs { daemon, limits: config.limits.clone(), boot_id: daemon::boot_id(&clock), now, moment })
}

pub(in crate::cli) async fn status_command(
    context: &CliContext,
    StatusArgs { all, output }: StatusArgs,
) -> CommandResult {
    let (text, is_healthy) = match StatusReport::load(context).await? {
        Ok(status) => {
            let is_healthy = status.health.is_healthy();
            (output.render(|| status.to_json(), || status.to_text(all)), is_healthy)
        }
        Err(finding) => {
            let text = finding.full_text();
            let json = json!({"well": false, "troubles": [text], "findings": [finding]});
            (output.render(|| json, || text + "\n"), false)
        }
    };
    Ok(CommandOutput { text, exit_code: if is_healthy { 0 } else { 3 } })
}
