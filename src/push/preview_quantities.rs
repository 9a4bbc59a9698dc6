//! Preview of the quantities of the next push, by the known facts.
//!
//! It uses the snapshot, brakes, batches, packing and requests of the push, without a reservation, a claim or
//! a send. A stock level whose fact is too old is listed with its read, and its write is computed from the
//! known fact.

use super::backlog::Backlog;
use super::pipeline::named;
use super::snapshot::{Gathered, Look, NONE, OwnReads, Work, gather};
use super::{Planned, Preview};
use super::{brake, calls, send, skus_to_read, witnesses_of};
use crate::client::wire;
use crate::exec::{JobError, Settings};
use crate::model::{Cell, Moment, Sku, Timestamp, WishId};
use crate::reconcile::{Outcome, Step};
use crate::store::Store;
use std::collections::{BTreeMap, BTreeSet};

/// Adds the quantities to a preview.
pub(super) async fn foresee(
    store: &Store,
    settings: &Settings,
    (now, moment): (Timestamp, Moment),
    preview: &mut Preview,
) -> Result<(), JobError> {
    let look =
        Look { settings: &settings.quantities, now, moment, own_reads: &OwnReads::new(), no_such: &NONE };
    let Gathered { works, rejected, .. } = gather(store, look, None).await?;
    for verdict in rejected {
        let why = verdict.detail.unwrap_or_default();
        preview.without_call.push((verdict.id, format!("rejected: {why}")));
    }
    let mut held = BTreeSet::new();
    for trip in brake::trips(store, settings.quantities.brakes, now, &works).await? {
        let note = |id: &WishId| (*id, format!("held: {trip}"));
        preview.without_call.extend(trip.wishes().iter().map(note));
        held.extend(trip.wishes().iter().copied());
    }
    let mut works: Vec<Work> = works.into_iter().map(|work| at_hand(work, preview)).collect();
    for work in works.iter().filter(|work| work.is_unlisted) {
        let note =
            format!("decided once the list of warehouses was read: it lacks {}", work.cell.warehouse_id);
        preview.without_call.extend(work.pending.iter().map(|id| (*id, note.clone())));
    }
    for work in &mut works {
        if work.plan.settles().any(|id| held.contains(&id)) {
            work.plan.step = Step::Nothing;
        }
        without_call(work, &held, preview);
    }
    batches(store, &works, settings.skus_per_call, preview).await
}

/// Returns the plan by the known fact. Lists the stock level as a read if its fact is too old.
fn at_hand(mut work: Work, preview: &mut Preview) -> Work {
    if work.plan.step == Step::Read {
        preview.reads.push(work.cell.clone());
        if work.foreseen.step != Step::Read {
            work.plan = work.foreseen.clone();
            work.is_stale = true;
        }
    }
    work
}

/// Adds the outcome of the changes that need no call.
fn without_call(work: &Work, held: &BTreeSet<WishId>, preview: &mut Preview) {
    for decision in &work.plan.decisions {
        let sentence = match (&decision.outcome, work.plan.step) {
            (Outcome::Settles { .. }, Step::Write { .. }) => continue,
            (Outcome::Settles { .. }, _) if held.contains(&decision.id) => continue,
            (Outcome::Settles { how }, _) => format!("applied without a call: {how}"),
            (Outcome::Held { detail, .. }, _) => format!("held: {detail}"),
            (Outcome::Rejected { detail, .. }, _) => format!("rejected: {detail}"),
            (Outcome::Cancelled { detail, .. }, _) => format!("cancelled: {detail}"),
        };
        preview.without_call.push((decision.id, sentence));
    }
    if work.plan.step == Step::Read {
        let sentence = format!("decided once {} was read", work.cell);
        preview.without_call.extend(work.pending.iter().map(|id| (*id, sentence.clone())));
    }
}

/// Adds the batches of the push in their order, each with its read and its calls. For a slow platform the
/// push may use smaller pages than these.
async fn batches(
    store: &Store,
    works: &[Work],
    skus_per_call: usize,
    preview: &mut Preview,
) -> Result<(), JobError> {
    let by_cell: BTreeMap<&Cell, &Work> = works.iter().map(|work| (&work.cell, work)).collect();
    let (mut backlog, mut unread, mut waiting) = (Backlog::default(), BTreeSet::new(), Vec::new());
    for work in works {
        backlog.add(work.cell.clone(), work.urgent);
        if work.is_stale || work.plan.step == Step::Read {
            unread.insert(&work.cell);
        }
    }
    while !backlog.is_empty() {
        let batch = backlog.page(skus_per_call);
        let batch: Vec<&Work> = batch.iter().filter_map(|cell| by_cell.get(cell).copied()).collect();
        let (stale, known): (Vec<&Work>, Vec<&Work>) =
            batch.into_iter().partition(|work| unread.contains(&work.cell));
        if !stale.is_empty() {
            let skus = skus_to_read(&stale);
            let witnesses = witnesses_of(store, &stale, &skus).await?;
            let skus: Vec<Sku> = skus.into_iter().chain(witnesses).collect();
            let request =
                wire::get_product_balances(&skus).map_err(|why| JobError::Implausible(why.to_string()))?;
            let wishes = stale.iter().flat_map(|work| work.pending.iter().copied()).collect();
            preview.requests.push(Planned { request, wishes });
            for work in &stale {
                unread.remove(&work.cell);
            }
        }
        let is_write = |work: &&Work| matches!(work.plan.step, Step::Write { .. });
        waiting.extend(known.into_iter().filter(is_write));
        let more = !stale.is_empty() || !backlog.is_empty();
        for call in calls(&waiting, more, |_| false) {
            let planned = planned(&call, preview)?;
            preview.requests.push(planned);
            waiting.retain(|work| !call.iter().any(|sent| sent.cell == work.cell));
        }
        backlog.put_back(stale.into_iter().map(named).collect());
    }
    Ok(())
}

fn planned(call: &[&Work], preview: &mut Preview) -> Result<Planned, JobError> {
    let mut entries = Vec::new();
    for work in call {
        let Step::Write { from, to } = work.plan.step else { continue };
        let entry = work.update(to);
        let cell = (entry.sku.fold(), entry.warehouse_id);
        preview.written.insert(cell, (from.unwrap_or(to), to));
        entries.push(entry);
    }
    let wishes = call.iter().flat_map(|work| work.plan.settles()).collect();
    Ok(Planned { request: send::request(&entries)?, wishes })
}
