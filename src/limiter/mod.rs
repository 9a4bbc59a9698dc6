//! The account's budget: who may call the service, and when. Takes plain settings and an injected clock.
//!
//! The service counts the calls of an account over a sliding minute and refuses what is too much
//! (service-interface.md, *Limits*), and refusals count too. [`Limiter::acquire`] lets a call wait until it may go;
//! [`Permit::conclude`] tells what came of it.
//!
//! # The policy, and why not a simpler one
//!
//! Three things together, none of which suffices alone. The shares are those of a simulated hour of backlog against a
//! strict sliding minute of 120 calls, with answers taking 0.1 to 1 s:
//!
//! - **The account of calls** (`account.rs`) keeps the promise: a call holds its place from before it is sent until 60 s
//!   after its answer, so that jitter, stalls and late answers cannot push two calls into one minute of the service.
//!   A log of send times used 97 % and drew 181 refusals; this one draws none, also with a tenth of the ways
//!   stalling for seconds. Alone, though, it sends a backlog in a rush and is then silent: an urgent call waited up
//!   to 50 s.
//! - **The pace** (`pace.rs`) spreads bulk calls: the urgent call waits 0.6 s at worst, 98.7 % are used. A token bucket
//!   *instead of* the account has to give up its burst from the rate (burst 10 uses 92 %), and even at burst 1 a
//!   network that stalls makes it late and then too early: some 40 refusals an hour.
//! - **Two places in reserve** that bulk calls leave free: the urgent call does not wait at all, 97.1 % are used,
//!   and services that count whole seconds see no rush either.
//!
//! Before the window stand the slots (3 calls of an operation at a time), the holds (what the service or we
//! ordered to wait) and the ledger of bad requests; the share shrinks while other software uses the
//! account. Lanes (`queue.rs`) decide who goes first: a poll waits 4 s at most behind endless pushes, and anybody a minute
//! behind operators who use the minute up in a rush (`tests/lanes.rs`).
//!
//! A million simulated calls (`tests/endurance.rs`: rushes, crashes, suspends, a calendar set an hour ahead and back,
//! stalls, lost answers, poison; 436 lives) broke no minute and no slot, and 402 answers of 400 came within a day
//! at most. A process that is killed amid a backlog of 8,000 cells, each answer taking 1.5 s, uses 115 to 117 of 118 places in its
//! first minute and draws no 429.
//!
//! After the service has refused the whole account, calls go one by one until one is admitted: in an account that grants
//! a tenth of what it should, eight calls at most are sent in vain within 35 s (`tests/foreign.rs`).
//!
//! # What it does not promise
//!
//! - Nothing about other software on the account before its first 429, and one 429 for each time it tries to get back
//!   what the others still use. Instances that share an account set `share`.
//! - Nothing about calls that did not come through here, and nothing over a restart that is not told
//!   what [`Memory`] asks for.
//! - No order between lanes beyond their floors, and no upper bound on a wait: a hold may last a day. A caller that
//!   cannot wait drops the future, which leaves no trace. Waiting is not failing.
//! - No log lines: it returns [`Notice`]s, because the caller knows the run and has to keep what changed anyway.

mod account;
mod block;
mod budget;
mod conclude;
mod desk;
mod hold;
mod holds;
mod ledger;
mod memory;
mod now;
mod outcome;
mod pace;
mod permit;
mod queue;
mod settings;
mod share;
mod slots;
mod standing;
mod wait;

#[cfg(test)]
mod tests;

pub use budget::{Budget, WaitingCalls};
pub use hold::{Hold, Reason, Scope};
pub use memory::{Kept, Memory, Place};
pub use outcome::{Notice, Outcome};
pub use permit::Permit;
pub use settings::Settings;
pub use standing::{LedgerForecast, Standing, StandingHold, ledger_forecast};
#[cfg(test)]
pub use tests::TestClock;

use crate::model::{Clock, Lane, Moment, Operation};
use desk::{Desk, Look};
use now::Now;
use queue::Waiting;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use wait::Wait;

/// The longest sleep without a look. Tokio's timer stands still while the machine is suspended and ours does not:
/// what fell due meanwhile is seen this long after waking at the latest.
const LONGEST_NAP: Duration = Duration::from_secs(60);

/// Whether a call pays the pace of the bulk lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// It does, where its lane is paced.
    Paced,
    /// The freshness read before this write has paid for both; the write also goes before those that have yet to pay.
    Paid,
}

/// The limiter is closed: nothing new goes to the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the call was not sent because the program is draining; it may be made again after the next start")]
pub struct Stopped;

/// The account's budget. Clones are handles to the same one; one process has one per account.
#[derive(Clone)]
pub struct Limiter {
    office: Arc<Office>,
}

/// The desk and the clock on its wall. The lock is held for the arithmetic only, never over an await.
struct Office {
    desk: Mutex<Desk>,
    clock: Arc<dyn Clock>,
}

impl Office {
    /// A panic under the lock would be a bug in the arithmetic. What it leaves behind has at worst counted a call too
    /// much, which is safe, so the others go on.
    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Now {
        Now::of(self.clock.as_ref())
    }

