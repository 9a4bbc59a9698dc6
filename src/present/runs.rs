//! Runs, exchanges and events of the journal.

use super::{ViewError, parse_json, time_text};
use crate::model::{JobKind, Position, RunId};
use crate::store::{ExchangeDetail, ExchangeRow, JournalEvent, RunChange, RunRow, Store, StoreError};
use serde_json::{Value, json};

/// A run with exchanges, the changes that they carried, and the events during them.
pub(crate) struct RunDetail {
    pub(crate) run: RunRow,
    pub(crate) exchanges: Vec<ExchangeRow>,
    pub(crate) changes: Vec<RunChange>,
    pub(crate) events: Vec<JournalEvent>,
    /// Position after which the next page begins; `None`: this is the last one.
    pub(crate) next: Option<i64>,
}

impl RunDetail {
    /// Reads a run whole; `None` if there is none with this id.
    pub(crate) async fn load(store: &Store, id: RunId) -> Result<Option<Self>, StoreError> {
        Self::load_page(store, id, 0, i64::MAX).await
    }

    /// Reads a run with at most `rows` of its exchanges after a position, and at most `rows` events.
    pub(crate) async fn load_page(
        store: &Store,
        id: RunId,
        after: i64,
        rows: i64,
    ) -> Result<Option<Self>, StoreError> {
        let Some(run) = store.run_show(id).await? else { return Ok(None) };
        let mut exchanges = store.run_exchanges(id, after, rows.saturating_add(1)).await?;
        let full = usize::try_from(rows).unwrap_or(usize::MAX);
        let has_more = exchanges.len() > full;
        exchanges.truncate(full);
        let next = exchanges.last().map(|row| row.id).filter(|_| has_more);
        let to = next.unwrap_or(i64::MAX);
        Ok(Some(Self {
            run,
            exchanges,
            changes: store.run_changes(id, after, to).await?,
            events: store.run_events(id, after, to, rows).await?,
            next,
        }))
    }

    pub(crate) fn to_json(&self) -> Value {
        let mut all = run_json(&self.run);
        all["exchanges"] = self.exchanges.iter().map(exchange_json).collect();
        all["changes"] = self.changes.iter().map(run_change_json).collect();
        all["events"] = self.events.iter().map(event_json).collect();
        all
    }
}

pub(crate) fn parse_job_kind(name: &str) -> Result<JobKind, ViewError> {
    name.parse().map_err(|error| {
        let names: Vec<&str> = JobKind::ALL.iter().map(|kind| kind.as_str()).collect();
        ViewError::Invalid(format!("{error}; jobs are {}", names.join(", ")))
    })
}

pub(crate) fn run_json(row: &RunRow) -> Value {
    json!({
        "id": row.id, "job": row.job, "trigger": row.trigger, "input": parse_json(row.input.as_deref()),
        "started_at": time_text(row.started_ms), "ended_at": row.ended_ms.map(time_text),
        "outcome": row.outcome, "summary": row.summary, "calls": row.exchanges,
    })
}

pub(crate) fn exchange_json(row: &ExchangeRow) -> Value {
    json!({
        "id": row.id, "operation": row.operation, "target": row.target, "lane": row.lane,
        "sent_at": time_text(row.sent_ms), "answered_at": row.answered_ms.map(time_text),
        "verdict": row.verdict, "status": row.status, "message": row.message, "parked": row.parked,
    })
}

fn run_change_json(row: &RunChange) -> Value {
    json!({
        "exchange": row.exchange_id, "key": row.key, "kind": row.kind, "written": row.written, "state": row.state,
        "reason": row.reason, "detail": row.detail,
    })
}

fn event_json(row: &JournalEvent) -> Value {
    json!({
        "position": row.position, "at": time_text(row.at_ms), "kind": row.kind, "subject": row.subject,
        "by": row.decided_by, "detail": parse_json(row.detail.as_deref()),
    })
}

/// Returns the exchanges and events between two positions, in order.
pub(crate) async fn journal_entries(
    store: &Store,
    after: Position,
    to: Position,
) -> Result<Vec<Value>, StoreError> {
    let mut all: Vec<Value> = store
        .exchange_details(after, to)
        .await?
        .iter()
        .map(|row| journal_exchange_json(row, usize::MAX))
        .collect();
    all.extend(store.event_list(after, to).await?.iter().map(journal_event_json));
    all.sort_by_key(|entry| entry["position"].as_i64());
    Ok(all)
}

/// Returns the exchange that began or ended at a position, or the event at it. Bodies over `parsed_max` bytes are
/// strings, because a parsed body takes ten times the memory of its text.
pub(crate) async fn journal_entry(
    store: &Store,
    at: Position,
    parsed_max: usize,
) -> Result<Option<Value>, StoreError> {
    if let Some(exchange) = store.exchange_detail(at).await? {
        return Ok(Some(journal_exchange_json(&exchange, parsed_max)));
    }
    Ok(store.event_list(Position(at.0.saturating_sub(1)), at).await?.first().map(journal_event_json))
}

fn journal_exchange_json(detail: &ExchangeDetail, parsed_max: usize) -> Value {
    let row = &detail.row;
    json!({
        "type": "exchange", "position": row.exchange.id, "ended_position": row.ended, "run": row.run_id, "job": row.job,
        "trigger": row.trigger, "operation": row.exchange.operation, "target": row.exchange.target, "lane": row.exchange.lane,
        "sent_at": time_text(row.exchange.sent_ms), "answered_at": row.exchange.answered_ms.map(time_text),
        "verdict": row.exchange.verdict, "status": row.exchange.status, "message": row.exchange.message, "parked": row.exchange.parked,
        "set_aside": row.is_ignored, "request": body_json(detail.request.as_deref(), parsed_max),
        "response": body_json(detail.response.as_deref(), parsed_max),
    })
}

fn journal_event_json(event: &JournalEvent) -> Value {
    let mut entry = event_json(event);
    entry["type"] = "event".into();
    entry
}

/// Returns JSON text of at most `parsed_max` bytes as JSON, other text as a string.
fn body_json(text: Option<&str>, parsed_max: usize) -> Value {
    let Some(text) = text else { return Value::Null };
    let parsed = (text.len() <= parsed_max).then(|| serde_json::from_str(text).ok());
    parsed.flatten().unwrap_or_else(|| text.into())
}
