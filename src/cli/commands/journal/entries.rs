//! `journal`: exchanges and events as text, as JSON Lines, and as their effect between two positions.
//!
//! The output holds no key, because the journal has no headers. Text from the platform is shown as it came.

use super::replay::project_with_progress;
use crate::cli::context::CliContext;
use crate::cli::output::{self, cell_text, columns, fields_text, plain_line};
use crate::cli::{CommandFailure, CommandResult, OutputArgs};
use crate::model::{Position, in_words};
use crate::present::listing::time_cell;
use crate::present::runs::{journal_entries, journal_entry};
use crate::present::time_text;
use crate::projection::{ChangedTable, JournalReplay};
use crate::store::{DatabaseLock, Store, remove_database};
use crate::sync::{self, PruneOptions};
use clap::Subcommand;
use serde_json::{Value, json};
use std::path::Path;

/// The number of positions read at a time by an export; it bounds the bodies in memory.
const EXPORT_STEP: i64 = 200;

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Command {
    /// Show one journal entry (an exchange or an event), or list the newest
    Show {
        /// Position of the journal entry: the begin or end of an exchange, or an event
        #[arg(conflicts_with = "last")]
        id: Option<i64>,
        /// Number of newest entries to list
        #[arg(long, value_name = "N", default_value_t = 20)]
        last: u32,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Print the journal entries as JSON Lines, in order
    Export {
        /// Export only entries after this position
        #[arg(long, value_name = "POSITION", default_value_t = 0)]
        after: i64,
    },
    /// Remove old bodies and reads behind a snapshot; needs the database's lock, so stop the daemon first
    Prune {
        /// Show what would be removed, and change nothing
        #[arg(long)]
        dry_run: bool,
    },
    /// Show the facts that changed between two positions
    Diff {
        /// Earlier position
        a: i64,
        /// Later position
        b: i64,
        #[command(flatten)]
        output: OutputArgs,
    },
}

pub(in crate::cli) async fn journal_command(context: &CliContext, command: Command) -> CommandResult {
    match command {
        Command::Show { id: Some(id), output, .. } => show_entry(context, id, output).await,
        Command::Show { id: None, last, output } => list_newest(context, last, output).await,
        Command::Export { after } => export_entries(context, Position(after)).await,
        Command::Prune { dry_run } => prune_journal(context, dry_run).await,
        Command::Diff { a, b, output } => diff_facts(context, a, b, output).await,
    }
}

async fn show_entry(context: &CliContext, id: i64, output: OutputArgs) -> CommandResult {
    let entry = journal_entry(&context.open_store().await?, Position(id), usize::MAX).await?;
    let entry =
        entry.ok_or_else(|| CommandFailure::failed(format!("the journal has no entry at position {id}")))?;
    Ok(output.render(|| &entry, || entry_text(&entry)).into())
}

fn entry_text(entry: &Value) -> String {
    let mut text = fields_text(entry);
    for name in ["request", "response", "detail"] {
        if let body @ (Value::Array(_) | Value::Object(_)) = &entry[name] {
            text.push_str(&format!("{name}:\n{}", output::pretty_json(body)));
        }
    }
    text
}

async fn list_newest(context: &CliContext, last: u32, output: OutputArgs) -> CommandResult {
    let store = context.open_store().await?;
    let (after, to) = (store.journal_tail_start(last).await?, store.journal_position().await?);
    let columns = |entry: &Value| {
        let (at, subject) = match entry["type"] == "event" {
            true => ("at", format!("{} {}", cell_text(&entry["kind"]), cell_text(&entry["subject"]))),
            false => ("sent_at", cell_text(&entry["operation"])),
        };
        let by = entry["by"].as_str().map(|decider| format!("by {decider}"));
        columns! {
            "position": entry["position"], "at": time_cell(entry[at].as_str()), "operation or event": subject,
            "run": entry["run"], "job": entry["job"], "verdict": entry["verdict"], "status": entry["status"],
            "message": by.unwrap_or_else(|| cell_text(&entry["message"])),
        }
    };
    output.list(&journal_entries(&store, after, to).await?, "the journal is empty", columns)
}

async fn export_entries(context: &CliContext, after: Position) -> CommandResult {
    let store = context.open_store().await?;
    let end = store.journal_position().await?;
    let mut at = after;
    while at < end {
        let to = Position(at.0.saturating_add(EXPORT_STEP).min(end.0));
        let entries = journal_entries(&store, at, to).await?;
        output::print_text(&entries.iter().map(|entry| output::json_line(entry) + "\n").collect::<String>());
        at = to;
    }
    Ok(String::new().into())
}

/// Prunes. A prune by an operator also removes by age after clock steps, because the operator has checked it.
async fn prune_journal(context: &CliContext, is_dry_run: bool) -> CommandResult {
    let config = context.config()?;
    let lock = DatabaseLock::acquire(&config.database.path)?;
    let store = Store::open(config.database.location()?, &lock).await?;
    let options = PruneOptions { is_by_operator: true, is_dry_run };
    let pruned = sync::prune_journal(&store, config.journal, options, context.now()).await;
    store.close().await?;
    let preface = if is_dry_run { "nothing was changed; a prune now would give: " } else { "" };
    Ok(format!("{preface}{}\n", pruned?).into())
}

async fn diff_facts(context: &CliContext, a: i64, b: i64, output: OutputArgs) -> CommandResult {
    if a > b || a < 0 {
        return Err(CommandFailure::usage(
            "name two positions, the earlier first; see `tallyd journal show --last 20`",
        ));
    }
    let file = std::env::temp_dir().join(format!("tallyd-diff-{}.db", std::process::id()));
    let changed = changed_facts(context, &file, a, b).await;
    // The host removes a temporary file that cannot be removed here.
    remove_database(&file);
    let changed = changed?;
    let table = |(table, rows): &ChangedTable| json!({"table": table, "rows": rows});
    let json = || changed.iter().map(table).collect::<Vec<Value>>();
    Ok(output.render(json, || differences_text(&changed)).into())
}

async fn changed_facts(
    context: &CliContext,
    mirror: &Path,
    a: i64,
    b: i64,
) -> Result<Vec<ChangedTable>, CommandFailure> {
    let live = context.readable_config()?.database.location()?;
    let mut replay = JournalReplay::start_empty(live, mirror).await?;
    let end = replay.last_position(None).await?;
    if b > end.0 {
        return Err(CommandFailure::failed(format!("the journal ends at position {end}")));
    }
    project_with_progress(&mut replay, Position(a)).await?;
    let before = replay.current_facts(mirror).await?;
    project_with_progress(&mut replay, Position(b)).await?;
    let after = replay.current_facts(mirror).await?;
    replay.close().await?;
    Ok(JournalReplay::changed_facts(&before, &after))
}

fn differences_text(changed: &[ChangedTable]) -> String {
    let mut text = String::new();
    for (table, rows) in changed {
        for row in rows {
            let [key, before, after] = [&row.key, &row.before, &row.after].map(row_text);
            let change = format!("{} {key}: {before} → {after}", in_words(table));
            text.push_str(&format!("{}\n", plain_line(&change)));
        }
    }
    if text.is_empty() { "no fact changed\n".into() } else { text }
}

/// Formats columns for people: their names in words, times as times; `none` where there is no row.
fn row_text(row: &Value) -> String {
    let Value::Object(columns) = row else {
        return if row.is_null() { "none".into() } else { cell_text(row) };
    };
    let column = |(name, value): (&String, &Value)| match (name.strip_suffix("_ms"), value.as_i64()) {
        (Some(name), Some(ms)) => format!("{} {}", in_words(name), time_text(ms)),
        _ => format!("{} {}", in_words(name), cell_text(value)),
    };
    columns.iter().map(column).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_row_reads_without_knowledge_of_the_columns() {
        let row = json!({"since_ms": 1_795_327_095_861_i64, "own_delta": -3, "name": null});
        assert_eq!(row_text(&row), "name -, own delta -3, since 2026-11-22T05:58:15.861Z");
        assert_eq!(row_text(&Value::Null), "none");
    }
}
