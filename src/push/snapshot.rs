//! Snapshot of the open changes and facts of stock levels, and the plans made from it.
//!
//! A stock level is planned once for each fact: when its changes come, and after each read of it. A call whose facts or
//! changes moved before its send is planned again. `tallyd plan` shows the plan without sending.

use super::snapshot_rows::{
    applied_after, awaited_products, awaits_fact, count_resolution, created_at, invalid_outcome, last_set,
    open_changes, parse_time, past_facts,
};
use crate::client::wire::QuantityUpdate;
use crate::exec::{JobContext, QuantitySettings};
use crate::model::{ChangeId, ExchangeId, Moment, Quantity, Sku, StockLevel, Timestamp};
use crate::outbox::{ChangeBody, ChangeState, Reason};
use crate::reconcile::count_base::base_at_count;
use crate::reconcile::packing::PackingEntry;
use crate::reconcile::{
    ChangeDecision, ChangeEffect, Count, CountBase, CountMark, DecidedChange, ProductLack, QuantityState,
    StockLevelChange, StockLevelInput, StockLevelKnowledge, StockLevelPlan, StockLevelStep, plan_stock_level,
};
use crate::store::{
    ChangeOutcome, ChangeRow, KIT_TYPE, OutboxMark, OutboxWindow, PlannedStockLevel, StockLevelRow, Store,
    StoreError,
};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Time for which a read serves the writes it was made for, even if `max_fact_age` is shorter.
pub(super) const OWN_READ_SERVES: Duration = Duration::from_secs(5);

/// Exchange in which each stock level was read for its write. The entry is removed once that write is
/// completed.
pub(super) type OwnReads = BTreeMap<StockLevel, ExchangeId>;

#[derive(Clone, Copy)]
pub(super) struct SnapshotInputs<'a> {
    pub(super) settings: &'a QuantitySettings,
    pub(super) now: Timestamp,
    /// The time since boot, by which the age of facts is measured.
    pub(super) moment: Moment,
    /// Change after which the window of the plan begins.
    pub(super) after: ChangeId,
    pub(super) own_reads: &'a OwnReads,
}

#[derive(Clone, Debug)]
pub(super) struct PendingStockLevel {
    /// Stock level by the platform's spelling of the SKU if known. Reads and writes use this spelling.
    pub(super) stock_level: StockLevel,
    /// Spelling that the platform is expected to have; the brakes count by it.
    pub(super) projected_sku: Sku,
    /// Plan by the known fact, however old; the brakes judge by it.
    pub(super) plan: StockLevelPlan,
    /// True if the fact is too old for the plan.
    pub(super) is_stale: bool,
    /// True if the brakes count the stock level: no kit, active, not missing.
    pub(super) is_counted: bool,
    pub(super) is_released: bool,
    pub(super) pending_changes: Vec<ChangeId>,
    pub(super) is_urgent: bool,
    /// Manner in which the last answer lacked the SKU or a part of its record.
    pub(super) lack: Option<ProductLack>,
    /// True if held changes wait for an answer that shows the stock level. `settle` checks it for them.
    pub(super) is_awaited: bool,
    /// True if a pending change had no effect in a call of unknown outcome.
    pub(super) had_no_effect: bool,
    /// True if a pending change had no effect in a call whose answer named no entry.
    pub(super) may_be_refused: bool,
    /// Rows that the plan was made from. A plan that needs no call is carried out only if they are unchanged.
    pub(super) read_rows: PlannedStockLevel,
}

#[derive(Debug, Default)]
pub(super) struct PushSnapshot {
    /// Planned stock levels, in the order of the call.
    pub(super) stock_levels: Vec<PendingStockLevel>,
    pub(super) rejected: Vec<ChangeOutcome>,
}

impl PendingStockLevel {
    /// Returns what may be done now: the step of the plan, or a read before it.
    pub(super) fn step(&self) -> StockLevelStep {
        if self.is_stale { StockLevelStep::ReadFirst } else { self.plan.step }
    }

    pub(super) fn needs_read(&self) -> bool {
        self.step() == StockLevelStep::ReadFirst
    }

    pub(super) fn quantity_update(&self, quantity: Quantity) -> QuantityUpdate {
        QuantityUpdate {
            sku: self.stock_level.sku.clone(),
            warehouse_id: self.stock_level.warehouse_id,
            quantity,
        }
    }

