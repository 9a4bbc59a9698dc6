//! State of the running limiter's quota at one instant.

use super::admission::Admission;
use super::hold::Hold;
use super::instant::DualInstant;
use crate::model::Lane;

/// Used and free part of the quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaUsage {
    /// Reservations allowed in any 60 s now: the configured part of the quota times the adaptive limit.
    pub limit: u32,
    /// The adaptive limit, in thousandths of the configured part.
    pub share_permille: u32,
    /// Reservations in use: calls in flight and calls answered less than 60 s ago.
    pub held: u32,
    /// Calls in flight.
    pub in_flight: u32,
    /// Waiting calls by lane.
    pub waiting: WaitingCalls,
    /// The holds in force.
    pub holds: Vec<Hold>,
    free_for_bulk: u32,
}

/// Number of waiting calls of each lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitingCalls {
    /// Calls of the probe lane.
    pub probe: usize,
    /// Calls of the operator's lane.
    pub operator: usize,
    /// Calls of the push lane.
    pub push: usize,
    /// Calls of the poll lane.
    pub poll: usize,
}

impl QuotaUsage {
    /// Returns true if the quota has room for extra calls.
    ///
    /// Half is free for bulk calls, no bulk call waits, and no hold is in force.
    pub fn has_spare_calls(&self) -> bool {
        let is_idle = self.waiting.push + self.waiting.poll == 0 && self.holds.is_empty();
        is_idle && self.free_for_bulk * 2 >= self.limit
    }
}

impl Admission {
    pub(super) fn quota_usage(&mut self, now: DualInstant) -> QuotaUsage {
        self.remove_expired(now.moment);
        let (limit, held) = (self.current_limit(now.moment), self.window.reservations());
        let [probe, operator, push, poll] =
            [Lane::Probe, Lane::Operator, Lane::Push, Lane::Poll].map(|lane| self.queue.waiting_count(lane));
        QuotaUsage {
            limit,
            share_permille: self.adaptive_limit.permille(now.moment),
            held,
            in_flight: self.window.in_flight(),
            waiting: WaitingCalls { probe, operator, push, poll },
            holds: self.holds.active_holds(now),
            free_for_bulk: self.settings.bulk_limit(limit).saturating_sub(held),
        }
    }
}
