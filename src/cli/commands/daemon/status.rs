//! `status`: the health of the daemon by `health::health`; exit 3 if a finding needs an operator.

use super::call_budget;
use crate::cli::context::CliContext;
use crate::cli::output::{TextTable, cells, format_age, plain_line, time_text};
use crate::cli::{CommandFailure, CommandOutput, CommandResult, OutputArgs};
use crate::health::Finding;
use crate::present::status::{StatusReport, finding_sentences};
use crate::store::{JobHealthRow, LeaderRow, Store};
use serde_json::json;
use std::io::IsTerminal;

#[derive(Clone, Copy, Debug, clap::Args)]
pub(in crate::cli) struct StatusArgs {
    /// Show the jobs and the calls of the last hour even if nothing needs attention
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    output: OutputArgs,
}

async fn load_report(context: &CliContext) -> Result<Result<StatusReport, Finding>, CommandFailure> {
    let config = context.config()?;
    let store = Store::open_beside(config.database.location()?).await;
    Ok(StatusReport::load(&config, &context.clock(), store).await?)
}

fn status_text(report: &StatusReport, with_tables: bool) -> String {
    let sentences = finding_sentences(&report.health.findings);
    let mut text: String = sentences.iter().map(|text| format!("{}\n", plain_line(text))).collect();
    if sentences.is_empty() {
        text.push_str("all is well\n");
    }
    let counts = &report.counts;
    text.push_str(&format!(
        "\nmirror  {} SKU(s), {} stock level(s), {} order(s) tracked; {} SKU(s) missing, {} record(s) parked\n",
        counts.skus, counts.stock_levels, counts.orders, counts.missing_skus, counts.parked
    ));
    text.push_str(&call_budget::summary_text(
        &report.call_budget,
        &report.health,
        std::io::stdout().is_terminal(),
    ));
    let states: Vec<String> =
        report.health.rows.changes.iter().map(|(state, count)| format!("{count} {state}")).collect();
    let states = if states.is_empty() { "empty".into() } else { states.join(", ") };
    text.push_str(&format!("outbox  {states}\n"));
    if let Some((leader, lives)) = &report.leader {
        text.push_str(&format!("leader  {}\n", plain_line(&leader_text(report, leader, *lives))));
    }
    if report.snapshot.is_some_and(|snapshot| snapshot.by_size) {
        text.push_str(
            "journal bodies were removed before journal.keep_bodies, because journal.max_size is reached\n",
        );
    }
    if with_tables {
        text.push_str(&tables_text(report));
    }
    text
}

fn leader_text(report: &StatusReport, leader: &LeaderRow, lives: bool) -> String {
    let (since, silent) = (leader.began_ms.map(time_text), format_age(leader.silent_ms / 1000));
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
    match report.standbys.is_empty() {
        true => text + "; no host stands by",
        false => text + "; standing by: " + &report.standbys.join(", "),
    }
}

fn tables_text(report: &StatusReport) -> String {
    let columns = |row: &JobHealthRow| {
        let JobHealthRow { job, last_good_at, age_seconds, next_due_at, last_outcome, .. } = row;
        cells![job, last_good_at, age_seconds.map(format_age), next_due_at, last_outcome]
    };
    let headings = ["job", "last successful run", "age", "next start", "last outcome"];
    let jobs = TextTable::new(headings, report.health.rows.jobs.iter().map(columns));
    let jobs = jobs.to_text("no job is enabled, or the daemon has never run");
    format!("\n{jobs}\n{}", call_budget::last_hour_table(&report.call_budget))
}

pub(in crate::cli) async fn status_command(
    context: &CliContext,
    StatusArgs { all, output }: StatusArgs,
) -> CommandResult {
    let (text, is_healthy) = match load_report(context).await? {
        Ok(status) => {
            let is_healthy = status.health.is_healthy();
            (output.render(|| status.to_json(), || status_text(&status, all || !is_healthy)), is_healthy)
        }
        Err(finding) => {
            let text = finding.full_text();
            let json = json!({"well": false, "troubles": [text], "findings": [finding]});
            (output.render(|| json, || text + "\n"), false)
        }
    };
    Ok(CommandOutput { text, exit_code: if is_healthy { 0 } else { 3 } })
}
