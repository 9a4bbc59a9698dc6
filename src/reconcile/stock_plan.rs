//! Decides one stock level (docs/rules.md 1, 5, 7, 8).
//!
//! The latest count gives a quantity (`count.rs`), and every adjust created after that count is added.
//! Without a count, adjusts are added to the fact. One entry completes all changes of a stock level, so only
//! the final result is tested. A change that drives the result out of range is held alone, and the other
//! changes are decided again without it.

use super::bounds::{OutOfRange, find_offending};
use super::count::{CountDecision, decide_count};
use super::{
    ChangeDecision, ChangeEffect, Count, CountMark, DecidedChange, QuantityState, StockLevelChange,
    StockLevelInput, StockLevelKnowledge, StockLevelPlan, StockLevelStep,
};
use crate::model::{ChangeId, Quantity};
use crate::outbox::Reason;
use std::collections::BTreeMap;

/// Decides one stock level, which waits while a change is in flight or in doubt: the input contains none.
pub(crate) fn plan_stock_level(input: &StockLevelInput<'_>) -> StockLevelPlan {
    use StockLevelKnowledge::{AmbiguousSku, Disputed, Kit, Known, Unlinked, Unread};
    if !input.changes.iter().any(|change| change.is_pending) {
        return PlanDraft::new(input, None).nothing_pending();
    }
    let sku = &input.stock_level.sku;
    match &input.fact {
        Unread => READ_FIRST,
        Known(pair) | Disputed(pair) => PlanDraft::new(input, Some(*pair)).plan_pending(),
        Unlinked => PlanDraft::new(input, None).plan_pending(),
        Kit => {
            let detail = format!("{sku} is a kit, its quantity follows from its components; set those");
            decide_each_pending(input, &ChangeDecision::Rejected { reason: Reason::Kit, detail })
        }
        AmbiguousSku(miscased_skus) => {
            let spellings: Vec<_> = miscased_skus.iter().map(|miscased| format!("`{miscased}`")).collect();
            let detail = format!(
                "the platform has {}, and none is spelled `{sku}`; insert the change with one of them",
                spellings.join(", ")
            );
            let reason = Reason::AmbiguousSku;
            decide_each_pending(input, &ChangeDecision::Held { reason, detail, mine: None, theirs: None })
        }
    }
}

const READ_FIRST: StockLevelPlan = StockLevelPlan { step: StockLevelStep::ReadFirst, decisions: Vec::new() };

fn decide_each_pending(input: &StockLevelInput<'_>, outcome: &ChangeDecision) -> StockLevelPlan {
    let pending = input.changes.iter().filter(|change| change.is_pending);
    let decisions =
        pending.map(|change| DecidedChange { id: change.id, decision: outcome.clone() }).collect();
    StockLevelPlan { step: StockLevelStep::Nothing, decisions }
}

struct EffectiveCount {
    mark: CountMark,
    start: i64,
    explanation: String,
}

/// A plan under construction. Changes with an outcome are decided.
struct PlanDraft<'a> {
    input: &'a StockLevelInput<'a>,
    now: Option<QuantityState>,
    outcomes: BTreeMap<ChangeId, ChangeDecision>,
}

impl<'a> PlanDraft<'a> {
    fn new(input: &'a StockLevelInput<'a>, now: Option<QuantityState>) -> Self {
        Self { input, now, outcomes: BTreeMap::new() }
    }

    /// Returns the plan without pending changes.
    ///
    /// The last applied count supersedes the changes it includes, also if all open changes are held.
    fn nothing_pending(mut self) -> StockLevelPlan {
        if let Some(last) = self.input.last_set {
            self.supersede_adjusts(&last);
            let counts = self.input.changes.iter().filter_map(as_count);
            for (change, _) in counts.filter(|(change, count)| count_mark(change, count).is_before(&last)) {
                self.supersede_change(change.id, last.id);
            }
        }
        self.finish_plan(StockLevelStep::Nothing)
    }

