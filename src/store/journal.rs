//! The journal as a replay reads it: read-only, without the lock, and all of it as of one moment.
//!
//! One read transaction spans the whole reading, so that journal and mirror are of the same position, also beside a
//! working daemon. While it lasts the write-ahead log is not folded in: it grows, and shrinks again afterwards.

use super::StoreError;
use super::error::Doing;
use super::open::reader;
use crate::journal::Body;
use crate::model::{ExchangeId, Moment, Operation, Position, Timestamp};
use sqlx::FromRow;
use sqlx::sqlite::SqliteConnection;
use std::path::Path;

/// A database that is only read.
#[derive(Debug)]
pub struct Journal {
    pub(super) reader: SqliteConnection,
}

/// Something that may have changed facts, at its position.
#[derive(Clone, Debug)]
pub enum Entry {
    /// A call that writes cells was claimed.
    Begun(Asking),
    /// An exchange was answered, or never will be.
    Ended(Asking, Ending),
    /// A decision.
    Decided(Decided),
    /// An exchange that another version of the fold read again, at the position of that decision.
    Again(Asking, Ending, Position),
}

/// What was asked for.
#[derive(Clone, Debug)]
pub struct Asking {
    /// The exchange; its id is the position at which it began.
    pub id: ExchangeId,
    /// What was called.
    pub operation: Operation,
    /// Path and query.
    pub target: String,
    /// The request's body; empty where it had none.
    pub body: Vec<u8>,
    /// When it was sent.
    pub sent_at: Timestamp,
    /// The same since boot.
    pub sent_moment: Moment,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Ending {
    /// The position at which it ended.
    pub position: Position,
    /// The judgement, as the journal words it.
    pub verdict: String,
    /// The HTTP status, if an answer came.
    pub status: Option<i64>,
    /// The answer's body; empty where none came.
    pub body: Vec<u8>,
}

/// A decision that changed facts, or spent trust.
#[derive(Clone, Debug, FromRow)]
pub struct Decided {
    /// Its place in the journal.
    pub position: i64,
    /// When it was made.
    pub at_ms: i64,
    /// Which kind of decision.
    pub kind: String,
    /// On what.
    pub subject: String,
    /// More of it, as JSON.
    pub detail: Option<String>,
}

#[derive(FromRow)]
pub(super) struct ExchangeRow {
    id: i64,
    operation: String,
    target: String,
    sent_ms: i64,
    sent_moment: i64,
    request: Option<Vec<u8>>,
    request_size: Option<i64>,
    ended: Option<i64>,
    verdict: Option<String>,
    status: Option<i64>,
    response: Option<Vec<u8>>,
    response_size: Option<i64>,
}

pub(super) const EXCHANGES: &str = "SELECT e.id, e.operation, e.target, e.sent_ms, e.sent_moment, q.packed AS request, q.size AS request_size, \
    e.ended, e.verdict, e.status, a.packed AS response, a.size AS response_size FROM exchange e \
    LEFT JOIN body q ON q.id = e.request_body_id LEFT JOIN body a ON a.id = e.response_body_id";

impl Entry {
    /// Its place in the journal.
    pub fn position(&self) -> Position {
        match self {
            Entry::Begun(asking) => Position(asking.id.0),
            Entry::Ended(_, ending) => ending.position,
            Entry::Decided(decided) => Position(decided.position),
            Entry::Again(_, _, position) => *position,
        }
    }
}

impl Journal {
    /// Opens a database for reading, as it is now.
    pub async fn open(path: &Path) -> Result<Self, StoreError> {
        let mut reader = reader(path).await?;
        sqlx::query("BEGIN").execute(&mut reader).await.doing("begin to read the journal")?;
        Ok(Self { reader })
    }

    /// The journal's last position.
    pub async fn last(&mut self) -> Result<Position, StoreError> {
        let last = sqlx::query_scalar("SELECT position FROM journal_sequence").fetch_one(&mut self.reader).await;
        last.map(Position).doing("read the journal's position")
    }

