//! `replay`: rebuilds the mirror from the journal, offline; exit 3 if a row differs from the live mirror.

use crate::cli::context::Place;
use crate::cli::output::progress::Progress;
use crate::cli::output::{Table, json, plain};
use crate::cli::{Answer, Failure, Reading};
use crate::exec::JobError;
use crate::model::{Position, Timestamp};
use crate::projection::{ProjectionError, Replay as Folding, Replayed};
use crate::store::{Compared, Difference};
use clap::Args;
use serde_json::{Value, json as value};
use std::path::{Path, PathBuf};

/// The number of differing rows shown per table.
const SHOWN: usize = 5;

/// The journal folded into a fresh mirror.
#[derive(Debug, Args)]
pub(in crate::cli) struct Replay {
    /// The file of the fresh mirror; it must not be there yet
    #[arg(long, value_name = "FILE")]
    into: PathBuf,
    /// The mirror as of this time (RFC 3339; UTC where no zone is named), which is not compared
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    #[command(flatten)]
    reading: Reading,
}

impl From<ProjectionError> for Failure {
    fn from(error: ProjectionError) -> Self {
        Self::failed(error.to_string())
    }
}

impl From<JobError> for Failure {
    fn from(error: JobError) -> Self {
        Self::failed(error.to_string())
    }
}

pub(in crate::cli) async fn replay(place: &Place, args: Replay) -> Result<Answer, Failure> {
    let until = args.until.as_deref().map(time).transpose()?;
    if args.into.exists() {
        let file = args.into.display();
        return Err(Failure::usage(format!(
            "{file} is there already: name a new file, nothing is overwritten"
        )));
    }
    let folding = Folding::begin(&place.config()?.database.path, &args.into).await?;
    let done = finish(folding, &args, until).await;
    if done.is_err() {
        // A partial file must not be taken for a mirror.
        remove(&args.into);
    }
    done
}

/// Removes a database file with its `-wal` and `-shm` files, if present.
pub(super) fn remove(file: &Path) {
    for end in ["", "-wal", "-shm"] {
        let mut name = file.as_os_str().to_owned();
        name.push(end);
        drop(std::fs::remove_file(PathBuf::from(name)));
    }
}

async fn finish(mut folding: Folding, args: &Replay, until: Option<Timestamp>) -> Result<Answer, Failure> {
    let end = folding.end(until).await?;
    fold(&mut folding, end).await?;
    let file = args.into.display().to_string();
    if until.is_some() {
        folding.close().await?;
        let all = value!({"into": file, "position": end, "tables": null, "equal": null});
        let text = format!("{file} holds the mirror as of position {end}; nothing was compared\n");
        return Ok(if args.reading.json { json(&all) } else { text }.into());
    }
    let replayed = folding.compare(&args.into).await?;
    let code = if replayed.is_equal() { 0 } else { 3 };
    let text = if args.reading.json { json(&told(&file, &replayed)) } else { text(&file, &replayed) };
    Ok(Answer { text, code })
}

pub(super) fn time(text: &str) -> Result<Timestamp, Failure> {
    Timestamp::parse(text)
        .ok_or_else(|| Failure::usage(format!("`{text}` is no time; write it like 2031-05-04T17:00:00Z")))
}

pub(super) async fn fold(folding: &mut Folding, end: Position) -> Result<(), Failure> {
    let mut progress = Progress::new("folding the journal", end.0.unsigned_abs());
    Ok(folding.fold(end, &mut |at| progress.at(at.0.unsigned_abs())).await?)
}

fn text(file: &str, replayed: &Replayed) -> String {
    let mut table = Table::new(&["table", "live rows", "replayed", "live hash", "replayed hash", ""]);
    for compared in &replayed.tables {
        let verdict = if compared.is_equal() { "equal" } else { "DIFFERS" };
        let (live, fold) = (compared.rows.0.to_string(), compared.rows.1.to_string());
        let (live_hash, fold_hash) = compared.hashes.clone();
        table.row([compared.table.into(), live, fold, live_hash, fold_hash, verdict.into()]);
    }
    let mut text = table.render("no facts");
    for compared in replayed.tables.iter().filter(|compared| !compared.is_equal()) {
        for row in compared.differences.iter().take(SHOWN) {
            let differs =
                format!("{} {}: live {}, replayed {}", compared.table, row.key, row.before, row.after);
            text.push_str(&format!("{}\n", plain(&differs)));
        }
        let more = compared.differences.len().saturating_sub(SHOWN);
        if more > 0 {
            text.push_str(&format!("{}: {more} more row(s) differ\n", compared.table));
        }
    }
    let verdict = if replayed.is_equal() {
        "the live mirror is the fold of its journal"
    } else {
        "the live mirror is NOT the fold of its journal: keep both files, and take the facts anew from the service \
         with tallyd run --once"
    };
    text.push_str(&format!("\n{file}, position {}: {verdict}\n", replayed.position));
    text
}

fn told(file: &str, replayed: &Replayed) -> Value {
    let table = |compared: &Compared| {
        let row = |row: &Difference| value!({"key": row.key, "live": row.before, "replayed": row.after});
        value!({
            "table": compared.table, "live_rows": compared.rows.0, "replayed_rows": compared.rows.1,
            "live_hash": compared.hashes.0, "replayed_hash": compared.hashes.1, "equal": compared.is_equal(),
            "differing_rows": compared.differences.len(),
            "first_differences": compared.differences.iter().take(SHOWN).map(row).collect::<Vec<_>>(),
        })
    };
    value!({
        "into": file, "position": replayed.position, "equal": replayed.is_equal(),
        "tables": replayed.tables.iter().map(table).collect::<Vec<_>>(),
    })
}
