//! Calls to the platform. Each call has four steps: reservation, record of the exchange, one send, report to
//! the limiter. There is no other way to the platform.
//!
//! Waiting for a reservation is no failed attempt. A read is repeated within its run ([`super::reads`]). A write is
//! never repeated: its retry is a new plan.

use super::{JobContext, JobError};
use crate::client::wire::MalformedBody;
use crate::client::{CallReply, PlatformRequest, SendCheck, ThrottleKind, Verdict};
use crate::journal::{BodyDigest, DigestedBody, ExchangeBegin, ExchangeEnd, ExchangeOutcome, PackedBody};
use crate::limiter::{HoldScope, LimiterEvent, PacePayment, Permit, QuotaOutcome};
use crate::model::{ExchangeId, Lane, Moment, Operation, Position, RunId, Timestamp};
use crate::store::{Durability, StoreError, WriteTransaction};
use crate::telemetry::event;
use std::sync::{Arc, OnceLock};

/// Exchange that is recorded and about to be sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BegunExchange {
    pub(crate) id: ExchangeId,
    sent_at: Timestamp,
    sent_moment: Moment,
}

/// Exchange that was sent and whose end is not recorded yet.
#[derive(Debug)]
pub(crate) struct AnsweredExchange {
    pub(crate) id: ExchangeId,
    /// Time at which the request was sent, which is the age of its facts.
    pub(crate) sent_at: Timestamp,
    /// The time since boot at which the request was sent.
    pub(crate) sent_moment: Moment,
    pub(crate) reply: CallReply,
    pub(crate) digest: BodyDigest,
    /// Compressed body, if it was prepared before the write lock was taken.
    compressed_body: OnceLock<PackedBody>,
    answered_at: Timestamp,
    answered_moment: Moment,
    has_limiter_events: bool,
}

impl BegunExchange {
    /// Creates it from its record, which has this id.
    pub(crate) fn new(id: ExchangeId, begin: &ExchangeBegin<'_>) -> Self {
        Self { id, sent_at: begin.sent_at, sent_moment: begin.sent_moment }
    }
}

impl AnsweredExchange {
    /// Prepares the body for storage. Useful before the write lock is taken, if the body is probably new.
    pub(crate) fn compress_body(&self) {
        if let Ok(packed) = PackedBody::pack(&self.reply.body) {
            // After an error the body is compressed when it is stored, and that call returns the error.
            self.compressed_body.get_or_init(|| packed);
        }
    }
}

impl JobContext {
    /// Waits for a reservation of the limiter.
    ///
    /// # Errors
    /// [`JobError::KeyRefused`] at once while the key is refused, except for probes. [`JobError::Stopped`] if
    /// the daemon stops.
    pub(crate) async fn reserve_call(
        &self,
        operation: Operation,
        lane: Lane,
        pace: PacePayment,
    ) -> Result<Permit, JobError> {
        if lane != Lane::Probe && self.limiter.is_refused() {
            return Err(JobError::KeyRefused(
                "it was refused before, and no probe has succeeded since".into(),
            ));
        }
        tokio::select! {
            biased;
            () = self.wait_for_stop() => Err(JobError::Stopped),
            permit = self.limiter.acquire(operation, lane, pace) => Ok(permit),
        }
    }

