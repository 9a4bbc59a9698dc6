//! Admission: combines all guards and grants waiting calls in their turn.
//!
//! This module is synchronous and takes the time as an argument. Every call that joins, leaves, wakes or completes runs
//! the admission loop for the whole queue. Only the oldest waiter sets a timer; the others wait on `Notify`.
//! The limiter measures with moments, which calendar steps do not affect. Stored state uses timestamps, because
//! moments of another boot are meaningless.

use super::PacePayment;
use super::adaptive_limit::AdaptiveLimit;
use super::bad_requests::BadRequestBudget;
use super::holds::ActiveHolds;
use super::instant::AdmissionWait;
use super::lockout::Lockout;
use super::pacer::Pacer;
use super::queue::{CallQueue, LaneTurn, TicketId};
use super::settings::LimiterSettings;
use super::slots::OperationSlots;
use super::window::{SlidingWindow, WINDOW_LENGTH};
use crate::model::{Lane, Moment, Operation};
use std::collections::BTreeMap;
use std::time::Duration;

#[derive(Debug)]
pub(super) struct Admission {
    pub(super) settings: LimiterSettings,
    pub(super) window: SlidingWindow,
    pub(super) pacer: Pacer,
    pub(super) slots: OperationSlots,
    pub(super) holds: ActiveHolds,
    pub(super) bad_requests: BadRequestBudget,
    pub(super) adaptive_limit: AdaptiveLimit,
    pub(super) lockout: Lockout,
    /// Time of the last refusal of the whole account. Calls go one at a time until a later call is admitted.
    pub(super) refused_since: Option<Moment>,
    /// Reservations kept while another call is made for them. They count as in flight but are not sent.
    pub(super) kept_reservations: u32,
    pub(super) queue: CallQueue,
    /// Granted calls whose callers have not yet fetched the grant.
    pub(super) granted: BTreeMap<TicketId, CallGrant>,
    /// The oldest waiter at the last run of the loop, and the wait that it was given.
    last_wait: Option<(TicketId, AdmissionWait)>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct CallGrant {
    pub(super) operation: Operation,
    pub(super) lane: Lane,
    pub(super) granted_at: Moment,
    /// True if the call has taken a pass of the pacer.
    paced: bool,
}

type NextGrant = Result<(TicketId, CallGrant), AdmissionWait>;

impl Admission {
    pub(super) fn new(settings: LimiterSettings) -> Self {
        Self {
            pacer: Pacer::new(settings.own_limit()),
            settings,
            window: SlidingWindow::default(),
            slots: OperationSlots::default(),
            holds: ActiveHolds::default(),
            bad_requests: BadRequestBudget::default(),
            adaptive_limit: AdaptiveLimit::default(),
            lockout: Lockout::default(),
            refused_since: None,
            kept_reservations: 0,
            queue: CallQueue::default(),
            granted: BTreeMap::new(),
            last_wait: None,
        }
    }

    /// Returns the grant of a waiting call. Otherwise the call must wait for its notification, and the oldest waiter at
    /// most until the time in the wait.
    pub(super) fn check_ticket(&mut self, ticket: TicketId, now: Moment) -> Result<CallGrant, AdmissionWait> {
        self.run_admission(Some(ticket), now);
        self.granted.remove(&ticket).ok_or(match self.last_wait {
            Some((oldest, wait)) if oldest == ticket => wait,
            _ => AdmissionWait::Event,
        })
    }

    /// Removes a call that was cancelled while it waited. A grant that was not fetched is given back.
    pub(super) fn cancel_ticket(&mut self, ticket: TicketId, now: Moment) {
        if let Some(grant) = self.granted.remove(&ticket) {
            self.return_grant(grant, now);
        } else if self.queue.remove_call(ticket).is_some() {
            self.run_admission(None, now);
        }
    }

    /// Gives back the reservation, slot and pass of a call that is not sent.
    pub(super) fn return_grant(&mut self, grant: CallGrant, now: Moment) {
        self.window.cancel_reservation();
        self.slots.release_slot(grant.operation);
        if grant.paced {
            self.pacer.return_pass();
        }
        self.run_admission(None, now);
    }

    /// Returns true if no hold set since the grant stops the call.
    pub(super) fn may_send(&self, grant: CallGrant, now: Moment) -> bool {
        let others = self.slots.in_flight(grant.operation).saturating_sub(1);
        let operation = self.holds.check_operation(grant.operation, others, now);
        operation.and(self.holds.check_lane(grant.lane, now)).is_ok()
    }

