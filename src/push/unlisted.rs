//! Changes for a warehouse that the list of warehouses lacks.
//!
//! The list may be old, cut or empty. It is read again before such changes are rejected, and once more
//! minutes later. Both lists must hold all other known warehouses. A warehouse that was ever listed is never
//! rejected; its changes wait.

use super::claim::store_wait_reasons;
use super::run::PushRun;
use super::snapshot::PendingStockLevel;
use crate::exec::JobError;
use crate::exec::absence::{self, AbsenceProof, SuspectedAbsences};
use crate::exec::lists;
use crate::model::{ChangeId, WarehouseId};
use crate::outbox::Reason;
use std::collections::{BTreeMap, BTreeSet};

impl PushRun<'_> {
    pub(super) fn note_unlisted(&mut self, works: &[PendingStockLevel]) {
        for work in works.iter().filter(|work| work.is_unlisted) {
            let changes = self.unlisted.entry(work.stock_level.warehouse_id).or_default();
            changes.extend(work.pending_changes.iter().copied());
        }
    }

    /// Reads the list again if that is due. Returns true if some of the changes can be decided now.
    pub(super) async fn read_warehouses(&mut self) -> Result<bool, JobError> {
        let unlisted = std::mem::take(&mut self.unlisted);
        if unlisted.is_empty() {
            return Ok(false);
        }
        let lacking = SuspectedAbsences::load(self.context).await?;
        let mut due = BTreeMap::new();
        for (warehouse, changes) in unlisted {
            match lacking.undue_absence(self.context, &warehouse_subject(warehouse)) {
                Some(what) => self.note_waiting(&changes, Reason::Unproved, what.to_owned()).await?,
                None => drop(due.insert(warehouse, changes)),
            }
        }
        if due.is_empty() {
            return Ok(false);
        }
        let known: BTreeSet<i64> =
            self.context.store.warehouse_list().await?.into_iter().map(|row| row.id).collect();
        let (listed, unwell) = self.read_warehouse_list().await?;
        let mut decided = false;
        for (warehouse, changes) in due {
            if listed.contains(&warehouse) {
                absence::end_absence(self.context, &warehouse_subject(warehouse)).await?;
                decided = true;
                continue;
            }
            let what = format!("the list of warehouses lacks {warehouse}");
            match absence::note_absence(self.context, &warehouse_subject(warehouse), &what, unwell.as_deref())
                .await?
            {
                AbsenceProof::Proved if known.contains(&warehouse.0) => {
                    let why = format!("{what}, which it held before");
                    self.note_waiting(&changes, Reason::Unproved, why).await?;
                }
                AbsenceProof::Proved => {
                    absence::end_absence(self.context, &warehouse_subject(warehouse)).await?;
                    decided |= self.absent_warehouses.insert(warehouse);
                }
                AbsenceProof::NotProved(why) => self.note_waiting(&changes, Reason::Unproved, why).await?,
            }
        }
        Ok(decided)
    }

    /// Returns the list as it is now, and the reason if it proves nothing.
    async fn read_warehouse_list(&self) -> Result<(BTreeSet<WarehouseId>, Option<String>), JobError> {
        let before = self.context.store.warehouse_ids().await?;
        match lists::read_warehouse_ids(self.context, self.run).await {
            Ok(Some(listed)) => {
                let lacks = before.iter().find(|id| !listed.contains(id));
                let unwell =
                    lacks.map(|id| format!("the list also lacks warehouse {id}, which was listed before"));
                Ok((listed, unwell))
            }
            Ok(None) => Ok((BTreeSet::new(), Some("the list is cut or partly unreadable".into()))),
            Err(error) if error.entry_failure().is_some() => Ok((BTreeSet::new(), Some(error.to_string()))),
            Err(error) => Err(error),
        }
    }

    /// Notes at the changes what they wait for, and for the run's report. The run is tried again.
    pub(super) async fn note_waiting(
        &mut self,
        changes: &BTreeSet<ChangeId>,
        reason: Reason,
        why: String,
    ) -> Result<(), JobError> {
        let reasons = changes.iter().map(|id| (*id, reason, why.clone()));
        store_wait_reasons(self.context, reasons.collect()).await?;
        self.wait_reason.get_or_insert(why);
        Ok(())
    }
}

fn warehouse_subject(warehouse: WarehouseId) -> String {
    format!("warehouse {warehouse}")
}
