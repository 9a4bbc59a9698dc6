//! The only way to the service: a place in the quota, the exchange written down, one send, the limiter told.
//!
//! Waiting for a place is not failing and costs no attempt. A read is tried again within its run; a write never is: a
//! retry of a write is a new plan.

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

/// Attempts at one read within a run. With three answers of four broken, one read in thirty is given up, and then
/// the next run reads it first.
pub(super) const ATTEMPTS: usize = 12;
/// Attempts at a look before a send: what stands behind it does not wait for the trouble of one order or shipment.
pub(super) const LOOK_ATTEMPTS: usize = 2;

/// An exchange that is written down and about to be sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) id: ExchangeId,
    sent_at: Timestamp,
    sent_moment: Moment,
}

impl Sent {
    fn of(id: ExchangeId, begun: &Begun<'_>) -> Self {
        Self { id, sent_at: begun.sent_at, sent_moment: begun.sent_moment }
    }
}

/// An exchange that came back and is not written down yet.
#[derive(Debug)]
pub(super) struct Answer {
    /// The exchange.
    pub(super) id: ExchangeId,
    /// When its request was sent: the age of every fact it brings.
    pub(super) sent_at: Timestamp,
    /// The same since boot.
    pub(super) sent_moment: Moment,
    /// What came of it.
    pub(super) reply: Reply,
    /// The name of its body.
    pub(super) digest: Digest,
    /// Its body ready to be stored, where that was made before the turn to write.
    packed: OnceLock<Body>,
    answered_at: Timestamp,
    answered_moment: Moment,
    notices: bool,
}

impl Answer {
    /// Makes the body ready to be stored. Worth it before the turn to write is waited for, where the body is hardly known.
    pub(super) fn pack(&self) {
        if let Ok(packed) = Body::pack(&self.reply.body) {
            // Without one it is packed when it is kept, and there the error is told.
            self.packed.get_or_init(|| packed);
        }
    }
}

impl Context {
    /// Waits for a place in the quota. Fails at once while the key is refused: nothing but a probe is sent then.
    pub(super) async fn place(
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

    /// Writes an exchange down before it is sent.
    pub(super) async fn exchange_begin(
        &self,
        write: &mut Write,
        run: RunId,
        lane: Lane,
        request: &Request,
    ) -> Result<Sent, StoreError> {
        let begun = self.begun(run, lane, request);
        Ok(Sent::of(write.exchange_begin(self.session_id, &begun).await?, &begun))
    }

    /// The same, and commits.
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

    /// Sends a request that was written down, once, and tells the limiter what came of it.
    pub(super) async fn send(
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

    /// Writes down what came of an exchange, and what the limiter must not forget of it.
    pub(super) async fn exchange_end(
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

    /// Keeps what the limiter must not forget and the journal does not tell.
    pub(super) async fn limiter_remember(&self, write: &mut Write) -> Result<(), StoreError> {
        let kept = serde_json::to_string(&self.limiter.memory().kept);
        let kept = kept.expect("what is kept has text keys, which JSON can write");
        write.limiter_remember(&kept).await
    }

    /// What a decoder made of an accepted answer; one that it cannot read at all is written down and is an error.
    pub(super) async fn decoded<T>(
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

    /// One read, sent once. The caller writes it down together with its facts.
    pub(super) async fn read_once(
        &self,
        run: RunId,
        lane: Lane,
        request: Request,
    ) -> Result<Answer, JobError> {
        loop {
            let permit = self.place(request.operation, lane, Pace::Paced).await?;
            let write = self.store.begin(Durability::Normal).await?;
            // Another call may have been throttled while this one waited for its turn to write.
            if !permit.may_send() {
                permit.give_back();
                continue;
            }
            let begun = self.exchange_begin_alone(write, run, lane, &request).await?;
            return Ok(self.send(permit, begun, request).await);
        }
    }

    /// One read, tried again while that may help. An answer that is returned was accepted and is not written down
    /// yet; all others are.
    pub(super) async fn read(
        &self,
        run: RunId,
        lane: Lane,
        what: &str,
        request: &Request,
    ) -> Result<Answer, JobError> {
        self.read_within(ATTEMPTS, run, lane, what, request).await
    }

    /// The same with so many attempts.
    pub(super) async fn read_within(
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

    /// The same for an operation that documents a 404 as its answer: that one is returned too.
    pub(super) async fn read_or_not_found(
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

    /// Writes down an answer that brings no facts, here and in a replay.
    pub(super) async fn end_alone(&self, answer: &Answer) -> Result<(), StoreError> {
        let mut write = self.store.begin(Durability::Normal).await?;
        self.exchange_end(&mut write, answer).await?;
        if answer.reply.verdict == Verdict::Accepted {
            write.exchange_set_aside(answer.id).await?;
        }
        write.commit().await
    }

    /// Waits, unless the daemon stops meanwhile.
    pub(super) async fn pause(&self, delay: std::time::Duration) -> Result<(), JobError> {
        tokio::select! {
            () = self.clock.sleep(delay) => Ok(()),
            () = self.stopped() => Err(JobError::Stopped),
        }
    }

    /// Why sending the same again cannot help, if it cannot.
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
                    // It may be the id or the key, and nobody can tell which.
                    Key::NotKnown => Some(JobError::GivenUp { what, why }),
                    Key::Refused => Some(self.refused(reply)),
                }
            }
            Verdict::Refused { may_be_id: false } => Some(self.refused(reply)),
        })
    }

    /// The error of a refused key, which is known to be refused from now on.
    pub(super) fn refused(&self, reply: &Reply) -> JobError {
        self.refused_by(reply.operation, reply.status, words(reply))
    }

    /// The same where the answer is not at hand any more.
    pub(super) fn refused_by(&self, operation: Operation, status: Option<u16>, why: String) -> JobError {
        // The limiter knows already where the verdict itself said so.
        drop(self.limiter.refuse_key(&why));
        tracing::error!(
            event = event::AUTH_REFUSED,
            operation = operation.as_str(),
            status,
            "the service refuses the key: {why}; nothing is sent until a probe succeeds; put the right key into its file"
        );
        JobError::Refused(why)
    }

    /// Fails where sending the same again cannot help.
    pub(super) async fn give_up_if_hopeless(
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

/// The service's words, or what kept them from coming.
pub(super) fn words(reply: &Reply) -> String {
    reply.message.clone().unwrap_or_else(|| "it gave no reason".into())
}

/// What the limiter is told.
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

/// The journal's word for a verdict.
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

/// Logs what changed in the account's budget. A refused key is shouted about by [`Context::refused_by`].
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
