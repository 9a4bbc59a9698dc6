//! Admission: combines all guards and grants waiting calls in their turn.
//!
//! This module is synchronous and takes the time as an argument, so that each step can be tested alone. There
//! is no scheduler task. Every call that joins, leaves, wakes or completes runs the admission loop for the
//! whole queue. Only the oldest waiter sets a timer; the others wait on `Notify`. An idle queue costs one
//! timer, an empty queue none.

use super::Pace;
use super::adaptive_limit::Share;
use super::bad_requests::Ledger;
use super::holds::Holds;
use super::lockout::Block;
use super::pacer::Pacer;
use super::queue::{Number, Queue, Turn, Waiting};
use super::settings::Settings;
use super::slots::Slots;
use super::wait::Wait;
use super::window::{Account, WINDOW};
use crate::model::{Lane, Moment, Operation};
use std::collections::BTreeMap;
use std::time::Duration;

/// The whole state of the limiter.
#[derive(Debug)]
pub(super) struct Desk {
    pub(super) settings: Settings,
    pub(super) account: Account,
    pub(super) pacer: Pacer,
    pub(super) slots: Slots,
    pub(super) holds: Holds,
    pub(super) ledger: Ledger,
    pub(super) share: Share,
    pub(super) block: Block,
    /// Time of the last refusal of the whole account. Calls go one at a time until a later call is admitted.
    pub(super) refused_since: Option<Moment>,
    /// Reservations kept while another call is made for them. They count as in flight but are not sent.
    pub(super) kept: u32,
    pub(super) queue: Queue,
    /// Granted calls whose callers have not yet fetched the grant.
    pub(super) granted: BTreeMap<Number, Grant>,
    closed: bool,
    /// The oldest waiter at the last run of the loop, and the wait that it was given.
    told: Option<(Number, Wait)>,
}

/// A call that may be sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grant {
    pub(super) operation: Operation,
    pub(super) lane: Lane,
    pub(super) since: Moment,
    paced: bool,
}

/// The next call to grant.
struct Next {
    number: Number,
    /// True if the call has taken a pass of the pacer.
    paced: bool,
}

/// Result of an admission check of one waiting call.
#[derive(Debug)]
pub(super) enum Look {
    /// The call may be sent.
    Go(Grant),
    /// The call must wait for its notification, and the oldest waiter at most until the time in the wait.
    Wait(Wait),
    /// The limiter is closed.
    Closed,
}

impl Desk {
    pub(super) fn new(settings: Settings) -> Self {
        Self {
            pacer: Pacer::new(settings.limit()),
            settings,
            account: Account::default(),
            slots: Slots::default(),
            holds: Holds::default(),
            ledger: Ledger::default(),
            share: Share::default(),
            block: Block::default(),
            refused_since: None,
            kept: 0,
            queue: Queue::default(),
            granted: BTreeMap::new(),
            closed: false,
            told: None,
        }
    }

    /// Runs the admission loop and returns the result for `number`.
    pub(super) fn look(&mut self, number: Number, now: Moment) -> Look {
        self.serve(Some(number), now);
        if self.closed {
            return Look::Closed;
        }
        if let Some(grant) = self.granted.remove(&number) {
            return Look::Go(grant);
        }
        match self.told {
            Some((keeper, wait)) if keeper == number => Look::Wait(wait),
            _ => Look::Wait(Wait::Event),
        }
    }

    /// Removes a call that was cancelled while it waited. A grant that was not fetched is given back.
    pub(super) fn leave(&mut self, number: Number, now: Moment) {
        if let Some(grant) = self.granted.remove(&number) {
            self.give_back(grant, now);
        } else if self.queue.leave(number).is_some() {
            self.serve(None, now);
        }
    }

    /// Gives back the reservation, slot and pass of a call that is not sent.
    pub(super) fn give_back(&mut self, grant: Grant, now: Moment) {
        self.account.give_back();
        self.slots.release(grant.operation);
        if grant.paced {
            self.pacer.give_back();
        }
        self.serve(None, now);
    }

    /// Returns true if no hold set since the grant stops the call.
    pub(super) fn may_send(&self, grant: Grant, now: Moment) -> bool {
        let others = self.slots.in_flight(grant.operation).saturating_sub(1);
        let operation = self.holds.operation_go(grant.operation, others, now);
        operation.and(self.holds.lane_go(grant.lane, now)).is_ok()
    }

    /// Closes the limiter and wakes all waiters. Calls in flight may still complete.
    pub(super) fn close(&mut self) {
        self.closed = true;
        self.queue.ring_all();
    }

    /// Applies other settings. Calls in flight are not affected.
    pub(super) fn reconfigure(&mut self, settings: Settings, now: Moment) {
        self.settings = settings;
        self.serve(None, now);
    }

