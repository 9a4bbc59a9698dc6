//! Calls to the platform. Each call has four steps: reservation, record of the exchange, one send, report to
//! the limiter. There is no other way to the platform.
//!
//! Waiting for a reservation is no failed attempt. A read is repeated within its run. A write is never
//! repeated: its retry is a new plan.

use super::{Context, JobError};
use crate::client::wire::Malformed;
use crate::client::{Reply, Request, Throttle, Verdict};
use crate::journal::{Begun, Body, Digest, Ended, Named, Outcome};
use crate::limiter::{self, Notice, Pace, Permit, Scope};
use crate::model::{ExchangeId, Lane, Moment, Operation, Position, RunId, Timestamp};
use crate::outbox::Delays;
use crate::reconcile::proof::Key;
use crate::store::{Durability, StoreError, Write};
use crate::telemetry::event;
use std::sync::OnceLock;

/// Attempts at a read within a run. If three of four answers fail, one read in thirty is given up; the next
/// run reads it first.
pub(crate) const ATTEMPTS: usize = 12;
/// Attempts at a preflight or check. They are few, so that a failing order or shipment does not delay the
/// others.
pub(super) const LOOK_ATTEMPTS: usize = 2;

/// Exchange that is recorded and about to be sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) id: ExchangeId,
    sent_at: Timestamp,
    sent_moment: Moment,
}

impl Sent {
    fn of(id: ExchangeId, begun: &Begun<'_>) -> Self {
        Self { id, sent_at: begun.sent_at, sent_moment: begun.sent_moment }
    }
}

/// Exchange that was sent and whose end is not recorded yet.
#[derive(Debug)]
pub(crate) struct Answer {
    /// Id of the exchange.
    pub(crate) id: ExchangeId,
    /// Time at which the request was sent, which is the age of its facts.
    pub(crate) sent_at: Timestamp,
    /// The time since boot at which the request was sent.
    pub(crate) sent_moment: Moment,
    /// Answer with its verdict.
    pub(crate) reply: Reply,
    /// Digest of the body.
    pub(crate) digest: Digest,
    /// Compressed body, if it was prepared before the write lock was taken.
    packed: OnceLock<Body>,
    answered_at: Timestamp,
    answered_moment: Moment,
    notices: bool,
}

impl Answer {
    /// Prepares the body for storage. Useful before the write lock is taken, if the body is probably new.
    pub(crate) fn pack(&self) {
        if let Ok(packed) = Body::pack(&self.reply.body) {
            // After an error the body is compressed when it is stored, and that call returns the error.
            self.packed.get_or_init(|| packed);
        }
    }
}

impl Context {
    /// Waits for a reservation of the limiter.
    ///
    /// # Errors
    /// [`JobError::Refused`] at once while the key is refused, except for probes. [`JobError::Stopped`] if
    /// the daemon stops.
    pub(crate) async fn place(
        &self,
        operation: Operation,
        lane: Lane,
        pace: Pace,
    ) -> Result<Permit, JobError> {
        if lane != Lane::Probe && self.limiter.is_refused() {
            return Err(JobError::Refused("it was refused before and no probe succeeded since".into()));
        }
        self.limiter.acquire(operation, lane, pace).await.map_err(|_| JobError::Stopped)
    }

    /// Records the begin of an exchange in the given transaction, before its request is sent.
    pub(crate) async fn exchange_begin(
        &self,
        write: &mut Write,
        run: RunId,
        lane: Lane,
        request: &Request,
    ) -> Result<Sent, StoreError> {
        let begun = self.begun(run, lane, request);
        Ok(Sent::of(write.exchange_begin(self.session_id, &begun).await?, &begun))
    }

    /// Records the begin of an exchange and commits.
    pub(super) async fn exchange_begin_alone(
        &self,
        write: Write,
        run: RunId,
        lane: Lane,
        request: &Request,
    ) -> Result<Sent, StoreError> {
        let begun = self.begun(run, lane, request);
        Ok(Sent::of(write.exchange_begin_alone(self.session_id, &begun).await?, &begun))
    }

