//! `restored`: marks the database as restored by another tool.

use crate::cli::context::{CliContext, write_and_commit};
use crate::cli::{CommandFailure, CommandResult};
use crate::store::{DatabaseLock, LockError, Store, StoreError};

pub(in crate::cli) async fn restored_command(context: &CliContext) -> CommandResult {
    let path = context.config()?.database.path;
    if !path.exists() {
        return Err(StoreError::Missing { path }.into());
    }
    let lock = DatabaseLock::acquire(&path).map_err(|error| match error {
        LockError::Held { .. } => CommandFailure::failed(format!(
            "cannot mark {} as restored: a running daemon uses it and may already have sent changes. Stop the daemon \
             (`systemctl stop tallyd`), run `tallyd restored`, and start it again",
            path.display()
        )),
        error => error.into(),
    })?;
    let store = Store::open(&path, &lock).await?;
    write_and_commit(&store, async |write| write.restore_declare(context.now()).await).await?;
    store.close().await?;
    Ok(format!(
        "{} is marked as restored. The next start holds every pending change that may have been sent after the copy was \
         made: run `systemctl start tallyd`, then `tallyd outbox list --state held`\n",
        path.display()
    )
    .into())
}
