//! Runs, exchanges and events of the journal.

use super::listing::{ListColumns, ListedSubject, columns, sentence_cell};
use super::time_text;
use crate::model::{Position, RunId, Timestamp};
use crate::store::{ExchangeDetail, ExchangeRow, JournalEvent, RunChange, RunRow, Store, StoreError};
use serde_json::{Value, json};

pub(crate) struct RunDetail {
    pub(crate) run: RunRow,
    pub(crate) exchanges: Vec<ExchangeRow>,
    pub(crate) changes: Vec<RunChange>,
    pub(crate) events: Vec<JournalEvent>,
    /// Position after which the next page begins; `None`: this is the last one.
    pub(crate) next: Option<i64>,
}

impl RunDetail {
    /// Reads a run with at most `rows` of its exchanges after a position, and at most `rows` events.
    pub(crate) async fn load(
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
        let mut all = json!(self.run);
        all["exchanges"] = json!(self.exchanges);
        all["changes"] = json!(self.changes);
        all["events"] = json!(self.events);
        all
    }
}

pub(crate) fn run_columns(row: &RunRow) -> ListColumns {
    columns! {
        "run": ListedSubject::Run.cell(row.id), "job": row.job, "trigger": row.trigger,
        "started": Timestamp(row.started_ms), "ms": row.ended_ms.map(|ended| ended - row.started_ms),
        "outcome": row.outcome, "calls": row.exchanges,
        "summary": sentence_cell(row.summary.as_deref()),
    }
}

pub(crate) fn exchange_columns(row: &ExchangeRow) -> ListColumns {
    columns! {
        "exchange": ListedSubject::Entry.cell(row.id), "operation": row.operation, "lane": row.lane,
        "sent": Timestamp(row.sent_ms), "ms": row.answered_ms.map(|answered| answered - row.sent_ms),
        "verdict": row.verdict, "status": row.status, "message": row.message,
    }
}

pub(crate) fn run_change_columns(row: &RunChange) -> ListColumns {
    columns! {
        "change": ListedSubject::Change.cell(&row.key),
        "exchange": ListedSubject::Entry.cell(row.exchange_id), "kind": row.kind,
        "written": row.written, "state": row.state, "reason": row.reason,
        "detail": sentence_cell(row.detail.as_deref()),
    }
}

pub(crate) fn event_columns(row: &JournalEvent) -> ListColumns {
    columns! {
        "position": ListedSubject::Entry.cell(row.position), "time": Timestamp(row.at_ms),
        "event during the run": row.kind, "subject": row.subject, "by": row.decided_by,
        "detail": row.detail,
    }
}

pub(crate) async fn journal_entries(
    store: &Store,
    after: Position,
    to: Position,
) -> Result<Vec<Value>, StoreError> {
    let exchanges = store.exchange_details(after, to).await?;
    let json = |row: &ExchangeDetail| journal_exchange_json(row, usize::MAX);
    let mut all: Vec<Value> = exchanges.iter().map(json).collect::<Result<_, _>>()?;
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
        return journal_exchange_json(&exchange, parsed_max).map(Some);
    }
    Ok(store.event_list(Position(at.0.saturating_sub(1)), at).await?.first().map(journal_event_json))
}

fn journal_exchange_json(row: &ExchangeDetail, parsed_max: usize) -> Result<Value, StoreError> {
    Ok(json!({
        "type": "exchange", "position": row.exchange.id, "ended_position": row.ended, "run": row.run_id, "job": row.job,
        "trigger": row.trigger, "operation": row.exchange.operation, "target": row.exchange.target, "lane": row.exchange.lane,
        "sent_at": time_text(row.exchange.sent_ms), "answered_at": row.exchange.answered_ms.map(time_text),
        "verdict": row.exchange.verdict, "status": row.exchange.status, "message": row.exchange.message, "parked": row.exchange.parked,
        "ignored": row.is_ignored, "request": body_json(row.request_body()?, parsed_max),
        "response": body_json(row.response_body()?, parsed_max),
    }))
}

fn journal_event_json(event: &JournalEvent) -> Value {
    let mut entry = json!(event);
    entry["type"] = "event".into();
    entry
}

/// Returns JSON text of at most `parsed_max` bytes as JSON, other text as a string.
fn body_json(body: Option<Vec<u8>>, parsed_max: usize) -> Value {
    let Some(body) = body else { return Value::Null };
    let text = String::from_utf8_lossy(&body);
    let parsed = (text.len() <= parsed_max).then(|| serde_json::from_str(&text).ok());
    parsed.flatten().unwrap_or_else(|| text.into())
}
