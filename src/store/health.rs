//! The rows that tell whether anything is wrong, read for the judgement in `job::health`.
//!
//! The daemon reads them each minute, also in a database of years: every statement goes by an index and looks at what is
//! open, or at the last hours of the journal.

use super::error::Doing;
use super::{HealthRow, MismatchRow, QuarantineRow, Store, StoreError};
use crate::model::{Operation, Timestamp};
use sqlx::FromRow;
use std::time::Duration;

/// The journal is looked at so far back for calls that fail.
const CALLS_WITHIN: Duration = Duration::from_secs(60 * 60);
/// Calls looked at, the newest first.
const CALLS: u32 = 60;
/// Runs of the push looked at, the newest first.
const PUSHES: u32 = 20;
/// Parked records are looked at so far back: a daily poll shows them twice.
const PARKED_WITHIN: Duration = Duration::from_secs(50 * 60 * 60);

/// Everything the judgement reads from the database.
#[derive(Clone, Debug, Default)]
pub struct HealthRows {
    /// The session that worked last; none where no daemon ever did.
    pub worked: Option<WorkedRow>,
    /// The state of each enabled job.
    pub jobs: Vec<HealthRow>,
    /// The copies of the job `backup`, if it is enabled.
    pub backup: Option<BackupRow>,
    /// The last pruning, if the clock's jump kept it from pruning by age and nobody has pruned since.
    pub unpruned: Option<EndedRunRow>,
    /// The number of wishes in each state.
    pub wishes: Vec<(String, i64)>,
    /// The pending wishes by kind and reason.
    pub waiting: Vec<WaitingRow>,
    /// The pending tracking numbers whose shipment no wish makes.
    pub orphans: Vec<OrphanRow>,
    /// The rejected wishes that nobody has acknowledged.
    pub rejected: Option<RejectedRow>,
    /// The last calls of any kind, the newest first.
    pub calls: Vec<CallRow>,
    /// The last calls that write, the newest first.
    pub writes: Vec<CallRow>,
    /// The last runs of the push that ended, the newest first.
    pub pushes: Vec<EndedRunRow>,
    /// The records that no poll could read.
    pub unreadable: Vec<UnreadableRow>,
    /// The entries that fail alone.
    pub quarantined: Vec<QuarantineRow>,
    /// The written quantities that do not show.
    pub mismatches: Vec<MismatchRow>,
    /// The service refused the key at the last call that was answered.
    pub is_refused: bool,
    /// The tracked SKUs that the service does not return.
    pub missing_skus: i64,
    /// The limiter's memory, in its own words.
    pub limiter_memory: Option<String>,
}

/// The session that worked last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromRow)]
pub struct WorkedRow {
    /// The start of it, in milliseconds since 1970.
    pub started_ms: i64,
    /// The end of it; none where it works still or ended in the middle.
    pub ended_ms: Option<i64>,
    /// It was a `run --once`.
    pub is_once: bool,
    /// Every run of it did all it set out to do.
    pub is_good: bool,
}

/// The copies of the job `backup`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromRow)]
pub struct BackupRow {
    /// The start of the last run that made a good one, in milliseconds since 1970.
    pub last_good_ms: Option<i64>,
    /// The time at which the job was enabled, in milliseconds since 1970.
    pub since_ms: i64,
    /// The longest gap that its schedule leaves, in milliseconds.
    pub interval_ms: i64,
}

/// The pending wishes of one kind and reason.
#[derive(Clone, Debug, PartialEq, Eq, FromRow)]
pub struct WaitingRow {
    /// The kind, as it was inserted.
    #[sqlx(try_from = "super::text::Text")]
    pub kind: String,
    /// The word for why they wait: a reason of the outbox, or `quarantined`, `awaits_nobody`,
    /// `behind_held`, `behind_in_doubt`.
    pub why: Option<String>,
    /// The number of them.
    pub wishes: i64,
    /// The time since which the oldest of them waits, in milliseconds since 1970.
    pub since_ms: i64,
    /// The start of the first session that found the oldest of them waiting.
    pub found_ms: Option<i64>,
    /// The key of the oldest.
    #[sqlx(try_from = "super::text::Text")]
    pub key: String,
    /// The sentence that stands with the oldest.
    pub detail: Option<String>,
}

/// A tracking number whose shipment no wish makes.
#[derive(Clone, Debug, PartialEq, Eq, FromRow)]
pub struct OrphanRow {
    /// The wish's key.
    #[sqlx(try_from = "super::text::Text")]
    pub key: String,
    /// The key that it names and that no wish has.
    #[sqlx(try_from = "super::text::Text")]
    pub names: String,
    /// The time of its insertion, in milliseconds since 1970.
    pub since_ms: i64,
}

