//! Orders, shipments and products for which calls fail. They do not block other changes.

use super::{DeliveryRun, KeyedChange};
use crate::exec::JobError;
use crate::exec::call::AnsweredExchange;
use crate::exec::key_probe::{self, RefusalCause};
use crate::exec::quarantine::EntryRoute;
use crate::model::Operation;
use crate::outbox::{ChangeState, Reason};
use crate::push::claim::store_wait_reasons;
use crate::push::routes::deferral_detail;
use crate::store::ClaimEvidence;

/// Limit of calls refused in a row, with none accepted between them. More refusals mean that the fault is not
/// in an entry.
const REFUSED_MAX: usize = 3;

impl DeliveryRun<'_> {
    /// Returns the changes whose entries may be read and sent now. Notes at the others what they wait for. A
    /// change that failed before goes in a call of its own.
    pub(super) async fn select_ready<T>(
        &mut self,
        operations: &[Operation],
        changes: Vec<KeyedChange<T>>,
        entry: impl Fn(&T) -> String,
    ) -> Result<Vec<KeyedChange<T>>, JobError> {
        if changes.is_empty() {
            return Ok(changes);
        }
        let mut quarantines = Vec::new();
        for operation in operations {
            quarantines.push(self.context.quarantined_entries(*operation).await?);
        }
        let (mut now, mut waiting) = (Vec::new(), Vec::new());
        'changes: for (id, subject, change) in changes {
            let name = entry(&change);
            for quarantined in &quarantines {
                match quarantined.route_of(self.context, &name) {
                    EntryRoute::Deferred(until, why) => {
                        self.summary.note_retry(until);
                        self.skipped.insert(id);
                        let detail = deferral_detail(&subject, &why, until);
                        waiting.push((id, Reason::SetAside, detail));
                        continue 'changes;
                    }
                    EntryRoute::Isolated | EntryRoute::Suspect => drop(self.isolated.insert(id)),
                    EntryRoute::Shared => {}
                }
            }
            now.push((id, subject, change));
        }
        store_wait_reasons(self.context, waiting).await?;
        Ok(now)
    }

    /// Handles a call refused as a whole. A 400 refuses the content, and so does a 403 if the path names an
    /// id. A refusal of an isolated change is final once the key is proved. Any other status proves nothing
    /// against a change.
    pub(super) async fn handle_refusal(
        &mut self,
        claims: &[ClaimEvidence],
        (status, why): (u16, String),
        answer: &AnsweredExchange,
    ) -> Result<(), JobError> {
        let operation = answer.reply.operation;
        let is_content = status == 400 || operation.path().contains('{');
        if !matches!(status, 400 | 403) {
            return self.handle_undocumented_refusal(operation, claims, why).await;
        }
        let [only] = claims else {
            self.isolated.extend(claims.iter().map(|claim| claim.id));
            return Ok(());
        };
        match key_probe::judge_refusal(self.context, self.run, answer.sent_moment).await? {
            RefusalCause::Content | RefusalCause::Unproved if !is_content => {
                self.handle_undocumented_refusal(operation, claims, why).await
            }
            RefusalCause::Content => {
                let detail = format!("the platform refused it: {why}");
                self.finish_change(only.id, ChangeState::Rejected, Reason::ServiceRefused, detail).await
            }
            RefusalCause::Unproved => {
                self.isolated.insert(only.id);
                Ok(())
            }
            RefusalCause::Refused => Err(self.context.key_refused(&answer.reply)),
            RefusalCause::NotKnown(unknown) => {
                let detail = format!(
                    "no effect: {why}; the refusal may mean the key, whose state is unknown: \
                     {unknown}"
                );
                self.skipped.insert(only.id);
                store_wait_reasons(self.context, vec![(only.id, Reason::OperationHeld, detail)]).await?;
                self.summary.note_failure(unknown);
                Ok(())
            }
        }
    }

    /// Handles a refusal with a status that is not documented for content errors. It proves nothing against a
    /// change. The changes are then sent isolated; one that was isolated already waits for the next run.
    async fn handle_undocumented_refusal(
        &mut self,
        operation: Operation,
        claims: &[ClaimEvidence],
        why: String,
    ) -> Result<(), JobError> {
        self.context.record_failure(operation, &entry_names(claims), &why).await?;
        self.consecutive_refusals += 1;
        if self.consecutive_refusals >= REFUSED_MAX {
            self.stop_calls(why);
            return Ok(());
        }
        match claims {
            [only] => {
                self.skipped.insert(only.id);
                self.summary.note_failure(why);
            }
            several => self.isolated.extend(several.iter().map(|claim| claim.id)),
        }
        Ok(())
    }
}

/// Returns the orders, shipments or products of a call: the ordering keys without their prefix.
pub(super) fn entry_names(claims: &[ClaimEvidence]) -> Vec<&str> {
    let keys = claims.iter().map(|claim| claim.ordering_key.as_str());
    keys.map(|key| key.split_once(' ').map_or(key, |(_, name)| name)).collect()
}
