//! `job`: the journal of runs.

use crate::cli::context::CliContext;
use crate::cli::output::{TextTable, or_dash, plain_line, pretty_json};
use crate::cli::{CommandFailure, CommandOutput, OutputArgs};
use crate::daemon::run_job;
use crate::exec::RunArgs;
use crate::model::{JobKind, RunId, Timestamp};
use crate::store::{ExchangeRow, JournalEvent, RunChange, RunRow};
use clap::{Args, Subcommand};
use serde_json::{Value, json as value};
use std::sync::Arc;

/// The journal of runs.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Command {
    /// List runs, newest first
    List(JobListArgs),
    /// Show one run: trigger, input, exchanges, decisions, outcome
    Show(JobShowArgs),
    /// Run a job once, now; beside a running daemon the daemon runs it
    Run(JobRunArgs),
}

/// Filter of the list of runs.
#[derive(Debug, Args)]
pub(in crate::cli) struct JobListArgs {
    /// Only runs of this job
    #[arg(long, value_name = "JOB")]
    kind: Option<String>,
    /// At most so many
    #[arg(long, default_value_t = 50)]
    limit: u32,
    #[command(flatten)]
    output: OutputArgs,
}

/// One run.
#[derive(Debug, Args)]
pub(in crate::cli) struct JobShowArgs {
    /// The run's id
    id: i64,
    #[command(flatten)]
    output: OutputArgs,
}

/// Job to run, with its input.
#[derive(Debug, Args)]
pub(in crate::cli) struct JobRunArgs {
    /// The job's name
    #[arg(value_name = "JOB")]
    kind: String,
    #[allow(rustdoc::broken_intra_doc_links, reason = "clap prints the text as it stands: `[1]` is JSON")]
    /// What to work on instead of what is due, as JSON: {"skus":["SKU-1"]} for balances, {"orders":[1]} for order_lines
    #[arg(long, value_name = "JSON")]
    input: Option<String>,
}

pub(in crate::cli) async fn job_command(
    context: &CliContext,
    command: Command,
) -> Result<CommandOutput, CommandFailure> {
    match command {
        Command::List(args) => list_runs(context, &args).await,
        Command::Show(args) => show_run(context, &args).await,
        Command::Run(args) => run_job_now(context, &args).await,
    }
}

async fn list_runs(context: &CliContext, args: &JobListArgs) -> Result<CommandOutput, CommandFailure> {
    let kind = args.kind.as_deref().map(parse_job_kind).transpose()?;
    let rows = context.open_store().await?.run_list(kind, args.limit).await?;
    if args.output.json {
        return Ok(pretty_json(&rows.iter().map(run_json).collect::<Vec<_>>()).into());
    }
    let mut table =
        TextTable::new(&["run", "job", "trigger", "started", "ms", "outcome", "calls", "summary"]);
    for row in rows {
        let took = row.ended_ms.map(|ended| ended - row.started_ms);
        let levels = [
            row.id.to_string(),
            row.job,
            row.trigger,
            Timestamp(row.started_ms).to_rfc3339(),
            or_dash(took),
            row.outcome,
            row.exchanges.to_string(),
            or_dash(row.summary),
        ];
        table.add_row(levels);
    }
    Ok(table.to_text("no job ran yet").into())
}

fn parse_job_kind(name: &str) -> Result<JobKind, CommandFailure> {
    name.parse().map_err(|error| {
        let names: Vec<&str> = JobKind::ALL.iter().map(|kind| kind.as_str()).collect();
        CommandFailure::usage(format!("{error}; jobs are {}", names.join(", ")))
    })
}

async fn run_job_now(context: &CliContext, args: &JobRunArgs) -> Result<CommandOutput, CommandFailure> {
    let kind = parse_job_kind(&args.kind)?;
    let input = args.input.as_deref().map(|text| RunArgs::parse(kind, text)).transpose();
    let input = input.map_err(|error| CommandFailure::usage(error.to_string()))?.unwrap_or_default();
    let done = run_job(context.config()?, Arc::new(context.clock()), kind, &input).await?;
    Ok(CommandOutput {
        text: format!("{kind}: {}: {}\n", done.outcome, plain_line(&done.summary)),
        exit_code: u8::from(!done.is_good),
    })
}