    fn begun<'a>(&self, run: RunId, lane: Lane, request: &'a Request) -> Begun<'a> {
        Begun {
            run_id: run,
            operation: request.operation,
            target: request.target(),
            lane,
            body: request.body.as_deref(),
            sent_at: self.clock.now(),
            sent_moment: self.clock.moment(),
        }
    }

    /// Sends a recorded request once and reports the outcome to the limiter.
    pub(crate) async fn send(
        &self,
        permit: Permit,
        Sent { id, sent_at, sent_moment }: Sent,
        request: Request,
    ) -> Answer {
        let reply = self.client.send(request).await;
        let (answered_at, answered_moment) = (self.clock.now(), self.clock.moment());
        let notices = permit.conclude(concluded(&reply));
        for notice in &notices {
            tell(notice);
        }
        let (digest, notices) = (Body::digest(&reply.body), !notices.is_empty());
        let packed = OnceLock::new();
        Answer { id, sent_at, sent_moment, reply, digest, packed, answered_at, answered_moment, notices }
    }

    /// Records the end of an exchange, and the limiter's state if it changed.
    pub(crate) async fn exchange_end(
        &self,
        write: &mut Write,
        answer: &Answer,
    ) -> Result<Position, StoreError> {
        let reply = &answer.reply;
        let ended = Ended {
            outcome: outcome(reply.verdict),
            status: reply.status,
            body: (!reply.body.is_empty()).then_some(Named {
                bytes: &reply.body,
                digest: answer.digest,
                packed: answer.packed.get(),
            }),
            message: reply.message.as_deref(),
            answered_at: answer.answered_at,
            answered_moment: answer.answered_moment,
        };
        if answer.notices {
            self.limiter_remember(write).await?;
        }
        write.exchange_end(answer.id, &ended).await
    }

    /// Stores the limiter's state that does not follow from the journal.
    pub(super) async fn limiter_remember(&self, write: &mut Write) -> Result<(), StoreError> {
        let kept = serde_json::to_string(&self.limiter.memory().kept);
        let kept = kept.expect("what is kept has text keys, which JSON can write");
        write.limiter_remember(&kept).await
    }

    /// Returns the decoded answer. A malformed answer is recorded as not applied and is an error.
    pub(crate) async fn decoded<T>(
        &self,
        answer: &Answer,
        decoded: Result<T, Malformed>,
    ) -> Result<T, JobError> {
        match decoded {
            Ok(decoded) => Ok(decoded),
            Err(why) => {
                self.end_alone(answer).await?;
                Err(JobError::Implausible(why.to_string()))
            }
        }
    }

    /// Sends a read once. The caller records its end together with its facts.
    pub(crate) async fn read_once(
        &self,
        run: RunId,
        lane: Lane,
        request: Request,
    ) -> Result<Answer, JobError> {
        loop {
            let permit = self.place(request.operation, lane, Pace::Paced).await?;
            let write = self.store.begin(Durability::Normal).await?;
            // Another call may have been throttled while this one waited for the write lock.
            if !permit.may_send() {
                permit.give_back();
                continue;
            }
            let begun = self.exchange_begin_alone(write, run, lane, &request).await?;
            return Ok(self.send(permit, begun, request).await);
        }
    }

    /// Reads with up to [`ATTEMPTS`] attempts. Only the end of the returned, accepted answer is left to the
    /// caller to record.
    pub(crate) async fn read(
        &self,
        run: RunId,
        lane: Lane,
        what: &str,
        request: &Request,
    ) -> Result<Answer, JobError> {
        self.read_within(ATTEMPTS, run, lane, what, request).await
    }

    /// Reads with at most so many attempts.
    pub(crate) async fn read_within(
        &self,
        attempts: usize,
        run: RunId,
        lane: Lane,
        what: &str,
        request: &Request,
    ) -> Result<Answer, JobError> {
        let is_answer = |verdict| verdict == Verdict::Accepted;
        self.read_until(attempts, run, lane, what, request, is_answer).await
    }

    /// Reads an operation that documents a 404 as its answer. Returns a 404 too.
    pub(crate) async fn read_or_not_found(
        &self,
        attempts: usize,
        run: RunId,
        lane: Lane,
        what: &str,
        request: &Request,
    ) -> Result<Answer, JobError> {
        let is_answer = |verdict| matches!(verdict, Verdict::Accepted | Verdict::Rejected { status: 404 });
        self.read_until(attempts, run, lane, what, request, is_answer).await
    }

    async fn read_until(
        &self,
        attempts: usize,
        run: RunId,
        lane: Lane,
        what: &str,
        request: &Request,
        is_answer: impl Fn(Verdict) -> bool,
    ) -> Result<Answer, JobError> {
        let mut delays = Delays::page_retry().take(attempts.saturating_sub(1));
        loop {
            let answer = self.read_once(run, lane, request.clone()).await?;
            if is_answer(answer.reply.verdict) {
                return Ok(answer);
            }
            self.end_alone(&answer).await?;
            if let Some(error) = self.hopeless(run, what, &answer.reply).await? {
                return Err(error);
            }
            if matches!(answer.reply.verdict, Verdict::Throttled(_)) {
                continue;
            }
            match delays.next() {
                Some(delay) => self.pause(delay).await?,
                None => return Err(JobError::GivenUp { what: what.into(), why: words(&answer.reply) }),
            }
        }
    }

    /// Records an answer as not applied: it brings no facts, live and in a replay.
    pub(crate) async fn end_alone(&self, answer: &Answer) -> Result<(), StoreError> {
        let mut write = self.store.begin(Durability::Normal).await?;
        self.exchange_end(&mut write, answer).await?;
        if answer.reply.verdict == Verdict::Accepted {
            write.exchange_set_aside(answer.id).await?;
        }
        write.commit().await
    }

    /// Waits for the delay; fails if the daemon stops.
    pub(crate) async fn pause(&self, delay: std::time::Duration) -> Result<(), JobError> {
        tokio::select! {
            () = self.clock.sleep(delay) => Ok(()),
            () = self.stopped() => Err(JobError::Stopped),
        }
    }

    /// Returns the error if a repetition of the request is useless.
    async fn hopeless(&self, run: RunId, what: &str, reply: &Reply) -> Result<Option<JobError>, JobError> {
        Ok(match reply.verdict {
            Verdict::Accepted
            | Verdict::Throttled(_)
            | Verdict::Transient
            | Verdict::NotSent
            | Verdict::InDoubt => None,
            Verdict::Rejected { status } => {
                Some(JobError::Rejected { what: what.into(), why: words(reply), status: Some(status) })
            }
            Verdict::Refused { may_be_id: true } => {
                let (what, why) = (what.to_owned(), words(reply));
                match super::probe_key(self, run).await?.key {
                    Key::Works => Some(JobError::Rejected { what, why, status: reply.status }),
                    // The refusal may mean the id or the key.
                    Key::NotKnown => Some(JobError::GivenUp { what, why }),
                    Key::Refused => Some(self.refused(reply)),
                }
            }
            Verdict::Refused { may_be_id: false } => Some(self.refused(reply)),
        })
    }

    /// Marks the key as refused and returns the error.
    pub(crate) fn refused(&self, reply: &Reply) -> JobError {
        self.refused_by(reply.operation, reply.status, words(reply))
    }

    /// Marks the key as refused and returns the error, without an answer at hand.
    pub(super) fn refused_by(&self, operation: Operation, status: Option<u16>, why: String) -> JobError {
        // No effect if the verdict has informed the limiter already.
        drop(self.limiter.refuse_key(&why));
        tracing::error!(
            event = event::AUTH_REFUSED,
            operation = operation.as_str(),
            status,
            "the service refuses the key: {why}; nothing is sent until a probe succeeds; put the right key into its file"
        );
        JobError::Refused(why)
    }

    /// Fails if a repetition of the request is useless. Does not fail if a smaller page may help.
    pub(crate) async fn give_up_if_hopeless(
        &self,
        run: RunId,
        what: &str,
        reply: &Reply,
    ) -> Result<(), JobError> {
        if reply.wants_smaller_page() {
            return Ok(());
        }
        self.hopeless(run, what, reply).await?.map_or(Ok(()), Err)
    }
}

