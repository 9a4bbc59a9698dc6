//! Rows for the health judgement of `health::health`.
//!
//! The daemon reads them each minute, also in a database that is years old. Every statement therefore uses an
//! index and reads only open rows or the last hours of the journal.

use crate::model::{CallEffect, Operation, Timestamp};
use crate::store::engine::lossy_text::LossyText;
use crate::store::journal::run::{exchange_rows, run_rows};
use crate::store::mirror::stock_levels::json_rows;
use crate::store::{ExchangeRow, JobHealthRow, MismatchRow, PauseRow, QuarantineRow, Result, RunRow, Store};
use sqlx_macros::FromRow;
use std::time::Duration;

const CALLS_MAX_AGE: Duration = Duration::from_secs(60 * 60);
/// Number of the newest calls, and of the newest runs of push, that are judged.
const JUDGED_MAX: i64 = 60;
/// Age up to which parked records are considered: a daily poll shows them twice in this time.
const PARKED_MAX_AGE: Duration = Duration::from_secs(50 * 60 * 60);

/// Everything that the health judgement reads from the database.
#[derive(Clone, Debug, Default)]
pub struct HealthRows {
    /// Session that worked last; `None`: no daemon ever did.
    pub(crate) last_session: Option<LastSessionRow>,
    pub(crate) pauses: Vec<PauseRow>,
    /// End of the last pause of the pushes, if it is over.
    pub pushes_resumed: Option<Timestamp>,
    pub jobs: Vec<JobHealthRow>,
    /// Last run of `prune`, if a jump of the clock kept it from pruning and no snapshot came since.
    pub(crate) unpruned: Option<RunRow>,
    /// Number of changes in each state.
    pub changes: Vec<(String, i64)>,
    /// Pending changes by kind and reason, and those that are being sent for longer than a call can take.
    pub(crate) waiting: Vec<WaitingRow>,
    /// Sign of a restore that no person has released yet, and its time in milliseconds since 1970.
    pub restore: Option<(String, i64)>,
    /// Rejected changes that are not acknowledged.
    pub(crate) rejected: Option<RejectedRow>,
    /// Last calls of any operation, newest first.
    pub(crate) calls: Vec<ExchangeRow>,
    /// Last calls that write, newest first.
    pub(crate) writes: Vec<ExchangeRow>,
    /// Last finished runs of `push`, newest first.
    pub(crate) pushes: Vec<RunRow>,
    /// Records that no poll could read.
    pub(crate) unreadable: Vec<UnreadableRow>,
    pub(crate) quarantined: Vec<QuarantineRow>,
    /// Written quantities that the platform does not show.
    pub(crate) mismatches: Vec<MismatchRow>,
    /// True if the platform refused the key at the last call that was answered.
    pub is_refused: bool,
    /// Number of SKUs that the platform does not return.
    pub missing_skus: i64,
    /// True if no SKU is tracked and no change was ever queued.
    pub tracks_nothing: bool,
    /// True if the keys or the address were found to be of another account, and nothing ran since.
    pub is_other_account: bool,
    /// Hosts that stood by within a day and are away, each with the time it was last seen.
    pub away: Vec<(String, i64)>,
    /// Shortage of disk space as a sentence.
    pub disk_low: Option<String>,
    /// Persisted state of the limiter, in the limiter's own format.
    pub limiter_state: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, FromRow)]
pub(crate) struct LastSessionRow {
    pub started_ms: i64,
    /// End, in milliseconds since 1970; `None`: the session is open or was interrupted.
    pub ended_ms: Option<i64>,
    /// True if the session was a `run --once`.
    pub is_once: bool,
    /// True if each of its latest runs ended `ok`.
    pub is_good: bool,
}

/// Pending changes of one kind and reason.
#[derive(Clone, Debug, PartialEq, Eq, FromRow)]
pub(crate) struct WaitingRow {
    pub kind: LossyText,
    /// Reason of the outbox, `quarantined`, `behind_held`, `behind_in_doubt` or `sending`.
    pub why: Option<String>,
    pub changes: i64,
    /// Start of the oldest one's wait, in milliseconds since 1970.
    pub since_ms: i64,
    /// Start of the first session since then, in milliseconds since 1970.
    pub first_session_ms: Option<i64>,
    pub key: LossyText,
    /// Reason of the oldest, as a sentence.
    pub detail: Option<String>,
}

