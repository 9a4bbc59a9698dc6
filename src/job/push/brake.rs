//! The brakes of a push: the whole backlog is judged before any of it is sent, from the facts at hand.
//!
//! A batch alone would not show a flood: two hundred of five thousand cells look like ordinary work each time. So what
//! each cell is heading for is remembered until its call begins ([`Flush`]); from then on the hour counts it.

use super::work::Work;
use crate::job::{Context, JobError};
use crate::model::Cell;
use crate::outbox::Reason;
use crate::reconcile::Step;
use crate::reconcile::brake::{Brake, Entry, Trip, judge};
use crate::store::Durability;
use crate::telemetry::event;
use std::collections::BTreeMap;
use std::time::Duration;

/// Zeroings are counted over a rolling hour plus the flush (rules.md 27).
const HOUR: Duration = Duration::from_secs(60 * 60);

/// Where the cells of the backlog are heading for.
#[derive(Debug, Default)]
pub(super) struct Flush(BTreeMap<Cell, Entry>);

impl Flush {
    /// Takes in what a look at some cells found.
    pub(super) fn found(&mut self, cells: &[Cell], works: &[Work]) {
        self.gone(cells);
        self.0.extend(works.iter().filter_map(|work| Some((work.cell.clone(), entry(work)?))));
    }

    /// These cells are on their way, or there is nothing to do for them any more.
    pub(super) fn gone(&mut self, cells: &[Cell]) {
        for cell in cells {
            self.0.remove(cell);
        }
    }
}

/// Judges the backlog; how many wishes were held is returned. After a trip its cells are looked at anew.
pub(super) async fn judge_backlog(context: &Context, flush: &Flush) -> Result<u64, JobError> {
    let settings = context.settings().quantities.brakes;
    let flush: Vec<Entry> = flush.0.values().cloned().collect();
    let is_suspect = |entry: &Entry| (entry.from.0 > 0 && entry.to.0 == 0) || settings.hold_jump_over > 0;
    if !flush.iter().any(is_suspect) {
        return Ok(0);
    }
    let now = context.now();
    let hours = context.store.brake_hours(now.minus(HOUR)).await?;
    let Brake::Tripped(trips) = judge(&flush, &hours, settings) else { return Ok(0) };
    let mut write = context.store.begin(Durability::Full).await?;
    let mut held = 0;
    for trip in &trips {
        let reason = match trip {
            Trip::Zeroing { .. } => Reason::Brake,
            Trip::Jump { .. } => Reason::Jump,
        };
        held += write.brake_trip(reason, &trip.to_string(), trip.wishes(), now).await?;
    }
    write.commit().await?;
    for trip in &trips {
        let wishes = trip.wishes().len();
        tracing::error!(
            event = event::BRAKE_TRIPPED,
            wishes,
            "{trip}; {wishes} wish(es) are held: look at them, then tallyd outbox release --all, or cancel them"
        );
    }
    Ok(held)
}

/// The write a cell is heading for, as far as the facts at hand tell.
fn entry(work: &Work) -> Option<Entry> {
    let Step::Write { from: Some(from), to } = work.foreseen.step else { return None };
    Some(Entry {
        cell: Cell { sku: work.sku.clone(), warehouse_id: work.cell.warehouse_id },
        from,
        to,
        counts: work.counts,
        released: work.released,
        wishes: work.foreseen.settles().collect(),
    })
}
