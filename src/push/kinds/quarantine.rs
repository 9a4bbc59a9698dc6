//! Orders, shipments and products for which calls fail. They do not block other changes.

use super::{DeliveryRun, KeyedChange};
use crate::exec::JobError;
use crate::exec::quarantine::{EntryRoute, deferral_detail};
use crate::model::Operation;
use crate::outbox::Reason;
use crate::push::claim::store_wait_reasons;
use crate::store::ClaimEvidence;

impl DeliveryRun {
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
                match quarantined.route_of(&self.context, &name) {
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
        store_wait_reasons(&self.context, waiting).await?;
        Ok(now)
    }
}

/// Returns the orders, shipments or products of a call: the ordering keys without their prefix.
pub(super) fn entry_names(claims: &[ClaimEvidence]) -> Vec<&str> {
    let keys = claims.iter().map(|claim| claim.ordering_key.as_str());
    keys.map(|key| key.split_once(' ').map_or(key, |(_, name)| name)).collect()
}
