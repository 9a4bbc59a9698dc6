//! `replay`: rebuilds the mirror from the journal, offline; exit 3 if a row differs from the live mirror.

use crate::cli::context::CliContext;
use crate::cli::local_time::parse_any_time;
use crate::cli::output::progress::Progress;
use crate::cli::output::{NAMED_MAX, columns, lines_text, shortened, table_text};
use crate::cli::{CommandFailure, CommandOutput, CommandResult, OutputArgs};
use crate::model::{Position, Timestamp};
use crate::projection::{JournalReplay, ReplayReport};
use crate::store::{DatabaseLocation, RowDifference, TableComparison, remove_database};
use clap::Args;
use serde_json::{Value, json};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(in crate::cli) struct ReplayArgs {
    /// File of the rebuilt mirror; it must not exist yet
    #[arg(long, value_name = "FILE")]
    into: PathBuf,
    /// Rebuild the mirror as of this time (local unless it names a zone), without a comparison
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    #[command(flatten)]
    output: OutputArgs,
}

pub(in crate::cli) async fn replay_command(context: &CliContext, args: ReplayArgs) -> CommandResult {
    let until = args.until.as_deref().map(|text| parse_any_time(text, context.now()));
    let until = until.transpose().map_err(CommandFailure::usage)?;
    if args.into.exists() {
        let file = args.into.display();
        return Err(CommandFailure::usage(format!("{file} exists already; name a new file")));
    }
    let live = context.readable_config()?.database.location()?;
    // A partial file must not be taken for a mirror.
    replay_and_compare(live, &args, until).await.inspect_err(|_| remove_database(&args.into))
}

async fn replay_and_compare(
    live: DatabaseLocation,
    args: &ReplayArgs,
    until: Option<Timestamp>,
) -> CommandResult {
    let mut replay = JournalReplay::start_empty(live, &args.into).await?;
    let end = replay.last_position(until).await?;
    project_with_progress(&mut replay, end).await?;
    let file = args.into.display().to_string();
    if until.is_some() {
        replay.close().await?;
        let json = || json!({"into": file, "position": end, "tables": null, "equal": null});
        let text = || format!("{file} contains the mirror as of position {end}; nothing was compared\n");
        return Ok(args.output.render(json, text).into());
    }
    let replayed = replay.compare_mirrors(&args.into).await?;
    let text = args.output.render(|| comparison_json(&file, &replayed), || comparison_text(&file, &replayed));
    Ok(CommandOutput { text, exit_code: if replayed.is_equal() { 0 } else { 3 } })
}

pub(super) async fn project_with_progress(
    replay: &mut JournalReplay,
    end: Position,
) -> Result<(), CommandFailure> {
    let mut progress = Progress::new("rebuilding the mirror");
    let mut advance = |at: Position| progress.advance_to(at.0.unsigned_abs(), end.0.unsigned_abs());
    Ok(replay.project_to(end, &mut advance).await?)
}

fn comparison_text(file: &str, replayed: &ReplayReport) -> String {
    let columns = |compared: &TableComparison| {
        let [live, replayed] = compared.sums;
        columns! {
            "table": compared.table, "live rows": live.rows, "replayed": replayed.rows,
            "live hash": live.hash(), "replayed hash": replayed.hash(),
            "": if compared.is_equal() { "equal" } else { "DIFFERS" },
        }
    };
    let mut text = table_text(replayed.tables.iter().map(columns), "no facts");
    for compared in replayed.tables.iter().filter(|compared| !compared.is_equal()) {
        let differs = |row: &RowDifference| {
            format!("{} {}: live {}, replayed {}", compared.table, row.key, row.before, row.after)
        };
        text.push_str(&lines_text(&shortened(compared.differences.iter().map(differs), NAMED_MAX)));
    }
    let verdict = if replayed.is_equal() {
        "the live mirror equals the rebuilt one"
    } else {
        "the live mirror DIFFERS from the rebuilt one: keep both files for a bug report, and read the facts again \
         with `tallyd run --once`"
    };
    text.push_str(&format!("\n{file}, position {}: {verdict}\n", replayed.position));
    text
}

fn comparison_json(file: &str, replayed: &ReplayReport) -> Value {
    let table = |compared: &TableComparison| {
        let row = |row: &RowDifference| json!({"key": row.key, "live": row.before, "replayed": row.after});
        let [live, replayed] = compared.sums;
        json!({
            "table": compared.table, "live_rows": live.rows, "replayed_rows": replayed.rows,
            "live_hash": live.hash(), "replayed_hash": replayed.hash(), "equal": compared.is_equal(),
            "differing_rows": compared.differences.len(),
            "first_differences": compared.differences.iter().take(NAMED_MAX).map(row).collect::<Vec<_>>(),
        })
    };
    json!({
        "into": file, "position": replayed.position, "equal": replayed.is_equal(),
        "tables": replayed.tables.iter().map(table).collect::<Vec<_>>(),
    })
}
