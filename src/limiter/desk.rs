//! Where all guards meet: it takes the waiting calls in their turn and lets each go that everything lets go.
//!
//! Synchronous and without a clock of its own, so that each step of it can be tested by itself. Nobody is employed
//! here: whoever comes to the desk (a call that joins, leaves, wakes or concludes) serves the whole queue, and tells
//! the eldest waiting call when to look again. That one sleeps; all others wait for the bell. So an idle queue costs
//! one timer, an empty one nothing.

use super::Pace;
use super::account::{Account, WINDOW};
use super::block::Block;
use super::holds::Holds;
use super::ledger::Ledger;
use super::pace::Pacer;
use super::queue::{Number, Queue, Turn, Waiting};
use super::settings::Settings;
use super::share::Share;
use super::slots::Slots;
use super::wait::Wait;
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
    /// Since when the service refused the whole account: until a later call is admitted, calls go one by one.
    pub(super) refused_since: Option<Moment>,
    /// Calls that keep their place while another call is made for them; they are out, and not sent.
    pub(super) kept: u32,
    pub(super) queue: Queue,
    /// Let go, but not fetched yet.
    pub(super) granted: BTreeMap<Number, Grant>,
    closed: bool,
    /// Who was told last to look again, and when.
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

/// The call that goes next.
struct Next {
    number: Number,
    /// Its pass has been taken.
    paced: bool,
}

/// What a waiting call finds at the desk.
#[derive(Debug)]
pub(super) enum Look {
    /// It may go.
    Go(Grant),
    /// It has to wait: for its bell, and if it is the one that keeps the time, until then at most.
    Wait(Wait),
    /// Nobody goes any more.
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

    /// Whether it may go now. Serves everybody on the way.
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

    /// A call goes away without having fetched its grant; it leaves no trace.
    pub(super) fn leave(&mut self, number: Number, now: Moment) {
        if let Some(grant) = self.granted.remove(&number) {
            self.give_back(grant, now);
        } else if self.queue.leave(number).is_some() {
            self.serve(None, now);
        }
    }

    /// A call is not sent after all: its place, slot and pace go to the next.
    pub(super) fn give_back(&mut self, grant: Grant, now: Moment) {
        self.account.give_back();
        self.slots.release(grant.operation);
        if grant.paced {
            self.pacer.give_back();
        }
        self.serve(None, now);
    }

    /// Uses the place of a granted call for another operation, if that may go. *A fact grew old while its write
    /// waited: the permit goes to the read* (rules.md 4).
    pub(super) fn turn_to(&mut self, grant: &mut Grant, operation: Operation, now: Moment) -> bool {
        self.sweep(now);
        self.slots.release(grant.operation);
        let may = self.operation_go(operation, grant.lane, now).is_ok();
        if may {
            grant.operation = operation;
        }
        self.slots.take(grant.operation);
        self.serve(None, now);
        may
    }

    /// Whether no hold was set since the grant that would stop the call.
    pub(super) fn may_send(&self, grant: Grant, now: Moment) -> bool {
        let others = self.slots.in_flight(grant.operation).saturating_sub(1);
        let operation = self.holds.operation_go(grant.operation, others, now);
        operation.and(self.holds.lane_go(grant.lane, now)).is_ok()
    }

    /// Nobody goes any more; what is out may conclude.
    pub(super) fn close(&mut self) {
        self.closed = true;
        self.queue.ring_all();
    }

    /// Other settings are in force from now on; calls that are out are not touched.
    pub(super) fn reconfigure(&mut self, settings: Settings, now: Moment) {
        self.settings = settings;
        self.serve(None, now);
    }

    /// Lets go whoever may, in turn, and tells the eldest of the others when to look again.
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

    /// Forgets what is over, so that the guards only look at what stands.
    pub(super) fn sweep(&mut self, now: Moment) {
        self.account.sweep(self.window(now), now);
        self.slots.sweep(now);
        self.ledger.sweep(now);
        self.pacer.set_rate(self.limit(now));
    }

    /// Places that may be held now.
    pub(super) fn limit(&self, now: Moment) -> u32 {
        self.share.limit(self.settings.limit(), now)
    }

    fn window(&self, now: Moment) -> Duration {
        WINDOW + self.share.guard(now)
    }

    /// The call whose turn it is, or until when there is none.
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

    /// The first call of a lane that may go. One whose operation is blocked does not block those behind it. The pace
    /// is asked last, because asking takes it.
    fn next_in(&mut self, turn: Turn, now: Moment) -> Result<Next, Wait> {
        let line = self.queue.line(turn.lane);
        if line.is_empty() {
            return Err(Wait::Event);
        }
        self.holds.lane_go(turn.lane, now)?;
        // *Whatever refused one call refuses those behind it too, and each of them counts.*
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

    /// Calls that the service is answering. One that keeps its place waits for another call: counted here, it would wait
    /// for ever where calls go one by one.
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

    /// Rings the keeper of the time if what it was told is no longer right; who is looking now finds out anyway.
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