/// Returns the platform's message, or the reason of its absence.
pub(crate) fn words(reply: &Reply) -> String {
    reply.message.clone().unwrap_or_else(|| "it gave no reason".into())
}

/// Returns the outcome for the limiter.
fn concluded(reply: &Reply) -> limiter::Outcome {
    match reply.verdict {
        Verdict::Throttled(Throttle::Rate { wait }) => limiter::Outcome::RateThrottled(wait),
        Verdict::Throttled(Throttle::Concurrency) => limiter::Outcome::ConcurrencyThrottled,
        Verdict::Throttled(Throttle::BadRequests { wait }) => limiter::Outcome::BadRequestThrottled(wait),
        Verdict::Rejected { status: 400 } => limiter::Outcome::BadRequest,
        Verdict::NotSent => limiter::Outcome::NotSent,
        Verdict::Transient | Verdict::InDoubt if reply.status.is_none() => limiter::Outcome::TimedOut,
        Verdict::Refused { may_be_id: false } => limiter::Outcome::RefusedKey,
        Verdict::Accepted
        | Verdict::Rejected { .. }
        | Verdict::Refused { may_be_id: true }
        | Verdict::Transient
        | Verdict::InDoubt => limiter::Outcome::Answered,
    }
}

/// Returns the journal's outcome of a verdict.
fn outcome(verdict: Verdict) -> Outcome {
    match verdict {
        Verdict::Accepted => Outcome::Accepted,
        Verdict::Rejected { .. } => Outcome::Rejected,
        Verdict::Throttled(_) => Outcome::Throttled,
        Verdict::Refused { .. } => Outcome::Refused,
        Verdict::Transient => Outcome::Transient,
        Verdict::NotSent => Outcome::NotSent,
        Verdict::InDoubt => Outcome::InDoubt,
    }
}

