//! Held changes whose stock level, order or other subject no answer showed.
//!
//! They are checked again with growing delays. A change is planned again once an answer to any read shows its
//! stock level or proves that the SKU is missing. A change of an order, a line or another lacking thing is
//! planned again when its check is due. Its plan begins with a preflight.

use super::SettleRun;
use crate::exec::balances_reader::{BalancesReader, PROVING_PAGE_SKUS};
use crate::exec::quarantine::Quarantine;
use crate::exec::{JobContext, JobError, absence, change_events};
use crate::model::{ChangeId, Lane, Operation, Sku, Timestamp};
use crate::outbox::ChangeState;
use crate::reconcile::unshown::next_check;
use crate::store::{ChangeOutcome, Durability, StoreError, UnshownRow};
use std::collections::BTreeMap;

impl SettleRun<'_> {
    /// Reads what is due and makes decidable changes pending.
    pub(super) async fn read_unshown(&mut self) -> Result<(), JobError> {
        let (rows, now) = (self.context.store.unshown_list().await?, self.context.now());
        if !rows.is_empty() {
            let quarantine = self.context.quarantine().await?;
            let due = check_times(&rows, now, &quarantine).into_iter().filter(|(_, at)| *at <= now);
            let due: Vec<Sku> = due.filter_map(|(sku, _)| Sku::new(sku).ok()).collect();
            let origin = self.origin(Lane::Push);
            let reader = BalancesReader::new(origin, &due, PROVING_PAGE_SKUS).with_witnesses();
            self.summary.note_pages(reader.read_all().await?, "no answer showed");
        }
        self.requeue_decidable().await
    }

    async fn requeue_decidable(&mut self) -> Result<(), JobError> {
        let context = self.context;
        let answer = context.store.unshown_list().await?.into_iter().filter(|row| row.is_decidable);
        let detail = "an answer shows the stock level again, so it is planned again";
        let lacking = absence::held_checks(context).await?;
        // Read after the due times, because a time that is due now must not lie after it.
        let now = context.now();
        let lacking = lacking.into_iter().filter(|(_, at)| *at <= now);
        let again = "its subject is checked again";
        let moves: Vec<ChangeOutcome> = answer
            .map(|row| ChangeOutcome::new(ChangeId(row.id), ChangeState::Pending, None, detail))
            .chain(lacking.map(|(id, _)| ChangeOutcome::new(id, ChangeState::Pending, None, again)))
            .collect();
        if moves.is_empty() {
            return Ok(());
        }
        let mut write = context.store.begin_write(Durability::Full).await?;
        self.summary.shown += write.outbox_transition(ChangeState::Held, &moves, context.now()).await?;
        write.commit().await?;
        change_events::log_outcomes(context, &moves).await;
        Ok(())
    }
}

/// Returns the time at which the next such change is due; `None` if there is none.
pub(super) async fn next_check_at(
    context: &JobContext,
    quarantine: &Quarantine,
) -> Result<Option<Timestamp>, StoreError> {
    let (rows, now) = (context.store.unshown_list().await?, context.now());
    let decidable = rows.iter().any(|row| row.is_decidable).then_some(now);
    let lacking = absence::held_checks(context).await?.into_iter().map(|(_, at)| at);
    Ok(decidable.into_iter().chain(check_times(&rows, now, quarantine).into_values()).chain(lacking).min())
}

/// Returns the time of the next check of each SKU. The change that has waited longest sets the delay. A
/// quarantined SKU is checked at its next attempt.
fn check_times<'r>(
    rows: &'r [UnshownRow],
    now: Timestamp,
    quarantine: &Quarantine,
) -> BTreeMap<&'r str, Timestamp> {
    let mut held: BTreeMap<&str, (i64, Option<i64>)> = BTreeMap::new();
    for row in rows.iter().filter(|row| !row.is_decidable) {
        let (first, _) = held.entry(&row.sku).or_insert((row.held_ms, row.requested_ms));
        *first = (*first).min(row.held_ms);
    }
    let check_at =
        |(first, requested): (i64, Option<i64>)| next_check(Timestamp(first), requested.map(Timestamp), now);
    let not_before =
        |sku: &str| quarantine.retry_at(now, Operation::GetProductBalances, sku).unwrap_or(Timestamp(0));
    held.into_iter().map(|(sku, since)| (sku, check_at(since).max(not_before(sku)))).collect()
}
