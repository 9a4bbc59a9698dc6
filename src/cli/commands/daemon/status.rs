//! `status`: the health of the daemon by `health::health`; exit 3 if something needs a person.

use super::call_budget::CallBudgetReport;
use crate::cli::context::CliContext;
use crate::cli::output::{TextTable, format_age, or_dash, plain_line, pretty_json};
use crate::cli::{CommandFailure, CommandOutput, OutputArgs};
use crate::config::Config;
use crate::daemon;
use crate::health;
use crate::health::{DaemonState, Finding, HealthInputs, HealthReport};
use crate::model::{Clock, Timestamp};
use crate::store::{DatabaseLock, FileId, LockState, MirrorCounts, SnapshotRow};
use serde_json::json as value;
use std::io::IsTerminal;

/// The arguments of `status`.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(in crate::cli) struct StatusArgs {
    /// Show the jobs and the calls of the last hour also when all is well
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// The data of `status`.
struct StatusReport {
    health: HealthReport,
    call_budget: CallBudgetReport,
    counts: MirrorCounts,
    snapshot: Option<SnapshotRow>,
}

impl StatusReport {
    /// Reads all data; only the finding if a daemon works on a database that no longer exists at its path.
    async fn load(context: &CliContext) -> Result<Result<Self, Finding>, CommandFailure> {
        let config = context.config()?;
        let look = health_inputs(context, &config)?;
        let store = match context.open_store().await {
            Err(_) if look.daemon == DaemonState::OtherFile && !config.database.path.exists() => {
                return Ok(Err(health::database_replaced()));
            }
            store => store?,
        };
        let health = health::check_health(&store, &look).await?;
        Ok(Ok(Self {
            call_budget: CallBudgetReport::read(&config, &store, (&health, look.now)).await?,
            counts: store.mirror_counts().await?,
            snapshot: store.snapshot_last().await?,
            health,
        }))
    }

    fn to_text(&self, is_whole: bool) -> String {
        let troubles = finding_sentences(&self.health.findings);
        let mut text = match &troubles[..] {
            [] => "all is well\n".to_owned(),
            all => all.iter().map(|trouble| format!("{}\n", plain_line(trouble))).collect(),
        };
        let counts = &self.counts;
        text.push_str(&format!(
            "\nmirror  {} SKU(s), {} stock level(s), {} order(s) followed; {} SKU(s) missing, {} record(s) parked\n\
             ",
            counts.skus, counts.stock_levels, counts.orders, counts.missing_skus, counts.parked
        ));
        text.push_str(&self.call_budget.summary_text(std::io::stdout().is_terminal()));
        let states: Vec<String> =
            self.health.rows.changes.iter().map(|(state, count)| format!("{count} {state}")).collect();
        let states = if states.is_empty() { "empty".into() } else { states.join(", ") };
        text.push_str(&format!("outbox  {states}\n"));
        if self.snapshot.is_some_and(|snapshot| snapshot.by_size) {
            text.push_str("journal bodies went before their time: journal.max_size is reached\n");
        }
        if is_whole {
            text.push_str(&self.tables_text());
        }
        text
    }

    /// Returns the tables of jobs and of the calls in the last hour.
    fn tables_text(&self) -> String {
        let mut text = "\n".to_owned();
        let mut table = TextTable::new(&["job", "last good run", "age", "next due", "last outcome"]);
        for row in &self.health.rows.jobs {
            let levels = [
                row.job.clone(),
                or_dash(row.last_good_at.as_ref()),
                or_dash(row.age_seconds.map(format_age)),
                or_dash(row.next_due_at.as_ref()),
                or_dash(row.last_outcome.as_ref()),
            ];
            table.add_row(levels);
        }
        text.push_str(&table.to_text("no job is enabled, or the daemon never ran"));
        text.push('\n');
        text.push_str(&self.call_budget.last_hour_table());
        text
    }
}

fn journal_json(snapshot: SnapshotRow) -> serde_json::Value {
    value!({
        "snapshot_at": Timestamp(snapshot.taken_ms).to_rfc3339(), "snapshot_position": snapshot.position,
        "pruned_to": snapshot.pruned_to, "pruned_by_size": snapshot.by_size,
    })
}

/// Returns the findings that need a person, each with the next step.
fn finding_sentences(findings: &[Finding]) -> Vec<String> {
    findings.iter().filter(|finding| finding.needs_operator()).map(Finding::full_text).collect()
}

/// Returns the inputs of the health check beside the database: the lock, the account's limits and the time.
fn health_inputs(context: &CliContext, config: &Config) -> Result<HealthInputs, CommandFailure> {
    let path = &config.database.path;
    let at_path = FileId::from_path(path).ok().flatten().map(|id| id.to_string());
    let daemon = match DatabaseLock::inspect(path)? {
        LockState::Free => DaemonState::NotRunning,
        LockState::Held { opened_file: Some(opened) } if Some(&opened) != at_path.as_ref() => {
            DaemonState::OtherFile
        }
        LockState::Held { .. } => DaemonState::Running,
    };
    let clock = context.clock();
    let (now, moment) = (clock.now(), clock.moment());
    Ok(HealthInputs { daemon, limits: config.limits.clone(), boot_id: daemon::boot_id(&clock), now, moment })
}

pub(in crate::cli) async fn status_command(
    context: &CliContext,
    args: StatusArgs,
) -> Result<CommandOutput, CommandFailure> {
    let status = match StatusReport::load(context).await? {
        Ok(status) => status,
        Err(found) if args.output.json => {
            let all = value!({"well": false, "troubles": [found.full_text()], "findings": [found]});
            return Ok(CommandOutput { text: pretty_json(&all), exit_code: 3 });
        }
        Err(found) => return Ok(CommandOutput { text: format!("{}\n", found.full_text()), exit_code: 3 }),
    };
    let code = if status.health.is_healthy() { 0 } else { 3 };
    if !args.output.json {
        return Ok(CommandOutput { text: status.to_text(args.all || code != 0), exit_code: code });
    }
    let HealthReport { findings, rows, .. } = &status.health;
    let changes: serde_json::Map<String, serde_json::Value> =
        rows.changes.iter().map(|(state, count)| (state.clone(), (*count).into())).collect();
    let all = value!({
        "well": code == 0, "troubles": finding_sentences(findings), "findings": findings, "jobs": rows.jobs, "outbox": changes,
        "mirror": status.counts, "journal": status.snapshot.map(journal_json),
        "budget": status.call_budget.to_json(),
    });
    Ok(CommandOutput { text: pretty_json(&all), exit_code: code })
}
