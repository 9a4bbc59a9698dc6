//! Orders, shipments and products for which calls fail. They do not block other changes.

use super::{Deliver, Tally};
use crate::exec::JobError;
use crate::exec::call::Answer;
use crate::exec::key_probe::{self, Judged};
use crate::exec::quarantine::Way;
use crate::model::{Operation, WishId};
use crate::outbox::{Reason, State};
use crate::store::{Kept, WishRow};
use std::collections::BTreeSet;

/// Limit of calls refused in a row, with none accepted between them. More refusals mean that the fault is not
/// in an entry.
const REFUSED_MAX: usize = 3;

impl Deliver<'_> {
    /// Returns the changes whose entries may be read and sent now. Notes at the others what they wait for. A
    /// change that failed before goes in a call of its own.
    pub(super) async fn not_aside<T>(
        &mut self,
        operations: &[Operation],
        wishes: Vec<(WishId, String, T)>,
        entry: impl Fn(&T) -> String,
        tally: &mut Tally,
    ) -> Result<Vec<(WishId, String, T)>, JobError> {
        if wishes.is_empty() {
            return Ok(wishes);
        }
        let mut asides = Vec::new();
        for operation in operations {
            asides.push(self.context.aside(*operation).await?);
        }
        let (mut now, mut waiting) = (Vec::new(), Vec::new());
        'wishes: for (id, subject, wish) in wishes {
            let name = entry(&wish);
            for aside in &asides {
                match aside.way(self.context, &name) {
                    Way::Later(until, why) => {
                        tally.again_at(until);
                        self.left_alone.insert(id);
                        let detail = format!(
                            "calls that name {subject} fail: {why}; it is tried again by itself at {until}"
                        );
                        waiting.push((id, Reason::SetAside, detail));
                        continue 'wishes;
                    }
                    Way::Alone | Way::Suspect => drop(self.alone.insert(id)),
                    Way::Together => {}
                }
            }
            now.push((id, subject, wish));
        }
        self.wait(&waiting).await?;
        Ok(now)
    }

    /// Handles a call refused as a whole. A 400 refuses the content, and so does a 403 if the path names an
    /// id. A refusal of an isolated change is final once the key is proved. Any other status proves nothing
    /// against a change.
    pub(super) async fn refused(
        &mut self,
        kept: &[Kept],
        (status, why): (u16, String),
        answer: &Answer,
        tally: &mut Tally,
    ) -> Result<(), JobError> {
        let operation = answer.reply.operation;
        let is_content = status == 400 || operation.path().contains('{');
        if !matches!(status, 400 | 403) {
            return self.refused_strangely(operation, kept, why, tally).await;
        }
        let [only] = kept else {
            self.alone.extend(kept.iter().map(|kept| kept.id));
            return Ok(());
        };
        match key_probe::judge(self.context, self.run, answer.sent_moment).await? {
            Judged::Content | Judged::Again if !is_content => {
                self.refused_strangely(operation, kept, why, tally).await
            }
            Judged::Content => {
                let detail = format!("the service refused it: {why}");
                self.stop(only.id, State::Rejected, Reason::ServiceRefused, detail, tally).await
            }
            Judged::Again => {
                self.alone.insert(only.id);
                Ok(())
            }
            Judged::Refused => Err(self.context.refused(&answer.reply)),
            Judged::NotKnown(unknown) => {
                let detail = format!(
                    "not done: {why}; that may mean the key, and the platform does not tell whether it accepts it: \
                     {unknown}"
                );
                self.left_alone.insert(only.id);
                self.wait(&[(only.id, Reason::OperationHeld, detail)]).await?;
                tally.note(unknown);
                Ok(())
            }
        }
    }

    /// Handles a refusal with a status that is not documented for content errors. It proves nothing against a
    /// change. The changes are then sent isolated; one that was isolated already waits for the next run.
    async fn refused_strangely(
        &mut self,
        operation: Operation,
        kept: &[Kept],
        why: String,
        tally: &mut Tally,
    ) -> Result<(), JobError> {
        self.context.failed(operation, &entries(kept), &why).await?;
        self.refused += 1;
        if self.refused >= REFUSED_MAX {
            self.cut_off(why, tally);
            return Ok(());
        }
        match kept {
            [only] => {
                self.left_alone.insert(only.id);
                tally.note(why);
            }
            several => self.alone.extend(several.iter().map(|kept| kept.id)),
        }
        Ok(())
    }
}

/// Returns the orders, shipments or products of a call: the ordering keys without their prefix.
pub(super) fn entries(kept: &[Kept]) -> Vec<&str> {
    kept.iter()
        .map(|kept| kept.subject.split_once(' ').map_or(kept.subject.as_str(), |(_, name)| name))
        .collect()
}

/// Returns the changes that shared a call of unknown outcome and had no effect.
pub(super) fn did_not_land(pending: &[WishRow]) -> BTreeSet<WishId> {
    let rows = pending.iter().filter(|row| row.reason.as_deref() == Some(Reason::NotLanded.as_str()));
    rows.map(|row| WishId(row.id)).collect()
}
