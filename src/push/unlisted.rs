//! Changes for a warehouse that the list of warehouses lacks.
//!
//! The list may be old, cut or empty. It is read again before such changes are rejected, and once more
//! minutes later. Both lists must hold all other known warehouses. A warehouse that was ever listed is never
//! rejected; its changes wait.

use super::Push;
use super::snapshot::Work;
use crate::exec::JobError;
use crate::exec::absence::{self, Lacking, Lacks};
use crate::exec::warehouse_list;
use crate::model::{WarehouseId, WishId};
use crate::outbox::{Reason, State};
use crate::store::{Durability, Verdict};
use std::collections::{BTreeMap, BTreeSet};

impl Push<'_> {
    /// Records the changes that wait for the list.
    pub(super) fn note_unlisted(&mut self, works: &[Work]) {
        for work in works.iter().filter(|work| work.is_unlisted) {
            let wishes = self.unlisted.entry(work.cell.warehouse_id).or_default();
            wishes.extend(work.pending.iter().copied());
        }
    }

    /// Reads the list again if that is due. Returns true if some of the changes can be decided now.
    pub(super) async fn read_warehouses(&mut self) -> Result<bool, JobError> {
        let unlisted = std::mem::take(&mut self.unlisted);
        if unlisted.is_empty() {
            return Ok(false);
        }
        let lacking = Lacking::read(self.context).await?;
        let mut due = BTreeMap::new();
        for (warehouse, wishes) in unlisted {
            match lacking.not_yet(self.context, &subject(warehouse)) {
                Some(what) => self.wait(&wishes, what.to_owned()).await?,
                None => drop(due.insert(warehouse, wishes)),
            }
        }
        if due.is_empty() {
            return Ok(false);
        }
        let known: BTreeSet<i64> =
            self.context.store.warehouse_list().await?.into_iter().map(|row| row.id).collect();
        let (listed, unwell) = self.list().await?;
        let mut decided = false;
        for (warehouse, wishes) in due {
            if listed.contains(&warehouse) {
                absence::end(self.context, &subject(warehouse)).await?;
                decided = true;
                continue;
            }
            let what = format!("the list of warehouses lacks {warehouse}");
            match absence::note(self.context, &subject(warehouse), &what, unwell.as_deref()).await? {
                Lacks::Proved if known.contains(&warehouse.0) => {
                    let why = format!("{what}, which it held before");
                    self.wait(&wishes, why).await?;
                }
                Lacks::Proved => {
                    absence::end(self.context, &subject(warehouse)).await?;
                    decided |= self.no_such.insert(warehouse);
                }
                Lacks::NotProved(why) => self.wait(&wishes, why).await?,
            }
        }
        Ok(decided)
    }

    /// Returns the list as it is now, and the reason if it proves nothing.
    async fn list(&self) -> Result<(BTreeSet<WarehouseId>, Option<String>), JobError> {
        let before = self.context.store.warehouse_ids().await?;
        match warehouse_list::listed(self.context, self.run).await {
            Ok(Some(listed)) => {
                let lacks = before.iter().find(|id| !listed.contains(id));
                let unwell =
                    lacks.map(|id| format!("the list lacks warehouse {id} too, which it held before"));
                Ok((listed, unwell))
            }
            Ok(None) => Ok((BTreeSet::new(), Some("the list is cut, or a part of it makes no sense".into()))),
            Err(
                error @ (JobError::GivenUp { .. } | JobError::Rejected { .. } | JobError::Implausible(_)),
            ) => Ok((BTreeSet::new(), Some(error.to_string()))),
            Err(error @ (JobError::Stopped | JobError::Refused(_) | JobError::Store(_))) => Err(error),
        }
    }

    async fn wait(&mut self, wishes: &BTreeSet<WishId>, why: String) -> Result<(), JobError> {
        let note = |id: &WishId| Verdict::new(*id, State::Pending, Some(Reason::Unproved.as_str()), &why);
        let notes: Vec<Verdict> = wishes.iter().map(note).collect();
        let mut write = self.context.store.begin(Durability::Normal).await?;
        write.outbox_note(State::Pending, &notes, self.context.now()).await?;
        write.commit().await?;
        self.waits.get_or_insert(why);
        Ok(())
    }
}

/// Returns the key of the warehouse in the table of absences.
fn subject(warehouse: WarehouseId) -> String {
    format!("warehouse {warehouse}")
}