    /// Grants every call that may be sent, in turn, and updates the oldest waiter's timer.
    pub(super) fn run_admission(&mut self, origin: Option<TicketId>, now: Moment) {
        self.remove_expired(now);
        let wait = loop {
            match self.next_grant(now) {
                Ok((ticket, grant)) => self.grant_call(ticket, grant),
                Err(wait) => break wait,
            }
        };
        self.notify_oldest(wait, origin);
    }

    /// Removes expired entries from all guards and sets the pacer's rate to the current limit.
    pub(super) fn remove_expired(&mut self, now: Moment) {
        self.window.remove_ended(self.current_window(now), now);
        self.slots.release_lingering(now);
        self.bad_requests.remove_expired(now);
        self.pacer.set_rate(self.current_limit(now));
    }

    pub(super) fn current_limit(&self, now: Moment) -> u32 {
        self.adaptive_limit.allowed_calls(self.settings.own_limit(), now)
    }

    fn current_window(&self, now: Moment) -> Duration {
        WINDOW_LENGTH + self.adaptive_limit.window_margin(now)
    }

    fn next_grant(&mut self, now: Moment) -> NextGrant {
        let mut soonest = AdmissionWait::Event;
        for turn in self.queue.next_turns() {
            match self.next_in_lane(turn, now) {
                Ok(next) => return Ok(next),
                Err(wait) => soonest = soonest.min(wait),
            }
        }
        Err(soonest)
    }

    /// Returns the first call of a lane that may be sent. A call whose operation is stopped does not block
    /// the calls behind it. The pacer comes last, because its check takes a pass.
    fn next_in_lane(&mut self, turn: LaneTurn, now: Moment) -> NextGrant {
        let calls = self.queue.lane_calls(turn.lane);
        if calls.is_empty() {
            return Err(AdmissionWait::Event);
        }
        self.holds.check_lane(turn.lane, now)?;
        // After a refusal of the account one call goes at a time, because every further refused call counts.
        if self.refused_since.is_some() && self.calls_in_flight() > 0 {
            return Err(AdmissionWait::Event);
        }
        self.check_reservation(turn, now)?;
        let mut soonest = AdmissionWait::Event;
        let first = calls.iter().find(|waiting| {
            let checked = self.check_operation(waiting.operation, turn.lane, now);
            checked.inspect_err(|wait| soonest = soonest.min(*wait)).is_ok()
        });
        let first = first.ok_or(soonest)?;
        let paced = turn.follows_bulk_rules() && first.pace == PacePayment::Paced;
        let grant = CallGrant { operation: first.operation, lane: turn.lane, granted_at: now, paced };
        let ticket = first.ticket_id;
        if paced && let Err(when) = self.pacer.try_pass(now) {
            return Err(soonest.min(AdmissionWait::Until(when)));
        }
        Ok((ticket, grant))
    }

    fn check_reservation(&self, turn: LaneTurn, now: Moment) -> Result<(), AdmissionWait> {
        let mut limit = self.current_limit(now);
        if turn.follows_bulk_rules() {
            limit = self.settings.bulk_limit(limit);
        }
        self.window.check_limit(limit, self.current_window(now)).map_err(|wait| {
            self.adaptive_limit.next_rise_at(now).map_or(wait, |rise| wait.min(AdmissionWait::Until(rise)))
        })
    }

    fn check_operation(&self, operation: Operation, lane: Lane, now: Moment) -> Result<(), AdmissionWait> {
        self.holds.check_operation(operation, self.slots.in_flight(operation), now)?;
        self.slots.check_slot(operation, self.settings.concurrent_calls_per_operation.max(1))?;
        let a_day = self.settings.bad_requests_per_day;
        self.bad_requests.check_call(operation, lane, self.calls_in_flight(), a_day)
    }

    /// Returns the number of calls sent and not answered. A kept reservation is not counted. It waits for
    /// another call, and where calls go one at a time it would block that call for ever.
    fn calls_in_flight(&self) -> u32 {
        self.window.in_flight.saturating_sub(self.kept_reservations)
    }

    fn grant_call(&mut self, ticket: TicketId, grant: CallGrant) {
        let Some(call) = self.queue.grant_turn(ticket) else { return };
        self.window.reserve_call();
        self.slots.take_slot(grant.operation);
        self.granted.insert(ticket, grant);
        call.notify.notify_one();
    }

    /// Notifies the oldest waiter if its wait has changed; the caller in `origin` gets its wait as a result.
    fn notify_oldest(&mut self, wait: AdmissionWait, origin: Option<TicketId>) {
        let oldest = self.queue.oldest_waiter();
        let next_wait = oldest.map(|oldest| (oldest.ticket_id, wait));
        if let Some(oldest) = oldest
            && self.last_wait != next_wait
            && origin != Some(oldest.ticket_id)
        {
            oldest.notify.notify_one();
        }
        self.last_wait = next_wait;
    }
}
