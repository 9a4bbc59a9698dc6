//! Sessions, runs and the state of each job.

use crate::journal::RunOutcome;
use crate::model::{JobKind, Moment, RunId, RunTrigger, Timestamp, cut_reason};
use crate::store::engine::error::SqlContext;
use crate::store::{Store, StoreError, WriteTransaction};
use sqlx::FromRow;

/// Result of a session's start.
#[derive(Clone, Copy, Debug)]
pub struct SessionStart {
    /// Session.
    pub session_id: i64,
    /// Number of runs that a crash left open and that are now closed as interrupted.
    pub interrupted_runs: u64,
    /// Number of changes that were `sending` and are now in doubt.
    pub in_doubt: u64,
}

/// Configuration of a job, for the view `job_health`.
#[derive(Clone, Copy, Debug)]
pub struct JobSchedule {
    /// Job.
    pub job: JobKind,
    /// True if its schedule is armed.
    pub enabled: bool,
    /// Longest gap in its schedule, in milliseconds.
    pub interval_ms: Option<i64>,
    /// Next due time.
    pub next_due: Option<Timestamp>,
}

/// Run, as `job list` and `job show` print it.
#[derive(Clone, Debug, FromRow)]
pub struct RunRow {
    /// Id.
    pub id: i64,
    /// Job.
    pub job: String,
    /// Trigger.
    pub trigger: String,
    /// Input, as JSON.
    pub input: Option<String>,
    /// Start.
    pub started_ms: i64,
    /// End.
    pub ended_ms: Option<i64>,
    /// Outcome.
    pub outcome: String,
    /// Summary, one line.
    pub summary: Option<String>,
    /// Number of exchanges.
    pub exchanges: i64,
}

/// Exchange, as `job show` prints it.
#[derive(Clone, Debug, FromRow)]
pub struct ExchangeRow {
    /// Id: the position at which it began.
    pub id: i64,
    /// Operation.
    pub operation: String,
    /// Path and query.
    pub target: String,
    /// Priority class (lane) of its reservation.
    pub lane: String,
    /// Time of sending.
    pub sent_ms: i64,
    /// Time of the answer.
    pub answered_ms: Option<i64>,
    /// Verdict.
    pub verdict: Option<String>,
    /// HTTP status.
    pub status: Option<i64>,
    /// Error message.
    pub message: Option<String>,
    /// Number of parked records.
    pub parked: i64,
}

impl Store {
    /// Returns the newest runs of one job or of all, newest first.
    pub async fn run_list(&self, job: Option<JobKind>, limit: u32) -> Result<Vec<RunRow>, StoreError> {
        let sql = "SELECT r.id, r.job, r.trigger, r.input, r.started_ms, r.ended_ms, r.outcome, r.summary, \
                          (SELECT count(*) FROM exchange e WHERE e.run_id = r.id) AS exchanges \
                   FROM run r WHERE ?1 IS NULL OR r.job = ?1 ORDER BY r.id DESC LIMIT ?2";
        let rows = sqlx::query_as(sql)
            .bind(job.map(JobKind::as_str))
            .bind(limit)
            .fetch_all(&mut *self.read_connection().await?)
            .await;
        rows.context("list the runs")
    }

    /// Returns a run.
    pub async fn run_show(&self, id: RunId) -> Result<Option<RunRow>, StoreError> {
        let sql = "SELECT r.id, r.job, r.trigger, r.input, r.started_ms, r.ended_ms, r.outcome, r.summary, \
                          (SELECT count(*) FROM exchange e WHERE e.run_id = r.id) AS exchanges \
                   FROM run r WHERE r.id = ?1";
        sqlx::query_as(sql)
            .bind(id.0)
            .fetch_optional(&mut *self.read_connection().await?)
            .await
            .context("read a run")
    }

    /// Returns true if a run made calls and none of them left this host.
    ///
    /// The platform was then not reached.
    ///
    /// # Errors
    /// Fails where the database cannot be read.
    pub async fn run_left_nothing_sent(&self, id: RunId) -> Result<bool, StoreError> {
        let sql = "SELECT count(*) > 0 AND count(*) = sum(verdict IS 'not_sent' AND status IS NULL) \
                   FROM exchange WHERE run_id = ?1";
        let reached: Option<bool> = sqlx::query_scalar(sql)
            .bind(id.0)
            .fetch_one(&mut *self.read_connection().await?)
            .await
            .context("look whether a run reached the platform")?;
        Ok(reached.unwrap_or(false))
    }