    fn plan_pending(mut self) -> StockLevelPlan {
        if let Some(last) = self.input.last_set {
            self.supersede_adjusts(&last);
        }
        let Some((change, count)) = self.latest_count() else { return self.apply_adjusts(None) };
        if !change.is_pending {
            return self.apply_adjusts(None);
        }
        match decide_count(&count, self.now, self.input.policy) {
            CountDecision::Accept { start, explanation } => {
                let mark = count_mark(change, &count);
                return self.apply_adjusts(Some(EffectiveCount { mark, start, explanation }));
            }
            CountDecision::ReadFirst => return READ_FIRST,
            CountDecision::PlatformWins(why) => {
                let detail = format!("{why}; by policy the platform's quantity wins");
                let rejected = ChangeDecision::Rejected { reason: Reason::RemoteWins, detail };
                self.outcomes.insert(change.id, rejected);
            }
            CountDecision::Conflict(why) => {
                let detail = format!("{why}; decide which quantity is correct");
                self.hold_change(change.id, Reason::Conflict, detail, Some(count.quantity.0));
            }
            CountDecision::NoBase => {
                let detail = format!(
                    "counted {}, but nothing is known of the stock at that time: it was not read, another product had the SKU, \
                     the host's clock was set back, or the database was restored; count again",
                    count.quantity
                );
                self.hold_change(change.id, Reason::StaleBase, detail, Some(count.quantity.0));
            }
        }
        self.apply_adjusts(None)
    }