    /// Returns the stock level as an entry of the backlog.
    pub(super) fn backlog_entry(&self) -> (StockLevel, bool) {
        (self.stock_level.clone(), self.is_urgent)
    }

    pub(super) fn packing_entry(&self) -> PackingEntry<'_> {
        PackingEntry { sku: &self.stock_level.sku, is_urgent: self.is_urgent }
    }

    pub(super) fn change_outcome(&self, decision: &DecidedChange) -> ChangeOutcome {
        let id = decision.id;
        match &decision.decision {
            ChangeDecision::Completes { explanation: how } => {
                ChangeOutcome::new(id, ChangeState::Applied, None, how)
            }
            ChangeDecision::Held { reason, detail, mine, theirs } => ChangeOutcome {
                mine: mine.map(|n| n.to_string()),
                theirs: theirs.map(|n| n.to_string()),
                ..ChangeOutcome::new(id, ChangeState::Held, Some(*reason), detail)
            },
            ChangeDecision::Rejected { reason, detail } => {
                ChangeOutcome::new(id, ChangeState::Rejected, Some(*reason), detail)
            }
            ChangeDecision::Cancelled { reason, detail } => {
                ChangeOutcome::new(id, ChangeState::Cancelled, Some(*reason), detail)
            }
        }
    }
}

/// Loads these stock levels with their changes and plans each of them.
///
/// The stock levels are named as [`Store::stock_levels_resolve`] returns them, each once.
pub(super) async fn load_snapshot(
    store: &Store,
    inputs: SnapshotInputs<'_>,
    levels: &[StockLevel],
) -> Result<PushSnapshot, StoreError> {
    let mut snapshot = PushSnapshot::default();
    // Read before the rows: a product that is created in between is awaited or has its row.
    let awaited = awaited_products(store).await?;
    let window = store.outbox_window(inputs.after).await?;
    let mut changes = open_changes(store, &window, levels, &mut snapshot.rejected).await?;
    let rows = store.stock_level_rows(levels).await?;
    for (level, row) in levels.iter().zip(rows) {
        if row.product_id.is_none() && awaited.contains(&level.sku.case_key()) {
            continue;
        }
        let open = changes.remove(&(level.sku.as_str().to_owned(), level.warehouse_id.0)).unwrap_or_default();
        snapshot.stock_levels.extend(inputs.plan_level(level, row, (window, &open))?);
    }
    Ok(snapshot)
}

/// Returns each stock level once, in the position of its first occurrence.
pub(super) fn deduplicate_levels(levels: Vec<StockLevel>) -> Vec<StockLevel> {
    let mut seen = BTreeSet::new();
    levels.into_iter().filter(|level| seen.insert(level.clone())).collect()
}

/// Changes that became pending since the last time, not planned yet.
#[derive(Debug)]
pub(super) struct NewChanges {
    /// Stock levels, operators' first, each with true if an operator's change names it.
    pub(super) stock_levels: Vec<(StockLevel, bool)>,
    /// Changes of an unknown kind, or whose body names no stock level and is invalid.
    pub(super) rejected: Vec<ChangeOutcome>,
    /// Changes whose time of insertion is in the future.
    pub(super) ahead: Vec<ChangeId>,
}

/// Returns the changes of a window that became pending since `seen`, and updates it. Bodies are parsed only where the
/// change names no stock level; the others are parsed with their snapshot.
pub(super) async fn load_new_changes(
    store: &Store,
    window: &OutboxWindow,
    seen: &mut OutboxMark,
    now: Timestamp,
) -> Result<NewChanges, StoreError> {
    let changes = store.outbox_new_changes(window, seen).await?;
    let (mut ahead, mut others, mut named) = (Vec::new(), Vec::new(), Vec::new());
    for change in &changes {
        let is_ahead =
            change.undated_at.as_deref().map(parse_time).transpose()?.is_some_and(|inserted| inserted > now);
        ahead.extend(is_ahead.then_some(change.id));
        match change.stock_level() {
            Some(level) => named.push((level, change.is_urgent)),
            None => others.push(change.id),
        }
    }
    let rejected = store.outbox_pending_of(&others).await?.iter().filter_map(invalid_outcome).collect();
    let (levels, urgent): (Vec<StockLevel>, Vec<bool>) = named.into_iter().unzip();
    let mut stock_levels: Vec<(StockLevel, bool)> =
        store.stock_levels_resolve(&levels).await?.into_iter().zip(urgent).collect();
    let mut seen = BTreeSet::new();
    stock_levels.retain(|level| seen.insert(level.clone()));
    Ok(NewChanges { stock_levels, rejected, ahead })
}