/// The rejected wishes that nobody has acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, FromRow)]
pub struct RejectedRow {
    /// The number of them.
    pub wishes: i64,
    /// The key of the newest.
    #[sqlx(try_from = "super::text::Text")]
    pub key: String,
    /// The reason that stands with it.
    pub reason: Option<String>,
    /// The sentence that stands with it.
    pub detail: Option<String>,
    /// The time since which the oldest is rejected, in milliseconds since 1970.
    pub since_ms: i64,
}

/// A call that ended.
#[derive(Clone, Debug, PartialEq, Eq, FromRow)]
pub struct CallRow {
    /// The operation, as the interface lists it.
    pub operation: String,
    /// The judgement.
    pub verdict: String,
    /// The HTTP status, if an answer came.
    pub status: Option<i64>,
    /// The platform's words, or why no answer came.
    pub message: Option<String>,
    /// The time it was sent, in milliseconds since 1970.
    pub sent_ms: i64,
}

/// A run that ended.
#[derive(Clone, Debug, PartialEq, Eq, FromRow)]
pub struct EndedRunRow {
    /// Its outcome.
    pub outcome: String,
    /// Its summary.
    pub summary: Option<String>,
    /// The time of its start, in milliseconds since 1970.
    pub started_ms: i64,
}

/// A record that no poll could read.
#[derive(Clone, Debug, PartialEq, Eq, FromRow)]
pub struct UnreadableRow {
    /// The job whose polls met it.
    pub job: String,
    /// The name of it.
    pub subject: String,
    /// The part of it that makes no sense.
    pub why: String,
    /// The number of polls that met it.
    pub polls: i64,
    /// The time of the first of them, in milliseconds since 1970.
    pub since_ms: i64,
}

/// A wish waits since it was inserted; one that was held, since it became pending after that. One that was in doubt and had
/// not landed waits on: sent ten times without an answer, it waits since the first. `moves` is 1 or 2 for a wish that was
/// only inserted, which spares a look at the moves of each wish of a large backlog.
const WAITING_SINCE: &str = "coalesce(CASE WHEN o.moves > 2 THEN ( \
        SELECT min(m.at_ms) FROM wish_move m WHERE m.wish_id = o.id AND m.state = 'pending' AND m.move > ( \
            SELECT max(h.move) FROM wish_move h WHERE h.wish_id = o.id AND h.state = 'held')) END, \
    unixepoch(o.created_at) * 1000)";

/// Another wish of the same cell that is held or in doubt.
const BEHIND: &str = "(SELECT 'behind_' || b.state FROM outbox b \
    WHERE b.state IN ('pending', 'sending', 'held', 'in_doubt') AND b.sku IS NOT NULL \
      AND b.sku = o.sku AND b.warehouse_id = o.warehouse_id AND b.state IN ('held', 'in_doubt') LIMIT 1)";

/// The name by which the quarantine may hold a wish's entry.
const SUBJECT: &str = "CASE o.kind \
    WHEN 'shipment.create' THEN CAST(CAST(json_extract(o.body, '$.order_id') AS INTEGER) AS TEXT) \
    WHEN 'tracking.submit' THEN CAST(CAST(json_extract(o.body, '$.shipment_id') AS INTEGER) AS TEXT) \
    WHEN 'product.update' THEN json_extract(o.body, '$.Sku') ELSE o.sku END";

/// A tracking number that names the shipment of a wish, and no wish has that key.
const IS_ORPHAN: &str = "o.kind = 'tracking.submit' AND o.reason = 'awaits_shipment' \
    AND json_type(o.body, '$.shipment_key') = 'text' \
    AND NOT EXISTS (SELECT 1 FROM outbox n WHERE n.key = json_extract(o.body, '$.shipment_key'))";

impl Store {
    /// Reads what the judgement needs.
    ///
    /// # Errors
    /// Fails where the database cannot be read.
    pub async fn health_rows(&self, now: Timestamp) -> Result<HealthRows, StoreError> {
        Ok(HealthRows {
            worked: self.health_worked().await?,
            jobs: self.health_jobs(now).await?,
            backup: self.health_backup().await?,
            unpruned: self.health_unpruned().await?,
            wishes: self.outbox_counts().await?,
            waiting: self.health_waiting().await?,
            orphans: self.health_orphans().await?,
            rejected: self.health_rejected().await?,
            calls: self.health_calls(now, "1").await?,
            writes: self.health_calls(now, "operation IN (SELECT value FROM json_each(?3))").await?,
            pushes: self.health_pushes().await?,
            unreadable: self.health_unreadable(now).await?,
            quarantined: self.quarantine().await?,
            mismatches: self.mismatch_list().await?,
            is_refused: self.key_is_refused().await?,
            missing_skus: self.state_count().await?.missing_skus,
            limiter_memory: self.limiter_memory().await?,
        })
    }

