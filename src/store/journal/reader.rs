//! The journal for a replay: read-only, without the lock, and as of one moment.
//!
//! A single read transaction spans all statements, so journal and mirror have the same position, also beside
//! a working daemon. Meanwhile no checkpoint can empty the write-ahead log: it grows, and is cut afterwards.

use super::detail::{ExchangeDetailRow, exchange_details};
use crate::journal::PackedBody;
use crate::model::{ExchangeId, Operation, Position, Timestamp};
use crate::store::engine::fetch::{Connection, SqlValues};
use crate::store::engine::reader::open_snapshot;
use crate::store::{DatabaseLocation, PROJECTION_CHANGED, Result, StoreError};
use sqlx_macros::FromRow;

#[derive(Debug)]
pub(crate) struct JournalReader {
    pub(in crate::store) connection: Connection,
}

/// Journal entry that may have changed facts.
#[derive(Clone, Debug)]
pub(crate) enum JournalEntry {
    /// Claim of a call that writes stock levels.
    Begun(RecordedRequest),
    /// End of an exchange, with or without an answer.
    Ended(RecordedRequest, RecordedEnd),
    Event(JournalEvent),
    /// Exchange that another projection version applied again, at the position of that decision.
    Reapplied(RecordedRequest, RecordedEnd, Position),
}

#[derive(Clone, Debug)]
pub(crate) struct RecordedRequest {
    /// Exchange; its id is the position at which it began.
    pub id: ExchangeId,
    pub operation: Operation,
    pub target: String,
    /// Body of the request; empty where it had none.
    pub body: Vec<u8>,
    pub sent_at: Timestamp,
}

#[derive(Clone, Debug)]
pub(crate) struct RecordedEnd {
    pub position: Position,
    pub verdict: String,
    /// HTTP status, if an answer came.
    pub status: Option<i64>,
    /// Body of the answer; empty where none came.
    pub body: Vec<u8>,
}

/// Event in the journal, such as a decision.
#[derive(Clone, Debug, FromRow)]
pub(crate) struct JournalEvent {
    pub position: i64,
    pub at_ms: i64,
    pub kind: String,
    pub subject: String,
    pub detail: Option<String>,
    /// Person who decided, as `user:NAME` or `token:NAME`; `None`: the daemon, or a version without names.
    pub decided_by: Option<String>,
}

impl JournalEntry {
    pub(crate) fn position(&self) -> Position {
        match self {
            JournalEntry::Begun(request) => Position(request.id.0),
            JournalEntry::Ended(_, end) => end.position,
            JournalEntry::Event(event) => Position(event.position),
            JournalEntry::Reapplied(_, _, position) => *position,
        }
    }
}

impl JournalReader {
    /// Opens a database for reading, as of now.
    pub(crate) async fn open(location: impl Into<DatabaseLocation>) -> Result<Self> {
        Ok(Self { connection: open_snapshot(&location.into()).await? })
    }

    pub(crate) async fn last_position(&mut self) -> Result<Position> {
        self.fetch_value("SELECT position FROM journal_sequence", (), "read the journal's position").await
    }

    /// Returns the journal's position at `at`: the last one before any later entry. Positions define the
    /// order, so an entry that a clock set back dated earlier than its predecessors does not count.
    pub(crate) async fn position_at(&mut self, at: Timestamp) -> Result<Position> {
        let sql = "SELECT min(position) FROM ( \
                       SELECT min(ended) AS position FROM exchange WHERE answered_ms > $1 \
                       UNION ALL SELECT min(position) FROM event WHERE at_ms > $1) later";
        match self.fetch_value(sql, (at,), "find a position").await? {
            Some(Position(later)) => Ok(Position(later - 1)),
            None => self.last_position().await,
        }
    }

