//! `journal`: exchanges and events as text, as JSON Lines, and as their effect between two positions.
//!
//! The output holds no key, because the journal has no headers. Text from the platform is shown as it came.

use super::replay::{fold, remove};
use crate::cli::context::Place;
use crate::cli::output::{self, Table, dash, json, plain};
use crate::cli::{Answer, Failure, Reading};
use crate::exec::Retention;
use crate::model::{Clock, Position, Timestamp};
use crate::projection::Replay;
use crate::store::{Compared, Decided, Difference, Lock, Store, ToldExchange};
use crate::sync;
use crate::sync::Meant;
use clap::{Args, Subcommand};
use serde_json::{Value, json as value};
use std::path::{Path, PathBuf};

/// The number of positions read at a time by an export; it bounds the bodies in memory.
const STEP: i64 = 200;

/// The record of exchanges and events.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Command {
    /// Show one exchange or event with all it holds, or list the newest
    Show(Show),
    /// Print the journal as JSON Lines, one exchange or event a line, in order
    Export(Export),
    /// Let old bodies go now, over a snapshot; takes the database's lock, so not beside a running daemon
    Prune(Prune),
    /// Say what changed in the facts between two positions
    Diff(Diff),
}

/// What to show.
#[derive(Debug, Args)]
pub(in crate::cli) struct Show {
    /// Its position: where an exchange began or ended, or where an event stands
    #[arg(conflicts_with = "last")]
    id: Option<i64>,
    /// List the newest so many
    #[arg(long, value_name = "N", default_value_t = 20)]
    last: u32,
    #[command(flatten)]
    reading: Reading,
}

/// What to export.
#[derive(Debug, Args)]
pub(in crate::cli) struct Export {
    /// Only what stands behind this position
    #[arg(long, value_name = "POSITION", default_value_t = 0)]
    after: i64,
}

/// How to prune.
#[derive(Debug, Args)]
pub(in crate::cli) struct Prune {
    /// Only say what would go
    #[arg(long)]
    dry_run: bool,
}

/// Between which positions.
#[derive(Debug, Args)]
pub(in crate::cli) struct Diff {
    /// The earlier position
    a: i64,
    /// The later position
    b: i64,
    #[command(flatten)]
    reading: Reading,
}

pub(in crate::cli) async fn journal(place: &Place, command: Command) -> Result<Answer, Failure> {
    match command {
        Command::Show(args) => show(place, &args).await,
        Command::Export(args) => export(place, &args).await,
        Command::Prune(args) => prune(place, &args).await,
        Command::Diff(args) => diff(place, &args).await,
    }
}

async fn show(place: &Place, args: &Show) -> Result<Answer, Failure> {
    let store = place.store().await?;
    let Some(id) = args.id else { return last(&store, args).await };
    let (before, at) = (Position(id - 1), Position(id));
    let all = match store.told_exchange(at).await? {
        Some(told) => exchange(&told),
        None => match store.told_events(before, at).await?.first() {
            Some(told) => event(told),
            None => return Err(Failure::failed(format!("nothing stands at position {id} of the journal"))),
        },
    };
    if args.reading.json {
        return Ok(json(&all).into());
    }
    let mut text = String::new();
    for (name, field) in all.as_object().into_iter().flatten().filter(|(_, field)| !field.is_null()) {
        match field {
            Value::String(field) => text.push_str(&format!("{name:<12} {}\n", plain(field))),
            Value::Array(_) | Value::Object(_) => {
                text.push_str(&format!("{name}:\n{}\n", output::value(field)))
            }
            other => text.push_str(&format!("{name:<12} {other}\n")),
        }
    }
    Ok(text.into())
}

async fn last(store: &Store, args: &Show) -> Result<Answer, Failure> {
    let (after, to) = (store.told_last(args.last).await?, store.position().await?);
    let entries = entries(store, after, to).await?;
    if args.reading.json {
        return Ok(json(&entries).into());
    }
    let mut table = Table::new(&["position", "at", "what", "run", "job", "verdict", "status", "message"]);
    let text = |entry: &Value, name: &str| match &entry[name] {
        Value::String(text) => text.clone(),
        Value::Null => dash(None::<String>),
        other => other.to_string(),
    };
    for entry in &entries {
        let what = if entry["type"] == "event" {
            format!("{} {}", text(entry, "kind"), text(entry, "subject"))
        } else {
            text(entry, "operation")
        };
        let at = if entry["type"] == "event" { text(entry, "at") } else { text(entry, "sent_at") };
        let rest = ["run", "job", "verdict", "status", "message"].map(|name| text(entry, name));
        table.row([vec![text(entry, "position"), at, what], rest.to_vec()].concat());
    }
    Ok(table.render("the journal is empty").into())
}

