//! What the next push would send, byte for byte, from the facts at hand; makes no call and writes nothing.

use super::push::work::{Look, OwnReads, gather};
use super::{JobError, QuantitySettings};
use crate::client::wire;
use crate::model::{Cell, Timestamp};
use crate::reconcile::packing::{Entry, pack};
use crate::reconcile::{Outcome, Step};
use crate::store::Store;

/// What the next push would do.
#[derive(Clone, Debug, Default)]
pub struct Preview {
    /// The bodies of the update calls, in order.
    pub calls: Vec<String>,
    /// Cells that would be read first, because their fact is missing or too old.
    pub reads: Vec<Cell>,
    /// Wishes that would be settled without a call: their ids, and what would become of them.
    pub settled: Vec<(i64, String)>,
}

/// Looks at the outbox as the next push would.
pub async fn preview(
    store: &Store,
    settings: &QuantitySettings,
    now: Timestamp,
) -> Result<Preview, JobError> {
    let gathered = gather(store, Look { settings, now, own_reads: &OwnReads::new() }, None).await?;
    let mut preview = Preview::default();
    preview.settled.extend(gathered.rejected.iter().map(|verdict| {
        let why = verdict.detail.clone().unwrap_or_default();
        (verdict.id.0, format!("rejected: {why}"))
    }));
    let mut writes: Vec<(Entry<'_>, wire::QuantityUpdate)> = Vec::new();
    for work in &gathered.works {
        match work.plan.step {
            Step::Read => preview.reads.push(work.cell.clone()),
            Step::Write { to, .. } => writes.push((work.entry(), work.update(to))),
            Step::Nothing | Step::Agreed(_) => {}
        }
        for decision in &work.plan.decisions {
            let sentence = match (&decision.outcome, work.plan.step) {
                (Outcome::Settles { .. }, Step::Write { .. }) => continue,
                (Outcome::Settles { how }, _) => format!("applied without a call: {how}"),
                (Outcome::Held { detail, .. }, _) => format!("held: {detail}"),
                (Outcome::Rejected { detail, .. }, _) => format!("rejected: {detail}"),
                (Outcome::Cancelled { detail, .. }, _) => format!("cancelled: {detail}"),
            };
            preview.settled.push((decision.id.0, sentence));
        }
    }
    let entries: Vec<Entry<'_>> = writes.iter().map(|(entry, _)| *entry).collect();
    for call in pack(&entries) {
        let updates: Vec<wire::QuantityUpdate> =
            call.into_iter().map(|index| writes[index].1.clone()).collect();
        let request =
            wire::update_quantity_on_hand(&updates).map_err(|why| JobError::Implausible(why.to_string()))?;
        preview.calls.push(String::from_utf8_lossy(&request.body.unwrap_or_default()).into_owned());
    }
    Ok(preview)
}