/// Rejected changes that are not acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, FromRow)]
pub(crate) struct RejectedRow {
    pub changes: i64,
    pub key: LossyText,
    /// Reason of the newest, as a code.
    pub reason: Option<String>,
    /// Reason of the newest, as a sentence.
    pub detail: Option<String>,
    /// Time at which the oldest was rejected, in milliseconds since 1970.
    pub since_ms: i64,
}

/// Record that no poll could read.
#[derive(Clone, Debug, PartialEq, Eq, FromRow)]
pub(crate) struct UnreadableRow {
    /// Job whose polls met the record.
    pub job: String,
    pub subject: String,
    /// Part of the record that could not be read.
    pub why: String,
    /// Number of polls that met it.
    pub polls: i64,
    /// Time of the first of these polls, in milliseconds since 1970.
    pub since_ms: i64,
}

/// SQL: start of the wait of the change `o`, in milliseconds since 1970. A change waits from its insertion. A
/// change that was held waits from its next return to `pending`; one that was in doubt and had no effect
/// waits on. `revision` is at most 2 for a change that was only inserted, which saves a lookup in
/// `change_transition` for each change of a large backlog.
const WAITING_SINCE: &str = "coalesce(CASE WHEN o.revision > 2 THEN ( \
        SELECT min(m.at_ms) FROM change_transition m WHERE m.change_id = o.id AND m.state = 'pending' \
        AND m.revision > ( \
            SELECT max(h.revision) FROM change_transition h WHERE h.change_id = o.id AND h.state = 'held')) END, \
    unixepoch(o.created_at) * 1000)";

/// SQL: `behind_` and the state of a held or in-doubt change for the stock level of `o`.
const BLOCKER_REASON: &str = "(SELECT 'behind_' || b.state FROM outbox b \
    WHERE b.state IN ('pending', 'sending', 'held', 'in_doubt') AND b.sku IS NOT NULL \
      AND b.sku = o.sku AND b.warehouse_id = o.warehouse_id AND b.state IN ('held', 'in_doubt') \
    ORDER BY b.id LIMIT 1)";

/// SQL: subject under which the quarantine may hold the entry of the change `o`.
const QUARANTINE_SUBJECT: &str = "CASE o.kind \
    WHEN 'shipment.create' THEN CAST(json_extract(o.body, '$.order_id') AS TEXT) \
    WHEN 'tracking.submit' THEN CAST(json_extract(o.body, '$.shipment_id') AS TEXT) \
    WHEN 'product.update' THEN json_extract(o.body, '$.Sku') ELSE o.sku END";

/// SQL: the session of the newest run with a trigger other than `operator`. A command beside the
/// schedule, such as `verify`, does not show that a daemon works.
const LAST_SESSION: &str = "SELECT s.started_ms, s.ended_ms, \
                      EXISTS (SELECT 1 FROM run r WHERE r.id >= n.first AND r.session_id = s.id \
                              AND r.trigger = 'once') AS is_once, \
                      NOT EXISTS (SELECT 1 FROM run r WHERE r.id >= n.first AND r.session_id = s.id \
                                  AND r.outcome <> 'ok') AS is_good \
               FROM (SELECT session_id, CASE WHEN id > 200 THEN id - 200 ELSE 0 END AS first FROM run \
                     WHERE trigger <> 'operator' ORDER BY id DESC LIMIT 1) n \
               JOIN session s ON s.id = n.session_id";

/// SQL: the last run of `prune` if it was partial, as only a jump of the clock makes it, and no snapshot was
/// taken since. `journal prune` leaves a snapshot and no run.
const UNPRUNED: &str = concat!(
    run_rows!(),
    " WHERE r.id = (SELECT max(id) FROM run WHERE job = 'prune' AND outcome <> 'running') AND r.outcome = 'partial' \
      AND NOT EXISTS (SELECT 1 FROM snapshot WHERE taken_ms > r.ended_ms)"
);

/// SQL: the rejected changes to report. A rejection by a person or by the policy needs no acknowledgement.
const REJECTED: &str = "SELECT n.changes, n.since_ms, o.key, o.reason, o.detail \
               FROM (SELECT count(*) AS changes, min(coalesce(state_changed_ms, 0)) AS since_ms, \
               max(id) AS newest \
                     FROM outbox WHERE state = 'rejected' AND acknowledged_ms IS NULL \
                       AND reason NOT IN ('operator', 'remote_wins')) n \
               JOIN outbox o ON o.id = n.newest";

