//! `status`: the health of the daemon by `health::health`; exit 3 if a finding needs an operator.
//!
//! The findings come first, for `head` and for a person who reads from the top. The verdict is the last line, so that
//! a small terminal shows it although many findings scrolled away.

use crate::cli::context::CliContext;
use crate::cli::local_time::{local_sentence, local_time};
use crate::cli::output::{columns, format_age, lines_text, plain_line, table_text};
use crate::cli::{CommandOutput, CommandResult, OutputArgs};
use crate::health::{self, DaemonState, Finding};
use crate::model::{Timestamp, counted};
use crate::present::call_budget::budget_sentences;
use crate::present::daemon_state::lock_state;
use crate::present::status::{StatusReport, job_health_columns, load_health};
use crate::store::{LeaderRow, Store, UnitsAtRisk};
use serde_json::json;

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
    let budget = budget_sentences(&report.call_budget, &report.health).into_iter();
    let budget: Vec<String> = budget.map(|sentence| local_sentence(sentence) + "\n").collect();
    text.push_str(&format!("budget  {}", budget.join("        ")));
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
        let jobs = report.health.rows.jobs.iter().map(job_health_columns);
        let jobs = table_text(jobs, "no job is enabled, or the daemon has never run");
        let calls = report.call_budget.last_hour().into_iter();
        let calls = calls.map(|((lane, operation), (calls, throttled, _))| {
            columns! {
                "lane": lane, "operation": operation, "calls in the last hour": calls, "answered 429": throttled,
            }
        });
        let calls = table_text(calls, "no call in the last hour");
        text.push_str(&format!("\n{jobs}\n{calls}"));
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
    lines_text(&std::iter::once(found.full_text()).chain(below).collect::<Vec<_>>())
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

pub(in crate::cli) async fn status_command(
    context: &CliContext,
    all: bool,
    output: OutputArgs,
) -> CommandResult {
    let config = context.readable_config()?;
    let location = config.database.location()?;
    let store = match Store::open_beside(&location).await {
        // A daemon works on a file that is no longer at its path, which is all that can be known.
        Err(_) if location.is_missing_file() && lock_state(config)? == DaemonState::OtherFile => {
            let finding = health::database_replaced();
            let json = || json!({"well": false, "troubles": [finding.full_text()], "findings": [finding]});
            return Ok(CommandOutput { text: output.render(json, || finding_text(&finding)), exit_code: 3 });
        }
        store => store?,
    };
    let health = load_health(config, &context.clock(), &store).await?;
    let status = StatusReport::load(config, &context.clock(), &store, health).await?;
    let text = output.render(|| status.to_json(), || status_text(&status, all));
    Ok(CommandOutput { text, exit_code: if status.health.is_healthy() { 0 } else { 3 } })
}
