//! The journal for a replay: read-only, without the lock, and as of one moment.
//!
//! A single read transaction spans all statements, so journal and mirror have the same position, also beside
//! a working daemon. Meanwhile no checkpoint can empty the write-ahead log: it grows, and is cut afterwards.

use super::detail::{ExchangeDetail, exchange_details};
use super::event::JournalEvent;
use crate::model::{Operation, Position, Timestamp};
use crate::store::engine::fetch::Connection;
use crate::store::engine::reader::open_snapshot;
use crate::store::{DatabaseLocation, Result};

#[derive(Debug)]
pub(crate) struct JournalReader {
    pub(in crate::store) connection: Connection,
}

/// Journal entry that may have changed facts.
#[derive(Clone, Debug)]
pub(crate) enum JournalEntry {
    /// Claim of a call that writes stock levels.
    Begun(ExchangeDetail),
    /// End of an exchange, with or without an answer.
    Ended(ExchangeDetail),
    Event(JournalEvent),
}

impl JournalEntry {
    pub(crate) fn position(&self) -> Position {
        match self {
            JournalEntry::Begun(exchange) => Position(exchange.exchange.id),
            JournalEntry::Ended(exchange) => exchange.end(),
            JournalEntry::Event(event) => Position(event.position),
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
        const ACTION: &str = "read the journal's exchanges";
        let [stock, product] =
            [Operation::UpdateQuantityOnHand, Operation::UpdateProduct].map(Operation::as_str);
        let sql = concat!(exchange_details!(), " WHERE e.id > $1 AND e.id <= $2 AND e.operation IN ($3, $4)");
        let begun: Vec<ExchangeDetail> = self.fetch_all(sql, (after, to, stock, product), ACTION).await?;
        let sql = concat!(exchange_details!(), " WHERE e.ended > $1 AND e.ended <= $2 AND NOT e.is_ignored");
        let ended: Vec<ExchangeDetail> = self.fetch_all(sql, (after, to), ACTION).await?;
        let begun = begun.into_iter().map(JournalEntry::Begun);
        let mut entries: Vec<_> = begun.chain(ended.into_iter().map(JournalEntry::Ended)).collect();
        let sql = "SELECT position, at_ms, kind, subject, detail, decided_by FROM event WHERE position > $1 AND position <= $2";
        let events: Vec<JournalEvent> = self.fetch_all(sql, (after, to), "read the journal's events").await?;
        entries.extend(events.into_iter().map(JournalEntry::Event));
        entries.sort_by_key(JournalEntry::position);
        Ok(entries)
    }
}