    /// Grants every call that may be sent, in turn, and updates the oldest waiter's timer.
    pub(super) fn serve(&mut self, looker: Option<Number>, now: Moment) {
        if self.closed {
            return;
        }
        self.sweep(now);
        let wait = loop {
            match self.next(now) {
                Ok(next) => self.grant(next, now),
                Err(wait) => break wait,
            }
        };
        self.tell(wait, looker);
    }

    /// Removes expired entries from all guards and sets the pacer's rate to the current limit.
    pub(super) fn sweep(&mut self, now: Moment) {
        self.account.sweep(self.window(now), now);
        self.slots.sweep(now);
        self.ledger.sweep(now);
        self.pacer.set_rate(self.limit(now));
    }

    /// Returns the number of reservations allowed now.
    pub(super) fn limit(&self, now: Moment) -> u32 {
        self.share.limit(self.settings.limit(), now)
    }

    fn window(&self, now: Moment) -> Duration {
        WINDOW + self.share.guard(now)
    }

    /// Returns the next call to grant, or the wait until there may be one.
    fn next(&mut self, now: Moment) -> Result<Next, Wait> {
        let mut soonest = Wait::Event;
        for turn in self.queue.turns() {
            match self.next_in(turn, now) {
                Ok(next) => return Ok(next),
                Err(wait) => soonest = soonest.sooner(wait),
            }
        }
        Err(soonest)
    }

    /// Returns the first call of a lane that may be sent.
    ///
    /// A call whose operation is stopped does not block the calls behind it. The pacer comes last, because
    /// its check takes a pass.
    fn next_in(&mut self, turn: Turn, now: Moment) -> Result<Next, Wait> {
        let line = self.queue.line(turn.lane);
        if line.is_empty() {
            return Err(Wait::Event);
        }
        self.holds.lane_go(turn.lane, now)?;
        // After a refusal of the account one call goes at a time, because every further refused call counts.
        if self.refused_since.is_some() && self.sent() > 0 {
            return Err(Wait::Event);
        }
        self.place_go(turn, now)?;
        let mut soonest = Wait::Event;
        let first = line.iter().find(|waiting| {
            let go = self.operation_go(waiting.operation, turn.lane, now);
            go.inspect_err(|wait| soonest = soonest.sooner(*wait)).is_ok()
        });
        let first = first.ok_or(soonest)?;
        let paced = is_bulk(turn.lane) && !turn.owed && first.pace == Pace::Paced;
        let next = Next { number: first.number, paced };
        if paced && let Err(when) = self.pacer.try_pass(now) {
            return Err(soonest.sooner(Wait::Until(when)));
        }
        Ok(next)
    }

    fn place_go(&self, turn: Turn, now: Moment) -> Result<(), Wait> {
        let limit = self.limit(now);
        let places = if is_bulk(turn.lane) && !turn.owed { self.settings.bulk_limit(limit) } else { limit };
        self.account.go(places, self.window(now)).map_err(|wait| match self.share.grows_at(now) {
            Some(grows) => wait.sooner(Wait::Until(grows)),
            None => wait,
        })
    }

    fn operation_go(&self, operation: Operation, lane: Lane, now: Moment) -> Result<(), Wait> {
        self.holds.operation_go(operation, self.slots.in_flight(operation), now)?;
        self.slots.go(operation, self.settings.slots())?;
        self.ledger.go(operation, lane, self.sent(), self.settings.bad_requests_per_day)
    }

    /// Returns the number of calls sent and not answered.
    ///
    /// A kept reservation is not counted. It waits for another call, and where calls go one at a time it
    /// would block that call for ever.
    fn sent(&self) -> u32 {
        self.account.in_flight().saturating_sub(self.kept)
    }

    fn grant(&mut self, next: Next, now: Moment) {
        let Some(Waiting { operation, lane, bell, .. }) = self.queue.go(next.number) else { return };
        self.account.take();
        self.slots.take(operation);
        self.granted.insert(next.number, Grant { operation, lane, since: now, paced: next.paced });
        bell.notify_one();
    }

    /// Notifies the oldest waiter if its wait has changed. The caller in `looker` learns its wait from the
    /// return value.
    fn tell(&mut self, wait: Wait, looker: Option<Number>) {
        let keeper = self.queue.eldest();
        let told = keeper.map(|keeper| (keeper.number, wait));
        if let Some(keeper) = keeper
            && self.told != told
            && looker != Some(keeper.number)
        {
            keeper.bell.notify_one();
        }
        self.told = told;
    }
}

fn is_bulk(lane: Lane) -> bool {
    matches!(lane, Lane::Push | Lane::Poll)
}
