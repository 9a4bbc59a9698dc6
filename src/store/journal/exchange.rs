//! Exchanges: stored before they are sent and completed with their outcome.
//!
//! They also hold the quota's reservations, which are read from here after a restart.

use crate::journal::{DigestedBody, ExchangeBegin, ExchangeEnd, ExchangeOutcome, PackedBody};
use crate::model::{ExchangeId, Moment, Operation, Position, Timestamp, cut_reason, time};
use crate::store::{Result, Store, WriteTransaction};
use sqlx_macros::FromRow;
use std::time::Duration;

/// Size in bytes above which an answer is packed only if its body is not stored yet. Packing takes longer
/// than the lookup, and most pages of a quiet account are unchanged.
const LARGE_BODY_BYTES: usize = 16 * 1024;

/// SQL: stores a body once, by digest, size and packed bytes; the latter two are NULL if it may be stored.
macro_rules! insert_body {
    () => {
        "INSERT INTO body (digest, size, packed) SELECT $1, $2, $3 WHERE CAST($2 AS BIGINT) IS NOT NULL \
         ON CONFLICT (digest) DO NOTHING; "
    };
}

macro_rules! next_position_and_body {
    () => {
        concat!("UPDATE journal_sequence SET position = position + 1; ", insert_body!())
    };
}

/// Values of a text with `next_position_and_body!`, from `$1`: digest, size and packed bytes of a body.
type BodyValues = (Option<Vec<u8>>, Option<i64>, Option<Vec<u8>>);

/// Returns the values of a body; without `with_bytes` the digest only.
fn body_values(body: Option<DigestedBody<'_>>, with_bytes: bool) -> Result<BodyValues> {
    let packed = body.filter(|_| with_bytes).map(|body| match body.packed {
        Some(packed) => Ok(packed.clone()),
        None => PackedBody::pack(body.bytes),
    });
    let packed = packed.transpose()?;
    let size = packed.as_ref().map(|body| i64::try_from(body.size).unwrap_or(i64::MAX));
    Ok((body.map(|body| body.digest.to_vec()), size, packed.map(|body| body.packed)))
}

/// Call whose reservation in the quota may still count.
#[derive(Clone, Debug, FromRow)]
pub(crate) struct UsedReservation {
    pub operation: Operation,
    /// Time since boot at which it was answered or given up; `None`: unknown.
    pub answered_moment: Option<Moment>,
    /// True if a time-out or a crash ended it: the platform may have worked on it for longer.
    pub is_given_up: bool,
    /// Boot whose clock shows `answered_moment`; `None`: unknown, because another host may have ended the call.
    pub boot_id: Option<String>,
    /// Position at which its answer was stored.
    pub ended: Option<Position>,
}

impl Store {
    /// Returns the newest `limit` calls, answered or not.
    pub(crate) async fn exchange_reservations(&self, limit: u32) -> Result<Vec<UsedReservation>> {
        // The newest are selected before the join; otherwise SQLite may sort the whole journal. The start of a later
        // session ended an interrupted call, by the clock of its own host.
        let sql = "SELECT e.operation, e.answered_moment, \
                          coalesce(e.status IS NULL AND e.verdict IN ('transient', 'in_doubt', 'interrupted'), FALSE) \
                              AS is_given_up, \
                          CASE WHEN e.verdict = 'interrupted' AND EXISTS ( \
                              SELECT 1 FROM session o WHERE o.id > s.id AND o.boot_id <> s.boot_id) \
                          THEN NULL ELSE s.boot_id END AS boot_id, e.ended \
                   FROM (SELECT id, operation, answered_moment, session_id, status, verdict, ended FROM exchange \
                         ORDER BY id DESC LIMIT $1) e \
                   CROSS JOIN session s WHERE s.id = e.session_id ORDER BY e.id DESC";
        self.fetch_all(sql, (i64::from(limit),), "read the last calls").await
    }

    /// Returns age and operation of each 400 in the bad-request budget younger than `within`, oldest first.
    ///
    /// Ages of this boot come from moments, because the calendar may have been set since.
    pub(crate) async fn exchange_bad_requests(
        &self,
        boot_id: &str,
        now: (Timestamp, Moment),
        within: Duration,
    ) -> Result<Vec<(Duration, Operation)>> {
        let sql = "SELECT ago, operation FROM ( \
                       SELECT CASE WHEN s.boot_id = $1 THEN $3 - e.answered_moment ELSE $2 - e.answered_ms END \
                              AS ago, e.operation \
                       FROM exchange e JOIN session s ON s.id = e.session_id WHERE e.status = 400) bad_request \
                   WHERE ago < $4 ORDER BY ago DESC";
        let values = (boot_id, now.0.0, now.1.0, time::whole_millis(within));
        let rows: Vec<(i64, Operation)> = self.fetch_all(sql, values, "read the bad-request budget").await?;
        let age = |ago| Duration::from_millis(u64::try_from(ago).unwrap_or(0));
        Ok(rows.into_iter().map(|(ago, operation)| (age(ago), operation)).collect())
    }

    pub(crate) async fn limiter_state(&self) -> Result<Option<String>> {
        Ok(self.fetch_column("SELECT state FROM limiter_state", (), "read the limiter's state").await?.pop())
    }
}

impl WriteTransaction {
    /// Takes the next position; inside a transaction, so positions are in the order of commits.
    pub(crate) async fn position_next(&mut self) -> Result<Position> {
        let sql = "UPDATE journal_sequence SET position = position + 1 RETURNING position";
        self.fetch_value(sql, (), "take the next position").await
    }