impl<'a> SnapshotInputs<'a> {
    pub(super) fn at_present(
        context: &JobContext,
        settings: &'a QuantitySettings,
        after: ChangeId,
        own_reads: &'a OwnReads,
    ) -> Self {
        let (now, moment) = (context.now(), context.moment());
        Self { settings, now, moment, after, own_reads }
    }

    /// Returns the stock level with its plan. `None` while a write of it is in flight or in doubt, or while a
    /// second read must confirm an accepted write.
    fn plan_level(
        &self,
        level: &StockLevel,
        row: StockLevelRow,
        (window, open): (OutboxWindow, &[ChangeRow]),
    ) -> Result<Option<PendingStockLevel>, StoreError> {
        if row.is_busy {
            return Ok(None);
        }
        let changes = open.iter().map(|change| self.parse_change(change, &row));
        let changes: Vec<StockLevelChange> =
            changes.filter_map(Result::transpose).collect::<Result<_, _>>()?;
        let mut input = StockLevelInput {
            stock_level: level,
            fact: self.usable_fact(level, &row),
            last_set: last_set(&row)?,
            changes: &changes,
            policy: self.settings.policy_of(level.warehouse_id),
        };
        let pending = open.iter().filter(|change| change.state == ChangeState::Pending);
        let mut is_stale = false;
        if let (StockLevelKnowledge::Unread, Some(quantity), Some(own_delta)) =
            (&input.fact, row.quantity, row.own_delta)
        {
            is_stale = changes.iter().any(|change| change.is_pending);
            input.fact = StockLevelKnowledge::Known(QuantityState { quantity, own_delta });
        }
        let has = |reason: Reason| pending.clone().any(|change| change.has_reason(reason));
        Ok(Some(PendingStockLevel {
            projected_sku: row.sku.clone().unwrap_or_else(|| level.sku.clone()),
            plan: plan_stock_level(&input),
            is_stale,
            is_counted: row.is_active
                && !row.is_missing
                && !row.is_unlinked
                && row.kind.as_deref() != Some(KIT_TYPE),
            is_released: pending.clone().all(|change| change.released_ms.is_some()),
            is_urgent: pending.clone().any(|change| change.priority > 0),
            had_no_effect: has(Reason::NotLanded),
            may_be_refused: has(Reason::Unmatched),
            pending_changes: pending.map(|change| change.id).collect(),
            lack: row.lack.or((row.was_requested && row.product_id.is_none()).then_some(ProductLack::Absent)),
            is_awaited: (row.lack.is_some() || row.is_unlinked) && open.iter().any(awaits_fact),
            read_rows: PlannedStockLevel {
                stock_level: level.clone(),
                window,
                open_changes: open.iter().map(|change| (change.id, change.revision)).collect(),
                row,
            },
            stock_level: level.clone(),
        }))
    }

    /// Returns the fact of the stock level that a write may depend on.
    fn usable_fact(&self, level: &StockLevel, row: &StockLevelRow) -> StockLevelKnowledge {
        let own = self.own_reads.get(level).copied();
        if row.was_requested && row.product_id.is_none() && row.twin_skus.len() > 1 {
            return StockLevelKnowledge::AmbiguousSku(row.twin_skus.clone());
        }
        // A missing product may be back.
        if !row.was_requested || row.is_missing || row.product_id.is_none() {
            return StockLevelKnowledge::Unread;
        }
        let is_shown = row.lack.is_none() && self.is_fresh(row.requested_moment, row.requested_position, own);
        if row.kind.as_deref() == Some(KIT_TYPE) {
            // The SKU may name another product by now.
            return if is_shown { StockLevelKnowledge::Kit } else { StockLevelKnowledge::Unread };
        }
        match (row.quantity.filter(|_| !row.is_unlinked), row.own_delta) {
            (Some(quantity), Some(own_delta))
                if self.is_fresh(row.fact_moment, row.fact_exchange_id, own) =>
            {
                let pair = QuantityState { quantity, own_delta };
                if row.is_disputed {
                    StockLevelKnowledge::Disputed(pair)
                } else {
                    StockLevelKnowledge::Known(pair)
                }
            }
            // An answer without a link that was shown before undoes no sale (docs/rules.md 7).
            (None, _) if row.is_unlinked => StockLevelKnowledge::Unread,
            (None, _) if is_shown => StockLevelKnowledge::Unlinked,
            _ => StockLevelKnowledge::Unread,
        }
    }

