//! End of a call with changes, for all kinds: what it means for the entries, and one judgement of a refusal
//! (docs/rules.md 11).
//!
//! A 400 or a 403 may mean the content or the key, so the key is judged first. Quantity updates wait meanwhile. Once
//! the key is proved, a 400 rejects the content of a call with one entry; the entries of a larger call are sent
//! again apart. Any other refusal proves nothing against a change, but counts as a failure of its entries.

use super::claim::{finish_pending, store_wait_reasons};
use super::summary::PushSummary;
use crate::client::Verdict;
use crate::exec::call::{AnsweredExchange, reply_message};
use crate::exec::change_events::outcomes_to;
use crate::exec::key_probe::{self, RefusalCause};
use crate::exec::{JobContext, JobError};
use crate::model::{ChangeId, Operation, RunId};
use crate::outbox::{ChangeState, Reason};
use crate::store::{ChangeOutcome, StoreError};

/// Limit of calls refused in a row, with none accepted between them. A single bad entry causes two or three
/// refusals; more of them mean that the fault is not in an entry.
pub(super) const REFUSED_MAX: usize = 6;

/// Effect of a call on its changes.
#[derive(Debug)]
pub(super) enum SentEffect {
    /// Every change moved: the call was answered, or its outcome is unknown.
    Moved(PushSummary),
    /// No effect; the changes are pending again. A reason is given if another attempt is useless now.
    NoEffect(Option<String>),
    /// Refused as a whole; the changes are pending again, and are sent apart. `failure`: the status is not
    /// documented for content.
    Refused { failure: Option<String> },
}

/// Call whose answer was recorded.
pub(super) struct SentCall<'a> {
    pub(super) context: &'a JobContext,
    pub(super) run: RunId,
    pub(super) answer: &'a AnsweredExchange,
    /// Names of its entries in the quarantine.
    pub(super) names: Vec<&'a str>,
    /// Committed outcomes of its changes.
    pub(super) moves: &'a [ChangeOutcome],
}

impl SentCall<'_> {
    /// Counts the end of the call for its entries, and judges a refusal.
    ///
    /// # Errors
    /// [`JobError::KeyRefused`] if the refusal means the key.
    pub(super) async fn conclude(&self) -> Result<SentEffect, JobError> {
        let (operation, why) = (self.answer.reply.operation, reply_message(&self.answer.reply));
        match self.answer.reply.verdict {
            Verdict::Accepted => {
                self.context.record_success(operation, &self.names, true).await?;
                Ok(self.moved())
            }
            Verdict::Transient | Verdict::InDoubt => {
                // `settle` judges the update of a product, and also its repetition.
                if operation != Operation::UpdateProduct {
                    self.record_failure(&why).await?;
                }
                Ok(self.moved())
            }
            // The limiter has the delay.
            Verdict::Throttled(_) => Ok(SentEffect::NoEffect(None)),
            Verdict::NotSent => Ok(SentEffect::NoEffect(Some(why))),
            Verdict::Refused => Err(JobError::KeyRefused(why)),
            Verdict::Rejected { status: 400 | 403 } if !self.is_judged() => {
                Ok(SentEffect::Refused { failure: None })
            }
            Verdict::Rejected { status: status @ (400 | 403) } => self.judge_refusal(status, why).await,
            Verdict::Rejected { .. } => self.count_failure(why).await,
        }
    }

    fn moved(&self) -> SentEffect {
        let mut counts = PushSummary::default();
        counts.count_outcomes(self.moves);
        SentEffect::Moved(counts)
    }

    fn changes(&self) -> impl Iterator<Item = ChangeId> {
        self.moves.iter().map(|verdict| verdict.id)
    }

    /// Returns true if a refusal is judged at once, not after its entries were sent apart. To find the entry of a
    /// full quantity update costs several bad requests, which a refused key would cost too.
    fn is_judged(&self) -> bool {
        self.names.len() == 1 || self.answer.reply.operation == Operation::UpdateQuantityOnHand
    }

    async fn judge_refusal(&self, status: u16, why: String) -> Result<SentEffect, JobError> {
        let (context, operation) = (self.context, self.answer.reply.operation);
        if operation == Operation::UpdateQuantityOnHand {
            context.key.hold_updates();
        }
        match key_probe::judge_refusal(context, self.run, self.answer.sent_moment).await? {
            RefusalCause::Refused => Err(JobError::KeyRefused(why)),
            RefusalCause::NotKnown(unknown) => {
                self.note_unknown_key(&why, &unknown).await?;
                Ok(SentEffect::NoEffect(Some(unknown)))
            }
            RefusalCause::Content | RefusalCause::Unproved if status == 403 => self.count_failure(why).await,
            RefusalCause::Content if self.names.len() == 1 => self.reject(&why).await,
            RefusalCause::Content | RefusalCause::Unproved => Ok(SentEffect::Refused { failure: None }),
        }
    }

    /// Notes at the changes that the state of the key is unknown.
    async fn note_unknown_key(&self, why: &str, unknown: &str) -> Result<(), JobError> {
        let detail = format!(
            "no effect: {why}; the refusal may mean the key, whose state is unknown: {unknown}; \
             the key is probed with growing delays, and then the change is sent"
        );
        let reasons = self.changes().map(|id| (id, Reason::NotSent, detail.clone()));
        store_wait_reasons(self.context, reasons.collect()).await
    }

    /// Rejects the changes of the only entry. If one left the state pending in the meantime, the rest is another
    /// entry, which was not refused.
    async fn reject(&self, why: &str) -> Result<SentEffect, JobError> {
        let detail = format!("the platform refused it: {why}");
        let changes: Vec<ChangeId> = self.changes().collect();
        let moves = outcomes_to(&changes, ChangeState::Rejected, Some(Reason::ServiceRefused), &detail);
        let mut counts = PushSummary::default();
        let was_moved = finish_pending(self.context, &moves, &mut counts).await?;
        Ok(if was_moved { SentEffect::Moved(counts) } else { SentEffect::NoEffect(None) })
    }

    async fn count_failure(&self, why: String) -> Result<SentEffect, JobError> {
        self.record_failure(&why).await?;
        Ok(SentEffect::Refused { failure: Some(why) })
    }

    async fn record_failure(&self, why: &str) -> Result<bool, StoreError> {
        self.context.record_failure(self.answer.reply.operation, &self.names, why).await
    }
}