    /// Returns the begin of an exchange, which is recorded before its request is sent.
    pub(crate) fn exchange_start<'a>(
        &self,
        run: RunId,
        lane: Lane,
        request: &'a PlatformRequest,
    ) -> ExchangeBegin<'a> {
        ExchangeBegin {
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
    pub(crate) async fn send_exchange(
        &self,
        permit: Permit,
        BegunExchange { id, sent_at, sent_moment }: BegunExchange,
        request: PlatformRequest,
    ) -> AnsweredExchange {
        let check = self.store.is_shared().then(|| self.lateness_check(sent_moment));
        let reply = self.client.send(request, check).await;
        let (answered_at, answered_moment) = (self.clock.now(), self.clock.moment());
        self.note_key(&reply, answered_moment);
        let limiter_events = permit.complete_call(limiter_outcome(&reply));
        limiter_events.iter().for_each(log_limiter_event);
        AnsweredExchange {
            id,
            sent_at,
            sent_moment,
            digest: PackedBody::digest(&reply.body),
            reply,
            compressed_body: OnceLock::new(),
            answered_at,
            answered_moment,
            has_limiter_events: !limiter_events.is_empty(),
        }
    }

    /// Returns the check that a call recorded at this moment is not sent by a process that was paused since: another
    /// host may lead by now.
    fn lateness_check(&self, sent_moment: Moment) -> SendCheck {
        let (clock, limit) = (Arc::clone(&self.clock), self.settings().send_within);
        Arc::new(move || {
            let waited = clock.moment().duration_since(sent_moment);
            if waited <= limit {
                return Ok(());
            }
            Err(format!(
                "not sent, because the database or this host took {} s since the call was recorded, and another host \
                 may have taken over",
                waited.as_secs()
            ))
        })
    }

    /// Records the end of an exchange, and the limiter's state if it changed.
    pub(crate) async fn exchange_end(
        &self,
        write: &mut WriteTransaction,
        answer: &AnsweredExchange,
    ) -> Result<Position, StoreError> {
        let reply = &answer.reply;
        let ended = ExchangeEnd {
            outcome: journal_outcome(reply.verdict),
            status: reply.status,
            body: (!reply.body.is_empty()).then_some(DigestedBody {
                bytes: &reply.body,
                digest: answer.digest,
                packed: answer.compressed_body.get(),
            }),
            message: reply.message.as_deref(),
            answered_at: answer.answered_at,
            answered_moment: answer.answered_moment,
        };
        if answer.has_limiter_events {
            self.limiter_save_state(write).await?;
        }
        write.exchange_end(answer.id, &ended).await
    }

    /// Stores the limiter's state that does not follow from the journal.
    pub(super) async fn limiter_save_state(&self, write: &mut WriteTransaction) -> Result<(), StoreError> {
        let state = serde_json::to_string(&self.limiter.persisted_state().limiter_state);
        write.limiter_state_store(&state.expect("the limiter's state has text keys")).await
    }

    /// Begins the transaction of an answer's facts. The end of the exchange is recorded in it.
    pub(crate) async fn begin_recording(
        &self,
        answer: &AnsweredExchange,
    ) -> Result<WriteTransaction, StoreError> {
        let mut write = self.store.begin_write(Durability::Normal).await?;
        self.exchange_end(&mut write, answer).await?;
        Ok(write)
    }

    /// Returns the decoded answer. A malformed answer is recorded as not applied and is an error.
    pub(crate) async fn decode_or_ignore<T>(
        &self,
        answer: &AnsweredExchange,
        decoded: Result<T, MalformedBody>,
    ) -> Result<T, JobError> {
        if decoded.is_err() {
            self.exchange_end_ignored(answer).await?;
        }
        Ok(decoded?)
    }

    /// Sends a read once. The caller records its end together with its facts.
    pub(crate) async fn read_once(
        &self,
        run: RunId,
        lane: Lane,
        request: PlatformRequest,
    ) -> Result<AnsweredExchange, JobError> {
        let pace = if lane == Lane::Probe { PacePayment::Paid } else { PacePayment::Paced };
        loop {
            let permit = self.reserve_call(request.operation, lane, pace).await?;
            let mut write = self.store.begin_write(Durability::Normal).await?;
            // Another call may have been throttled while this one waited for the write lock.
            if !permit.may_send() {
                permit.return_unused();
                continue;
            }
            let begin = self.exchange_start(run, lane, &request);
            let begun = BegunExchange::new(write.exchange_begin(self.session_id, &begin).await?, &begin);
            write.commit().await?;
            return Ok(self.send_exchange(permit, begun, request).await);
        }
    }

    /// Records an answer as not applied: it brings no facts, live and in a replay.
    pub(crate) async fn exchange_end_ignored(&self, answer: &AnsweredExchange) -> Result<(), StoreError> {
        let mut write = self.begin_recording(answer).await?;
        if answer.reply.verdict == Verdict::Accepted {
            write.exchange_ignore(answer.id).await?;
        }
        write.commit().await
    }

    /// Waits for the delay; fails if the daemon stops.
    pub(crate) async fn pause_or_stop(&self, delay: std::time::Duration) -> Result<(), JobError> {
        tokio::select! {
            () = self.clock.sleep(delay) => Ok(()),
            () = self.wait_for_stop() => Err(JobError::Stopped),
        }
    }

    /// Waits until this moment; fails if the daemon stops.
    pub(crate) async fn pause_until(&self, until: Option<Moment>) -> Result<(), JobError> {
        match until.map(|until| until.duration_since(self.moment())) {
            Some(delay) if !delay.is_zero() => self.pause_or_stop(delay).await,
            Some(_) | None => Ok(()),
        }
    }

    /// Records what the answer says of the key. Once it is refused, nothing but probes is sent.
    fn note_key(&self, reply: &CallReply, answered: Moment) {
        self.key.note_answer(reply, answered);
        if reply.verdict == Verdict::Refused && self.limiter.refuse_key() {
            tracing::error!(
                event = event::AUTH_REFUSED,
                operation = reply.operation.as_str(),
                http_status = reply.status,
                "the platform refuses the key: {}; nothing is sent until a probe succeeds; put the right key into its \
                 file",
                reply_message(reply)
            );
        }
    }
}