    fn moment(&self) -> Moment {
        self.clock.moment()
    }
}

impl Limiter {
    /// A limiter that knows what it must of earlier runs; see [`Memory`] for what that is.
    pub fn new(settings: Settings, clock: Arc<dyn Clock>, memory: Memory) -> Self {
        let desk = Desk::restored(settings, memory, Now::of(clock.as_ref()));
        Self { office: Arc::new(Office { desk: Mutex::new(desk), clock }) }
    }

    /// Waits until this call may go: its turn, a place, the pace, a slot, no hold.
    ///
    /// Dropping the future gives up its place in the queue and takes nothing.
    ///
    /// # Errors
    /// [`Stopped`] once the limiter is [closed](Self::close).
    pub async fn acquire(&self, operation: Operation, lane: Lane, pace: Pace) -> Result<Permit, Stopped> {
        let waiting = self.office.desk().queue.join(operation, lane, pace);
        let ticket = Ticket { office: &self.office, waiting };
        loop {
            let now = self.office.moment();
            let look = self.office.desk().look(ticket.waiting.number, now);
            match look {
                Look::Go(grant) => return Ok(Permit::new(Arc::clone(&self.office), grant)),
                Look::Closed => return Err(Stopped),
                Look::Wait(wait) => ticket.nap(wait, now).await,
            }
        }
    }

    /// Lets nothing new go: those that wait and those that come are told [`Stopped`]. Permits stay good.
    pub fn close(&self) {
        self.office.desk().close();
    }

    /// Puts other settings in force. What is in flight or in the window stays counted.
    pub fn reconfigure(&self, settings: Settings) {
        let now = self.office.moment();
        self.office.desk().reconfigure(settings, now);
    }

    /// Holds an operation until it is [released](Self::release_operation), because one call is to show whether it or
    /// the key is at fault (rules.md 18). `why` is for a person. Held already: no notice.
    pub fn hold_operation(&self, operation: Operation, why: impl Into<String>) -> Option<Notice> {
        let now = self.office.now();
        let mut desk = self.office.desk();
        let new = desk.holds.judge(operation, why.into(), now.moment);
        desk.started(new, Scope::Operation(operation), Reason::Judging, now).pop()
    }

    /// The operation has been judged. False if it was not held.
    pub fn release_operation(&self, operation: Operation) -> bool {
        let now = self.office.moment();
        let mut desk = self.office.desk();
        let held = desk.holds.release(operation);
        desk.serve(None, now);
        held
    }

    /// The service does not accept the key: everything but the probe lane waits. `why` is for a person and names no
    /// secret. Refused already: no notice.
    pub fn refuse_key(&self, why: impl Into<String>) -> Option<Notice> {
        let now = self.office.now();
        let mut desk = self.office.desk();
        let new = desk.holds.refuse(why.into(), now.moment);
        desk.started(new, Scope::Key, Reason::RefusedKey, now).pop()
    }

    /// A probe was answered, or the key is another one. False if the key was not refused.
    pub fn lift_refusal(&self) -> bool {
        let now = self.office.moment();
        let mut desk = self.office.desk();
        let refused = desk.holds.lift();
        desk.serve(None, now);
        refused
    }

    /// A person ends the wait that the service ordered for the account; the reason for it, if one was in force.
    pub fn lift_order(&self) -> Option<Reason> {
        let now = self.office.moment();
        let mut desk = self.office.desk();
        let lifted = desk.holds.lift_order(now);
        desk.serve(None, now);
        lifted
    }

    /// Whether the key is refused.
    pub fn is_refused(&self) -> bool {
        self.office.desk().holds.is_refused()
    }

    /// What a successor has to be told. Only [`Memory::kept`] has to be written down; the rest is in the journal.
    pub fn memory(&self) -> Memory {
        let now = self.office.now();
        self.office.desk().memory(now)
    }

    /// What is used and what is left, for `status`.
    pub fn budget(&self) -> Budget {
        let now = self.office.now();
        self.office.desk().budget(now)
    }
}

/// All that is remembered, in the words of the sources: for tests that tell one state from another.
impl fmt::Debug for Limiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Limiter").field(&*self.office.desk()).finish()
    }
}

/// The place in the queue of one call, given up when it is dropped.
struct Ticket<'a> {
    office: &'a Office,
    waiting: Waiting,
}

impl Ticket<'_> {
    /// Sleeps until the bell, or until the time it was told to keep.
    async fn nap(&self, wait: Wait, now: Moment) {
        let bell = self.waiting.bell.notified();
        match wait {
            Wait::Event => bell.await,
            Wait::Until(due) => {
                let nap = due.since(now).clamp(Duration::from_millis(1), LONGEST_NAP);
                // Bell or time: the next look tells.
                tokio::select! {
                    biased;
                    () = bell => {}
                    () = self.office.clock.sleep(nap) => {}
                }
            }
        }
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        let now = self.office.moment();
        self.office.desk().leave(self.waiting.number, now);
    }
}
