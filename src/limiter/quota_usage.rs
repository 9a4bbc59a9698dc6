//! State of the quota at one instant, for `status`, `check` and the metrics.

use super::admission::Admission;
use super::bad_requests;
use super::dual_instant::DualInstant;
use super::hold::Hold;
use crate::model::Lane;
use serde::{Deserialize, Serialize};

/// Used and free part of the quota.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaUsage {
    /// Reservations allowed in any 60 s now: `ours` times the adaptive limit.
    pub limit: u32,
    /// Calls a minute that the configuration allows tallyd to use.
    pub ours: u32,
    /// The adaptive limit, in thousandths of `ours`.
    pub share_permille: u32,
    /// Reservations in use: calls in flight and calls answered less than 60 s ago.
    pub held: u32,
    /// Calls in flight.
    pub in_flight: u32,
    /// Reservations free for an operator's call.
    pub free: u32,
    /// Reservations free for a bulk call.
    pub free_for_bulk: u32,
    /// Waiting calls by lane.
    pub waiting: WaitingCalls,
    /// The holds in force.
    pub holds: Vec<Hold>,
    /// Answers of 400 in the last 24 h.
    pub bad_requests: u32,
    /// Count at which bulk pushes stop.
    pub bad_requests_soft: u32,
    /// Count at which every operation that was answered 400 stops.
    pub bad_requests_hard: u32,
    /// True while the platform throttles us for bad requests: only reads are sent.
    pub reads_only: bool,
}

/// Number of waiting calls of each lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
        let is_free = self.waiting.push + self.waiting.poll == 0 && self.holds.is_empty();
        is_free && self.free_for_bulk * 2 >= self.limit
    }
}

impl Admission {
    /// Returns the state of the quota now.
    pub(super) fn quota_usage(&mut self, now: DualInstant) -> QuotaUsage {
        self.remove_expired(now.moment);
        let limit = self.current_limit(now.moment);
        let held = self.window.reservations();
        let (bad_requests_soft, bad_requests_hard) =
            bad_requests::thresholds(self.settings.bad_requests_per_day);
        QuotaUsage {
            limit,
            ours: self.settings.own_limit(),
            share_permille: self.adaptive_limit.permille(now.moment),
            held,
            in_flight: self.window.in_flight(),
            free: limit.saturating_sub(held),
            free_for_bulk: self.settings.bulk_limit(limit).saturating_sub(held),
            waiting: WaitingCalls {
                probe: self.queue.waiting_count(Lane::Probe),
                operator: self.queue.waiting_count(Lane::Operator),
                push: self.queue.waiting_count(Lane::Push),
                poll: self.queue.waiting_count(Lane::Poll),
            },
            holds: self.holds.active_holds(now),
            bad_requests: self.bad_requests.bad_request_count(),
            bad_requests_soft,
            bad_requests_hard,
            reads_only: self.bad_requests.exhausted_budget().is_some(),
        }
    }
}
