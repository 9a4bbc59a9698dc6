//! Decides one stock level (docs/rules.md 1, 9, 11, 12).
//!
//! The latest count gives a quantity (`count.rs`), and every adjust created after that count is added.
//! Without a count, adjusts are added to the fact. One entry completes all changes of a stock level, so only
//! the final result is tested. A change that drives the result out of range is held alone, and the other
//! changes are decided again without it.

use super::bounds::{Culprit, culprit};
use super::count::{Ruling, rule};
use super::{
    CellFact, CellInput, CellPlan, CellWish, Change, Count, CountMark, Decision, Outcome, Pair, Standing,
    Step,
};
use crate::model::{Quantity, WishId};
use crate::outbox::Reason;
use std::collections::BTreeMap;

/// Decides one stock level.
///
/// The input contains no change in flight or in doubt: the stock level waits while such a change exists.
pub fn decide(input: &CellInput<'_>) -> CellPlan {
    if !input.wishes.iter().any(is_pending) {
        return Draft::new(input, None).nothing_pending();
    }
    let (sku, warehouse) = (&input.cell.sku, input.cell.warehouse_id);
    let reject = |reason, detail: String| each_pending(input, &Outcome::Rejected { reason, detail });
    match &input.fact {
        CellFact::Unread => READ_FIRST,
        CellFact::Known(pair) | CellFact::Disputed(pair) => Draft::new(input, Some(*pair)).plan(),
        CellFact::Unlinked => Draft::new(input, None).plan(),
        CellFact::UnknownSku => reject(
            Reason::UnknownSku,
            format!("the service returns no SKU `{sku}`; correct it or create the product"),
        ),
        CellFact::Unlisted => CellPlan { step: Step::Nothing, decisions: Vec::new() },
        CellFact::UnknownWarehouse => reject(
            Reason::UnknownWarehouse,
            format!("the service lists no warehouse {warehouse}; see `tallyd warehouse list`"),
        ),
        CellFact::Kit => reject(
            Reason::Kit,
            format!("{sku} is a kit, its quantity follows from its components; set those"),
        ),
        CellFact::PerhapsKit => CellPlan { step: Step::Nothing, decisions: Vec::new() },
        CellFact::AmbiguousSku(twins) => {
            let twins = twins.iter().map(|twin| format!("`{twin}`")).collect::<Vec<_>>().join(", ");
            let detail =
                format!("the service knows {twins} and none is spelled `{sku}`; insert it with one of them");
            each_pending(
                input,
                &Outcome::Held { reason: Reason::AmbiguousSku, detail, mine: None, theirs: None },
            )
        }
    }
}

const READ_FIRST: CellPlan = CellPlan { step: Step::Read, decisions: Vec::new() };

fn is_pending(wish: &CellWish) -> bool {
    wish.standing == Standing::Pending
}

fn each_pending(input: &CellInput<'_>, outcome: &Outcome) -> CellPlan {
    let pending = input.wishes.iter().filter(|wish| is_pending(wish));
    let decisions = pending.map(|wish| Decision { id: wish.id, outcome: outcome.clone() }).collect();
    CellPlan { step: Step::Nothing, decisions }
}

/// The effective count with its start value.
struct Taken {
    mark: CountMark,
    start: i64,
    how: String,
}

/// A plan under construction. Changes with an outcome are decided.
struct Draft<'a> {
    input: &'a CellInput<'a>,
    now: Option<Pair>,
    outcomes: BTreeMap<WishId, Outcome>,
}

impl<'a> Draft<'a> {
    fn new(input: &'a CellInput<'a>, now: Option<Pair>) -> Self {
        Self { input, now, outcomes: BTreeMap::new() }
    }

    /// Returns the plan without pending changes.
    ///
    /// The last applied count supersedes the changes it includes, also if all open changes are held.
    fn nothing_pending(mut self) -> CellPlan {
        if let Some(last) = self.input.last_set {
            self.supersede_adjusts(&last);
            let counts = self.input.wishes.iter().filter_map(counted);
            for (wish, _) in counts.filter(|(wish, count)| mark(wish, count).is_before(&last)) {
                self.supersede(wish.id, last.id);
            }
        }
        self.finish(Step::Nothing)
    }

    fn plan(mut self) -> CellPlan {
        if let Some(last) = self.input.last_set {
            self.supersede_adjusts(&last);
        }
        let Some((wish, count)) = self.latest_count() else { return self.settle(None) };
        if !is_pending(wish) {
            return self.settle(None);
        }
        match rule(&count, self.now, self.input.policy) {
            Ruling::Take { start, how } => {
                let mark = mark(wish, &count);
                self.settle(Some(Taken { mark, start, how }))
            }
            Ruling::ReadFirst => READ_FIRST,
            Ruling::TheirsWins(why) => {
                let detail = format!("{why}; the policy lets the service win");
                self.outcomes.insert(wish.id, Outcome::Rejected { reason: Reason::RemoteWins, detail });
                self.settle(None)
            }
            Ruling::Conflict(why) => {
                self.hold(
                    wish.id,
                    Reason::Conflict,
                    format!("{why}; say which holds"),
                    Some(count.quantity.0),
                );
                self.settle(None)
            }
            Ruling::NoBase(why) => {
                let detail = format!("set {}, but {why}; count again", count.quantity);
                self.hold(wish.id, Reason::StaleBase, detail, Some(count.quantity.0));
                self.settle(None)
            }
        }
    }

