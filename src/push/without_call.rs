//! Changes that need no call: invalid ones, those that the platform's quantity satisfies already, and those that a
//! plan holds, rejects or cancels.

use super::run::PushRun;
use super::snapshot::PendingStockLevel;
use crate::exec::JobError;
use crate::exec::change_events::log_outcomes;
use crate::model::{ChangeId, ExchangeId, StockLevel};
use crate::outbox::{ChangeState, Reason};
use crate::reconcile::{ChangeDecision, StockLevelStep};
use crate::store::{ChangeOutcome, ClaimedChange, Durability};
use std::collections::{BTreeMap, BTreeSet};

impl PushRun<'_> {
    /// Rejects changes whose body is invalid. A change that left the state pending in the meantime keeps its
    /// new state.
    pub(super) async fn reject_invalid(&mut self, moves: &[ChangeOutcome]) -> Result<(), JobError> {
        if moves.is_empty() {
            return Ok(());
        }
        let mut write = self.context.store.begin_write(Durability::Full).await?;
        let moved = write.outbox_transition_each(ChangeState::Pending, moves, self.context.now()).await?;
        write.commit().await?;
        let moved: Vec<ChangeOutcome> =
            moves.iter().filter(|verdict| moved.contains(&verdict.id)).cloned().collect();
        self.summary.count_outcomes(&moved);
        log_outcomes(self.context, &moved).await;
        Ok(())
    }

    pub(super) fn read_count(&self, work: &PendingStockLevel) -> u8 {
        self.read_counts.get(&work.stock_level).copied().unwrap_or(0)
    }

    /// Holds the changes of stock levels that no answer decided. If a change or fact has changed since the snapshot,
    /// nothing is held, and the stock levels must be planned again.
    pub(super) async fn hold_unread(&mut self, works: &[&PendingStockLevel]) -> Result<(), JobError> {
        let held = |work: &&PendingStockLevel| {
            let detail = work.lack.map_or_else(
                || {
                    let StockLevel { sku, warehouse_id } = &work.stock_level;
                    format!(
                        "no answer decides it: the platform's record of `{sku}` no longer names warehouse \
                         {warehouse_id}, or is not shown. tallyd checks again by itself, and sends the change once an \
                         answer shows them; link them at the platform, or cancel the change"
                    )
                },
                |lack| lack.hold_detail(&work.stock_level.sku),
            );
            let held =
                |id: &ChangeId| ChangeOutcome::new(*id, ChangeState::Held, Some(Reason::NotShown), &*detail);
            work.pending_changes.iter().map(held).collect::<Vec<_>>()
        };
        let waiting = works.iter().flat_map(held).collect();
        let moves = OutcomesWithoutCall { from_pending: waiting, ..OutcomesWithoutCall::default() };
        self.commit_outcomes(works, moves).await.map(drop)
    }

    /// Finishes the changes that need no call. Returns false if a stock level or a change has changed since
    /// the snapshot. Then nothing is done, and the stock levels must be planned again.
    pub(super) async fn finish_without_call(
        &mut self,
        works: &[&PendingStockLevel],
    ) -> Result<bool, JobError> {
        let (mut moves, mut settled) = (OutcomesWithoutCall::default(), Vec::new());
        for work in works {
            if moves.add_level(work) {
                settled.push(*work);
            }
        }
        if settled.is_empty() { Ok(true) } else { self.commit_outcomes(&settled, moves).await }
    }

    /// Commits the moves of these stock levels, all of them or none. The outcome of a change depends on the
    /// other changes of its stock level and on the fact. The plan is therefore carried out only if all of
    /// them are unchanged.
    async fn commit_outcomes(
        &mut self,
        works: &[&PendingStockLevel],
        moves: OutcomesWithoutCall,
    ) -> Result<bool, JobError> {
        let levels: BTreeSet<&StockLevel> = works.iter().map(|work| &work.stock_level).collect();
        self.pipeline.projected_backlog.outdate(|level| levels.contains(level));
        let now = self.context.now();
        let mut write = self.context.store.begin_write(Durability::Full).await?;
        let seen: Vec<_> = works.iter().map(|work| &work.read_rows).collect();
        if !write.stock_levels_unchanged(&seen).await? {
            return Ok(false);
        }
        let (mut moved, mut applied) = (0, 0);
        for (exchange, agreed) in &moves.agreed {
            let claims: Vec<ClaimedChange> = agreed.iter().map(|(claim, _)| *claim).collect();
            let verdicts: Vec<ChangeOutcome> = agreed.iter().map(|(_, verdict)| verdict.clone()).collect();
            write.outbox_claim(*exchange, &claims, now).await?;
            applied += write.outbox_transition(ChangeState::Sending, &verdicts, now).await?;
        }
        let agreed = works.iter().filter(|work| matches!(work.step(), StockLevelStep::Agreed(_)));
        let agreed =
            agreed.filter_map(|work| Some((work.read_rows.row.product?, work.stock_level.warehouse_id.0)));
        write.mismatch_close(&agreed.collect::<Vec<_>>()).await?;
        moved += write.outbox_transition(ChangeState::Pending, &moves.from_pending, now).await?;
        moved += write.outbox_transition(ChangeState::Held, &moves.from_held, now).await?;
        if applied + moved != moves.len() {
            return Ok(false);
        }
        write.commit().await?;
        self.summary.applied += applied;
        self.summary.count_outcomes(&moves.from_pending);
        log_outcomes(self.context, &moves.from_pending).await;
        log_outcomes(self.context, &moves.from_held).await;
        Ok(true)
    }
}

