//! The insertion of changes into the outbox, validated as the daemon validates them.

use crate::outbox;
use crate::store::{Durability, Store, StoreError};
use serde_json::Value;

/// A change to insert.
pub(crate) struct ChangeToQueue {
    pub(crate) key: String,
    pub(crate) kind: &'static str,
    /// The JSON text as given, so that the outbox can detect a duplicate field.
    pub(crate) body: String,
    /// 1 for a change that a person typed, which goes before bulk changes.
    pub(crate) priority: i64,
}

/// A failure to insert changes; nothing was inserted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum QueueError {
    /// The body is invalid for the kind.
    #[error("{0}")]
    Body(String),
    #[error("change `{key}`: {source}; nothing was queued")]
    Insert { key: String, source: StoreError },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Inserts changes, all or none, and returns the number of new ones; a known key has no effect.
pub(crate) async fn queue_changes(store: &Store, changes: &[ChangeToQueue]) -> Result<u64, QueueError> {
    for change in changes {
        outbox::parse_body(change.kind, &change.body).map_err(|why| QueueError::Body(why.detail))?;
    }
    let mut write = store.begin_write(Durability::Full).await?;
    let mut new = 0;
    for ChangeToQueue { key, kind, body, priority } in changes {
        let inserted = write.outbox_insert(key, kind, body, *priority).await;
        new += u64::from(inserted.map_err(|source| QueueError::Insert { key: key.clone(), source })?);
    }
    write.commit().await?;
    Ok(new)
}

/// Returns a body without the fields that have no value.
pub(crate) fn without_nulls(mut body: Value) -> Value {
    if let Value::Object(fields) = &mut body {
        fields.retain(|_, value| !value.is_null());
    }
    body
}
