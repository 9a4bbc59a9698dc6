//! Requests of a command beside the daemon, and their answers (docs/rules.md 19).
//!
//! The command inserts a row, waits, takes the answer and deletes the row. The daemon answers each row at
//! most once. The row of a command that ended early is deleted with the first answer after a day.

use crate::model::Timestamp;
use crate::model::time::DAY;
use crate::store::{Result, Store, WriteTransaction};
use sqlx_macros::FromRow;

#[derive(Clone, Debug, FromRow)]
pub(crate) struct ControlRequestRow {
    /// Id; later requests have larger ids.
    pub id: i64,
    pub kind: String,
    pub input: String,
    /// Time of the request, RFC 3339.
    pub asked_at: String,
}

impl Store {
    /// Returns the unanswered requests with an id above `after`, in order.
    pub(crate) async fn request_unanswered(&self, after: i64) -> Result<Vec<ControlRequestRow>> {
        let sql =
            "SELECT id, kind, input, asked_at FROM request WHERE answered_at IS NULL AND id > $1 ORDER BY id";
        self.fetch_all(sql, (after,), "read the control requests").await
    }

    /// Returns the answer to a request, once there is one.
    pub(crate) async fn request_answer(&self, id: i64) -> Result<Option<String>> {
        let sql = "SELECT answer FROM request WHERE id = $1 AND answer IS NOT NULL";
        Ok(self.fetch_column(sql, (id,), "read the reply to a control request").await?.pop())
    }
}

impl WriteTransaction {
    /// Inserts a request and returns its id.
    pub(crate) async fn request_add(&mut self, kind: &str, input: &str, at: Timestamp) -> Result<i64> {
        let sql = "INSERT INTO request (kind, input, asked_at) VALUES ($1, $2, $3) RETURNING id";
        self.fetch_value(sql, (kind, input, at.to_rfc3339()), "insert a control request").await
    }

    /// Answers a request, and deletes the old requests of commands that ended early.
    pub(crate) async fn request_complete(&mut self, id: i64, answer: &str, at: Timestamp) -> Result<()> {
        let sql = "UPDATE request SET answered_at = $2, answer = $3 WHERE id = $1 AND answered_at IS NULL";
        self.execute(sql, (id, at.to_rfc3339(), answer), "reply to a control request").await?;
        let (sql, before) = ("DELETE FROM request WHERE asked_at < $1", at.minus(DAY).to_rfc3339());
        self.execute(sql, (before,), "delete old control requests").await
    }

    /// Deletes a request whose answer was read or is not awaited any more.
    pub(crate) async fn request_withdraw(&mut self, id: i64) -> Result<()> {
        self.execute("DELETE FROM request WHERE id = $1", (id,), "delete a control request").await
    }
}