/// Returns the exchanges and events between two positions, in order.
async fn entries(store: &Store, after: Position, to: Position) -> Result<Vec<Value>, Failure> {
    let mut all: Vec<Value> = store.told_exchanges(after, to).await?.iter().map(exchange).collect();
    all.extend(store.told_events(after, to).await?.iter().map(event));
    all.sort_by_key(|entry| entry["position"].as_i64());
    Ok(all)
}

async fn export(place: &Place, args: &Export) -> Result<Answer, Failure> {
    let store = place.store().await?;
    let end = store.position().await?;
    let mut at = Position(args.after);
    while at < end {
        let to = Position(at.0.saturating_add(STEP).min(end.0));
        let lines: String =
            entries(&store, at, to).await?.iter().map(|entry| output::line(entry) + "\n").collect();
        output::out(&lines);
        at = to;
    }
    Ok(String::new().into())
}

/// Returns an exchange for `--json` and the export.
fn exchange(told: &ToldExchange) -> Value {
    let row = &told.row;
    value!({
        "type": "exchange", "position": row.exchange.id, "ended_position": row.ended, "run": row.run_id, "job": row.job,
        "trigger": row.trigger, "operation": row.exchange.operation, "target": row.exchange.target, "lane": row.exchange.lane,
        "sent_at": Timestamp(row.exchange.sent_ms).rfc3339(),
        "answered_at": row.exchange.answered_ms.map(|ms| Timestamp(ms).rfc3339()),
        "verdict": row.exchange.verdict, "status": row.exchange.status, "message": row.exchange.message, "parked": row.exchange.parked,
        "set_aside": row.set_aside, "request": body(told.request.as_deref()),
        "response": body(told.response.as_deref()),
    })
}

/// Returns an event for `--json` and the export.
fn event(told: &Decided) -> Value {
    value!({
        "type": "event", "position": told.position, "at": Timestamp(told.at_ms).rfc3339(), "kind": told.kind,
        "subject": told.subject, "detail": body(told.detail.as_deref()),
    })
}

/// Returns JSON text as JSON, other text as a string.
fn body(text: Option<&str>) -> Value {
    text.map_or(Value::Null, |text| serde_json::from_str(text).unwrap_or_else(|_| text.into()))
}

/// Prunes. A prune by an operator also removes by age after clock steps, because the operator has checked it.
async fn prune(place: &Place, args: &Prune) -> Result<Answer, Failure> {
    let config = place.config()?;
    let lock = Lock::take(&config.database.path)?;
    let store = Store::open(&config.database.path, &lock).await?;
    let retention = Retention { keep_bodies: config.journal.keep_bodies, max_size: config.journal.max_size };
    let meant = Meant { by_hand: true, dry: args.dry_run };
    let pruned = sync::prune(&store, retention, meant, place.clock().now()).await;
    store.close().await?;
    let would = if args.dry_run { "nothing was changed; a pruning now would come to: " } else { "" };
    Ok(format!("{would}{}\n", pruned?).into())
}

/// A temporary mirror for one command.
struct Passing(PathBuf);

impl Passing {
    fn new() -> Self {
        Self(std::env::temp_dir().join(format!("tallyd-diff-{}.db", std::process::id())))
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Passing {
    fn drop(&mut self) {
        // The host removes a temporary file that cannot be removed here.
        remove(&self.0);
    }
}

async fn diff(place: &Place, args: &Diff) -> Result<Answer, Failure> {
    if args.a > args.b || args.a < 0 {
        return Err(Failure::usage(
            "name two positions, the earlier one first; see tallyd journal show --last 20",
        ));
    }
    let passing = Passing::new();
    let mut folding = Replay::begin(&place.config()?.database.path, passing.path()).await?;
    let end = folding.end(None).await?;
    if args.b > end.0 {
        return Err(Failure::failed(format!("the journal ends at position {end}")));
    }
    fold(&mut folding, Position(args.a)).await?;
    let before = folding.facts(passing.path()).await?;
    fold(&mut folding, Position(args.b)).await?;
    let after = folding.facts(passing.path()).await?;
    folding.close().await?;
    let changed = Replay::changes(&before, &after);
    Ok(if args.reading.json { json(&told(&changed)).into() } else { text(&changed).into() })
}

fn told(changed: &[Compared]) -> Value {
    let table = |compared: &Compared| {
        let row = |row: &Difference| value!({"key": row.key, "before": row.before, "after": row.after});
        value!({
            "table": compared.table,
            "rows": compared.differences.iter().map(row).collect::<Vec<_>>(),
        })
    };
    changed.iter().map(table).collect()
}

fn text(changed: &[Compared]) -> String {
    let mut text = String::new();
    for compared in changed {
        for row in &compared.differences {
            let change = format!("{} {}: {} → {}", compared.table, row.key, row.before, row.after);
            text.push_str(&format!("{}\n", plain(&change)));
        }
    }
    if text.is_empty() { "no fact changed\n".into() } else { text }
}