    /// Returns true if the fact of a plan still serves it.
    pub(super) fn is_current(&self, work: &PendingStockLevel) -> bool {
        let (row, own) = (&work.read_rows.row, self.own_reads.get(&work.stock_level).copied());
        match work.step() {
            StockLevelStep::ReadFirst => true,
            StockLevelStep::Write { from: None, .. } => {
                self.is_fresh(row.requested_moment, row.requested_position, own)
            }
            StockLevelStep::Nothing | StockLevelStep::Agreed(_) | StockLevelStep::Write { .. } => {
                self.is_fresh(row.fact_moment, row.fact_exchange_id, own)
            }
        }
    }

    /// Returns true if the fact may serve a write: it is young enough, or was read for this write. The age is
    /// measured by the time since boot, because a calendar that is set back makes an old fact young. A fact
    /// of another boot is never fresh, because its age is unknown.
    fn is_fresh(&self, sent: Option<Moment>, exchange: Option<i64>, own: Option<ExchangeId>) -> bool {
        let Some(sent) = sent.filter(|moment| *moment <= self.moment) else { return false };
        let age = self.moment.duration_since(sent);
        let is_own = exchange.zip(own).is_some_and(|(exchange, own)| exchange >= own.0);
        age <= self.settings.max_fact_age || (is_own && age <= OWN_READ_SERVES)
    }

    /// Returns a change of the stock level. `None` if its body is invalid or not about quantities.
    fn parse_change(
        &self,
        queued: &ChangeRow,
        row: &StockLevelRow,
    ) -> Result<Option<StockLevelChange>, StoreError> {
        let created_at = created_at(queued, self.now)?;
        let Ok(body) = &queued.content.body else { return Ok(None) };
        let change = match body {
            ChangeBody::QuantitySet(set) => {
                // A time of count that the calendar passed twice does not order the count before others.
                let counted_at = set.counted_at.filter(|_| !queued.is_date_ambiguous);
                let mark = CountMark { id: queued.id, created_at, counted_at };
                let base = match counted_at {
                    // A fact of the product that had the SKU before is no base.
                    _ if queued.is_date_ambiguous
                        || row.product_id_position.is_some_and(|since| queued.position < Some(since)) =>
                    {
                        CountBase::Missed
                    }
                    Some(_) if set.seen.is_none() => {
                        base_at_count(mark.counted_time(), &past_facts(row), self.settings.max_base_age)
                    }
                    _ => self.stored_base(queued, created_at, set.seen.is_some(), row),
                };
                let quantity = set.quantity;
                let applied_after = applied_after(&mark, row)?;
                ChangeEffect::Set(Count {
                    quantity,
                    counted_at,
                    base,
                    applied_after,
                    resolution: count_resolution(queued),
                })
            }
            ChangeBody::QuantityAdjust(adjust) => ChangeEffect::Adjust(adjust.delta),
            ChangeBody::ShipmentCreate(_)
            | ChangeBody::TrackingSubmit(_)
            | ChangeBody::Create(_)
            | ChangeBody::ProductUpdate(_) => return Ok(None),
        };
        let is_pending = queued.state == ChangeState::Pending;
        Ok(Some(StockLevelChange { id: queued.id, created_at, is_pending, effect: change }))
    }

    /// Returns the fact that a count is measured against. The database stored it at the insertion, or with
    /// the first read after it. A fact that was too old at the insertion does not serve (docs/rules.md 1).
    fn stored_base(
        &self,
        change: &ChangeRow,
        created_at: Timestamp,
        was_seen: bool,
        row: &StockLevelRow,
    ) -> CountBase {
        if let (Some(quantity), Some(own_delta)) = (change.base_quantity, change.base_own_delta) {
            let age = change.base_ms.map(|base| created_at.duration_since(base));
            if was_seen || age.is_some_and(|age| age <= self.settings.max_base_age) {
                return CountBase::Known(QuantityState { quantity, own_delta });
            }
        }
        let was_read_since =
            row.fact_exchange_id.zip(change.position).is_some_and(|(fact, then)| fact > then);
        if was_read_since { CountBase::Missed } else { CountBase::Awaited }
    }
}