async fn show_run(context: &CliContext, args: &JobShowArgs) -> Result<CommandOutput, CommandFailure> {
    let store = context.open_store().await?;
    let row = store.run_show(RunId(args.id)).await?;
    let row = row.ok_or_else(|| CommandFailure::failed(format!("there is no run {}", args.id)))?;
    let exchanges = store.run_exchanges(RunId(args.id)).await?;
    let (changes, events) =
        (store.run_changes(RunId(args.id)).await?, store.run_events(RunId(args.id)).await?);
    if args.output.json {
        let mut all = run_json(&row);
        all["exchanges"] = exchanges.iter().map(exchange_json).collect();
        all["changes"] = changes.iter().map(change_json).collect();
        all["events"] = events.iter().map(event_json).collect();
        return Ok(pretty_json(&all).into());
    }
    let mut text = format!(
        "run {} of {}, by {}, {}\nstarted {}, ended {}\n{}{}\n\n",
        row.id,
        row.job,
        row.trigger,
        row.outcome,
        Timestamp(row.started_ms),
        or_dash(row.ended_ms.map(Timestamp)),
        row.input.as_ref().map_or_else(String::new, |input| format!("on {}\n", plain_line(input))),
        plain_line(row.summary.as_deref().unwrap_or("no summary")),
    );
    let mut table =
        TextTable::new(&["exchange", "operation", "lane", "sent", "ms", "verdict", "status", "message"]);
    for row in exchanges {
        let took = row.answered_ms.map(|answered| answered - row.sent_ms);
        let levels = [
            row.id.to_string(),
            row.operation,
            row.lane,
            Timestamp(row.sent_ms).to_rfc3339(),
            or_dash(took),
            or_dash(row.verdict),
            or_dash(row.status),
            or_dash(row.message),
        ];
        table.add_row(levels);
    }
    text.push_str(&table.to_text("it made no call"));
    text.push_str(&decisions_text(changes, &events));
    Ok(text.into())
}

/// Returns the effects of the run's calls on changes, and the decisions made meanwhile.
fn decisions_text(changes: Vec<RunChange>, events: &[JournalEvent]) -> String {
    let mut text = String::new();
    if !changes.is_empty() {
        let mut table =
            TextTable::new(&["exchange", "change", "kind", "written", "state", "reason", "detail"]);
        for row in changes {
            let levels = [
                row.exchange_id.to_string(),
                row.key,
                row.kind,
                or_dash(row.written),
                row.state,
                or_dash(row.reason),
                or_dash(row.detail),
            ];
            table.add_row(levels);
        }
        text.push_str(&format!("\n{}", table.to_text("")));
    }
    if !events.is_empty() {
        let mut table = TextTable::new(&["position", "event meanwhile", "on", "detail"]);
        for row in events {
            let levels = [
                row.position.to_string(),
                row.kind.clone(),
                row.subject.clone(),
                or_dash(row.detail.clone()),
            ];
            table.add_row(levels);
        }
        text.push_str(&format!("\n{}", table.to_text("")));
    }
    text
}

fn change_json(row: &RunChange) -> Value {
    value!({
        "exchange": row.exchange_id, "key": row.key, "kind": row.kind, "written": row.written, "state": row.state,
        "reason": row.reason, "detail": row.detail,
    })
}

fn event_json(row: &JournalEvent) -> Value {
    value!({
        "position": row.position, "at": Timestamp(row.at_ms).to_rfc3339(), "kind": row.kind, "subject": row.subject,
        "detail": row.detail.as_deref().and_then(|detail| serde_json::from_str::<Value>(detail).ok()),
    })
}

fn run_json(row: &RunRow) -> Value {
    value!({
        "id": row.id, "job": row.job, "trigger": row.trigger,
        "input": row.input.as_deref().and_then(|input| serde_json::from_str::<Value>(input).ok()),
        "started_at": Timestamp(row.started_ms).to_rfc3339(),
        "ended_at": row.ended_ms.map(|ms| Timestamp(ms).to_rfc3339()),
        "outcome": row.outcome, "summary": row.summary, "calls": row.exchanges,
    })
}

/// Returns an exchange for `--json`.
pub(in crate::cli) fn exchange_json(row: &ExchangeRow) -> Value {
    value!({
        "id": row.id, "operation": row.operation, "target": row.target, "lane": row.lane,
        "sent_at": Timestamp(row.sent_ms).to_rfc3339(),
        "answered_at": row.answered_ms.map(|ms| Timestamp(ms).to_rfc3339()),
        "verdict": row.verdict, "status": row.status, "message": row.message, "parked": row.parked,
    })
}
