//! `backup`: a scheduled copy of the database, and the removal of the oldest copies.

use crate::exec::{JobContext, JobError, RunReport};
use crate::model::counted;
use crate::store::{StoreError, scheduled_copy_name};
use crate::telemetry::event;

pub(crate) async fn run(context: &JobContext) -> Result<RunReport, JobError> {
    tokio::select! {
        report = copy_database(context) => report,
        // A stop drops the copy; its incomplete file is removed.
        () = context.wait_for_stop() => Err(JobError::Stopped),
    }
}

async fn copy_database(context: &JobContext) -> Result<RunReport, JobError> {
    let settings = context.settings();
    let folder = &settings.backup.directory;
    std::fs::create_dir_all(folder).map_err(|source| StoreError::File {
        action: "create the directory for backups (`backup.directory`)",
        path: folder.clone(),
        source,
    })?;
    let started = context.now();
    let file = folder.join(scheduled_copy_name(started));
    let copied = context.store.backup_create(&file, started, |_, _| {}).await?;
    let removed = context.store.backup_rotate(folder, settings.backup.keep).await?;
    let elapsed_ms = u64::try_from(context.now().duration_since(started).as_millis()).unwrap_or(u64::MAX);
    let (path, size_bytes, rows) = (file.display().to_string(), copied.size_bytes, copied.rows);
    tracing::info!(
        event = event::BACKUP_WRITTEN,
        file = path,
        size_bytes,
        elapsed_ms,
        "the backup {path} was written; {rows} rows compared"
    );
    Ok(RunReport::ok(format!(
        "{path}: {size_bytes} bytes, {rows} rows compared; {} removed",
        counted(removed, "old copy")
    )))
}
