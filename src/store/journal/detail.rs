//! Details of the journal for people and programs: exchanges with their bodies, events, and the changes of a
//! run.

use super::event::JournalEvent;
use crate::journal::PackedBody;
use crate::model::{Position, RunId};
use crate::store::engine::lossy_text::LossyText;
use crate::store::{ExchangeRow, Result, Store};
use serde::Serialize;
use sqlx_macros::FromRow;

/// Exchange with its bodies, for people and for a replay.
#[derive(Clone, Debug, FromRow)]
pub(crate) struct ExchangeDetail {
    /// Columns that `job show` prints too.
    #[sqlx(flatten)]
    pub exchange: ExchangeRow,
    pub ended: Option<i64>,
    pub run_id: i64,
    pub job: String,
    pub trigger: String,
    /// True if the answer was accepted but not applied.
    pub is_ignored: bool,
    request: Option<Vec<u8>>,
    request_size: Option<i64>,
    response: Option<Vec<u8>>,
    response_size: Option<i64>,
}

/// Change carried by an exchange of a run.
#[derive(Clone, Debug, FromRow, Serialize)]
pub(crate) struct RunChange {
    #[serde(rename = "exchange")]
    pub exchange_id: i64,
    pub key: LossyText,
    pub kind: LossyText,
    pub state: String,
    pub reason: Option<String>,
    pub detail: Option<String>,
    pub written: Option<i64>,
}

macro_rules! exchange_details {
    () => {
        "SELECT e.id, e.ended, e.run_id, r.job, r.trigger, e.operation, e.target, e.lane, e.sent_ms, \
             e.answered_ms, e.verdict, e.status, e.message, e.parked, e.is_ignored, q.packed AS request, \
             q.size AS request_size, a.packed AS response, a.size AS response_size \
         FROM exchange e JOIN run r ON r.id = e.run_id \
         LEFT JOIN body q ON q.id = e.request_body_id LEFT JOIN body a ON a.id = e.response_body_id"
    };
}

pub(super) use exchange_details;

impl Store {
    /// Returns the exchanges that began after one position, up to another, in order.
    pub(crate) async fn exchange_details(
        &self,
        after: Position,
        to: Position,
    ) -> Result<Vec<ExchangeDetail>> {
        let sql = concat!(exchange_details!(), " WHERE e.id > $1 AND e.id <= $2 ORDER BY e.id");
        self.fetch_all(sql, (after.0, to.0), "read the journal's exchanges").await
    }

    /// Returns the exchange that began or ended at a position.
    pub(crate) async fn exchange_detail(&self, at: Position) -> Result<Option<ExchangeDetail>> {
        let sql = concat!(exchange_details!(), " WHERE e.id = $1 OR e.ended = $1");
        self.fetch_optional(sql, (at.0,), "read an exchange").await
    }

    /// Returns the events after one position, up to another, in order.
    pub(crate) async fn event_list(&self, after: Position, to: Position) -> Result<Vec<JournalEvent>> {
        let sql = "SELECT position, at_ms, kind, subject, detail, decided_by FROM event \
                   WHERE position > $1 AND position <= $2 ORDER BY position";
        self.fetch_all(sql, (after.0, to.0), "read the journal's events").await
    }

    /// Returns the position after which the newest `count` exchanges and events stand.
    pub(crate) async fn journal_tail_start(&self, count: u32) -> Result<Position> {
        let sql = "SELECT coalesce(min(position) - 1, 0) FROM ( \
                       SELECT id AS position FROM exchange UNION ALL SELECT position FROM event \
                       ORDER BY position DESC LIMIT $1) newest";
        self.fetch_value(sql, (i64::from(count),), "find the newest entries").await
    }

    /// Returns the changes that exchanges of a run carried, with their current state: those of the exchanges
    /// after one position, up to another.
    pub(crate) async fn run_changes(&self, run: RunId, after: i64, to: i64) -> Result<Vec<RunChange>> {
        let sql = "SELECT o.exchange_id, o.key, o.kind, o.state, o.reason, o.detail, o.written FROM exchange e \
                   JOIN outbox o ON o.exchange_id = e.id WHERE e.run_id = $1 AND e.id > $2 AND e.id <= $3 \
                   ORDER BY e.id, o.id";
        self.fetch_all(sql, (run.0, after, to), "read the changes of a run").await
    }

    /// Returns events during a run: the first `limit` of those after one position, up to another.
    pub(crate) async fn run_events(
        &self,
        run: RunId,
        after: i64,
        to: i64,
        limit: i64,
    ) -> Result<Vec<JournalEvent>> {
        let sql = "SELECT e.position, e.at_ms, e.kind, e.subject, e.detail, e.decided_by FROM run r JOIN event e \
                       ON e.at_ms BETWEEN r.started_ms AND coalesce(r.ended_ms, e.at_ms) \
                   WHERE r.id = $1 AND e.position > $2 AND e.position <= $3 ORDER BY e.position LIMIT $4";
        self.fetch_all(sql, (run.0, after, to, limit), "read the events of a run").await
    }
}

impl ExchangeDetail {
    /// Returns the position at which the exchange ended.
    pub(crate) fn end(&self) -> Position {
        Position(self.ended.unwrap_or(self.exchange.id))
    }

    /// Returns the body of the request; `None` where it had none or was pruned.
    pub(crate) fn request_body(&self) -> Result<Option<Vec<u8>>> {
        self.request.as_deref().map(|packed| unpack_body(packed, self.request_size)).transpose()
    }

    /// Returns the body of the answer; `None` where none came or it was pruned.
    pub(crate) fn response_body(&self) -> Result<Option<Vec<u8>>> {
        self.response.as_deref().map(|packed| unpack_body(packed, self.response_size)).transpose()
    }
}

pub(super) fn unpack_body(packed: &[u8], size: Option<i64>) -> Result<Vec<u8>> {
    Ok(PackedBody::unpack(packed, size.and_then(|size| usize::try_from(size).ok()).unwrap_or(0))?)
}
