//! `backup`: writes a verified copy of the database, with or without a running daemon.

use crate::cli::context::CliContext;
use crate::cli::output::pretty_json;
use crate::cli::{CommandFailure, CommandOutput};
use crate::model::Clock;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json as value;
use std::path::PathBuf;

/// A proved copy of the database.
#[derive(Debug, Args)]
pub(in crate::cli) struct BackupArgs {
    /// Where to: a file that is not there yet
    file: PathBuf,
    /// Print JSON for programs
    #[arg(long)]
    json: bool,
}

pub(in crate::cli) async fn backup_command(
    place: &CliContext,
    args: BackupArgs,
) -> Result<CommandOutput, CommandFailure> {
    let store = place.open_store().await?;
    let started = place.clock().now();
    // The bar is drawn only on a terminal.
    let bar = ProgressBar::new(0).with_style(bar_style());
    let progress = |written: u64, total: u64| {
        bar.set_length(total);
        bar.set_position(written.min(total));
    };
    let copied = store.backup_create(&args.file, started, progress).await;
    bar.finish_and_clear();
    let copied = copied?;
    let elapsed_ms =
        i64::try_from(place.clock().now().duration_since(started).as_millis()).unwrap_or(i64::MAX);
    let file = args.file.display().to_string();
    if args.json {
        let all = value!({
            "file": file, "size_bytes": copied.size_bytes, "tables": copied.tables, "rows": copied.rows,
            "position": copied.position, "made_at": started.to_rfc3339(), "elapsed_ms": elapsed_ms,
        });
        return Ok(pretty_json(&all).into());
    }
    Ok(format!(
        "{file}: {} bytes; {} rows in {} tables compared with the original in {elapsed_ms} ms\n\
         a daemon that starts on it holds what may have been done since: docs/backup.md\n",
        copied.size_bytes, copied.rows, copied.tables
    )
    .into())
}

fn bar_style() -> ProgressStyle {
    let style = ProgressStyle::with_template("{bar:30} {bytes} of {total_bytes}");
    style.expect("the template is a constant, and right")
}
