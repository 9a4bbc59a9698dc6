//! Acknowledgement of rejected changes by a person: an event, then a mark, in one transaction.
//!
//! It does not affect the change: its key stays used, and a repetition needs a new key.

use crate::model::Timestamp;
use crate::outbox::ChangeState;
use crate::store::engine::error::SqlContext;
use crate::store::{DecisionResult, StoreError, WriteTransaction};
use serde_json::json;

/// Event of an acknowledgement.
const ACKNOWLEDGED: &str = "outbox.acknowledged";

impl WriteTransaction {
    /// Acknowledges a rejected change; an acknowledged one stays as it is.
    ///
    /// # Errors
    /// Fails where the database cannot be written.
    pub async fn outbox_acknowledge(
        &mut self,
        key: &str,
        at: Timestamp,
    ) -> Result<DecisionResult<()>, StoreError> {
        let sql = "SELECT state, acknowledged_ms FROM outbox WHERE key = ?1";
        let found: Option<(String, Option<i64>)> = sqlx::query_as(sql)
            .bind(key)
            .fetch_optional(&mut *self.tx)
            .await
            .context("read the change to acknowledge")?;
        match found {
            None => return Ok(Err("there is no change with this key".into())),
            Some((state, _)) if state != ChangeState::Rejected.as_str() => {
                return Ok(Err(format!("it is {state}, and only a rejected change is acknowledged")));
            }
            Some((_, Some(_))) => return Ok(Ok(())),
            Some((_, None)) => {}
        }
        self.event_append(at, ACKNOWLEDGED, key, None).await?;
        let sql = "UPDATE outbox SET revision = revision + 1, acknowledged_ms = ?2 WHERE key = ?1";
        let done = sqlx::query(sql).bind(key).bind(at.0).execute(&mut *self.tx).await;
        done.map(|_| Ok(())).context("acknowledge a rejected change")
    }

    /// Acknowledges all rejected changes with one event, and returns the number of new acknowledgements.
    ///
    /// # Errors
    /// Fails where the database cannot be written.
    pub async fn outbox_acknowledge_all(&mut self, at: Timestamp) -> Result<u64, StoreError> {
        let sql = "SELECT count(*), coalesce(max(id), 0) FROM outbox \
                   WHERE state = 'rejected' AND acknowledged_ms IS NULL";
        let (changes, newest): (i64, i64) = sqlx::query_as(sql)
            .fetch_one(&mut *self.tx)
            .await
            .context("count the rejected changes to acknowledge")?;
        if changes == 0 {
            return Ok(0);
        }
        let detail = json!({"changes": changes, "to": newest}).to_string();
        self.event_append(at, ACKNOWLEDGED, "outbox", Some(&detail)).await?;
        let sql = "UPDATE outbox SET revision = revision + 1, acknowledged_ms = ?1 \
                   WHERE state = 'rejected' AND acknowledged_ms IS NULL";
        let done = sqlx::query(sql).bind(at.0).execute(&mut *self.tx).await;
        Ok(done.context("acknowledge the rejected changes")?.rows_affected())
    }
}
