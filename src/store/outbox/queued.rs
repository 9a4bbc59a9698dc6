//! Changes that a command queued, by their keys and without their bodies.

use crate::model::ChangeId;
use crate::outbox::ChangeState;
use crate::store::engine::lossy_text::LossyText;
use crate::store::mirror::stock_levels::json_rows;
use crate::store::{Result, Store};
use sqlx_macros::FromRow;

/// Change with its state and the reason of that.
#[derive(Clone, Debug, FromRow)]
pub struct QueuedChange {
    /// Id.
    pub id: ChangeId,
    /// Key.
    pub key: LossyText,
    /// State.
    pub state: ChangeState,
    /// Reason, as a code.
    pub reason: Option<String>,
    /// Reason, as a sentence.
    pub detail: Option<String>,
}

impl Store {
    /// Returns the changes with these keys, by id.
    pub async fn outbox_queued(&self, keys: &[&str]) -> Result<Vec<QueuedChange>> {
        let sql = "SELECT id, key, state, reason, detail FROM outbox \
                   WHERE key IN (SELECT atom FROM json_each($1)) ORDER BY id";
        self.fetch_all(sql, (json_rows(keys),), "read the queued changes").await
    }

    /// Returns true if one of the changes with these keys is pending, being sent or in doubt.
    pub async fn outbox_has_outstanding(&self, keys: &[&str]) -> Result<bool> {
        let sql = "SELECT EXISTS (SELECT 1 FROM outbox WHERE key IN (SELECT atom FROM json_each($1)) \
                   AND state IN ('pending', 'sending', 'in_doubt'))";
        self.fetch_value(sql, (json_rows(keys),), "read the states of the queued changes").await
    }
}