    /// Returns the latest open count.
    ///
    /// Supersedes older counts, and counts older than the last applied count.
    fn latest_count(&mut self) -> Option<(&'a CellWish, Count)> {
        let mut latest: Option<(&'a CellWish, Count)> = None;
        for (wish, count) in self.input.wishes.iter().filter_map(counted) {
            let this = mark(wish, &count);
            let older = |other: &CountMark| this.is_before(other);
            if let Some(last) = self.input.last_set.filter(older) {
                self.supersede(wish.id, last.id);
            } else if let Some((other, _)) = latest.filter(|(wish, count)| older(&mark(wish, count))) {
                self.supersede(wish.id, other.id);
            } else if let Some((other, _)) = latest.replace((wish, count)) {
                self.supersede(other.id, wish.id);
            }
        }
        latest
    }

    /// Adds the adjusts to `taken`, or to the fact, until the result is in range. Then decides all changes.
    fn settle(mut self, mut taken: Option<Taken>) -> CellPlan {
        loop {
            let adjusts = self.adjusts(taken.as_ref());
            let start = taken.as_ref().map(|taken| taken.start).or(self.trusted());
            let Some(start) = start else { return self.hold_groundless(&adjusts) };
            let deltas: Vec<i64> = adjusts.iter().map(|(_, delta)| *delta).collect();
            match culprit(start, &deltas, taken.is_some()) {
                None => return self.conclude(taken, &adjusts, start),
                Some(Culprit::Adjust { index, reason, result }) => {
                    self.hold_for(adjusts[index].0, reason, result)
                }
                Some(Culprit::Start { reason, result }) => {
                    if let Some(taken) = taken.take() {
                        self.hold_for(taken.mark.id, reason, result);
                    }
                }
            }
        }
    }

    /// Returns the fact, if an adjust may be added to the fact.
    fn trusted(&self) -> Option<i64> {
        let is_disputed = matches!(self.input.fact, CellFact::Disputed(_));
        self.now.filter(|_| !is_disputed).map(|now| now.quantity.0)
    }

    /// Returns the undecided adjusts to add to `taken`, or to the fact.
    fn adjusts(&self, taken: Option<&Taken>) -> Vec<(WishId, i64)> {
        let counts = |wish: &CellWish| {
            taken.is_none_or(|taken| taken.mark.precedes_adjust(wish.id, wish.created_at))
                && !self.outcomes.contains_key(&wish.id)
        };
        let pending = self.input.wishes.iter().filter(|wish| is_pending(wish) && counts(wish));
        pending.filter_map(|wish| Some((wish.id, adjusted(wish)?))).collect()
    }

    fn conclude(mut self, taken: Option<Taken>, adjusts: &[(WishId, i64)], start: i64) -> CellPlan {
        if taken.is_none() && adjusts.is_empty() {
            return self.finish(Step::Nothing);
        }
        if let Some(Taken { mark, how, .. }) = taken {
            self.supersede_adjusts(&mark);
            self.outcomes.insert(mark.id, Outcome::Settles { how });
        }
        let mut total = start;
        for (id, delta) in adjusts {
            let sum = total.saturating_add(*delta);
            self.outcomes
                .insert(*id, Outcome::Settles { how: format!("adjust {delta:+} on {total}: {sum}") });
            total = sum;
        }
        let from = self.now.map(|now| now.quantity);
        let to = Quantity(total);
        self.finish(if from == Some(to) { Step::Agreed(to) } else { Step::Write { from, to } })
    }

    /// Holds adjusts without a fact to add to. A count needs no fact.
    fn hold_groundless(mut self, adjusts: &[(WishId, i64)]) -> CellPlan {
        let cell = self.input.cell;
        for (id, delta) in adjusts {
            let (reason, why) = match self.now {
                Some(now) => (
                    Reason::Mismatch,
                    format!("the service shows {} for {cell}, not what it accepted last", now.quantity),
                ),
                None => (Reason::Unlinked, format!("the service does not link {cell}")),
            };
            self.hold(*id, reason, format!("adjust {delta:+}, but {why}; count it instead"), None);
        }
        self.finish(Step::Nothing)
    }

    fn hold_for(&mut self, id: WishId, reason: Reason, result: i64) {
        let detail = format!("{} would become {result}; count it again", self.input.cell);
        self.hold(id, reason, detail, Some(result));
    }

    fn hold(&mut self, id: WishId, reason: Reason, detail: String, mine: Option<i64>) {
        let theirs = self.now.map(|now| now.quantity.0);
        self.outcomes.insert(id, Outcome::Held { reason, detail, mine, theirs });
    }

    /// Cancels every open adjust whose goods moved before the count.
    fn supersede_adjusts(&mut self, count: &CountMark) {
        for wish in self.input.wishes.iter().filter(|wish| adjusted(wish).is_some()) {
            if !count.precedes_adjust(wish.id, wish.created_at) {
                self.supersede(wish.id, count.id);
            }
        }
    }

    fn supersede(&mut self, id: WishId, by: WishId) {
        let detail = format!("the count of wish {by} was made later and includes it");
        self.outcomes.insert(id, Outcome::Cancelled { reason: Reason::Superseded, detail });
    }

    fn finish(self, step: Step) -> CellPlan {
        let decisions = self.outcomes.into_iter().map(|(id, outcome)| Decision { id, outcome }).collect();
        CellPlan { step, decisions }
    }
}

fn counted(wish: &CellWish) -> Option<(&CellWish, Count)> {
    match wish.change {
        Change::Set(count) => Some((wish, count)),
        Change::Adjust(_) => None,
    }
}

fn adjusted(wish: &CellWish) -> Option<i64> {
    match wish.change {
        Change::Set(_) => None,
        Change::Adjust(delta) => Some(delta),
    }
}

fn mark(wish: &CellWish, count: &Count) -> CountMark {
    CountMark { id: wish.id, created_at: wish.created_at, counted_at: count.counted_at }
}

#[cfg(test)]
mod tests;