    /// The position the journal had at `at`: the last one before anything later. Positions order things, so what a
    /// clock that was set back wrote behind it does not count.
    pub async fn position_at(&mut self, at: Timestamp) -> Result<Position, StoreError> {
        let sql = "SELECT min(position) FROM ( \
                       SELECT min(ended) AS position FROM exchange WHERE answered_ms > ?1 \
                       UNION ALL SELECT min(position) FROM event WHERE at_ms > ?1)";
        let later: Option<i64> =
            sqlx::query_scalar(sql).bind(at.0).fetch_one(&mut self.reader).await.doing("find a position")?;
        match later {
            Some(later) => Ok(Position(later - 1)),
            None => self.last().await,
        }
    }

    /// What stands between two positions, the first one excluded, in order. Answers that were set aside are left out.
    pub async fn entries(&mut self, after: Position, to: Position) -> Result<Vec<Entry>, StoreError> {
        let mut entries = Vec::new();
        let [stock, product] =
            [Operation::UpdateQuantityOnHand, Operation::UpdateProduct].map(Operation::as_str);
        let sql =
            format!("{EXCHANGES} WHERE e.id > ?1 AND e.id <= ?2 AND e.operation IN ('{stock}', '{product}')");
        for row in self.exchanges(sql, after, to).await? {
            entries.push(Entry::Begun(row.asking()?));
        }
        let sql = format!("{EXCHANGES} WHERE e.ended > ?1 AND e.ended <= ?2 AND NOT e.is_ignored");
        for row in self.exchanges(sql, after, to).await? {
            entries.push(Entry::Ended(row.asking()?, row.ending()?));
        }
        let sql =
            "SELECT position, at_ms, kind, subject, detail FROM event WHERE position > ?1 AND position <= ?2";
        let decided: Vec<Decided> = sqlx::query_as(sql)
            .bind(after.0)
            .bind(to.0)
            .fetch_all(&mut self.reader)
            .await
            .doing("read the journal's events")?;
        for event in decided {
            let (position, again) = (Position(event.position), event.folded_again()?);
            entries.push(Entry::Decided(event));
            if let Some(ids) = again {
                let again = self.exchanges_named(&ids).await?;
                entries
                    .extend(again.into_iter().map(|(asking, ending)| Entry::Again(asking, ending, position)));
            }
        }
        entries.sort_by_key(Entry::position);
        Ok(entries)
    }

    async fn exchanges(
        &mut self,
        sql: String,
        after: Position,
        to: Position,
    ) -> Result<Vec<ExchangeRow>, StoreError> {
        let query = sqlx::query_as(sqlx::AssertSqlSafe(sql)).bind(after.0).bind(to.0);
        query.fetch_all(&mut self.reader).await.doing("read the journal's exchanges")
    }
}

impl Decided {
    /// The exchanges that this decision folded again, as a JSON list of their ids.
    fn folded_again(&self) -> Result<Option<String>, StoreError> {
        let detail = self.detail.as_deref().filter(|_| self.kind == super::FOLD_CHANGED);
        let Some(detail) = detail else { return Ok(None) };
        let read: serde_json::Value = serde_json::from_str(detail)
            .map_err(|_| StoreError::Foreign { what: "a change of the fold", value: detail.to_owned() })?;
        Ok(Some(read["exchanges"].to_string()))
    }
}

impl ExchangeRow {
    pub(super) fn asking(&self) -> Result<Asking, StoreError> {
        let foreign = |_| StoreError::Foreign { what: "an operation", value: self.operation.clone() };
        Ok(Asking {
            id: ExchangeId(self.id),
            operation: self.operation.parse().map_err(foreign)?,
            target: self.target.clone(),
            body: unpacked(self.request.as_deref(), self.request_size)?,
            sent_at: Timestamp(self.sent_ms),
            sent_moment: Moment(self.sent_moment),
        })
    }

    pub(super) fn ending(&self) -> Result<Ending, StoreError> {
        Ok(Ending {
            position: Position(self.ended.unwrap_or(self.id)),
            verdict: self.verdict.clone().unwrap_or_default(),
            status: self.status,
            body: unpacked(self.response.as_deref(), self.response_size)?,
        })
    }
}

pub(super) fn unpacked(packed: Option<&[u8]>, size: Option<i64>) -> Result<Vec<u8>, StoreError> {
    match packed {
        Some(packed) => {
            Ok(Body::unpack(packed, size.and_then(|size| usize::try_from(size).ok()).unwrap_or(0))?)
        }
        None => Ok(Vec::new()),
    }
}
