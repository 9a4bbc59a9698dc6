//! Summary of a push: stock and other changes are counted together.

use crate::exec::Report;
use crate::model::Timestamp;
use crate::outbox::State;
use crate::store::Verdict;

/// Counts of a run of the push, for its summary.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) calls: u64,
    pub(super) applied: u64,
    pub(super) rejected: u64,
    pub(super) held: u64,
    pub(super) in_doubt: u64,
    pub(super) trouble: Option<String>,
    /// Earliest retry of a quarantined entry that changes wait for.
    again_at: Option<Timestamp>,
}

impl Tally {
    /// Records a fault; the first one is reported.
    pub(super) fn note(&mut self, why: String) {
        self.trouble.get_or_insert(why);
    }

    /// Records the retry time of a quarantined entry that changes wait for.
    pub(super) fn again_at(&mut self, at: Timestamp) {
        self.again_at = Some(self.again_at.map_or(at, |first| first.min(at)));
    }

    /// Adds another summary.
    pub(super) fn add(&mut self, other: Self) {
        self.calls += other.calls;
        self.applied += other.applied;
        self.rejected += other.rejected;
        self.held += other.held;
        self.in_doubt += other.in_doubt;
        self.trouble = self.trouble.take().or(other.trouble);
        other.again_at.into_iter().for_each(|at| self.again_at(at));
    }

    /// Counts transitions that were made.
    pub(super) fn count(&mut self, moves: &[Verdict]) {
        self.applied += count(moves, State::Applied);
        self.rejected += count(moves, State::Rejected);
        self.held += count(moves, State::Held);
        self.in_doubt += count(moves, State::InDoubt);
    }

    pub(super) fn report(&self) -> Report {
        let mut summary = format!("{} wish(es) applied in {} call(s)", self.applied, self.calls);
        for (count, what) in [(self.rejected, "rejected"), (self.held, "held"), (self.in_doubt, "in doubt")] {
            if count > 0 {
                summary.push_str(&format!(", {count} {what}"));
            }
        }
        let report = match &self.trouble {
            None => Report::ok(summary),
            Some(why) => Report::partial(format!("{summary}; then: {why}")),
        };
        Report { again_at: self.again_at, ..report }
    }
}

/// Returns the number of transitions to a state.
pub(super) fn count(moves: &[Verdict], state: State) -> u64 {
    moves.iter().filter(|verdict| verdict.to == state.as_str()).count() as u64
}
