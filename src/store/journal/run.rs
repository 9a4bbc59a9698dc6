//! Sessions, runs and the state of each job.

use crate::journal::RunOutcome;
use crate::model::{JobKind, Moment, RunId, RunTrigger, Timestamp, cut_reason};
use crate::store::engine::json_fields::{json_text, rfc3339};
use crate::store::{Result, Store, WriteTransaction};
use serde::Serialize;
use sqlx_macros::FromRow;

#[derive(Clone, Copy, Debug)]
pub struct SessionStart {
    pub session_id: i64,
    /// Number of runs that a crash left open and that are now closed as interrupted.
    pub interrupted_runs: u64,
    /// Number of changes that were `sending` and are now in doubt.
    pub in_doubt: u64,
    /// True if the session before did not end in good order.
    pub was_interrupted: bool,
}

/// Configuration of a job, for the view `job_health`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JobSchedule {
    pub job: JobKind,
    /// True if its schedule is armed.
    pub enabled: bool,
    /// Longest gap in its schedule, in milliseconds.
    pub interval_ms: Option<i64>,
    pub next_due: Option<Timestamp>,
}

/// Run, as `job list` and `job show` print it.
#[derive(Clone, Debug, Default, FromRow, Serialize)]
pub struct RunRow {
    pub id: i64,
    pub job: String,
    pub trigger: String,
    #[serde(serialize_with = "json_text")]
    pub input: Option<String>,
    #[serde(rename = "started_at", serialize_with = "rfc3339")]
    pub started_ms: i64,
    #[serde(rename = "ended_at", serialize_with = "rfc3339")]
    pub ended_ms: Option<i64>,
    pub outcome: String,
    pub summary: Option<String>,
    #[serde(rename = "calls")]
    pub exchanges: i64,
}

/// Exchange, as `job show` prints it.
#[derive(Clone, Debug, Default, FromRow, Serialize)]
pub(crate) struct ExchangeRow {
    /// Id: the position at which it began.
    pub id: i64,
    pub operation: String,
    pub target: String,
    /// Priority class (lane) of its reservation.
    pub lane: String,
    #[serde(rename = "sent_at", serialize_with = "rfc3339")]
    pub sent_ms: i64,
    #[serde(rename = "answered_at", serialize_with = "rfc3339")]
    pub answered_ms: Option<i64>,
    pub verdict: Option<String>,
    pub status: Option<i64>,
    pub message: Option<String>,
    pub parked: i64,
}

/// SQL: the [`ExchangeRow`]s of the exchanges `e`.
macro_rules! exchange_rows {
    () => {
        "SELECT e.id, e.operation, e.target, e.lane, e.sent_ms, e.answered_ms, e.verdict, e.status, e.message, e.parked \
         FROM exchange e"
    };
}

/// Reason of a change whose call a crash interrupted.
const INTERRUPTED: &str = "tallyd ended before the answer came; the platform may or may not have applied it";

macro_rules! run_rows {
    () => {
        "SELECT r.id, r.job, r.trigger, r.input, r.started_ms, r.ended_ms, r.outcome, r.summary, \
                (SELECT count(*) FROM exchange e WHERE e.run_id = r.id) AS exchanges FROM run r"
    };
}
pub(in crate::store) use {exchange_rows, run_rows};

impl Store {
    /// Returns the newest runs of one job or of all, newest first.
    pub async fn run_list(&self, job: Option<JobKind>, limit: u32) -> Result<Vec<RunRow>> {
        let sql =
            concat!(run_rows!(), " WHERE CAST($1 AS TEXT) IS NULL OR r.job = $1 ORDER BY r.id DESC LIMIT $2");
        self.fetch_all(sql, (job.map(JobKind::as_str), i64::from(limit)), "list the runs").await
    }

    pub(crate) async fn run_show(&self, id: RunId) -> Result<Option<RunRow>> {
        let sql = concat!(run_rows!(), " WHERE r.id = $1");
        self.fetch_optional(sql, (id.0,), "read a run").await
    }