const RESTORE: &str = "SELECT what, at_ms FROM brake_trip \
               WHERE restored_position IS NOT NULL AND released_ms IS NULL ORDER BY id DESC LIMIT 1";

const PUSHES: &str =
    concat!(run_rows!(), " WHERE r.job = 'push' AND r.outcome <> 'running' ORDER BY r.id DESC LIMIT $1");

/// SQL: the records that at least two polls could not read, or that were not alone in their answer, and no poll has
/// read since. Three in one answer are no odd record. A record is left out once an answer brought its SKU, or a
/// later run of the whole job, `ok` or `partial`, passed without it.
const UNREADABLE: &str = "WITH met AS (SELECT r.job, coalesce(p.subject, 'record ' || p.record) AS subject, \
                                   p.exchange_id, r.id AS run_id, e.sent_ms, \
                                   count(*) OVER (PARTITION BY p.exchange_id) AS beside, first_value(p.why) OVER ( \
                                       PARTITION BY r.job, coalesce(p.subject, 'record ' || p.record) \
                                       ORDER BY e.sent_ms, p.exchange_id, p.record, p.why) AS why \
                            FROM parked p JOIN exchange e ON e.id = p.exchange_id JOIN run r ON r.id = e.run_id \
                            WHERE p.exchange_id >= (SELECT id FROM exchange WHERE sent_ms >= $1 \
                                                    ORDER BY sent_ms LIMIT 1) \
                              AND r.job NOT IN ('push', 'settle')), \
                    odd AS (SELECT job, subject, why, max(exchange_id) AS newest, max(run_id) AS newest_run, \
                                   count(DISTINCT exchange_id) AS polls, min(sent_ms) AS since_ms \
                            FROM met GROUP BY job, subject, why \
                            HAVING count(DISTINCT exchange_id) > 1 OR max(beside) > 2) \
               SELECT job, subject, why, polls, since_ms FROM odd \
               WHERE NOT EXISTS (SELECT 1 FROM run l WHERE l.job = odd.job AND l.id > odd.newest_run \
                                 AND l.outcome IN ('ok', 'partial') AND l.trigger <> 'outbox' AND l.input IS NULL) \
                 AND NOT EXISTS (SELECT 1 FROM product d JOIN read_batch g ON g.id = d.read_batch_id \
                                 WHERE d.sku = odd.subject AND odd.job = 'balances' \
                                   AND g.exchange_id > odd.newest) \
               ORDER BY job, subject";

/// SQL: the changes claimed before `$1` whose call has no recorded outcome, as one [`WaitingRow`].
const SENDING: &str = "SELECT min(kind) AS kind, 'sending' AS why, count(*) AS changes, min(key) AS key, \
                      min(state_changed_ms) AS since_ms, min(state_changed_ms) AS first_session_ms, \
                      CAST(NULL AS TEXT) AS detail FROM outbox \
               WHERE state IN ('sending', 'held', 'in_doubt') AND state = 'sending' AND state_changed_ms < $1 \
               HAVING count(*) > 0";

/// Summary of the run that found the keys or the address to be of another account.
pub(crate) const OTHER_ACCOUNT: &str = "the address or the key is of another account";
const IS_OTHER_ACCOUNT: &str = "SELECT EXISTS (SELECT 1 FROM run WHERE id = (SELECT max(id) FROM run) \
               AND session_id = (SELECT max(id) FROM session) AND summary = $1)";

const MISSING_SKUS: &str = "SELECT count(*) FROM product WHERE missing_since_ms IS NOT NULL";
const TRACKS_NOTHING: &str =
    "SELECT NOT EXISTS (SELECT 1 FROM tracked_sku) AND NOT EXISTS (SELECT 1 FROM outbox)";

impl Store {
    /// Returns the rows for the judgement of what keeps a change from being sent. They are read quickly at any backlog.
    pub(crate) async fn obstacle_rows(&self, now: Timestamp) -> Result<HealthRows> {
        Ok(HealthRows {
            pauses: self.pause_list(now).await?,
            calls: self.health_calls(now, "TRUE").await?,
            is_refused: self.key_is_refused().await?,
            is_other_account: self
                .fetch_value(IS_OTHER_ACCOUNT, (OTHER_ACCOUNT,), "read the last run")
                .await?,
            limiter_state: self.limiter_state().await?,
            ..HealthRows::default()
        })
    }