    /// Returns the exchanges of a run, in order.
    pub async fn run_exchanges(&self, id: RunId) -> Result<Vec<ExchangeRow>, StoreError> {
        let sql = "SELECT id, operation, target, lane, sent_ms, answered_ms, verdict, status, message, parked \
                   FROM exchange WHERE run_id = ?1 ORDER BY id";
        sqlx::query_as(sql)
            .bind(id.0)
            .fetch_all(&mut *self.read_connection().await?)
            .await
            .context("read the exchanges of a run")
    }

    /// Returns the end of a job's last `ok` run; without one, the start of the first session.
    pub async fn job_last_ok_or_start(&self, job: JobKind) -> Result<Option<Timestamp>, StoreError> {
        let sql = "SELECT coalesce((SELECT max(ended_ms) FROM run WHERE job = ?1 AND outcome = 'ok'), \
                                   (SELECT min(started_ms) FROM session))";
        let at: Option<i64> = sqlx::query_scalar(sql)
            .bind(job.as_str())
            .fetch_one(&mut *self.read_connection().await?)
            .await
            .context("read when a job was last done")?;
        Ok(at.map(Timestamp))
    }

    /// Returns the time at which a job last fired.
    pub async fn job_last_fired(&self, job: JobKind) -> Result<Option<Timestamp>, StoreError> {
        let sql = "SELECT last_fired_ms FROM job_state WHERE job = ?1";
        let last: Option<Option<i64>> = sqlx::query_scalar(sql)
            .bind(job.as_str())
            .fetch_optional(&mut *self.read_connection().await?)
            .await
            .context("read when a job last fired")?;
        Ok(last.flatten().map(Timestamp))
    }
}

impl WriteTransaction {
    /// Begins a session and recovers from the end of the last one.
    ///
    /// Open runs are closed, open exchanges end as interrupted, and changes left `sending` become in doubt.
    pub async fn session_begin(
        &mut self,
        boot_id: &str,
        version: &str,
        at: Timestamp,
        moment: Moment,
    ) -> Result<SessionStart, StoreError> {
        let session_id: i64 = sqlx::query_scalar(
            "INSERT INTO session (boot_id, version, started_ms, started_moment) VALUES (?1, ?2, ?3, ?4) \
             RETURNING id",
        )
        .bind(boot_id)
        .bind(version)
        .bind(at.0)
        .bind(moment.0)
        .fetch_one(&mut *self.tx)
        .await
        .context("begin a session")?;
        let (in_doubt, interrupted_runs) = self.recover_interrupted(at).await?;
        self.exchange_interrupt_all(at, moment).await?;
        Ok(SessionStart { session_id, interrupted_runs, in_doubt })
    }

    /// Stores the machine of a session; `None`: the machine has no name.
    ///
    /// # Errors
    /// Fails where the database cannot be written.
    pub async fn session_host(&mut self, session_id: i64, host: Option<&str>) -> Result<(), StoreError> {
        let sql = "UPDATE session SET host = ?2 WHERE id = ?1";
        let done = sqlx::query(sql).bind(session_id).bind(host).execute(&mut *self.tx).await;
        done.map(drop).context("note the machine of a session")
    }

    /// Closes what an interrupted session left open: changes in `sending` and runs in `running`. Returns the
    /// numbers of both.
    async fn recover_interrupted(&mut self, at: Timestamp) -> Result<(u64, u64), StoreError> {
        let in_doubt = sqlx::query(
            "UPDATE outbox SET revision = revision + 1, state = 'in_doubt', reason = 'no_answer', \
             state_changed_ms = ?1, \
                    detail = 'tallyd ended before the answer came; the service may or may not have done it' \
             WHERE state IN ('sending', 'held', 'in_doubt') AND state = 'sending'",
        )
        .bind(at.0)
        .execute(&mut *self.tx)
        .await
        .context("put interrupted changes in doubt")?;
        let runs = sqlx::query(
            "UPDATE run SET outcome = 'interrupted', ended_ms = max(started_ms, ?1), \
                    summary = 'tallyd ended in the middle of it' WHERE outcome = 'running'",
        )
        .bind(at.0)
        .execute(&mut *self.tx)
        .await
        .context("close interrupted runs")?;
        Ok((in_doubt.rows_affected(), runs.rows_affected()))
    }

