//! `job`: the journal of runs.

use crate::cli::context::CliContext;
use crate::cli::output::{TextTable, or_dash, parse_json, plain_line};
use crate::cli::{CommandFailure, CommandOutput, CommandResult, OutputArgs};
use crate::daemon::{ControlRequest, RunResult, send_control_request};
use crate::exec::RunArgs;
use crate::model::{JobKind, RunId, Timestamp};
use crate::store::{ExchangeRow, JournalEvent, RunChange, RunRow};
use clap::Subcommand;
use serde_json::{Value, json};
use std::sync::Arc;

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Command {
    /// List runs, newest first
    List {
        /// Show only runs of this job
        #[arg(long, value_name = "JOB")]
        kind: Option<String>,
        /// Maximum number of runs
        #[arg(long, default_value_t = 50)]
        limit: u32,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Show a run: trigger, input, exchanges, decisions and outcome
    Show {
        /// Run id
        id: i64,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Run a job once, now; if a daemon runs, the daemon executes the job
    Run {
        /// Name of the job
        #[arg(value_name = "JOB")]
        kind: String,
        #[allow(
            rustdoc::broken_intra_doc_links,
            reason = "clap prints the text as it stands: `[1]` is JSON"
        )]
        /// Entries to process instead of the due ones, as JSON: {"skus":["SKU-1"]} for balances, {"orders":[1]} for
        /// order_lines
        #[arg(long, value_name = "JSON")]
        input: Option<String>,
    },
}

pub(in crate::cli) async fn job_command(context: &CliContext, command: Command) -> CommandResult {
    match command {
        Command::List { kind, limit, output } => list_runs(context, kind.as_deref(), limit, output).await,
        Command::Show { id, output } => show_run(context, RunId(id), output).await,
        Command::Run { kind, input } => run_job_now(context, &kind, input.as_deref()).await,
    }
}

async fn list_runs(
    context: &CliContext,
    kind: Option<&str>,
    limit: u32,
    output: OutputArgs,
) -> CommandResult {
    let kind = kind.map(parse_job_kind).transpose()?;
    let rows = context.open_store().await?.run_list(kind, limit).await?;
    let columns = |row: &RunRow| {
        [
            row.id.to_string(),
            row.job.clone(),
            row.trigger.clone(),
            Timestamp(row.started_ms).to_rfc3339(),
            or_dash(row.ended_ms.map(|ended| ended - row.started_ms)),
            row.outcome.clone(),
            row.exchanges.to_string(),
            or_dash(row.summary.as_ref()),
        ]
    };
    let headings = ["run", "job", "trigger", "started", "ms", "outcome", "calls", "summary"];
    let table = || TextTable::new(headings, rows.iter().map(columns)).to_text("no job has run yet");
    Ok(output.render(|| rows.iter().map(run_json).collect::<Vec<_>>(), table).into())
}

fn parse_job_kind(name: &str) -> Result<JobKind, CommandFailure> {
    name.parse().map_err(|error| {
        let names: Vec<&str> = JobKind::ALL.iter().map(|kind| kind.as_str()).collect();
        CommandFailure::usage(format!("{error}; jobs are {}", names.join(", ")))
    })
}

async fn run_job_now(context: &CliContext, kind: &str, input: Option<&str>) -> CommandResult {
    let kind = parse_job_kind(kind)?;
    let input = input.map(|text| RunArgs::parse(kind, text)).transpose();
    let input = input.map_err(|error| CommandFailure::usage(error.to_string()))?.unwrap_or_default();
    let request = ControlRequest::RunJob { job: kind.as_str().into(), input };
    let done: RunResult =
        send_control_request(context.config()?, Arc::new(context.clock()), &request).await?;
    let text = format!("{kind}: {}: {}\n", done.outcome, plain_line(&done.summary));
    Ok(CommandOutput { text, exit_code: u8::from(!done.is_good) })
}

async fn show_run(context: &CliContext, id: RunId, output: OutputArgs) -> CommandResult {
    let store = context.open_store().await?;
    let row = store.run_show(id).await?;
    let row = row.ok_or_else(|| CommandFailure::failed(format!("there is no run {}", id.0)))?;
    let exchanges = store.run_exchanges(id).await?;
    let (changes, events) = (store.run_changes(id).await?, store.run_events(id).await?);
    let json = || {
        let mut all = run_json(&row);
        all["exchanges"] = exchanges.iter().map(exchange_json).collect();
        all["changes"] = changes.iter().map(change_json).collect();
        all["events"] = events.iter().map(event_json).collect();
        all
    };
    Ok(output.render(json, || run_text(&row, &exchanges, &changes, &events)).into())
}

