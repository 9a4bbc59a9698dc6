//! `journal`: exchanges and events as text, as JSON Lines, and as their effect between two positions.
//!
//! The output holds no key, because the journal has no headers. Text from the platform is shown as it came.

use super::replay::{project_with_progress, remove_database};
use crate::cli::context::CliContext;
use crate::cli::output::{self, TextTable, or_dash, plain_line, pretty_json};
use crate::cli::{CommandFailure, CommandOutput, OutputArgs};
use crate::model::{Clock, Position, Timestamp};
use crate::projection::JournalReplay;
use crate::store::{DatabaseLock, ExchangeDetail, JournalEvent, RowDifference, Store, TableComparison};
use crate::sync;
use crate::sync::PruneOptions;
use clap::{Args, Subcommand};
use serde_json::{Value, json as value};
use std::path::{Path, PathBuf};

/// The number of positions read at a time by an export; it bounds the bodies in memory.
const EXPORT_STEP: i64 = 200;

/// The record of exchanges and events.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Command {
    /// Show one exchange or event with all it holds, or list the newest
    Show(JournalShowArgs),
    /// Print the journal as JSON Lines, one exchange or event a line, in order
    Export(JournalExportArgs),
    /// Let old bodies go now, over a snapshot; takes the database's lock, so not beside a running daemon
    Prune(JournalPruneArgs),
    /// Say what changed in the facts between two positions
    Diff(JournalDiffArgs),
}

/// Journal entry to show.
#[derive(Debug, Args)]
pub(in crate::cli) struct JournalShowArgs {
    /// Its position: where an exchange began or ended, or where an event stands
    #[arg(conflicts_with = "last")]
    id: Option<i64>,
    /// List the newest so many
    #[arg(long, value_name = "N", default_value_t = 20)]
    last: u32,
    #[command(flatten)]
    output: OutputArgs,
}

/// Range of the journal to export.
#[derive(Debug, Args)]
pub(in crate::cli) struct JournalExportArgs {
    /// Only what stands behind this position
    #[arg(long, value_name = "POSITION", default_value_t = 0)]
    after: i64,
}

/// Options of a prune.
#[derive(Debug, Args)]
pub(in crate::cli) struct JournalPruneArgs {
    /// Only say what would go
    #[arg(long)]
    dry_run: bool,
}

/// Between which positions.
#[derive(Debug, Args)]
pub(in crate::cli) struct JournalDiffArgs {
    /// The earlier position
    a: i64,
    /// The later position
    b: i64,
    #[command(flatten)]
    output: OutputArgs,
}

pub(in crate::cli) async fn journal_command(
    context: &CliContext,
    command: Command,
) -> Result<CommandOutput, CommandFailure> {
    match command {
        Command::Show(args) => show_entry(context, &args).await,
        Command::Export(args) => export_entries(context, &args).await,
        Command::Prune(args) => prune_journal(context, &args).await,
        Command::Diff(args) => diff_facts(context, &args).await,
    }
}

async fn show_entry(context: &CliContext, args: &JournalShowArgs) -> Result<CommandOutput, CommandFailure> {
    let store = context.open_store().await?;
    let Some(id) = args.id else { return list_newest(&store, args).await };
    let (before, at) = (Position(id - 1), Position(id));
    let all = match store.exchange_detail(at).await? {
        Some(detail) => journal_exchange_json(&detail),
        None => match store.event_list(before, at).await?.first() {
            Some(detail) => journal_event_json(detail),
            None => {
                return Err(CommandFailure::failed(format!(
                    "nothing stands at position {id} of the journal"
                )));
            }
        },
    };
    if args.output.json {
        return Ok(pretty_json(&all).into());
    }
    let mut text = String::new();
    for (name, field) in all.as_object().into_iter().flatten().filter(|(_, field)| !field.is_null()) {
        match field {
            Value::String(field) => text.push_str(&format!("{name:<12} {}\n", plain_line(field))),
            Value::Array(_) | Value::Object(_) => {
                text.push_str(&format!("{name}:\n{}\n", output::indented_json(field)))
            }
            other => text.push_str(&format!("{name:<12} {other}\n")),
        }
    }
    Ok(text.into())
}

async fn list_newest(store: &Store, args: &JournalShowArgs) -> Result<CommandOutput, CommandFailure> {
    let (after, to) = (store.journal_tail_start(args.last).await?, store.journal_position().await?);
    let entries = journal_entries(store, after, to).await?;
    if args.output.json {
        return Ok(pretty_json(&entries).into());
    }
    let mut table = TextTable::new(&["position", "at", "what", "run", "job", "verdict", "status", "message"]);
    let text = |entry: &Value, name: &str| match &entry[name] {
        Value::String(text) => text.clone(),
        Value::Null => or_dash(None::<String>),
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
        table.add_row([vec![text(entry, "position"), at, what], rest.to_vec()].concat());
    }
    Ok(table.to_text("the journal is empty").into())
}

/// Returns the exchanges and events between two positions, in order.
async fn journal_entries(store: &Store, after: Position, to: Position) -> Result<Vec<Value>, CommandFailure> {
    let mut all: Vec<Value> =
        store.exchange_details(after, to).await?.iter().map(journal_exchange_json).collect();
    all.extend(store.event_list(after, to).await?.iter().map(journal_event_json));
    all.sort_by_key(|entry| entry["position"].as_i64());
    Ok(all)
}

