//! Pauses: jobs that an operator stopped for a time.
//!
//! A pause is decided with an event of the journal and stands in a row, so it holds on every host and after a
//! restart. It ends at its time, or with `tallyd resume`. A pause whose time has come has no effect; the
//! daemon then writes the event that wakes the job, as `tallyd resume` does.

use crate::model::{JobKind, Position, Timestamp, cut_reason};
use crate::store::journal::event::{JOB_PAUSED, JOB_RESUMED};
use crate::store::{Result, Store, WriteTransaction};
use serde_json::json;
use sqlx_macros::FromRow;

#[derive(Clone, Debug, PartialEq, Eq, FromRow)]
pub(crate) struct PauseRow {
    pub job: String,
    pub since_ms: i64,
    /// End, in milliseconds since 1970; `None`: the pause ends with `tallyd resume`.
    pub until_ms: Option<i64>,
    /// Reason, as the operator wrote it.
    pub why: String,
}

/// Begin or end of a pause in the journal.
#[derive(Clone, Debug, FromRow)]
pub(crate) struct PauseEvent {
    pub job: String,
    /// True for a begin, false for an end.
    pub is_pause: bool,
    /// End of the pause, in milliseconds since 1970, if it has one.
    pub until_ms: Option<i64>,
    pub why: String,
    /// True if a scheduled start of the job passed since the begin of the pause.
    pub is_missed: bool,
}

impl PauseRow {
    /// Returns the pause as a sentence.
    pub(crate) fn to_text(&self) -> String {
        let end = self
            .until_ms
            .map_or_else(|| format!("`tallyd resume {}`", self.job), |until| Timestamp(until).to_rfc3339());
        format!("{} is paused since {} until {end}: {}", self.job, Timestamp(self.since_ms), self.why)
    }
}

macro_rules! pauses_in_force {
    () => {
        "SELECT job, since_ms, until_ms, why FROM pause \
         WHERE resumed_ms IS NULL AND (until_ms IS NULL OR until_ms > $1)"
    };
}

impl Store {
    /// Returns the pauses in force, by job.
    pub(crate) async fn pause_list(&self, now: Timestamp) -> Result<Vec<PauseRow>> {
        let sql = concat!(pauses_in_force!(), " ORDER BY job");
        self.fetch_all(sql, (now,), "read the paused jobs").await
    }

    /// Returns the first time at which a pause ends by itself.
    pub(crate) async fn pause_first_end(&self) -> Result<Option<Timestamp>> {
        let sql = "SELECT min(until_ms) FROM pause WHERE resumed_ms IS NULL";
        let end: Option<i64> = self.fetch_value(sql, (), "read the end of the pauses").await?;
        Ok(end.map(Timestamp))
    }

    /// Returns the end of the last pause of the pushes, if it is over.
    pub(crate) async fn pause_last_end(&self, now: Timestamp) -> Result<Option<Timestamp>> {
        let sql = "SELECT coalesce(resumed_ms, until_ms) FROM pause \
                   WHERE job = $2 AND (resumed_ms IS NOT NULL OR until_ms <= $1)";
        let ended =
            self.fetch_column(sql, (now, JobKind::Push.as_str()), "read the end of the last pause").await?;
        Ok(ended.first().copied().map(Timestamp))
    }

    /// Returns the pauses that began or ended after a position of the journal.
    pub(crate) async fn pause_events(&self, after: Position) -> Result<Vec<PauseEvent>> {
        let sql = "SELECT p.job, e.kind = $2 AS is_pause, p.until_ms, p.why, \
                          coalesce(s.last_fired_ms >= p.since_ms, FALSE) AS is_missed \
                   FROM event e JOIN pause p ON p.job = e.subject LEFT JOIN job_state s ON s.job = p.job \
                   WHERE e.position > $1 AND e.kind IN ($2, $3) ORDER BY e.position";
        let values = (after.0, JOB_PAUSED, JOB_RESUMED);
        self.fetch_all(sql, values, "read the decisions on jobs").await
    }
}

impl WriteTransaction {
    /// Pauses a job until a time, or for good; replaces the pause that it has.
    pub(crate) async fn pause_begin(
        &mut self,
        job: JobKind,
        until: Option<Timestamp>,
        why: &str,
        at: Timestamp,
    ) -> Result<()> {
        let why = cut_reason(why);
        let detail = json!({"until": until.map(Timestamp::to_rfc3339), "why": why}).to_string();
        self.event_append(at, JOB_PAUSED, job.as_str(), Some(&detail)).await?;
        let sql = "INSERT INTO pause (job, since_ms, until_ms, why) VALUES ($1, $2, $3, $4) \
                   ON CONFLICT (job) DO UPDATE SET \
                       since_ms = excluded.since_ms, until_ms = excluded.until_ms, why = excluded.why, \
                       resumed_ms = NULL";
        let values = (job.as_str(), at, until.map(|until| until.0), why);
        self.execute(sql, values, "pause a job").await
    }

    /// Ends the pause of a job, and returns false if the job has none.
    pub(crate) async fn pause_end(&mut self, job: JobKind, at: Timestamp) -> Result<bool> {
        let sql = "UPDATE pause SET resumed_ms = $2 WHERE job = $1 AND resumed_ms IS NULL";
        if self.execute_counting(sql, (job.as_str(), at), "end the pause of a job").await? == 0 {
            return Ok(false);
        }
        let detail = json!({"by": "operator"}).to_string();
        self.event_append(at, JOB_RESUMED, job.as_str(), Some(&detail)).await?;
        Ok(true)
    }

    /// Ends the pauses whose time has come, each with an event.
    pub(crate) async fn pause_end_due(&mut self, at: Timestamp) -> Result<()> {
        let sql = "UPDATE pause SET resumed_ms = until_ms WHERE resumed_ms IS NULL AND until_ms <= $1 RETURNING job";
        let ended: Vec<String> = self.fetch_column(sql, (at,), "end the pauses whose time has come").await?;
        let detail = json!({"by": "time"}).to_string();
        for job in ended {
            self.event_append(at, JOB_RESUMED, &job, Some(&detail)).await?;
        }
        Ok(())
    }

    /// Returns the pause of a job for a claim, so that no write leaves after the pause was committed.
    pub(crate) async fn pause_of(&mut self, job: JobKind, now: Timestamp) -> Result<Option<PauseRow>> {
        let sql = concat!(pauses_in_force!(), " AND job = $2");
        self.fetch_optional(sql, (now, job.as_str()), "read the pause of a job").await
    }
}