fn run_text(
    run: &RunRow,
    exchanges: &[ExchangeRow],
    changes: &[RunChange],
    events: &[JournalEvent],
) -> String {
    let columns = |row: &ExchangeRow| {
        [
            row.id.to_string(),
            row.operation.clone(),
            row.lane.clone(),
            Timestamp(row.sent_ms).to_rfc3339(),
            or_dash(row.answered_ms.map(|answered| answered - row.sent_ms)),
            or_dash(row.verdict.as_ref()),
            or_dash(row.status),
            or_dash(row.message.as_ref()),
        ]
    };
    let headings = ["exchange", "operation", "lane", "sent", "ms", "verdict", "status", "message"];
    let mut text = format!(
        "run {} of {}, by {}, {}\nstarted {}, ended {}\n{}{}\n\n{}",
        run.id,
        run.job,
        run.trigger,
        run.outcome,
        Timestamp(run.started_ms),
        or_dash(run.ended_ms.map(Timestamp)),
        run.input.as_ref().map_or_else(String::new, |input| format!("input {}\n", plain_line(input))),
        plain_line(run.summary.as_deref().unwrap_or("no summary")),
        TextTable::new(headings, exchanges.iter().map(columns)).to_text("this run made no call"),
    );
    if !changes.is_empty() {
        text.push_str(&format!("\n{}", changes_table(changes).to_text("")));
    }
    if !events.is_empty() {
        text.push_str(&format!("\n{}", events_table(events).to_text("")));
    }
    text
}

/// Returns the effects of the run's calls on changes.
fn changes_table(changes: &[RunChange]) -> TextTable {
    let columns = |row: &RunChange| {
        [
            row.exchange_id.to_string(),
            row.key.clone(),
            row.kind.clone(),
            or_dash(row.written),
            row.state.clone(),
            or_dash(row.reason.as_ref()),
            or_dash(row.detail.as_ref()),
        ]
    };
    let headings = ["exchange", "change", "kind", "written", "state", "reason", "detail"];
    TextTable::new(headings, changes.iter().map(columns))
}

/// Returns the decisions made during the run.
fn events_table(events: &[JournalEvent]) -> TextTable {
    let columns = |row: &JournalEvent| {
        [row.position.to_string(), row.kind.clone(), row.subject.clone(), or_dash(row.detail.as_ref())]
    };
    TextTable::new(["position", "event during the run", "subject", "detail"], events.iter().map(columns))
}

fn change_json(row: &RunChange) -> Value {
    json!({
        "exchange": row.exchange_id, "key": row.key, "kind": row.kind, "written": row.written, "state": row.state,
        "reason": row.reason, "detail": row.detail,
    })
}

fn event_json(row: &JournalEvent) -> Value {
    json!({
        "position": row.position, "at": Timestamp(row.at_ms).to_rfc3339(), "kind": row.kind, "subject": row.subject,
        "detail": parse_json(row.detail.as_deref()),
    })
}

fn run_json(row: &RunRow) -> Value {
    json!({
        "id": row.id, "job": row.job, "trigger": row.trigger,
        "input": parse_json(row.input.as_deref()),
        "started_at": Timestamp(row.started_ms).to_rfc3339(),
        "ended_at": row.ended_ms.map(|ms| Timestamp(ms).to_rfc3339()),
        "outcome": row.outcome, "summary": row.summary, "calls": row.exchanges,
    })
}

/// Returns an exchange for `--json`.
pub(in crate::cli) fn exchange_json(row: &ExchangeRow) -> Value {
    json!({
        "id": row.id, "operation": row.operation, "target": row.target, "lane": row.lane,
        "sent_at": Timestamp(row.sent_ms).to_rfc3339(),
        "answered_at": row.answered_ms.map(|ms| Timestamp(ms).to_rfc3339()),
        "verdict": row.verdict, "status": row.status, "message": row.message, "parked": row.parked,
    })
}