async fn export_entries(
    place: &CliContext,
    args: &JournalExportArgs,
) -> Result<CommandOutput, CommandFailure> {
    let store = place.open_store().await?;
    let end = store.journal_position().await?;
    let mut at = Position(args.after);
    while at < end {
        let to = Position(at.0.saturating_add(EXPORT_STEP).min(end.0));
        let lines: String = journal_entries(&store, at, to)
            .await?
            .iter()
            .map(|entry| output::json_line(entry) + "\n")
            .collect();
        output::print_text(&lines);
        at = to;
    }
    Ok(String::new().into())
}

/// Returns an exchange for `--json` and the export.
fn journal_exchange_json(detail: &ExchangeDetail) -> Value {
    let row = &detail.row;
    value!({
        "type": "exchange", "position": row.exchange.id, "ended_position": row.ended, "run": row.run_id, "job": row.job,
        "trigger": row.trigger, "operation": row.exchange.operation, "target": row.exchange.target, "lane": row.exchange.lane,
        "sent_at": Timestamp(row.exchange.sent_ms).to_rfc3339(),
        "answered_at": row.exchange.answered_ms.map(|ms| Timestamp(ms).to_rfc3339()),
        "verdict": row.exchange.verdict, "status": row.exchange.status, "message": row.exchange.message, "parked": row.exchange.parked,
        "set_aside": row.is_ignored, "request": body_json(detail.request.as_deref()),
        "response": body_json(detail.response.as_deref()),
    })
}

/// Returns an event for `--json` and the export.
fn journal_event_json(detail: &JournalEvent) -> Value {
    value!({
        "type": "event", "position": detail.position, "at": Timestamp(detail.at_ms).to_rfc3339(), "kind": detail.kind,
        "subject": detail.subject, "detail": body_json(detail.detail.as_deref()),
    })
}

/// Returns JSON text as JSON, other text as a string.
fn body_json(text: Option<&str>) -> Value {
    text.map_or(Value::Null, |text| serde_json::from_str(text).unwrap_or_else(|_| text.into()))
}

/// Prunes. A prune by an operator also removes by age after clock steps, because the operator has checked it.
async fn prune_journal(
    context: &CliContext,
    args: &JournalPruneArgs,
) -> Result<CommandOutput, CommandFailure> {
    let config = context.config()?;
    let lock = DatabaseLock::acquire(&config.database.path)?;
    let store = Store::open(&config.database.path, &lock).await?;
    let meant = PruneOptions { is_by_operator: true, is_dry_run: args.dry_run };
    let pruned = sync::prune_journal(&store, config.journal, meant, context.clock().now()).await;
    store.close().await?;
    let would = if args.dry_run { "nothing was changed; a pruning now would come to: " } else { "" };
    Ok(format!("{would}{}\n", pruned?).into())
}

/// A temporary mirror for one command.
struct TemporaryMirror(PathBuf);

impl TemporaryMirror {
    fn new() -> Self {
        Self(std::env::temp_dir().join(format!("tallyd-diff-{}.db", std::process::id())))
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryMirror {
    fn drop(&mut self) {
        // The host removes a temporary file that cannot be removed here.
        remove_database(&self.0);
    }
}

async fn diff_facts(context: &CliContext, args: &JournalDiffArgs) -> Result<CommandOutput, CommandFailure> {
    if args.a > args.b || args.a < 0 {
        return Err(CommandFailure::usage(
            "name two positions, the earlier one first; see tallyd journal show --last 20",
        ));
    }
    let passing = TemporaryMirror::new();
    let mut folding = JournalReplay::start_empty(&context.config()?.database.path, passing.path()).await?;
    let end = folding.last_position(None).await?;
    if args.b > end.0 {
        return Err(CommandFailure::failed(format!("the journal ends at position {end}")));
    }
    project_with_progress(&mut folding, Position(args.a)).await?;
    let before = folding.current_facts(passing.path()).await?;
    project_with_progress(&mut folding, Position(args.b)).await?;
    let after = folding.current_facts(passing.path()).await?;
    folding.close().await?;
    let changed = JournalReplay::changed_facts(&before, &after);
    Ok(if args.output.json {
        pretty_json(&differences_json(&changed)).into()
    } else {
        differences_text(&changed).into()
    })
}

fn differences_json(changed: &[TableComparison]) -> Value {
    let table = |compared: &TableComparison| {
        let row = |row: &RowDifference| value!({"key": row.key, "before": row.before, "after": row.after});
        value!({
            "table": compared.table,
            "rows": compared.differences.iter().map(row).collect::<Vec<_>>(),
        })
    };
    changed.iter().map(table).collect()
}

fn differences_text(changed: &[TableComparison]) -> String {
    let mut text = String::new();
    for compared in changed {
        for row in &compared.differences {
            let change = format!("{} {}: {} → {}", compared.table, row.key, row.before, row.after);
            text.push_str(&format!("{}\n", plain_line(&change)));
        }
    }
    if text.is_empty() { "no fact changed\n".into() } else { text }
}
