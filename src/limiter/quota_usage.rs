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
    /// Reservations in use: calls in flight and calls answered less than 60 s ago.
    pub held: u32,
    /// Waiting calls of the bulk lanes.
    pub bulk_waiting: usize,
    pub holds: Vec<Hold>,
    free_for_bulk: u32,
}

impl QuotaUsage {
    /// Returns true if half of the quota is free for bulk calls, none waits, and no hold is in force.
    pub(crate) fn has_spare_calls(&self) -> bool {
        let is_idle = self.bulk_waiting == 0 && self.holds.is_empty();
        is_idle && self.free_for_bulk * 2 >= self.limit
    }
}

impl Admission {
    pub(super) fn quota_usage(&mut self, now: DualInstant) -> QuotaUsage {
        self.remove_expired(now.moment);
        let (limit, held) = (self.current_limit(now.moment), self.window.reservations());
        QuotaUsage {
            limit,
            held,
            bulk_waiting: self.queue.waiting_count(Lane::Push) + self.queue.waiting_count(Lane::Poll),
            holds: self.holds.active_holds(now),
            free_for_bulk: match self.holds.is_key_refused {
                true => 0,
                false => self.settings.bulk_limit(limit).saturating_sub(held),
            },
        }
    }
}
