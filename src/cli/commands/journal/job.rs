//! `job`: the journal of runs.

use crate::cli::context::Place;
use crate::cli::output::{Table, dash, json, plain};
use crate::cli::{Answer, Failure, Reading};
use crate::daemon::run_job;
use crate::exec::Input;
use crate::model::{JobKind, RunId, Timestamp};
use crate::store::{Decided, ExchangeRow, RunRow, ToldWish};
use clap::{Args, Subcommand};
use serde_json::{Value, json as value};
use std::sync::Arc;

/// The journal of runs.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Command {
    /// List runs, newest first
    List(List),
    /// Show one run: trigger, input, exchanges, decisions, outcome
    Show(Show),
    /// Run a job once, now; beside a running daemon the daemon runs it
    Run(Run),
}

/// Which runs.
#[derive(Debug, Args)]
pub(in crate::cli) struct List {
    /// Only runs of this job
    #[arg(long, value_name = "JOB")]
    kind: Option<String>,
    /// At most so many
    #[arg(long, default_value_t = 50)]
    limit: u32,
    #[command(flatten)]
    reading: Reading,
}

/// One run.
#[derive(Debug, Args)]
pub(in crate::cli) struct Show {
    /// The run's id
    id: i64,
    #[command(flatten)]
    reading: Reading,
}

/// Which job, on what.
#[derive(Debug, Args)]
pub(in crate::cli) struct Run {
    /// The job's name
    #[arg(value_name = "JOB")]
    kind: String,
    /// What to work on instead of what is due, as JSON: {"skus":["SKU-1"]} for balances, {"orders":[1]} for order_lines
    #[arg(long, value_name = "JSON")]
    input: Option<String>,
}

pub(in crate::cli) async fn job(place: &Place, command: Command) -> Result<Answer, Failure> {
    match command {
        Command::List(args) => list(place, &args).await,
        Command::Show(args) => show(place, &args).await,
        Command::Run(args) => run_now(place, &args).await,
    }
}

async fn list(place: &Place, args: &List) -> Result<Answer, Failure> {
    let kind = args.kind.as_deref().map(kind_of).transpose()?;
    let rows = place.store().await?.run_list(kind, args.limit).await?;
    if args.reading.json {
        return Ok(json(&rows.iter().map(run).collect::<Vec<_>>()).into());
    }
    let mut table = Table::new(&["run", "job", "trigger", "started", "ms", "outcome", "calls", "summary"]);
    for row in rows {
        let took = row.ended_ms.map(|ended| ended - row.started_ms);
        let cells = [
            row.id.to_string(),
            row.job,
            row.trigger,
            Timestamp(row.started_ms).rfc3339(),
            dash(took),
            row.outcome,
            row.exchanges.to_string(),
            dash(row.summary),
        ];
        table.row(cells);
    }
    Ok(table.render("no job ran yet").into())
}

fn kind_of(name: &str) -> Result<JobKind, Failure> {
    name.parse().map_err(|error| {
        let names: Vec<&str> = JobKind::ALL.iter().map(|kind| kind.as_str()).collect();
        Failure::usage(format!("{error}; jobs are {}", names.join(", ")))
    })
}

async fn run_now(place: &Place, args: &Run) -> Result<Answer, Failure> {
    let kind = kind_of(&args.kind)?;
    let input = args.input.as_deref().map(|text| Input::read(kind, text)).transpose();
    let input = input.map_err(|error| Failure::usage(error.to_string()))?.unwrap_or_default();
    let done = run_job(place.config()?, Arc::new(place.clock()), kind, &input).await?;
    Ok(Answer {
        text: format!("{kind}: {}: {}\n", done.outcome, plain(&done.summary)),
        code: u8::from(!done.is_good),
    })
}