/// Moves of a batch that need no call.
#[derive(Default)]
struct OutcomesWithoutCall {
    /// Changes whose wanted quantity the platform holds already, by the exchange that showed it.
    agreed: BTreeMap<ExchangeId, Vec<(ClaimedChange, ChangeOutcome)>>,
    /// Moves from pending.
    from_pending: Vec<ChangeOutcome>,
    /// Moves from held.
    from_held: Vec<ChangeOutcome>,
}

impl OutcomesWithoutCall {
    fn len(&self) -> u64 {
        let agreed: usize = self.agreed.values().map(Vec::len).sum();
        (agreed + self.from_pending.len() + self.from_held.len()) as u64
    }

    /// Adds the moves of a plan that need no call. Returns true if there are any. A count that is not written
    /// yet supersedes nothing: if it were cancelled or refused, the adjusts before it would be lost.
    fn add_level(&mut self, work: &PendingStockLevel) -> bool {
        let before = self.len();
        let decisions = work.plan.decisions.iter().filter(|_| !work.is_stale);
        for decision in decisions {
            let (id, verdict) = (decision.id, work.change_outcome(decision));
            match (&decision.decision, work.step()) {
                (ChangeDecision::Completes { .. }, StockLevelStep::Agreed(quantity)) => {
                    let exchange = ExchangeId(work.read_rows.row.fact_exchange_id.unwrap_or(0));
                    let claim = ClaimedChange { id, written: Some(quantity.0) };
                    self.agreed.entry(exchange).or_default().push((claim, verdict));
                }
                (
                    ChangeDecision::Completes { .. },
                    StockLevelStep::Nothing | StockLevelStep::ReadFirst | StockLevelStep::Write { .. },
                )
                | (ChangeDecision::Cancelled { .. }, StockLevelStep::Write { .. }) => {}
                (
                    ChangeDecision::Held { .. }
                    | ChangeDecision::Rejected { .. }
                    | ChangeDecision::Cancelled { .. },
                    _,
                ) => {
                    let from_held = !work.pending_changes.contains(&id);
                    if from_held { &mut self.from_held } else { &mut self.from_pending }.push(verdict);
                }
            }
        }
        self.len() > before
    }
}
