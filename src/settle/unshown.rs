//! Held changes whose stock level, order or other subject no answer showed.
//!
//! They are checked again with growing delays. A change is planned again once an answer to any read shows its
//! stock level or proves that the SKU is missing. A change of an order, a line or another lacking thing is
//! planned again when its check is due. Its plan begins with a preflight.

use super::summary::Tally;
use crate::exec::balances_reader::Parts;
use crate::exec::quarantine::Aside;
use crate::exec::{Context, JobError, absence, change_events};
use crate::model::{Lane, Operation, RunId, Sku, Timestamp, WishId};
use crate::outbox::State;
use crate::reconcile::proof::TRUSTED_PAGE;
use crate::reconcile::unshown::next_look;
use crate::store::{Durability, StoreError, UnshownRow, Verdict, WITNESSES};
use std::collections::BTreeMap;

/// Reads what is due and makes decidable changes pending.
pub(super) async fn run(context: &Context, run: RunId, tally: &mut Tally) -> Result<(), JobError> {
    let (rows, now) = (context.store.unshown_list().await?, context.now());
    if rows.is_empty() {
        return go_on(context, tally).await;
    }
    let aside = context.aside(Operation::GetProductBalances).await?;
    let due = looks(&rows, now, &aside).into_iter().filter(|(_, at)| *at <= now);
    let due: Vec<Sku> = due.filter_map(|(sku, _)| Sku::new(sku).ok()).collect();
    let parts = Parts::new(context, run, Lane::Push, &due, TRUSTED_PAGE - WITNESSES);
    let mut parts = parts.with_witnesses();
    while parts.next_page().await?.is_some() {}
    tally.looks += parts.pages;
    parts
        .unread
        .into_iter()
        .for_each(|why| tally.note(format!("cannot read all cells no answer showed: {why}")));
    go_on(context, tally).await
}

/// Returns the time at which the next such change is due; `None` if there is none.
pub(super) async fn due(context: &Context, aside: &Aside) -> Result<Option<Timestamp>, StoreError> {
    let (rows, now) = (context.store.unshown_list().await?, context.now());
    let is_told = rows.iter().any(|row| row.is_told).then_some(now);
    let lacking = absence::held(context).await?.into_iter().map(|(_, at)| at);
    Ok(is_told.into_iter().chain(looks(&rows, now, aside).into_values()).chain(lacking).min())
}

/// Returns the time of the next check of each SKU. The change that has waited longest sets the delay. A
/// quarantined SKU is checked at its next attempt.
fn looks<'r>(rows: &'r [UnshownRow], now: Timestamp, aside: &Aside) -> BTreeMap<&'r str, Timestamp> {
    let mut held: BTreeMap<&str, (i64, Option<i64>)> = BTreeMap::new();
    for row in rows.iter().filter(|row| !row.is_told) {
        let (first, _) = held.entry(&row.sku).or_insert((row.held_ms, row.asked_ms));
        *first = (*first).min(row.held_ms);
    }
    let look = |(first, asked): (i64, Option<i64>)| next_look(Timestamp(first), asked.map(Timestamp), now);
    let not_before = |sku: &str| aside.later(now, sku).unwrap_or(Timestamp(0));
    held.into_iter().map(|(sku, since)| (sku, look(since).max(not_before(sku)))).collect()
}

async fn go_on(context: &Context, tally: &mut Tally) -> Result<(), JobError> {
    let told = context.store.unshown_list().await?.into_iter().filter(|row| row.is_told);
    let detail = "an answer tells of the cell again, so it is planned anew";
    let lacking = absence::held(context).await?;
    // Read after the due times, because a time that is due now must not lie after it.
    let now = context.now();
    let lacking = lacking.into_iter().filter(|(_, at)| *at <= now);
    let again = "what it names is looked at again";
    let moves: Vec<Verdict> = told
        .map(|row| Verdict::new(WishId(row.id), State::Pending, None, detail))
        .chain(lacking.map(|(id, _)| Verdict::new(id, State::Pending, None, again)))
        .collect();
    if moves.is_empty() {
        return Ok(());
    }
    let mut write = context.store.begin(Durability::Full).await?;
    tally.shown += write.outbox_move(State::Held, &moves, context.now()).await?;
    write.commit().await?;
    change_events::tell(context, &moves).await;
    Ok(())
}
