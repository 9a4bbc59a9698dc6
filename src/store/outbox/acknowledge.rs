//! Acknowledgement of rejected changes by a person: an event, then a mark, in one transaction.
//!
//! It does not affect the change: its key stays used, and a repetition needs a new key.

use crate::model::Timestamp;
use crate::outbox::ChangeState;
use crate::store::{DecisionResult, Result, WriteTransaction};

const ACKNOWLEDGED: &str = "outbox.acknowledged";

impl WriteTransaction {
    /// Acknowledges a rejected change; an acknowledged one stays as it is.
    pub async fn outbox_acknowledge(&mut self, key: &str, at: Timestamp) -> Result<DecisionResult<()>> {
        let sql = "SELECT state, acknowledged_ms FROM outbox WHERE key = $1";
        let found: Option<(ChangeState, Option<i64>)> =
            self.fetch_optional(sql, (key,), "read the change to acknowledge").await?;
        match found {
            None => return Ok(Err("there is no change with this key".into())),
            Some((ChangeState::Rejected, Some(_))) => return Ok(Ok(())),
            Some((ChangeState::Rejected, None)) => {}
            Some((state, _)) => {
                return Ok(Err(format!("it is {state}, and only a rejected change is acknowledged")));
            }
        }
        self.event_append(at, ACKNOWLEDGED, key, None).await?;
        let sql = "UPDATE outbox SET revision = revision + 1, acknowledged_ms = $2 WHERE key = $1";
        self.execute(sql, (key, at), "acknowledge a rejected change").await.map(Ok)
    }
}