    /// Returns the entries after one position, up to another, in order, without the ignored answers.
    pub(crate) async fn entries_between(
        &mut self,
        after: Position,
        to: Position,
    ) -> Result<Vec<JournalEntry>> {
        let mut entries = Vec::new();
        let [stock, product] =
            [Operation::UpdateQuantityOnHand, Operation::UpdateProduct].map(Operation::as_str);
        let sql = concat!(exchange_details!(), " WHERE e.id > $1 AND e.id <= $2 AND e.operation IN ($3, $4)");
        for row in self.recorded_exchanges(sql, (after, to, stock, product)).await? {
            entries.push(JournalEntry::Begun(row.to_request()?));
        }
        let sql = concat!(exchange_details!(), " WHERE e.ended > $1 AND e.ended <= $2 AND NOT e.is_ignored");
        for row in self.recorded_exchanges(sql, (after, to)).await? {
            entries.push(JournalEntry::Ended(row.to_request()?, row.to_end()?));
        }
        let sql = "SELECT position, at_ms, kind, subject, detail, decided_by FROM event WHERE position > $1 AND position <= $2";
        let events: Vec<JournalEvent> = self.fetch_all(sql, (after, to), "read the journal's events").await?;
        for event in events {
            let (position, reapplied) = (Position(event.position), event.reapplied_exchanges()?);
            entries.push(JournalEntry::Event(event));
            if let Some(ids) = reapplied {
                let exchanges = self.exchanges_by_ids(&ids).await?.into_iter();
                entries
                    .extend(exchanges.map(|(request, end)| JournalEntry::Reapplied(request, end, position)));
            }
        }
        entries.sort_by_key(JournalEntry::position);
        Ok(entries)
    }

    pub(super) async fn recorded_exchanges(
        &mut self,
        sql: &'static str,
        values: impl SqlValues<'_>,
    ) -> Result<Vec<ExchangeDetailRow>> {
        self.fetch_all(sql, values, "read the journal's exchanges").await
    }
}

impl JournalEvent {
    /// Returns the exchanges that this decision applied again, as a JSON list of ids.
    fn reapplied_exchanges(&self) -> Result<Option<String>> {
        let detail = self.detail.as_deref().filter(|_| self.kind == PROJECTION_CHANGED);
        let Some(detail) = detail else { return Ok(None) };
        let unknown = |_| StoreError::UnknownValue("a change of the projection version", detail.to_owned());
        let read: serde_json::Value = serde_json::from_str(detail).map_err(unknown)?;
        Ok(Some(read["exchanges"].to_string()))
    }
}

impl ExchangeDetailRow {
    pub(super) fn to_request(&self) -> Result<RecordedRequest> {
        let unknown = |_| StoreError::UnknownValue("an operation", self.exchange.operation.clone());
        Ok(RecordedRequest {
            id: ExchangeId(self.exchange.id),
            operation: self.exchange.operation.parse().map_err(unknown)?,
            target: self.exchange.target.clone(),
            body: unpack_body(self.request.as_deref(), self.request_size)?,
            sent_at: Timestamp(self.exchange.sent_ms),
        })
    }

    pub(super) fn to_end(&self) -> Result<RecordedEnd> {
        Ok(RecordedEnd {
            position: Position(self.ended.unwrap_or(self.exchange.id)),
            verdict: self.exchange.verdict.clone().unwrap_or_default(),
            status: self.exchange.status,
            body: unpack_body(self.response.as_deref(), self.response_size)?,
        })
    }
}

fn unpack_body(packed: Option<&[u8]>, size: Option<i64>) -> Result<Vec<u8>> {
    let Some(packed) = packed else { return Ok(Vec::new()) };
    Ok(PackedBody::unpack(packed, size.and_then(|size| usize::try_from(size).ok()).unwrap_or(0))?)
}

pub(super) fn unpack_text(packed: &[u8], size: Option<i64>) -> Result<String> {
    Ok(String::from_utf8_lossy(&unpack_body(Some(packed), size)?).into_owned())
}