    /// Ends a session; open changes, runs and exchanges are closed as after a crash.
    pub async fn session_end(
        &mut self,
        session_id: i64,
        at: Timestamp,
        moment: Moment,
    ) -> Result<(), StoreError> {
        self.recover_interrupted(at).await?;
        self.exchange_interrupt_all(at, moment).await?;
        let sql = "UPDATE session SET ended_ms = ?2 WHERE id = ?1";
        let done = sqlx::query(sql).bind(session_id).bind(at.0).execute(&mut *self.tx).await;
        done.map(drop).context("end the session")
    }

    /// Stores the schedule of each job.
    pub async fn job_schedules_store(
        &mut self,
        plans: &[JobSchedule],
        at: Timestamp,
    ) -> Result<(), StoreError> {
        for plan in plans {
            sqlx::query(
                "INSERT INTO job_state (job, enabled, since_ms, interval_ms, next_due_ms) \
                 VALUES (?1, ?2, ?3, ?4, ?5) \
                 ON CONFLICT (job) DO UPDATE SET \
                     since_ms = iif(enabled = excluded.enabled, since_ms, excluded.since_ms), \
                     enabled = excluded.enabled, interval_ms = excluded.interval_ms, \
                     next_due_ms = excluded.next_due_ms",
            )
            .bind(plan.job.as_str())
            .bind(plan.enabled)
            .bind(at.0)
            .bind(plan.interval_ms)
            .bind(plan.next_due.map(|due| due.0))
            .execute(&mut *self.tx)
            .await
            .context("write down the schedules")?;
        }
        Ok(())
    }

    /// Records that a schedule came due, and its next due time.
    pub async fn job_fired(
        &mut self,
        job: JobKind,
        due: Timestamp,
        next: Option<Timestamp>,
    ) -> Result<(), StoreError> {
        let sql = "UPDATE job_state SET last_fired_ms = ?2, next_due_ms = ?3 WHERE job = ?1";
        let done = sqlx::query(sql).bind(job.as_str()).bind(due.0).bind(next.map(|n| n.0));
        done.execute(&mut *self.tx).await.map(drop).context("note that a schedule came due")
    }

    /// Begins a run.
    pub async fn run_begin(
        &mut self,
        session_id: i64,
        job: JobKind,
        trigger: RunTrigger,
        at: Timestamp,
    ) -> Result<RunId, StoreError> {
        let sql =
            "INSERT INTO run (session_id, job, trigger, started_ms) VALUES (?1, ?2, ?3, ?4) RETURNING id";
        let query =
            sqlx::query_scalar(sql).bind(session_id).bind(job.as_str()).bind(trigger.as_str()).bind(at.0);
        query.fetch_one(&mut *self.tx).await.map(RunId).context("begin a run")
    }

    /// Stores the input of a run.
    pub async fn run_input_store(&mut self, run: RunId, input: &serde_json::Value) -> Result<(), StoreError> {
        let query =
            sqlx::query("UPDATE run SET input = ?2 WHERE id = ?1").bind(run.0).bind(input.to_string());
        query.execute(&mut *self.tx).await.map(drop).context("keep the input of a run")
    }

    /// Ends a run without an effect on its job's state.
    pub async fn run_close(
        &mut self,
        run: RunId,
        outcome: RunOutcome,
        summary: &str,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        sqlx::query(
            "UPDATE run SET outcome = ?2, summary = ?3, ended_ms = ?4 WHERE id = ?1 AND outcome = 'running'",
        )
        .bind(run.0)
        .bind(outcome.as_str())
        .bind(cut_reason(summary))
        .bind(at.0)
        .execute(&mut *self.tx)
        .await
        .map(drop)
        .context("end a run")
    }

    /// Ends a run of a job; only [`RunOutcome::Ok`] sets the job's last good time to the run's start.
    pub async fn run_end(
        &mut self,
        run: RunId,
        job: JobKind,
        outcome: RunOutcome,
        summary: &str,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        self.run_close(run, outcome, summary, at).await?;
        sqlx::query(
            "INSERT INTO job_state (job, enabled, since_ms, last_outcome) VALUES (?1, 0, ?3, ?2) \
             ON CONFLICT (job) DO UPDATE SET last_outcome = excluded.last_outcome",
        )
        .bind(job.as_str())
        .bind(outcome.as_str())
        .bind(at.0)
        .execute(&mut *self.tx)
        .await
        .context("note how a job ended")?;
        if outcome != RunOutcome::Ok {
            return Ok(());
        }
        let sql =
            "UPDATE job_state SET last_good_ms = (SELECT started_ms FROM run WHERE id = ?2) WHERE job = ?1";
        let done = sqlx::query(sql).bind(job.as_str()).bind(run.0).execute(&mut *self.tx).await;
        done.map(drop).context("note a good run")
    }
}
