//! `replay`: rebuilds the mirror from the journal, offline; exit 3 if a row differs from the live mirror.

use crate::cli::context::CliContext;
use crate::cli::output::progress::ProgressDisplay;
use crate::cli::output::{TextTable, plain_line, pretty_json};
use crate::cli::{CommandFailure, CommandOutput, OutputArgs};
use crate::exec::JobError;
use crate::model::{Position, Timestamp};
use crate::projection::{JournalReplay as Folding, ProjectionError, ReplayReport};
use crate::store::{RowDifference, TableComparison};
use clap::Args;
use serde_json::{Value, json as value};
use std::path::{Path, PathBuf};

/// The number of differing rows shown per table.
const ROWS_SHOWN: usize = 5;

/// The journal folded into a fresh mirror.
#[derive(Debug, Args)]
pub(in crate::cli) struct ReplayArgs {
    /// The file of the fresh mirror; it must not be there yet
    #[arg(long, value_name = "FILE")]
    into: PathBuf,
    /// The mirror as of this time (RFC 3339; UTC where no zone is named), which is not compared
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    #[command(flatten)]
    output: OutputArgs,
}

impl From<ProjectionError> for CommandFailure {
    fn from(error: ProjectionError) -> Self {
        Self::failed(error.to_string())
    }
}

impl From<JobError> for CommandFailure {
    fn from(error: JobError) -> Self {
        Self::failed(error.to_string())
    }
}

pub(in crate::cli) async fn replay_command(
    place: &CliContext,
    args: ReplayArgs,
) -> Result<CommandOutput, CommandFailure> {
    let until = args.until.as_deref().map(parse_time).transpose()?;
    if args.into.exists() {
        let file = args.into.display();
        return Err(CommandFailure::usage(format!(
            "{file} is there already: name a new file, nothing is overwritten"
        )));
    }
    let folding = Folding::start_empty(&place.config()?.database.path, &args.into).await?;
    let done = replay_and_compare(folding, &args, until).await;
    if done.is_err() {
        // A partial file must not be taken for a mirror.
        remove_database(&args.into);
    }
    done
}

/// Removes a database file with its `-wal` and `-shm` files, if present.
pub(super) fn remove_database(file: &Path) {
    for end in ["", "-wal", "-shm"] {
        let mut name = file.as_os_str().to_owned();
        name.push(end);
        drop(std::fs::remove_file(PathBuf::from(name)));
    }
}

async fn replay_and_compare(
    mut folding: Folding,
    args: &ReplayArgs,
    until: Option<Timestamp>,
) -> Result<CommandOutput, CommandFailure> {
    let end = folding.last_position(until).await?;
    project_with_progress(&mut folding, end).await?;
    let file = args.into.display().to_string();
    if until.is_some() {
        folding.close().await?;
        let all = value!({"into": file, "position": end, "tables": null, "equal": null});
        let text = format!("{file} holds the mirror as of position {end}; nothing was compared\n");
        return Ok(if args.output.json { pretty_json(&all) } else { text }.into());
    }
    let replayed = folding.compare_mirrors(&args.into).await?;
    let code = if replayed.is_equal() { 0 } else { 3 };
    let text = if args.output.json {
        pretty_json(&comparison_json(&file, &replayed))
    } else {
        comparison_text(&file, &replayed)
    };
    Ok(CommandOutput { text, exit_code: code })
}

pub(super) fn parse_time(text: &str) -> Result<Timestamp, CommandFailure> {
    Timestamp::parse(text).ok_or_else(|| {
        CommandFailure::usage(format!("`{text}` is no time; write it like 2031-05-04T17:00:00Z"))
    })
}

pub(super) async fn project_with_progress(
    folding: &mut Folding,
    end: Position,
) -> Result<(), CommandFailure> {
    let mut progress = ProgressDisplay::new("folding the journal", end.0.unsigned_abs());
    Ok(folding.project_to(end, &mut |at| progress.advance_to(at.0.unsigned_abs())).await?)
}

fn comparison_text(file: &str, replayed: &ReplayReport) -> String {
    let mut table = TextTable::new(&["table", "live rows", "replayed", "live hash", "replayed hash", ""]);
    for compared in &replayed.tables {
        let verdict = if compared.is_equal() { "equal" } else { "DIFFERS" };
        let (live, case_key) = (compared.rows.0.to_string(), compared.rows.1.to_string());
        let (live_hash, fold_hash) = compared.hashes.clone();
        table.add_row([compared.table.into(), live, case_key, live_hash, fold_hash, verdict.into()]);
    }
    let mut text = table.to_text("no facts");
    for compared in replayed.tables.iter().filter(|compared| !compared.is_equal()) {
        for row in compared.differences.iter().take(ROWS_SHOWN) {
            let differs =
                format!("{} {}: live {}, replayed {}", compared.table, row.key, row.before, row.after);
            text.push_str(&format!("{}\n", plain_line(&differs)));
        }
        let more = compared.differences.len().saturating_sub(ROWS_SHOWN);
        if more > 0 {
            text.push_str(&format!("{}: {more} more row(s) differ\n", compared.table));
        }
    }
    let verdict = if replayed.is_equal() {
        "the live mirror is the fold of its journal"
    } else {
        "the live mirror is NOT the fold of its journal: keep both files, and take the facts anew from the platform \
         with tallyd run --once"
    };
    text.push_str(&format!("\n{file}, position {}: {verdict}\n", replayed.position));
    text
}

fn comparison_json(file: &str, replayed: &ReplayReport) -> Value {
    let table = |compared: &TableComparison| {
        let row = |row: &RowDifference| value!({"key": row.key, "live": row.before, "replayed": row.after});
        value!({
            "table": compared.table, "live_rows": compared.rows.0, "replayed_rows": compared.rows.1,
            "live_hash": compared.hashes.0, "replayed_hash": compared.hashes.1, "equal": compared.is_equal(),
            "differing_rows": compared.differences.len(),
            "first_differences": compared.differences.iter().take(ROWS_SHOWN).map(row).collect::<Vec<_>>(),
        })
    };
    value!({
        "into": file, "position": replayed.position, "equal": replayed.is_equal(),
        "tables": replayed.tables.iter().map(table).collect::<Vec<_>>(),
    })
}
