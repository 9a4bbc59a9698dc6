//! Repeated answers: a page equal to the mirror's state is recognised before it is parsed.
//!
//! `verified_by` marks a read batch whose products all hold exactly the values of its exchange's answer. A trigger
//! clears the mark when one of them changes (trigger `product_after_update`). Each body is stored once, so
//! equal requests and equal answers are two comparisons of ids. Then only the batch's exchange and time
//! change, as they would after a full comparison.
//!
//! Every page is parsed while a conflict is open, or while a write is open, overlaps the read or is
//! unconfirmed. The page is evidence then. Another version of the program parses each page once more,
//! because it may read more fields.
//!
//! A replay does without this: it parses every answer and has the same facts.

use super::page::BalancePage;
use crate::journal::BodyDigest;
use crate::model::{ExchangeId, Sku, Timestamp};
use crate::store::{Result, Store, WriteTransaction};

/// Version of the program, as the parser of answers.
pub(super) const PARSER_VERSION: &str = env!("CARGO_PKG_VERSION");

/// Answer that is not parsed yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnparsedAnswer<'a> {
    pub exchange_id: ExchangeId,
    /// Time at which its request was sent.
    pub observed_at: Timestamp,
    /// First requested SKU; its read batch leads to the others.
    pub first_sku: &'a Sku,
    pub digest: BodyDigest,
}

/// SQL: true if writes or conflicts require that the page of exchange `$2` is judged against them.
macro_rules! page_is_evidence {
    () => {
        "(EXISTS (SELECT 1 FROM stock_level_write WHERE ended IS NULL) \
          OR EXISTS (SELECT 1 FROM stock_level_write WHERE ended > $2) \
          OR EXISTS (SELECT 1 FROM stock_level_write WHERE is_unconfirmed) \
          OR EXISTS (SELECT 1 FROM mismatch))"
    };
}
pub(super) use page_is_evidence;

/// SQL: the read batch with an equal request and answer. $1 version, $2 exchange, $3 first SKU, $4 digest.
macro_rules! verified_batch {
    () => {
        "SELECT r.id FROM product p JOIN read_batch r ON r.id = p.read_batch_id AND r.verified_by = $1 \
         JOIN exchange e ON e.id = r.exchange_id JOIN exchange n ON n.id = $2 \
             AND n.operation = e.operation AND n.request_body_id = e.request_body_id \
         JOIN body b ON b.id = e.response_body_id AND b.digest = $4 WHERE p.sku = $3"
    };
}

impl<'a> UnparsedAnswer<'a> {
    fn sql_values(&self) -> (&'static str, i64, &'a str, Vec<u8>, i64) {
        let Self { exchange_id, observed_at, first_sku, digest } = self;
        (PARSER_VERSION, exchange_id.0, first_sku.as_str(), digest.to_vec(), observed_at.0)
    }
}

impl Store {
    /// Returns true if an answer may equal the mirror's state; asked before the wait for the writer.
    pub(crate) async fn read_batch_may_be_unchanged(&self, unread: &UnparsedAnswer<'_>) -> Result<bool> {
        let sql = verified_batch!();
        let batch: Vec<i64> =
            self.fetch_column(sql, unread.sql_values(), "compare an answer with the stored one").await?;
        Ok(!batch.is_empty())
    }
}

impl WriteTransaction {
    /// Moves the read batch to this finished exchange if its answer equals the mirror's state.
    pub(crate) async fn read_batch_confirm(&mut self, unread: &UnparsedAnswer<'_>) -> Result<bool> {
        let sql = concat!(
            "UPDATE read_batch SET exchange_id = $2, observed_ms = $5 WHERE id = (",
            verified_batch!(),
            ") AND NOT ",
            page_is_evidence!()
        );
        let moved = self.execute_counting(sql, unread.sql_values(), "update an unchanged read batch").await?;
        Ok(moved > 0)
    }

    /// Marks the read batch of the page as exactly equal to its answer; called after the page was recorded.
    pub(super) async fn read_batch_mark_verified(&mut self, page: &BalancePage<'_>) -> Result<()> {
        let Some(first) = page.requested.first() else { return Ok(()) };
        let sql = "UPDATE read_batch SET verified_by = $1 WHERE exchange_id = $2 \
                   AND id = (SELECT read_batch_id FROM product WHERE sku = $3)";
        let values = (PARSER_VERSION, page.exchange_id.0, first.as_str());
        self.execute(sql, values, "mark a read batch as verified").await
    }
}
