//! `status`: the health of the daemon by `health::health`; exit 3 if a finding needs an operator.
//!
//! The findings come first, for `head` and for a person who reads from the top. The verdict is the last line, so that
//! a small terminal shows it although many findings scrolled away.

use super::call_budget;
use crate::cli::context::CliContext;
use crate::cli::local_time::{local_sentence, local_time};
use crate::cli::output::{TextTable, format_age, plain_line};
use crate::cli::{CommandFailure, CommandOutput, CommandResult, OutputArgs};
use crate::health::Finding;
use crate::model::{Timestamp, counted};
use crate::present::status::{StatusReport, replaced_json};
use crate::store::{LeaderRow, Store, UnitsAtRisk};
use std::io::IsTerminal;

#[derive(Clone, Copy, Debug, clap::Args)]
pub(in crate::cli) struct StatusArgs {
    /// Show also the jobs, and the calls of the last hour by operation
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    output: OutputArgs,
}

async fn load_report(context: &CliContext) -> Result<Result<StatusReport, Finding>, CommandFailure> {
    let config = context.readable_config()?;
    let store = Store::open_beside(config.database.location()?).await;
    Ok(StatusReport::load(config, &context.clock(), store, None).await?)
}

fn status_text(report: &StatusReport, with_tables: bool) -> String {
    let mut text: String = report.health.shown_findings().map(finding_text).collect();
    if report.health.is_healthy() {
        text.push_str(if text.is_empty() { "all is well\n" } else { "all else is well\n" });
    }
    let counts = &report.counts;
    text.push_str(&format!(
        "\nmirror  {}, {}, {} tracked; {} missing, {} parked\n",
        counted(counts.skus, "SKU"),
        counted(counts.stock_levels, "stock level"),
        counted(counts.orders, "order"),
        counted(counts.missing_skus, "SKU"),
        counted(counts.parked, "record")
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
    text.push_str(&units_at_risk_text(&report.units_at_risk));
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
    if !report.health.is_healthy() {
        let count = report.health.findings.iter().filter(|finding| finding.needs_operator()).count();
        let tables = if with_tables { "" } else { "; jobs and calls: tallyd status --all" };
        let need = if count == 1 { "finding needs" } else { "findings need" };
        text.push_str(&format!("\n{count} {need} attention{tables}\n"));
    }
    text
}

fn finding_text(found: &Finding) -> String {
    let below = found.consequences.iter().map(|consequence| format!("  {}", consequence.text));
    let lines = std::iter::once(found.full_text()).chain(below);
    lines.map(|line| format!("{}\n", plain_line(&local_sentence(line)))).collect()
}

fn units_at_risk_text(UnitsAtRisk { units, affected, stock_levels }: &UnitsAtRisk) -> String {
    let Some(most) = stock_levels.first() else { return String::new() };
    format!(
        "at risk {} of {} taken by others within 24 h while changes waited; most of {} in warehouse {}: {}\n",
        counted(units, "unit"),
        counted(affected, "stock level"),
        plain_line(&most.sku),
        most.warehouse_id,
        most.units
    )
}

fn leader_text(report: &StatusReport, leader: &LeaderRow, lives: bool) -> String {
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
    match report.standbys.is_empty() {
        true => text + "; no host stands by",
        false => text + "; standing by: " + &report.standbys.join(", "),
    }
}

fn tables_text(report: &StatusReport) -> String {
    let jobs = TextTable::of_rows(&report.health.rows.jobs);
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
            (output.render(|| status.to_json(), || status_text(&status, all)), is_healthy)
        }
        Err(finding) => (output.render(|| replaced_json(&finding), || finding_text(&finding)), false),
    };
    Ok(CommandOutput { text, exit_code: if is_healthy { 0 } else { 3 } })
}
