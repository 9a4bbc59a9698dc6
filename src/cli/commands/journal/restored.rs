//! `restore` puts a copy in the place of the database; `restored` marks a database that another tool restored.

use crate::cli::context::{CliContext, write_and_commit};
use crate::cli::decider::command_line_user;
use crate::cli::{CommandFailure, CommandResult};
use crate::store::{DatabaseLocation, DatabaseLock, LockError, Store, StoreError};
use std::path::Path;

const NEXT: &str = "The next start holds its open changes, and new ones that may have been sent before: run \
                    `sudo systemctl start tallyd`, then `tallyd outbox list --state held`, and decide (docs/backup.md)\n";

pub(in crate::cli) async fn restore_command(context: &CliContext, copy: &Path) -> CommandResult {
    let location = context.readable_config()?.database.location()?;
    if location.server().is_some() {
        let text = "the database is on a server: stop tallyd on each host, restore it by the server's tools, then run \
                    `tallyd restored`";
        return Err(CommandFailure::usage(text));
    }
    let lock = lock_stopped(&location, "restore")?;
    let (kept, changes) = Store::restore_copy(location.path(), copy, &lock, context.now()).await?;
    let changes: Vec<String> = changes.iter().map(|(state, count)| format!("{count} {state}")).collect();
    let changes = if changes.is_empty() { "none".to_owned() } else { changes.join(", ") };
    let (copy, kept) = (copy.display(), kept.display());
    let text = format!(
        "{location} is the copy {copy} now; the database before, if there was one, is kept as {kept}. Changes in the \
         copy: {changes}. {NEXT}"
    );
    Ok(text.into())
}

pub(in crate::cli) async fn restored_command(context: &CliContext) -> CommandResult {
    let location = context.readable_config()?.database.location()?;
    if location.is_missing_file() {
        return Err(StoreError::Missing { database: location }.into());
    }
    let lock = lock_stopped(&location, "restored")?;
    let store = Store::open(&location, &lock).await?.decided_by(&command_line_user());
    write_and_commit(&store, async |write| write.restore_declare(context.now()).await).await?;
    store.close().await?;
    Ok(format!("{location} is marked as restored. {NEXT}").into())
}

/// Takes the lock, so that no daemon runs or starts.
fn lock_stopped(location: &DatabaseLocation, command: &str) -> Result<DatabaseLock, CommandFailure> {
    DatabaseLock::acquire(location.path()).map_err(|error| match error {
        LockError::Held { .. } => CommandFailure::failed(format!(
            "nothing was changed: a running daemon uses {location} and may already have sent changes. Stop it \
             (`sudo systemctl stop tallyd`), run `tallyd {command}` again, and start it"
        )),
        error => error.into(),
    })
}
