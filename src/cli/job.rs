//! `job`: the journal of runs.

use super::place::Place;
use super::print::{Table, dash, json};
use super::{Answer, Failure, Reading};
use crate::model::{JobKind, RunId, Timestamp};
use crate::store::{ExchangeRow, RunRow};
use clap::{Args, Subcommand};
use serde_json::{Value, json as value};

/// The journal of runs.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// List runs, newest first
    List(List),
    /// Show one run with its exchanges
    Show(Show),
}

/// Which runs.
#[derive(Debug, Args)]
pub(super) struct List {
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
pub(super) struct Show {
    /// The run's id
    id: i64,
    #[command(flatten)]
    reading: Reading,
}

pub(super) async fn job(place: &Place, command: Command) -> Result<Answer, Failure> {
    match command {
        Command::List(args) => list(place, &args).await,
        Command::Show(args) => show(place, &args).await,
    }
}

async fn list(place: &Place, args: &List) -> Result<Answer, Failure> {
    let kind: Option<JobKind> = args.kind.as_deref().map(str::parse).transpose().map_err(|error| {
        let names: Vec<&str> = JobKind::ALL.iter().map(|kind| kind.as_str()).collect();
        Failure::usage(format!("{error}; jobs are {}", names.join(", ")))
    })?;
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

async fn show(place: &Place, args: &Show) -> Result<Answer, Failure> {
    let store = place.store().await?;
    let row = store.run_show(RunId(args.id)).await?;
    let row = row.ok_or_else(|| Failure::failed(format!("there is no run {}", args.id)))?;
    let exchanges = store.run_exchanges(RunId(args.id)).await?;
    if args.reading.json {
        let mut all = run(&row);
        all["exchanges"] = exchanges.iter().map(exchange).collect();
        return Ok(json(&all).into());
    }
    let mut text = format!(
        "run {} of {}, by {}, {}\nstarted {}, ended {}\n{}\n\n",
        row.id,
        row.job,
        row.trigger,
        row.outcome,
        Timestamp(row.started_ms),
        dash(row.ended_ms.map(Timestamp)),
        row.summary.as_deref().unwrap_or("no summary"),
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
    Ok(text.into())
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

/// An exchange as `--json` prints it.
pub(super) fn exchange(row: &ExchangeRow) -> Value {
    value!({
        "id": row.id, "operation": row.operation, "target": row.target, "lane": row.lane,
        "sent_at": Timestamp(row.sent_ms).rfc3339(),
        "answered_at": row.answered_ms.map(|ms| Timestamp(ms).rfc3339()),
        "verdict": row.verdict, "status": row.status, "message": row.message, "parked": row.parked,
    })
}
