//! The same answer to the same question: a page that the mirror holds word for word, recognised before it is read.
//!
//! A reading remembers that all its products still hold exactly what its exchange was told (`told_by`); a trigger forgets
//! it with the first of them that changes (0018_told.sql). Bodies are kept once, so *the same question* and *the same
//! answer* are two comparisons of ids. Then only the reading's exchange and time move on, as they would if the page had
//! been read and compared. While a write of ours is to be looked for, or a conflict is open, each page is read: what it
//! shows is evidence then. Another version of the program reads each page once more, as it may understand more.
//!
//! A replay needs none of this: it reads every answer and comes to the same facts.

use super::error::Doing;
use super::page::BalancePage;
use super::{Store, StoreError, Write};
use crate::journal::Digest;
use crate::model::{ExchangeId, Sku, Timestamp};
use sqlx::Sqlite;
use sqlx::query::Query;
use sqlx::sqlite::SqliteArguments;

/// Who reads the answers.
pub(super) const READER: &str = env!("CARGO_PKG_VERSION");

/// An answer that came and is not read yet.
#[derive(Clone, Copy, Debug)]
pub struct Unread<'a> {
    /// Its exchange.
    pub exchange_id: ExchangeId,
    /// When its request was sent.
    pub observed_at: Timestamp,
    /// The first SKU that was asked for; by its reading the others are found.
    pub first: &'a Sku,
    /// The name of the answer's body.
    pub digest: Digest,
}

/// The reading that was told the same by an earlier exchange: ?1 reader, ?2 exchange, ?3 first SKU, ?4 digest.
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
    /// Whether an answer may be what the mirror holds already. Asked before the turn to write is waited for, since
    /// mostly it is not.
    pub async fn reading_may_repeat(&self, unread: &Unread<'_>) -> Result<bool, StoreError> {
        let told = unread.bound(told_the_same!()).fetch_optional(&mut *self.read().await?).await;
        Ok(told.doing("see whether an answer is known")?.is_some())
    }
}

impl Write {
    /// Moves the reading on if the answer is what the mirror holds already; the exchange has ended. Otherwise nothing
    /// is changed, and the answer is to be read.
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

    /// Notes that a page's reading holds exactly what it was told, after all of it was recorded.
    pub(super) async fn reading_told(&mut self, page: &BalancePage<'_>) -> Result<(), StoreError> {
        let Some(first) = page.asked.first() else { return Ok(()) };
        let sql = "UPDATE read_batch SET verified_by = ?1 WHERE exchange_id = ?2 \
                   AND id = (SELECT read_batch_id FROM product WHERE sku = ?3)";
        let query = sqlx::query(sql).bind(READER).bind(page.exchange_id.0).bind(first.as_str());
        query.execute(&mut *self.tx).await.map(drop).doing("note what a reading was told")
    }
}