/// Returns the platform's message, or the reason of its absence.
pub(crate) fn reply_message(reply: &CallReply) -> String {
    reply.message.clone().unwrap_or_else(|| "no reason was given".into())
}

fn limiter_outcome(reply: &CallReply) -> QuotaOutcome {
    match reply.verdict {
        Verdict::Throttled(ThrottleKind::Rate { wait }) => QuotaOutcome::RateThrottled(wait),
        Verdict::Throttled(ThrottleKind::Concurrency) => QuotaOutcome::ConcurrencyThrottled,
        Verdict::Throttled(ThrottleKind::BadRequests { wait }) => QuotaOutcome::BadRequestThrottled(wait),
        Verdict::Rejected { status: 400 } => QuotaOutcome::BadRequest,
        Verdict::NotSent => QuotaOutcome::NotSent,
        Verdict::Transient | Verdict::InDoubt if reply.status.is_none() => QuotaOutcome::TimedOut,
        Verdict::Accepted
        | Verdict::Rejected { .. }
        | Verdict::Refused
        | Verdict::Transient
        | Verdict::InDoubt => QuotaOutcome::Answered,
    }
}

fn journal_outcome(verdict: Verdict) -> ExchangeOutcome {
    match verdict {
        Verdict::Accepted => ExchangeOutcome::Accepted,
        Verdict::Rejected { .. } => ExchangeOutcome::Rejected,
        Verdict::Throttled(_) => ExchangeOutcome::Throttled,
        Verdict::Refused => ExchangeOutcome::Refused,
        Verdict::Transient => ExchangeOutcome::Transient,
        Verdict::NotSent => ExchangeOutcome::NotSent,
        Verdict::InDoubt => ExchangeOutcome::InDoubt,
    }
}

/// Logs a change of the account's budget.
fn log_limiter_event(limiter_event: &LimiterEvent) {
    match limiter_event {
        LimiterEvent::HoldStarted(hold) => {
            let (reason, hold_ms) = (hold.reason.as_str(), hold.duration_ms);
            let duration = hold_ms.map_or(String::new(), |ms| format!(" {} s", ms.div_ceil(1000)));
            let scope = match hold.scope {
                HoldScope::Account => "the whole account".into(),
                HoldScope::Slots(operation) => operation.to_string(),
            };
            tracing::warn!(event = event::QUOTA_HOLD, reason, hold_ms, "{scope} waits{duration}: {reason}");
        }
        LimiterEvent::LimitReduced { permille, limit, reservations: held } => tracing::warn!(
            event = event::QUOTA_SHARE,
            permille,
            limit,
            held,
            "other software uses the account: the platform throttled tallyd at {held} of its own calls in a \
             minute; tallyd uses at most {limit} a minute for now"
        ),
        LimiterEvent::LimitRecovered => {
            let permille = 1000;
            tracing::info!(event = event::QUOTA_SHARE, permille, "the adaptive limit is back at its maximum");
        }
        LimiterEvent::SoftThreshold { count } => tracing::warn!(
            event = event::BAD_REQUESTS,
            count,
            "{count} answers of 400 in 24 h: bulk pushes stop; see `tallyd job list --kind push`"
        ),
        LimiterEvent::HardThreshold { count } => tracing::error!(
            event = event::BAD_REQUESTS,
            count,
            "{count} answers of 400 in 24 h: every operation with such an answer stops"
        ),
        LimiterEvent::BudgetExhausted { until } => tracing::error!(
            event = event::BAD_REQUESTS,
            "the platform throttles this account for bad requests: only reads are sent until {until}"
        ),
    }
}
