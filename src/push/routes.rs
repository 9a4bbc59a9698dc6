//! Selection of the stock levels of a batch that may be read or written now.
//!
//! Stock levels of a quarantined SKU wait. Those that failed before are sent apart from the others.

use super::Push;
use super::pipeline::Asked;
use super::snapshot::Work;
use crate::exec::quarantine::{Aside, Way};
use crate::exec::{Context, JobError};
use crate::model::{Cell, Operation, Timestamp, WishId};
use crate::outbox::{Reason, State};
use crate::reconcile::Step;
use crate::reconcile::isolation::share;
use crate::reconcile::packing::{Entry, pack};
use crate::store::{Durability, StoreError, Verdict};
use std::collections::BTreeMap;

/// Ways of the stock levels of a batch.
pub(super) struct Ways {
    writes: BTreeMap<Cell, Way>,
    reads: Aside,
}

impl Ways {
    pub(super) async fn of(context: &Context, batch: &[&Work]) -> Result<Self, StoreError> {
        let reads = context.aside(Operation::GetProductBalances).await?;
        let writes = context.aside(Operation::UpdateQuantityOnHand).await?;
        let writes =
            batch.iter().map(|work| (work.cell.clone(), writes.way(context, work.cell.sku.as_str())));
        Ok(Self { writes: writes.collect(), reads })
    }

    fn write(&self, work: &Work) -> &Way {
        self.writes.get(&work.cell).unwrap_or(&Way::Together)
    }

    /// Returns the way of a stock level for its read. A mere suspicion does not separate it from the others.
    fn read(&self, context: &Context, work: &Work) -> Way {
        match self.reads.contains(work.cell.sku.as_str()) {
            true => self.reads.way(context, work.cell.sku.as_str()),
            false => Way::Together,
        }
    }

    /// Returns true if the last call of the stock level failed. Its next call has few other entries, or none.
    pub(super) fn is_apart(&self, work: &Work) -> bool {
        work.did_not_land || work.may_be_refused || matches!(self.write(work), Way::Suspect | Way::Alone)
    }

    /// Packs the stock levels that [`Self::is_apart`] selects. A quarantined one goes isolated, as does one
    /// of an answer that refused an entry without naming it.
    pub(super) fn calls_apart<'w>(&self, apart: &[&'w Work]) -> Vec<Vec<&'w Work>> {
        let (alone, suspects): (Vec<&Work>, Vec<&Work>) =
            apart.iter().partition(|work| work.may_be_refused || *self.write(work) == Way::Alone);
        let entries: Vec<Entry<'_>> = suspects.iter().map(|work| work.entry()).collect();
        let size = share(suspects.len());
        let packed = pack(&entries);
        let parts = packed.iter().flat_map(|call| call.chunks(size));
        let parts = parts.map(|part| part.iter().map(|index| suspects[*index]).collect());
        parts.chain(alone.into_iter().map(|work| vec![work])).collect()
    }
}

impl Push<'_> {
    /// Returns the stock levels of a batch that may be read or written now. Notes at the changes of the
    /// others what they wait for. Stock levels that must be read isolated are handed to the search.
    pub(super) async fn turn<'w>(
        &mut self,
        ways: &Ways,
        batch: Vec<&'w Work>,
    ) -> Result<Vec<&'w Work>, JobError> {
        let (mut now, mut later, mut alone) = (Vec::new(), Vec::new(), Vec::new());
        for work in batch {
            let is_read = work.plan.step == Step::Read;
            if !is_read && !matches!(work.plan.step, Step::Write { .. }) {
                now.push(work);
                continue;
            }
            let read = if is_read { ways.read(self.context, work) } else { Way::Together };
            match (read, ways.write(work)) {
                (Way::Later(until, why), _) => later.push((work, until, why)),
                (_, Way::Later(until, why)) => later.push((work, *until, why.clone())),
                _ if self.pipe.search.left.contains(&work.cell.sku) => {}
                (Way::Alone, _) => alone.push(work),
                (Way::Together | Way::Suspect, Way::Together | Way::Suspect | Way::Alone) => now.push(work),
            }
        }
        for work in alone {
            let (cell, urgent) = (work.cell.clone(), work.urgent);
            self.pipe.taken.insert(cell.clone());
            self.pipe.search.add(vec![Asked { cell, urgent }]);
        }
        self.put_off(&later).await?;
        Ok(now)
    }

    /// Notes at the changes of these stock levels what they wait for, and until when.
    async fn put_off(&mut self, later: &[(&Work, Timestamp, String)]) -> Result<(), JobError> {
        let Some(first) = later.iter().map(|(_, until, _)| *until).min() else { return Ok(()) };
        self.tally.again_at(first);
        let mut notes = Vec::new();
        for (work, until, why) in later {
            let detail = set_aside(&work.cell.sku, why, *until);
            let note = |id: &WishId| {
                Verdict::new(*id, State::Pending, Some(Reason::SetAside.as_str()), detail.as_str())
            };
            notes.extend(work.pending.iter().map(note));
        }
        let cells: Vec<Cell> = later.iter().map(|(work, ..)| work.cell.clone()).collect();
        self.pipe.flush.gone(&cells);
        let mut write = self.context.store.begin(Durability::Normal).await?;
        write.outbox_note(State::Pending, &notes, self.context.now()).await?;
        Ok(write.commit().await?)
    }
}

/// Returns the detail of a change that waits for a quarantined entry.
pub(super) fn set_aside(entry: impl std::fmt::Display, why: &str, until: Timestamp) -> String {
    format!("calls that name {entry} fail: {why}; it is tried again by itself at {until}")
}