    /// Returns all rows for the health judgement. A call that was sent before `sent_before` is over.
    pub async fn health_rows(&self, now: Timestamp, sent_before: Timestamp) -> Result<HealthRows> {
        let parked_since = now.minus(PARKED_MAX_AGE);
        let mut waiting = self.health_waiting().await?;
        waiting.extend(self.fetch_all(SENDING, (sent_before,), "find the changes being sent").await?);
        Ok(HealthRows {
            last_session: self.fetch_optional(LAST_SESSION, (), "read the last session").await?,
            pushes_resumed: self.pause_last_end(now).await?,
            jobs: self.job_health(now).await?,
            unpruned: self.fetch_optional(UNPRUNED, (), "read the last run of prune").await?,
            changes: self.outbox_counts().await?,
            waiting,
            away: self.standbys_away().await?,
            restore: self.fetch_optional(RESTORE, (), "read the restore that is not released").await?,
            rejected: self.fetch_optional(REJECTED, (), "read the rejected changes").await?,
            writes: self.health_calls(now, "e.operation IN (SELECT atom FROM json_each($3))").await?,
            pushes: self.fetch_all(PUSHES, (JUDGED_MAX,), "read the last runs of push").await?,
            unreadable: self.fetch_all(UNREADABLE, (parked_since.0,), "read the unreadable records").await?,
            quarantined: self.quarantine_list().await?,
            mismatches: self.mismatch_list().await?,
            missing_skus: self.fetch_value(MISSING_SKUS, (), "count the missing SKUs").await?,
            tracks_nothing: self.fetch_value(TRACKS_NOTHING, (), "look for a tracked SKU").await?,
            ..self.obstacle_rows(now).await?
        })
    }

    async fn health_waiting(&self) -> Result<Vec<WaitingRow>> {
        let sql = format!(
            "WITH p AS (SELECT o.id, o.kind, o.priority, {WAITING_SINCE} AS since_ms, coalesce( \
                            CASE WHEN EXISTS (SELECT 1 FROM quarantine) AND lower({QUARANTINE_SUBJECT}) IN ( \
                                     SELECT lower(q.subject) FROM quarantine q) \
                            THEN 'quarantined' END, \
                            CASE WHEN EXISTS (SELECT 1 FROM outbox h \
                                              WHERE h.state IN ('sending', 'held', 'in_doubt') \
                                                AND h.state IN ('held', 'in_doubt')) \
                                 AND coalesce(o.reason, 'awaits_other') = 'awaits_other' \
                            THEN {BLOCKER_REASON} END, \
                            o.reason) AS why \
                        FROM outbox o WHERE o.state = 'pending'), \
                  g AS (SELECT kind, why, count(*) AS changes, min(since_ms) AS since_ms FROM p GROUP BY kind, why), \
                  w AS (SELECT g.kind, g.why, g.changes, g.since_ms, \
                               coalesce(min(CASE WHEN p.priority = 1 THEN p.id END), min(p.id)) AS oldest \
                        FROM g JOIN p ON p.kind = g.kind AND p.why IS NOT DISTINCT FROM g.why \
                                     AND p.since_ms = g.since_ms \
                        GROUP BY g.kind, g.why, g.changes, g.since_ms) \
             SELECT w.kind, w.why, w.changes, w.since_ms, k.key, k.detail, \
                    (SELECT min(s.started_ms) FROM session s WHERE s.started_ms >= w.since_ms) AS first_session_ms \
             FROM w JOIN outbox k ON k.id = w.oldest \
             ORDER BY w.since_ms, w.kind, w.why NULLS FIRST"
        );
        self.fetch_all(sqlx::AssertSqlSafe(sql), (), "read the pending changes").await
    }

    /// Returns the last finished calls that match the SQL condition `which`. Interrupted calls are left out.
    async fn health_calls(&self, now: Timestamp, which: &str) -> Result<Vec<ExchangeRow>> {
        let sql = format!(
            "{} WHERE e.sent_ms >= $1 AND {which} AND e.verdict <> 'interrupted' \
             ORDER BY e.sent_ms DESC, e.id DESC LIMIT $2",
            exchange_rows!()
        );
        let writes = Operation::ALL.iter().filter(|operation| operation.effect() == CallEffect::Write);
        let writes: Vec<&str> = writes.map(|operation| operation.as_str()).collect();
        let values = (now.minus(CALLS_MAX_AGE).0, JUDGED_MAX, json_rows(&writes));
        self.fetch_all(sqlx::AssertSqlSafe(sql), values, "read the last calls").await
    }
}
