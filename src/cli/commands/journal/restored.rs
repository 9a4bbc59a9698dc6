//! `restored`: marks the database as restored by another tool.

use crate::cli::context::Place;
use crate::cli::{Answer, Failure};
use crate::model::Clock;
use crate::store::{Durability, Lock, LockError, Store, StoreError};

pub(in crate::cli) async fn restored(place: &Place) -> Result<Answer, Failure> {
    let path = place.config()?.database.path;
    if !path.exists() {
        return Err(StoreError::Missing { path }.into());
    }
    let lock = Lock::take(&path).map_err(|error| match error {
        LockError::Held { .. } => Failure::failed(format!(
            "cannot mark {} as restored: a tallyd works on it and may have sent from it already. Stop it \
             (`systemctl stop tallyd`), run `tallyd restored`, start it again",
            path.display()
        )),
        error => error.into(),
    })?;
    let store = Store::open(&path, &lock).await?;
    let mut write = store.begin(Durability::Full).await?;
    write.restored_declare(place.clock().now()).await?;
    write.commit().await?;
    store.close().await?;
    Ok(format!(
        "{} is marked as restored. The next start holds every pending wish that may have been done since the copy was made: \
         `systemctl start tallyd`, then `tallyd outbox list --state held`\n",
        path.display()
    )
    .into())
}
