//! `backup`: writes a verified copy of the database, with or without a running daemon.

use crate::cli::context::CliContext;
use crate::cli::output::progress::Progress;
use crate::cli::{CommandResult, OutputArgs};
use crate::model::time::whole_millis;
use crate::store::VerifiedCopy;
use serde_json::json;
use std::path::Path;

pub(in crate::cli) async fn backup_command(
    context: &CliContext,
    file: &Path,
    output: OutputArgs,
) -> CommandResult {
    let store = context.open_store().await?;
    let started = context.now();
    let mut progress = Progress::new("bytes copied");
    let advance = |written: u64, total: u64| progress.advance_to(written.min(total), total);
    let copied = store.backup_create(file, started, advance).await?;
    let elapsed_ms = whole_millis(context.now().duration_since(started));
    let file = file.display().to_string();
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
    Ok(output.render(json, text).into())
}
