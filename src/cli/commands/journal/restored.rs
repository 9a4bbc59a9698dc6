//! `restored`: marks the database as restored by another tool.

use crate::cli::context::{CliContext, write_and_commit};
use crate::cli::decider::command_line_user;
use crate::cli::{CommandFailure, CommandResult};
use crate::store::{DatabaseLock, LockError, Store, StoreError};

pub(in crate::cli) async fn restored_command(context: &CliContext) -> CommandResult {
    let location = context.readable_config()?.database.location()?;
    if location.is_missing_file() {
        return Err(StoreError::Missing { database: location }.into());
    }
    let lock = DatabaseLock::acquire(location.path()).map_err(|error| match error {
        LockError::Held { .. } => CommandFailure::failed(format!(
            "cannot mark {location} as restored: a running daemon uses it and may already have sent changes. Stop the daemon \
             (`sudo systemctl stop tallyd`), run `tallyd restored`, and start it again"
        )),
        error => error.into(),
    })?;
    let store = Store::open(&location, &lock).await?.decided_by(&command_line_user());
    write_and_commit(&store, async |write| write.restore_declare(context.now()).await).await?;
    store.close().await?;
    Ok(format!(
        "{location} is marked as restored. The next start holds every pending change that may have been sent after the copy was \
         made: run `sudo systemctl start tallyd`, then `tallyd outbox list --state held`\n"
    )
    .into())
}