    /// The session of the newest run that no person asked for: a command beside the schedule, such as `verify`, says
    /// nothing about who keeps the shop.
    async fn health_worked(&self) -> Result<Option<WorkedRow>, StoreError> {
        let sql = "SELECT s.started_ms, s.ended_ms, \
                          EXISTS (SELECT 1 FROM run r WHERE r.id >= n.first AND r.session_id = s.id \
                                  AND r.trigger = 'once') AS is_once, \
                          NOT EXISTS (SELECT 1 FROM run r WHERE r.id >= n.first AND r.session_id = s.id \
                                      AND r.outcome <> 'ok') AS is_good \
                   FROM (SELECT session_id, max(0, id - 200) AS first FROM run WHERE trigger <> 'operator' \
                         ORDER BY id DESC LIMIT 1) n \
                   JOIN session s ON s.id = n.session_id";
        let worked = sqlx::query_as(sql).fetch_optional(&mut *self.read().await?).await;
        worked.doing("read who worked last")
    }

    /// The rows of `job_health` at this time: the view reads the host's own clock.
    async fn health_jobs(&self, now: Timestamp) -> Result<Vec<HealthRow>, StoreError> {
        let sql = "SELECT job, strftime('%Y-%m-%dT%H:%M:%fZ', last_good_ms / 1000.0, 'unixepoch') AS last_good_at, \
                          (?1 - last_good_ms) / 1000 AS age_seconds, \
                          interval_ms IS NOT NULL AND ?1 - coalesce(last_good_ms, since_ms) > 2 * interval_ms AS stale, \
                          strftime('%Y-%m-%dT%H:%M:%fZ', next_due_ms / 1000.0, 'unixepoch') AS next_due_at, \
                          last_outcome FROM job_state WHERE enabled ORDER BY job";
        let jobs = sqlx::query_as(sql).bind(now.0).fetch_all(&mut *self.read().await?).await;
        jobs.doing("read the health of the jobs")
    }

    async fn health_backup(&self) -> Result<Option<BackupRow>, StoreError> {
        let sql = "SELECT last_good_ms, since_ms, coalesce(interval_ms, 0) AS interval_ms \
                   FROM job_state WHERE job = 'backup' AND enabled";
        let backup = sqlx::query_as(sql).fetch_optional(&mut *self.read().await?).await;
        backup.doing("read when the last copy was made")
    }

    /// A pruning is partial only where the clock's jump kept it from its work. `journal prune` leaves a snapshot and no
    /// run.
    async fn health_unpruned(&self) -> Result<Option<EndedRunRow>, StoreError> {
        let sql = "SELECT outcome, summary, started_ms \
                   FROM (SELECT * FROM run WHERE job = 'prune' AND outcome <> 'running' ORDER BY id DESC LIMIT 1) \
                   WHERE outcome = 'partial' AND NOT EXISTS (SELECT 1 FROM snapshot WHERE taken_ms > ended_ms)";
        let run = sqlx::query_as(sql).fetch_optional(&mut *self.read().await?).await;
        run.doing("read how the last pruning went")
    }

    async fn health_waiting(&self) -> Result<Vec<WaitingRow>, StoreError> {
        let sql = format!(
            "SELECT w.kind, w.why, w.wishes, w.since_ms, w.key, w.detail, \
                    (SELECT min(s.started_ms) FROM session s WHERE s.started_ms >= w.since_ms) AS found_ms \
             FROM (SELECT kind, why, count(*) AS wishes, min(since_ms) AS since_ms, key, detail \
                   FROM (SELECT o.kind, o.key, o.detail, {WAITING_SINCE} AS since_ms, \
                                coalesce( \
                                    CASE WHEN EXISTS (SELECT 1 FROM quarantine) AND EXISTS ( \
                                        SELECT 1 FROM quarantine q WHERE q.subject = {SUBJECT} COLLATE NOCASE) \
                                    THEN 'quarantined' END, \
                                    CASE WHEN EXISTS (SELECT 1 FROM outbox h \
                                                      WHERE h.state IN ('sending', 'held', 'in_doubt') \
                                                        AND h.state IN ('held', 'in_doubt')) \
                                         AND coalesce(o.reason, 'awaits_other') = 'awaits_other' \
                                    THEN {BEHIND} END, \
                                    CASE WHEN {IS_ORPHAN} THEN 'awaits_nobody' END, \
                                    o.reason) AS why \
                         FROM outbox o WHERE o.state = 'pending') \
                   GROUP BY kind, why) w \
             ORDER BY w.since_ms"
        );
        let query = sqlx::query_as(sqlx::AssertSqlSafe(sql));
        query.fetch_all(&mut *self.read().await?).await.doing("read which wishes wait")
    }

