//! Summary of a push: stock and other changes are counted together.

use crate::exec::RunReport;
use crate::model::{Timestamp, counted};
use crate::outbox::ChangeState;
use crate::store::ChangeOutcome;

#[derive(Debug, Default)]
pub(super) struct PushSummary {
    pub(super) calls: u64,
    pub(super) applied: u64,
    pub(super) rejected: u64,
    pub(super) held: u64,
    pub(super) in_doubt: u64,
    pub(super) first_failure: Option<String>,
    /// Earliest retry of a quarantined entry that changes wait for.
    pub(super) retry_at: Option<Timestamp>,
}

impl PushSummary {
    /// Records a fault; the first one is reported.
    pub(super) fn note_failure(&mut self, why: String) {
        self.first_failure.get_or_insert(why);
    }

    /// Records the retry time of a quarantined entry that changes wait for.
    pub(super) fn note_retry(&mut self, at: Timestamp) {
        self.retry_at = Some(self.retry_at.map_or(at, |first| first.min(at)));
    }

    pub(super) fn add_summary(&mut self, other: Self) {
        self.calls += other.calls;
        self.applied += other.applied;
        self.rejected += other.rejected;
        self.held += other.held;
        self.in_doubt += other.in_doubt;
        self.first_failure = self.first_failure.take().or(other.first_failure);
        other.retry_at.into_iter().for_each(|at| self.note_retry(at));
    }

    pub(super) fn count_outcomes(&mut self, moves: &[ChangeOutcome]) {
        self.applied += count_state(moves, ChangeState::Applied);
        self.rejected += count_state(moves, ChangeState::Rejected);
        self.held += count_state(moves, ChangeState::Held);
        self.in_doubt += count_state(moves, ChangeState::InDoubt);
    }

    /// Returns the number of changes that left the state pending.
    pub(super) fn moved(&self) -> u64 {
        self.applied + self.rejected + self.held + self.in_doubt
    }

    pub(super) fn run_report(&self) -> RunReport {
        let mut summary =
            format!("{} applied in {}", counted(self.applied, "change"), counted(self.calls, "call"));
        for (count, what) in [(self.rejected, "rejected"), (self.held, "held"), (self.in_doubt, "in doubt")] {
            if count > 0 {
                summary.push_str(&format!(", {count} {what}"));
            }
        }
        let report = match &self.first_failure {
            None => RunReport::ok(summary),
            Some(why) => RunReport::partial(format!("{summary}; then: {why}")),
        };
        RunReport { due_again_at: self.retry_at, ..report.with_effect(self.moved() > 0) }
    }
}

fn count_state(moves: &[ChangeOutcome], state: ChangeState) -> u64 {
    moves.iter().filter(|verdict| verdict.to == state).count() as u64
}