    /// Returns true if a run made calls and none of them left this host.
    pub(crate) async fn run_left_nothing_sent(&self, id: RunId) -> Result<bool> {
        let sql = "SELECT count(*) > 0 AND count(*) = count(*) FILTER (WHERE verdict = 'not_sent' AND status IS NULL) \
                   FROM exchange WHERE run_id = $1";
        self.fetch_value(sql, (id,), "read the verdicts of a run").await
    }

    /// Returns the first `limit` exchanges of a run after a position, in order.
    pub(crate) async fn run_exchanges(&self, id: RunId, after: i64, limit: i64) -> Result<Vec<ExchangeRow>> {
        let sql = concat!(exchange_rows!(), " WHERE e.run_id = $1 AND e.id > $2 ORDER BY e.id LIMIT $3");
        self.fetch_all(sql, (id.0, after, limit), "read the exchanges of a run").await
    }

    /// Returns the end of a job's last `ok` run; without one, the start of the first session.
    pub(crate) async fn job_last_ok_or_start(&self, job: JobKind) -> Result<Option<Timestamp>> {
        let sql = "SELECT coalesce((SELECT max(ended_ms) FROM run WHERE job = $1 AND outcome = 'ok'), \
                                   (SELECT min(started_ms) FROM session))";
        self.fetch_value(sql, (job.as_str(),), "read the last good run of a job").await
    }

    /// Returns the time at which a job last fired.
    pub async fn job_last_fired(&self, job: JobKind) -> Result<Option<Timestamp>> {
        let sql = "SELECT last_fired_ms FROM job_state WHERE job = $1";
        Ok(self.fetch_column(sql, (job.as_str(),), "read when a job last fired").await?.pop().flatten())
    }
}

impl WriteTransaction {
    /// Begins a session and closes what the last one left open: runs and exchanges end as interrupted,
    /// changes left `sending` become in doubt. The session of a leader has its id already.
    pub async fn session_begin(
        &mut self,
        boot_id: &str,
        version: &str,
        at: Timestamp,
        moment: Moment,
    ) -> Result<SessionStart> {
        const ACTION: &str = "begin a session";
        let last = "SELECT ended_ms IS NULL FROM session ORDER BY id DESC LIMIT 1";
        let was_interrupted = self.fetch_column(last, (), ACTION).await?.pop().unwrap_or(false);
        let session_id = match self.leading_session() {
            Some(id) => {
                let sql = "INSERT INTO session (id, boot_id, version, started_ms, started_moment) \
                           VALUES ($1, $2, $3, $4, $5) RETURNING id";
                self.fetch_value(sql, (id, boot_id, version, at, moment), ACTION).await?
            }
            None => {
                let sql = "INSERT INTO session (boot_id, version, started_ms, started_moment) \
                           VALUES ($1, $2, $3, $4) RETURNING id";
                self.fetch_value(sql, (boot_id, version, at, moment), ACTION).await?
            }
        };
        let (in_doubt, interrupted_runs) = self.recover_interrupted(at, moment).await?;
        Ok(SessionStart { session_id, interrupted_runs, in_doubt, was_interrupted })
    }

    /// Stores projection version and machine of a session; `None`: the machine has no name.
    pub(crate) async fn session_describe(
        &mut self,
        session_id: i64,
        projection_version: i64,
        host: Option<&str>,
    ) -> Result<()> {
        let sql = "UPDATE session SET projection_version = $2, host = $3 WHERE id = $1";
        let values = (session_id, projection_version, host);
        self.execute(sql, values, "store the version and machine of a session").await
    }

    /// Closes what an interrupted session left open, and returns the numbers of changes and runs.
    async fn recover_interrupted(&mut self, at: Timestamp, moment: Moment) -> Result<(u64, u64)> {
        let sql = "UPDATE outbox SET revision = revision + 1, state = 'in_doubt', reason = 'no_answer', \
                          state_changed_ms = $1, detail = $2 \
                   WHERE state IN ('sending', 'held', 'in_doubt') AND state = 'sending'";
        let values = (at, INTERRUPTED);
        let in_doubt = self.execute_counting(sql, values, "put interrupted changes in doubt").await?;
        let sql = "UPDATE run SET outcome = 'interrupted', \
                          ended_ms = CASE WHEN started_ms > $1 THEN started_ms ELSE $1 END, \
                          summary = 'tallyd ended during the run' WHERE outcome = 'running'";
        let runs = self.execute_counting(sql, (at.0,), "close interrupted runs").await?;
        self.exchange_interrupt_all(at, moment).await?;
        Ok((in_doubt, runs))
    }

