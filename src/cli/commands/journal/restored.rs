//! `restored`: marks the database as restored by another tool.

use crate::cli::context::CliContext;
use crate::cli::{CommandFailure, CommandOutput};
use crate::model::Clock;
use crate::store::{DatabaseLock, Durability, LockError, Store, StoreError};

pub(in crate::cli) async fn restored_command(context: &CliContext) -> Result<CommandOutput, CommandFailure> {
    let path = context.config()?.database.path;
    if !path.exists() {
        return Err(StoreError::Missing { path }.into());
    }
    let lock = DatabaseLock::acquire(&path).map_err(|error| match error {
        LockError::Held { .. } => CommandFailure::failed(format!(
            "cannot mark {} as restored: a tallyd works on it and may have sent from it already. Stop it \
             (`systemctl stop tallyd`), run `tallyd restored`, start it again",
            path.display()
        )),
        error => error.into(),
    })?;
    let store = Store::open(&path, &lock).await?;
    let mut write = store.begin_write(Durability::Full).await?;
    write.restore_declare(context.clock().now()).await?;
    write.commit().await?;
    store.close().await?;
    Ok(format!(
        "{} is marked as restored. The next start holds every pending change that may have been done since the copy was made: \
         `systemctl start tallyd`, then `tallyd outbox list --state held`\n",
        path.display()
    )
    .into())
}