    /// Sets the position during a replay of the journal.
    pub(crate) async fn position_set(&mut self, position: Position) -> Result<()> {
        self.execute("UPDATE journal_sequence SET position = $1", (position.0,), "set the position").await
    }

    /// Stores an exchange before it is sent; its reservation in the quota counts from this commit on.
    pub(crate) async fn exchange_begin(
        &mut self,
        session_id: i64,
        begun: &ExchangeBegin<'_>,
    ) -> Result<ExchangeId> {
        let sql = concat!(
            next_position_and_body!(),
            "INSERT INTO exchange (id, request_body_id, run_id, session_id, operation, target, lane, sent_ms, sent_moment) \
             SELECT position, (SELECT id FROM body WHERE digest = $1), $4, $5, $6, $7, $8, $9, $10 \
             FROM journal_sequence RETURNING id"
        );
        let (digest, size, packed) = body_values(begun.body.map(DigestedBody::from), true)?;
        let (run, sent_at, sent_moment) = (begun.run_id, begun.sent_at, begun.sent_moment);
        let (operation, target, lane) = (begun.operation.as_str(), &*begun.target, begun.lane.as_str());
        let values = (digest, size, packed, run, session_id, operation, target, lane, sent_at, sent_moment);
        self.fetch_value(sql, values, "store a call before it is sent").await
    }

    /// Returns true if the outcome of an exchange is stored.
    pub(crate) async fn exchange_has_ended(&mut self, id: ExchangeId) -> Result<bool> {
        let sql = "SELECT EXISTS (SELECT 1 FROM exchange WHERE id = $1 AND ended IS NOT NULL)";
        self.fetch_value(sql, (id,), "check that an answer was stored").await
    }

    /// Stores the outcome of an exchange and returns the position at which it ended.
    pub(crate) async fn exchange_end(&mut self, id: ExchangeId, ended: &ExchangeEnd<'_>) -> Result<Position> {
        let is_large = |body: DigestedBody<'_>| body.packed.is_none() && body.bytes.len() > LARGE_BODY_BYTES;
        let (digest, size, packed) = body_values(ended.body, !ended.body.is_some_and(is_large))?;
        let sql = concat!(
            next_position_and_body!(),
            "UPDATE exchange SET ended = (SELECT position FROM journal_sequence), verdict = $5, status = $6, \
                 response_body_id = (SELECT id FROM body WHERE digest = $1), message = $7, answered_ms = $8, \
                 answered_moment = $9 \
             WHERE id = $4 AND ended IS NULL; \
             SELECT position, EXISTS (SELECT 1 FROM body WHERE digest = $1) FROM journal_sequence"
        );
        let (verdict, message) = (ended.outcome.as_str(), ended.message.map(cut_reason));
        let status = ended.status.map(i64::from);
        let (answered_at, moment) = (ended.answered_at, ended.answered_moment);
        let values = (digest, size, packed, id, verdict, status, message, answered_at, moment);
        let (position, is_stored): (Position, bool) = self.fetch_one(sql, values, "store an answer").await?;
        if let Some(body) = ended.body.filter(|_| !is_stored) {
            let sql = concat!(
                insert_body!(),
                "UPDATE exchange SET response_body_id = (SELECT id FROM body WHERE digest = $1) WHERE id = $4"
            );
            let (digest, size, packed) = body_values(Some(body), true)?;
            self.execute(sql, (digest, size, packed, id), "store a body").await?;
        }
        Ok(position)
    }

    /// Marks an accepted answer as not applied, so that a replay does not apply it either.
    pub(crate) async fn exchange_ignore(&mut self, id: ExchangeId) -> Result<()> {
        let sql = "UPDATE exchange SET is_ignored = TRUE WHERE id = $1";
        self.execute(sql, (id.0,), "mark an answer as ignored").await
    }

    pub(super) async fn exchange_interrupt_all(&mut self, at: Timestamp, moment: Moment) -> Result<()> {
        let sql = "SELECT id FROM exchange WHERE ended IS NULL ORDER BY id";
        for id in self.fetch_column(sql, (), "find the calls that were never answered").await? {
            let ended = ExchangeEnd {
                outcome: ExchangeOutcome::Interrupted,
                status: None,
                body: None,
                message: Some("tallyd ended before the answer came"),
                answered_at: at,
                answered_moment: moment,
            };
            self.exchange_end(id, &ended).await?;
        }
        Ok(())
    }

    /// Parks a record that could not be read, with its exchange and the name with which an operator finds it at the
    /// platform.
    pub(crate) async fn exchange_park(
        &mut self,
        id: ExchangeId,
        record: usize,
        (why, raw): (&str, &str),
        subject: Option<&str>,
    ) -> Result<()> {
        let record = i64::try_from(record).unwrap_or(i64::MAX);
        let sql = "INSERT INTO parked (exchange_id, record, subject, why, raw) VALUES ($1, $2, $3, $4, $5) \
                   ON CONFLICT DO NOTHING";
        let values = (id, record, subject.map(cut_reason), cut_reason(why), raw);
        self.execute(sql, values, "park a record").await?;
        let sql = "UPDATE exchange SET parked = parked + 1 WHERE id = $1";
        self.execute(sql, (id,), "count a parked record").await
    }

    pub(crate) async fn limiter_state_store(&mut self, state: &str) -> Result<()> {
        let sql = "INSERT INTO limiter_state (id, state) VALUES (1, $1) \
                   ON CONFLICT (id) DO UPDATE SET state = excluded.state \
                   WHERE limiter_state.state IS DISTINCT FROM excluded.state";
        self.execute(sql, (state,), "store the limiter's state").await
    }
}
