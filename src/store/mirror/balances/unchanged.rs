//! Repeated answers: a page equal to the mirror's state is recognised before it is parsed.
//!
//! `verified_by` marks a read batch whose products all hold exactly the values of its exchange's answer. A trigger
//! clears the mark when one of them changes (trigger `product_after_update`). Each body is stored once, so equal requests and
//! equal answers are two comparisons of ids. Then only the batch's exchange and time change, as they would
//! after a full comparison.
//!
//! Every page is parsed while a conflict is open, or while a write is open, overlaps the read or is
//! unconfirmed. The page is evidence then. Another version of the program parses each page once more, because
//! it may read more fields.
//!
//! A replay does without this: it parses every answer and has the same facts.

use super::page::BalancePage;
use crate::journal::Digest;
use crate::model::{ExchangeId, Sku, Timestamp};
use crate::store::engine::error::Doing;
use crate::store::{Store, StoreError, Write};
use sqlx::Sqlite;
use sqlx::query::Query;
use sqlx::sqlite::SqliteArguments;

/// Version of the program, as the parser of answers.
pub(super) const READER: &str = env!("CARGO_PKG_VERSION");

/// Answer that is not parsed yet.
#[derive(Clone, Copy, Debug)]
pub struct Unread<'a> {
    /// Exchange.
    pub exchange_id: ExchangeId,
    /// Time at which its request was sent.
    pub observed_at: Timestamp,
    /// First requested SKU; its reading leads to the others.
    pub first: &'a Sku,
    /// Digest of the answer's body.
    pub digest: Digest,
}

/// SQL: the reading with an equal request and answer. ?1 version, ?2 exchange, ?3 first SKU, ?4 digest.
macro_rules! told_the_same {
    () => {
        "SELECT r.id FROM product p JOIN read_batch r ON r.id = p.read_batch_id AND r.verified_by = ?1 \
         JOIN exchange e ON e.id = r.exchange_id JOIN exchange n ON n.id = ?2 \
             AND n.operation = e.operation AND n.request_body_id = e.request_body_id \
         JOIN body b ON b.id = e.response_body_id AND b.digest = ?4 WHERE p.sku = ?3"
    };
}

impl<'a> Unread<'a> {
    fn bound(&self, sql: &'static str) -> Query<'a, Sqlite, SqliteArguments> {
        let query = sqlx::query(sql).bind(READER).bind(self.exchange_id.0);
        query.bind(self.first.as_str()).bind(self.digest.to_vec())
    }
}

impl Store {
    /// Returns true if an answer may equal the mirror's state.
    ///
    /// The caller asks before it waits for the writer connection, because most answers do not.
    pub async fn reading_may_repeat(&self, unread: &Unread<'_>) -> Result<bool, StoreError> {
        let told = unread.bound(told_the_same!()).fetch_optional(&mut *self.read().await?).await;
        Ok(told.doing("see whether an answer is known")?.is_some())
    }
}

impl Write {
    /// Moves the reading to this finished exchange if its answer equals the mirror's state.
    ///
    /// Returns false if the answer must be parsed; then nothing changes.
    pub async fn reading_repeat(&mut self, unread: &Unread<'_>) -> Result<bool, StoreError> {
        let sql = concat!(
            "UPDATE read_batch SET exchange_id = ?2, observed_ms = ?5 WHERE id = (",
            told_the_same!(),
            ") AND NOT EXISTS (SELECT 1 FROM stock_level_write WHERE ended IS NULL) \
               AND NOT EXISTS (SELECT 1 FROM stock_level_write WHERE ended > ?2) \
               AND NOT EXISTS (SELECT 1 FROM stock_level_write WHERE is_unconfirmed) \
               AND NOT EXISTS (SELECT 1 FROM mismatch)"
        );
        let done = unread.bound(sql).bind(unread.observed_at.0).execute(&mut *self.tx).await;
        Ok(done.doing("move a reading on that was told the same")?.rows_affected() > 0)
    }

    /// Marks the page's reading as exactly equal to its answer; called after the page was recorded.
    pub(super) async fn reading_told(&mut self, page: &BalancePage<'_>) -> Result<(), StoreError> {
        let Some(first) = page.asked.first() else { return Ok(()) };
        let sql = "UPDATE read_batch SET verified_by = ?1 WHERE exchange_id = ?2 \
                   AND id = (SELECT read_batch_id FROM product WHERE sku = ?3)";
        let query = sqlx::query(sql).bind(READER).bind(page.exchange_id.0).bind(first.as_str());
        query.execute(&mut *self.tx).await.map(drop).doing("note what a reading was told")
    }
}