    /// Returns the latest open count. Supersedes older counts, and counts older than the last applied count.
    fn latest_count(&mut self) -> Option<(&'a StockLevelChange, Count)> {
        let mut latest: Option<(&'a StockLevelChange, Count)> = None;
        for (change, count) in self.input.changes.iter().filter_map(as_count) {
            let this = count_mark(change, &count);
            let older = |other: &CountMark| this.is_before(other);
            if let Some(last) = self.input.last_set.filter(older) {
                self.supersede_change(change.id, last.id);
            } else if let Some((other, _)) =
                latest.filter(|(change, count)| older(&count_mark(change, count)))
            {
                self.supersede_change(change.id, other.id);
            } else if let Some((other, _)) = latest.replace((change, count)) {
                self.supersede_change(other.id, change.id);
            }
        }
        latest
    }

    /// Adds the adjusts to `count`, or to the fact, until the result is in range. Then decides all changes.
    fn apply_adjusts(mut self, mut count: Option<EffectiveCount>) -> StockLevelPlan {
        loop {
            let adjusts = self.undecided_adjusts(count.as_ref());
            let start = count.as_ref().map(|count| count.start).or(self.trusted_fact());
            let Some(start) = start else { return self.hold_groundless(&adjusts) };
            let deltas: Vec<i64> = adjusts.iter().map(|(_, delta)| *delta).collect();
            let Some(OutOfRange { culprit, reason, result }) =
                find_offending(start, &deltas, count.is_some())
            else {
                return self.decide_all(count, &adjusts, start);
            };
            let level = self.input.stock_level;
            let detail = match culprit.map(|index| adjusts[index].1) {
                // No count of goods can state a shortage.
                Some(delta @ 1..) if result < 0 => format!(
                    "the platform shows {start} for {level}: more is sold than there was. With {delta:+} it would become \
                     {result}, which cannot be written; retry it once more has come in"
                ),
                _ => format!("{level} would become {result}; count it again"),
            };
            let culprit = match culprit {
                Some(index) => Some(adjusts[index].0),
                None => count.take().map(|count| count.mark.id),
            };
            if let Some(id) = culprit {
                self.hold_change(id, reason, detail, Some(result));
            }
        }
    }

    fn trusted_fact(&self) -> Option<i64> {
        let is_disputed = matches!(self.input.fact, StockLevelKnowledge::Disputed(_));
        self.now.filter(|_| !is_disputed).map(|now| now.quantity.0)
    }

    /// Returns the undecided adjusts to add to `count`, or to the fact.
    fn undecided_adjusts(&self, count: Option<&EffectiveCount>) -> Vec<(ChangeId, i64)> {
        let is_added = |change: &StockLevelChange| {
            count.is_none_or(|count| count.mark.precedes_adjust(change.id, change.created_at))
                && !self.outcomes.contains_key(&change.id)
        };
        let pending = self.input.changes.iter().filter(|change| change.is_pending && is_added(change));
        pending.filter_map(|change| Some((change.id, as_adjust(change)?))).collect()
    }

    fn decide_all(
        mut self,
        count: Option<EffectiveCount>,
        adjusts: &[(ChangeId, i64)],
        start: i64,
    ) -> StockLevelPlan {
        if count.is_none() && adjusts.is_empty() {
            return self.finish_plan(StockLevelStep::Nothing);
        }
        if let Some(EffectiveCount { mark, explanation, .. }) = count {
            self.supersede_adjusts(&mark);
            self.outcomes.insert(mark.id, ChangeDecision::Completes { explanation });
        }
        let mut total = start;
        for (id, delta) in adjusts {
            let sum = total.saturating_add(*delta);
            let explanation = format!("adjust {delta:+} on {total}: {sum}");
            self.outcomes.insert(*id, ChangeDecision::Completes { explanation });
            total = sum;
        }
        let (from, to) = (self.now.map(|now| now.quantity), Quantity(total));
        let is_agreed = from == Some(to);
        self.finish_plan(if is_agreed {
            StockLevelStep::Agreed(to)
        } else {
            StockLevelStep::Write { from, to }
        })
    }

    /// Holds adjusts without a fact to add to. A count needs no fact.
    fn hold_groundless(mut self, adjusts: &[(ChangeId, i64)]) -> StockLevelPlan {
        let level = self.input.stock_level;
        let (reason, why) = match self.now.map(|now| now.quantity) {
            Some(shown) => (
                Reason::Mismatch,
                format!("the platform shows {shown} for {level}, not the quantity that it accepted last"),
            ),
            None => (Reason::NotShown, format!("the platform has no link for {level}")),
        };
        for (id, delta) in adjusts {
            self.hold_change(*id, reason, format!("adjust {delta:+}, but {why}; count it instead"), None);
        }
        self.finish_plan(StockLevelStep::Nothing)
    }

    fn hold_change(&mut self, id: ChangeId, reason: Reason, detail: String, mine: Option<i64>) {
        let theirs = self.now.map(|now| now.quantity.0);
        self.outcomes.insert(id, ChangeDecision::Held { reason, detail, mine, theirs });
    }

    /// Cancels every open adjust whose goods moved before the count.
    fn supersede_adjusts(&mut self, count: &CountMark) {
        for change in self.input.changes.iter().filter(|change| as_adjust(change).is_some()) {
            if !count.precedes_adjust(change.id, change.created_at) {
                self.supersede_change(change.id, count.id);
            }
        }
    }

    fn supersede_change(&mut self, id: ChangeId, by: ChangeId) {
        let detail = format!("the later count of change {by} includes it");
        self.outcomes.insert(id, ChangeDecision::Cancelled { reason: Reason::Superseded, detail });
    }

    fn finish_plan(self, step: StockLevelStep) -> StockLevelPlan {
        let decisions =
            self.outcomes.into_iter().map(|(id, outcome)| DecidedChange { id, decision: outcome }).collect();
        StockLevelPlan { step, decisions }
    }
}

fn as_count(change: &StockLevelChange) -> Option<(&StockLevelChange, Count)> {
    match change.effect {
        ChangeEffect::Set(count) => Some((change, count)),
        ChangeEffect::Adjust(_) => None,
    }
}

fn as_adjust(change: &StockLevelChange) -> Option<i64> {
    match change.effect {
        ChangeEffect::Set(_) => None,
        ChangeEffect::Adjust(delta) => Some(delta),
    }
}

fn count_mark(change: &StockLevelChange, count: &Count) -> CountMark {
    CountMark { id: change.id, created_at: change.created_at, counted_at: count.counted_at }
}

#[cfg(test)]
mod tests;
