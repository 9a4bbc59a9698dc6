//! The state of the budget at one instant, for `status`, `check` and the metrics.

use super::desk::Desk;
use super::hold::Hold;
use super::ledger;
use super::now::Now;
use crate::model::Lane;
use serde::{Deserialize, Serialize};

/// What is used and what is left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    /// Calls that may be held in any 60 s now: our part of the account, less what other software seems to use.
    pub limit: u32,
    /// Our part of the account in full.
    pub ours: u32,
    /// What may be used of it, in thousandths.
    pub share_permille: u32,
    /// Places held: calls in flight and calls answered less than 60 s ago.
    pub held: u32,
    /// Calls in flight.
    pub in_flight: u32,
    /// Places free for an operator's call.
    pub free: u32,
    /// Places free for a bulk call.
    pub free_for_bulk: u32,
    /// Calls that wait, by lane.
    pub waiting: WaitingCalls,
    /// The holds in force.
    pub holds: Vec<Hold>,
    /// Answers of 400 in the last 24 h.
    pub bad_requests: u32,
    /// The count at which bulk pushes stop.
    pub bad_requests_soft: u32,
    /// The count at which every operation that has answered 400 stops.
    pub bad_requests_hard: u32,
    /// The service throttles us for bad requests: only reads go.
    pub reads_only: bool,
}

/// How many calls of each lane wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitingCalls {
    /// Of the probe lane.
    pub probe: usize,
    /// Of the operator's lane.
    pub operator: usize,
    /// Of the pushes.
    pub push: usize,
    /// Of the polls.
    pub poll: usize,
}

impl Budget {
    /// True if half of the quota is free and nobody waits for it.
    pub fn has_room(&self) -> bool {
        let is_free = self.waiting.push + self.waiting.poll == 0 && self.holds.is_empty();
        is_free && self.free_for_bulk * 2 >= self.limit
    }
}

impl Desk {
    /// The budget now.
    pub(super) fn budget(&mut self, now: Now) -> Budget {
        self.sweep(now.moment);
        let limit = self.limit(now.moment);
        let held = self.account.held();
        let (bad_requests_soft, bad_requests_hard) = ledger::lines(self.settings.bad_requests_per_day);
        Budget {
            limit,
            ours: self.settings.limit(),
            share_permille: self.share.permille(now.moment),
            held,
            in_flight: self.account.in_flight(),
            free: limit.saturating_sub(held),
            free_for_bulk: self.settings.bulk_limit(limit).saturating_sub(held),
            waiting: WaitingCalls {
                probe: self.queue.waiting(Lane::Probe),
                operator: self.queue.waiting(Lane::Operator),
                push: self.queue.waiting(Lane::Push),
                poll: self.queue.waiting(Lane::Poll),
            },
            holds: self.holds.list(now),
            bad_requests: self.ledger.count(),
            bad_requests_soft,
            bad_requests_hard,
            reads_only: self.ledger.full().is_some(),
        }
    }
}