    async fn health_orphans(&self) -> Result<Vec<OrphanRow>, StoreError> {
        let sql = format!(
            "SELECT o.key, json_extract(o.body, '$.shipment_key') AS names, \
                    unixepoch(o.created_at) * 1000 AS since_ms \
             FROM outbox o WHERE o.state = 'pending' AND {IS_ORPHAN} ORDER BY o.id LIMIT 1000"
        );
        let query = sqlx::query_as(sqlx::AssertSqlSafe(sql));
        query.fetch_all(&mut *self.read().await?).await.doing("look for tracking numbers without a shipment")
    }

    /// A rejection that a person or the configured policy decided needs nobody to learn of it.
    async fn health_rejected(&self) -> Result<Option<RejectedRow>, StoreError> {
        let sql = "SELECT n.wishes, n.since_ms, o.key, o.reason, o.detail \
                   FROM (SELECT count(*) AS wishes, min(coalesce(moved_ms, 0)) AS since_ms, max(id) AS newest \
                         FROM outbox WHERE state = 'rejected' AND acknowledged_ms IS NULL \
                           AND reason NOT IN ('operator', 'remote_wins')) n \
                   JOIN outbox o ON o.id = n.newest";
        sqlx::query_as(sql)
            .fetch_optional(&mut *self.read().await?)
            .await
            .doing("read the rejected wishes that nobody has acknowledged")
    }

    /// The last calls that ended, of all operations or of those that `which` lets through; one that a stop broke off
    /// says nothing.
    async fn health_calls(&self, now: Timestamp, which: &str) -> Result<Vec<CallRow>, StoreError> {
        let sql = format!(
            "SELECT operation, verdict, status, message, sent_ms FROM exchange \
             WHERE sent_ms >= ?1 AND {which} AND verdict <> 'interrupted' ORDER BY sent_ms DESC, id DESC LIMIT ?2"
        );
        let writes =
            Operation::ALL.iter().filter(|operation| operation.effect() == crate::model::Effect::Write);
        let writes: Vec<&str> = writes.map(|operation| operation.as_str()).collect();
        let query = sqlx::query_as(sqlx::AssertSqlSafe(sql)).bind(now.minus(CALLS_WITHIN).0).bind(CALLS);
        let query = if which.contains("?3") { query.bind(super::cells::json(&writes)) } else { query };
        query.fetch_all(&mut *self.read().await?).await.doing("read how the last calls went")
    }

    async fn health_pushes(&self) -> Result<Vec<EndedRunRow>, StoreError> {
        let sql = "SELECT outcome, summary, started_ms FROM run WHERE job = 'push' AND outcome <> 'running' \
                   ORDER BY id DESC LIMIT ?1";
        sqlx::query_as(sql)
            .bind(PUSHES)
            .fetch_all(&mut *self.read().await?)
            .await
            .doing("read how the last pushes went")
    }

    /// Records that two polls or more could not read, and that no poll has read since: neither did an answer bring the
    /// SKU, nor did a whole run of the job pass without it.
    async fn health_unreadable(&self, now: Timestamp) -> Result<Vec<UnreadableRow>, StoreError> {
        let sql = "WITH odd AS (SELECT r.job, coalesce(n.subject, 'record ' || p.record) AS subject, p.why, \
                                       max(p.exchange_id) AS newest, max(r.id) AS newest_run, \
                                       count(DISTINCT p.exchange_id) AS polls, min(e.sent_ms) AS since_ms \
                                FROM parked p JOIN exchange e ON e.id = p.exchange_id JOIN run r ON r.id = e.run_id \
                                LEFT JOIN parked_subject n ON n.exchange_id = p.exchange_id AND n.record = p.record \
                                WHERE p.exchange_id >= (SELECT id FROM exchange WHERE sent_ms >= ?1 \
                                                        ORDER BY sent_ms LIMIT 1) \
                                  AND r.job NOT IN ('push', 'settle') \
                                GROUP BY r.job, 2 HAVING polls > 1) \
                   SELECT job, subject, why, polls, since_ms FROM odd \
                   WHERE NOT EXISTS (SELECT 1 FROM run l WHERE l.job = odd.job AND l.id > odd.newest_run \
                                     AND l.outcome IN ('ok', 'partial') AND l.trigger NOT IN ('outbox', 'operator')) \
                     AND NOT EXISTS (SELECT 1 FROM product d JOIN reading g ON g.id = d.reading_id \
                                     WHERE d.sku = odd.subject AND odd.job = 'balances' \
                                       AND g.exchange_id > odd.newest) \
                   ORDER BY job, subject";
        sqlx::query_as(sql)
            .bind(now.minus(PARKED_WITHIN).0)
            .fetch_all(&mut *self.read().await?)
            .await
            .doing("read which records no poll can read")
    }
}