async fn show(place: &Place, args: &Show) -> Result<Answer, Failure> {
    let store = place.store().await?;
    let row = store.run_show(RunId(args.id)).await?;
    let row = row.ok_or_else(|| Failure::failed(format!("there is no run {}", args.id)))?;
    let exchanges = store.run_exchanges(RunId(args.id)).await?;
    let (wishes, events) = (store.run_wishes(RunId(args.id)).await?, store.run_events(RunId(args.id)).await?);
    if args.reading.json {
        let mut all = run(&row);
        all["exchanges"] = exchanges.iter().map(exchange).collect();
        all["wishes"] = wishes.iter().map(wish).collect();
        all["events"] = events.iter().map(event).collect();
        return Ok(json(&all).into());
    }
    let mut text = format!(
        "run {} of {}, by {}, {}\nstarted {}, ended {}\n{}{}\n\n",
        row.id,
        row.job,
        row.trigger,
        row.outcome,
        Timestamp(row.started_ms),
        dash(row.ended_ms.map(Timestamp)),
        row.input.as_ref().map_or_else(String::new, |input| format!("on {}\n", plain(input))),
        plain(row.summary.as_deref().unwrap_or("no summary")),
    );
    let mut table =
        Table::new(&["exchange", "operation", "lane", "sent", "ms", "verdict", "status", "message"]);
    for row in exchanges {
        let took = row.answered_ms.map(|answered| answered - row.sent_ms);
        let cells = [
            row.id.to_string(),
            row.operation,
            row.lane,
            Timestamp(row.sent_ms).rfc3339(),
            dash(took),
            dash(row.verdict),
            dash(row.status),
            dash(row.message),
        ];
        table.row(cells);
    }
    text.push_str(&table.render("it made no call"));
    text.push_str(&decisions(wishes, &events));
    Ok(text.into())
}

/// Returns the effects of the run's calls on changes, and the decisions made meanwhile.
fn decisions(wishes: Vec<ToldWish>, events: &[Decided]) -> String {
    let mut text = String::new();
    if !wishes.is_empty() {
        let mut table = Table::new(&["exchange", "wish", "kind", "written", "state", "reason", "detail"]);
        for row in wishes {
            let cells = [
                row.exchange_id.to_string(),
                row.key,
                row.kind,
                dash(row.written),
                row.state,
                dash(row.reason),
                dash(row.detail),
            ];
            table.row(cells);
        }
        text.push_str(&format!("\n{}", table.render("")));
    }
    if !events.is_empty() {
        let mut table = Table::new(&["position", "event meanwhile", "on", "detail"]);
        for row in events {
            let cells =
                [row.position.to_string(), row.kind.clone(), row.subject.clone(), dash(row.detail.clone())];
            table.row(cells);
        }
        text.push_str(&format!("\n{}", table.render("")));
    }
    text
}

fn wish(row: &ToldWish) -> Value {
    value!({
        "exchange": row.exchange_id, "key": row.key, "kind": row.kind, "written": row.written, "state": row.state,
        "reason": row.reason, "detail": row.detail,
    })
}

fn event(row: &Decided) -> Value {
    value!({
        "position": row.position, "at": Timestamp(row.at_ms).rfc3339(), "kind": row.kind, "subject": row.subject,
        "detail": row.detail.as_deref().and_then(|detail| serde_json::from_str::<Value>(detail).ok()),
    })
}

fn run(row: &RunRow) -> Value {
    value!({
        "id": row.id, "job": row.job, "trigger": row.trigger,
        "input": row.input.as_deref().and_then(|input| serde_json::from_str::<Value>(input).ok()),
        "started_at": Timestamp(row.started_ms).rfc3339(),
        "ended_at": row.ended_ms.map(|ms| Timestamp(ms).rfc3339()),
        "outcome": row.outcome, "summary": row.summary, "calls": row.exchanges,
    })
}

/// Returns an exchange for `--json`.
pub(in crate::cli) fn exchange(row: &ExchangeRow) -> Value {
    value!({
        "id": row.id, "operation": row.operation, "target": row.target, "lane": row.lane,
        "sent_at": Timestamp(row.sent_ms).rfc3339(),
        "answered_at": row.answered_ms.map(|ms| Timestamp(ms).rfc3339()),
        "verdict": row.verdict, "status": row.status, "message": row.message, "parked": row.parked,
    })
}