    /// Ends a session; open changes, runs and exchanges are closed as after a crash.
    pub(crate) async fn session_end(&mut self, session_id: i64, at: Timestamp, moment: Moment) -> Result<()> {
        self.recover_interrupted(at, moment).await?;
        let sql = "UPDATE session SET ended_ms = $2 WHERE id = $1";
        self.execute(sql, (session_id, at.0), "end the session").await
    }

    /// Stores the schedule of each job.
    pub(crate) async fn job_schedules_store(&mut self, plans: &[JobSchedule], at: Timestamp) -> Result<()> {
        let sql = "INSERT INTO job_state (job, enabled, since_ms, interval_ms, next_due_ms) \
                   VALUES ($1, $2, $3, $4, $5) \
                   ON CONFLICT (job) DO UPDATE SET \
                       since_ms = CASE WHEN job_state.enabled = excluded.enabled THEN job_state.since_ms \
                                  ELSE excluded.since_ms END, \
                       enabled = excluded.enabled, interval_ms = excluded.interval_ms, \
                       next_due_ms = excluded.next_due_ms";
        for plan in plans {
            let values = (plan.job.as_str(), plan.enabled, at, plan.interval_ms, plan.next_due);
            self.execute(sql, values, "store the schedules").await?;
        }
        Ok(())
    }

    /// Records that a schedule came due, and its next due time.
    pub async fn job_fired(&mut self, job: JobKind, due: Timestamp, next: Option<Timestamp>) -> Result<()> {
        let sql = "UPDATE job_state SET last_fired_ms = $2, next_due_ms = $3 WHERE job = $1";
        self.execute(sql, (job.as_str(), due.0, next.map(|next| next.0)), "store that a schedule fired").await
    }

    pub async fn run_begin(
        &mut self,
        session_id: i64,
        job: JobKind,
        trigger: RunTrigger,
        at: Timestamp,
    ) -> Result<RunId> {
        let sql =
            "INSERT INTO run (session_id, job, trigger, started_ms) VALUES ($1, $2, $3, $4) RETURNING id";
        let values = (session_id, job.as_str(), trigger.as_str(), at.0);
        self.fetch_value(sql, values, "begin a run").await
    }

    /// Stores the input of a run.
    pub(crate) async fn run_input_store(&mut self, run: RunId, input: &serde_json::Value) -> Result<()> {
        let sql = "UPDATE run SET input = $2 WHERE id = $1";
        self.execute(sql, (run.0, input.to_string()), "store the input of a run").await
    }

    /// Ends a run without an effect on its job's state.
    pub(crate) async fn run_close(
        &mut self,
        run: RunId,
        outcome: RunOutcome,
        summary: &str,
        at: Timestamp,
    ) -> Result<()> {
        let sql =
            "UPDATE run SET outcome = $2, summary = $3, ended_ms = $4 WHERE id = $1 AND outcome = 'running'";
        self.execute(sql, (run.0, outcome.as_str(), cut_reason(summary), at.0), "end a run").await
    }

    /// Ends a run of a job; only [`RunOutcome::Ok`] sets the job's last good time to the run's start.
    pub(crate) async fn run_end(
        &mut self,
        run: RunId,
        job: JobKind,
        outcome: RunOutcome,
        summary: &str,
        at: Timestamp,
    ) -> Result<()> {
        self.run_close(run, outcome, summary, at).await?;
        let sql = "INSERT INTO job_state (job, enabled, since_ms, last_outcome, last_good_ms) \
                   SELECT $1, FALSE, $3, $2, CASE WHEN $2 = 'ok' THEN started_ms END FROM run WHERE id = $4 \
                   ON CONFLICT (job) DO UPDATE SET last_outcome = excluded.last_outcome, \
                       last_good_ms = coalesce(excluded.last_good_ms, job_state.last_good_ms)";
        let values = (job.as_str(), outcome.as_str(), at, run);
        self.execute(sql, values, "store the outcome of a job").await
    }
}
