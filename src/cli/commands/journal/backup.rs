//! `backup`: writes a verified copy of the database, with or without a running daemon.

use crate::cli::context::CliContext;
use crate::cli::output::progress::progress_bar;
use crate::cli::{CommandResult, OutputArgs};
use crate::model::time::whole_millis;
use crate::store::VerifiedCopy;
use clap::Args;
use serde_json::json;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(in crate::cli) struct BackupArgs {
    /// File to write; it must not exist yet
    file: PathBuf,
    #[command(flatten)]
    output: OutputArgs,
}

pub(in crate::cli) async fn backup_command(context: &CliContext, args: BackupArgs) -> CommandResult {
    let store = context.open_store().await?;
    let started = context.now();
    let bar = progress_bar(0, "{bar:30} {bytes} of {total_bytes}");
    let progress = |written: u64, total: u64| {
        bar.set_length(total);
        bar.set_position(written.min(total));
    };
    let copied = store.backup_create(&args.file, started, progress).await?;
    drop(bar);
    let elapsed_ms = whole_millis(context.now().duration_since(started));
    let file = args.file.display().to_string();
    let VerifiedCopy { size_bytes, tables, rows, .. } = copied;
    let json = || {
        json!({
            "file": file, "size_bytes": size_bytes, "tables": tables, "rows": rows,
            "position": copied.position, "made_at": started.to_rfc3339(), "elapsed_ms": elapsed_ms,
        })
    };
    let text = || {
        format!(
            "{file}: {size_bytes} bytes; {rows} rows in {tables} tables are equal to the original; took {elapsed_ms} ms\n\
             a daemon that starts on this copy holds changes that may have been sent since: docs/backup.md\n"
        )
    };
    Ok(args.output.render(json, text).into())
}