/// Logs a change of the account's budget. [`Context::refused_by`] logs a refused key.
fn tell(notice: &Notice) {
    match notice {
        Notice::HoldStarted(hold) if hold.scope == Scope::Key => {}
        Notice::HoldStarted(hold) => tracing::warn!(
            event = event::QUOTA_HOLD,
            reason = hold.reason.as_str(),
            hold_ms = hold.duration_ms,
            "{} waits{}: {} {}",
            held(hold.scope),
            hold.duration_ms.map_or(String::new(), |ms| format!(" {} s", ms.div_ceil(1000))),
            hold.reason.as_str(),
            hold.why
        ),
        Notice::ShareShrunk { permille, limit, held } => tracing::warn!(
            event = event::QUOTA_SHARE,
            permille,
            limit,
            held,
            "other software uses the account: the service refused us at {held} calls of our own in a minute; at most \
             {limit} a minute are ours for now"
        ),
        Notice::ShareRecovered => {
            tracing::info!(
                event = event::QUOTA_SHARE,
                permille = 1000,
                "our share of the quota is whole again"
            );
        }
        Notice::SoftLine { count } => tracing::warn!(
            event = event::BAD_REQUESTS,
            count,
            "{count} answers of 400 in 24 h: bulk pushes stop; see `tallyd job list --kind push`"
        ),
        Notice::HardLine { count } => tracing::error!(
            event = event::BAD_REQUESTS,
            count,
            "{count} answers of 400 in 24 h: every operation that had one stops"
        ),
        Notice::LedgerFull { until } => tracing::error!(
            event = event::BAD_REQUESTS,
            "the service throttles this account for bad requests: only reads go until {until}"
        ),
    }
}

fn held(scope: Scope) -> String {
    match scope {
        Scope::Account => "the whole account".into(),
        Scope::Key => "everything but the probe".into(),
        Scope::Operation(operation) => operation.to_string(),
    }
}
