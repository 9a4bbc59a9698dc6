//! Three callers of different lanes (priority classes) at one limiter, with a restart at any point.
//!
//! The search covers every order of requests, sends, arrivals, answers, losses and cancellations, and the
//! time between them. The limiter is the product's own, used through its public functions. A state is the
//! limiter's `Debug` output, with times relative to now, and the phase of each caller. A limiter cannot be
//! copied, so each state is stored as its path and reached again from the start. Futures are polled as a
//! runtime polls them, only after a wake-up; so a missing notify shows as a caller that starves.
//!
//! Simulated are the platform, which counts a call at its arrival, and the faults of crashes and networks. A
//! request arrives before it is given up or not at all. A call that was given up is done within the grace
//! time.

use super::explorer::Machine;
use super::shown::{renamed, without};
use crate::limiter::{
    Limiter, LimiterSettings, LimiterState, PacePayment, PastReservation, Permit, PersistedState,
    QuotaOutcome,
};
use crate::model::time::SleepFuture;
use crate::model::{Clock, Lane, Moment, Operation, Timestamp};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// Limits of the account: calls in any minute, calls of an operation at once, and calls reserved from bulk
/// calls.
const LIMIT: usize = 3;
const SLOTS: usize = 2;
const RESERVED: usize = 1;
const MINUTE_MS: i64 = 60_000;
/// Time within which the platform finishes a call that was given up.
const GRACE_MS: i64 = 5_000;
/// Step of time, beside the steps to the next moment that the limiter waits for.
const STEP_MS: i64 = 20_000;
/// Wait after which a caller starves, if no fault happens.
const STARVED_MS: i64 = 10 * MINUTE_MS;

/// A planted fault, which the search must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The limiter assumes one call more than the account allows.
    OneMorePlace,
    /// The limiter assumes one slot more than the account allows.
    OneMoreSlot,
    /// No calls are reserved.
    NoReserve,
    /// A restarted program gets no stored state.
    Forgets,
    /// Timers never fire.
    NoTimers,
}

/// The bounds of one search.
#[derive(Clone, Debug)]
pub(crate) struct Callers {
    pub(crate) fault: Option<Fault>,
    pub(crate) callers: [(Lane, Operation); 3],
    /// Number of calls of each caller.
    pub(crate) calls: [u8; 3],
    /// True if time may pass between a grant and its send; otherwise the call is sent at once.
    pub(crate) dawdles: bool,
    /// Number of time steps.
    pub(crate) steps: u8,
    /// Number of 429s caused by other software, and of restarts.
    pub(crate) troubles: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Ask(usize),
    GiveUp(usize),
    Send(usize),
    Arrive(usize),
    Answer(usize),
    Refuse(usize, bool),
    Lose(usize),
    Restart,
    Later,
    UntilDue,
}

/// A state: the path to it, and a digest of its content.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    digest: [u8; 32],
    path: Vec<Action>,
    next: Vec<Action>,
    is_end: bool,
    #[allow(dead_code, reason = "shown with a violation")]
    phases: [Phase; 3],
}

impl PartialEq for Seen {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl Eq for Seen {}

impl Hash for Seen {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.digest.hash(state);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    Waits,
    Granted,
    Sent,
    Arrived,
}

impl Machine for Callers {
    type State = Seen;
    type Action = Action;

    fn start(&self) -> Seen {
        self.gone(Vec::new()).expect("nothing has happened yet")
    }

    fn actions(&self, seen: &Seen) -> Vec<Action> {
        seen.next.clone()
    }

    fn step(&self, seen: &Seen, action: &Action) -> Result<Seen, String> {
        self.gone([&seen.path[..], &[*action]].concat())
    }

    /// Checks that no caller starves from here on; the quota is judged at its use.
    fn check(&self, seen: &Seen) -> Result<(), String> {
        self.world(&seen.path)?.all_are_served()
    }

    fn is_end(&self, seen: &Seen) -> bool {
        seen.is_end
    }
}

impl Callers {
    /// Returns the world at the end of a path.
    fn world(&self, path: &[Action]) -> Result<World<'_>, String> {
        let mut world = World::new(self);
        path.iter().try_for_each(|action| world.act(*action))?;
        Ok(world)
    }

    /// Follows a path from the start and returns the state at its end.
    fn gone(&self, path: Vec<Action>) -> Result<Seen, String> {
        let world = self.world(&path)?;
        let next = world.actions();
        let all_done = world.callers.iter().all(|caller| caller.left == 0 && caller.phase == Phase::Idle);
        let phases = [0, 1, 2].map(|at| world.callers[at].phase);
        let (digest, is_end) = (world.digest(), all_done || world.steps == 0);
        Ok(Seen { digest, path, next, is_end, phases })
    }
}

/// A limiter with its callers, its platform and its clock.
struct World<'a> {
    rules: &'a Callers,
    clock: Arc<Hand>,
    limiter: Limiter,
    callers: Vec<Caller>,
    /// Journal entry of each call.
    journal: Vec<Claimed>,
    kept: LimiterState,
    /// Arrival times at the platform, and the time until which a call that was given up holds its slot.
    arrivals: Vec<i64>,
    lingering: Vec<(Operation, i64)>,
    steps: u8,
    troubles: u8,
}

/// A call in the journal, with the time of its answer or cancellation.
#[derive(Clone, Copy, Debug)]
struct Claimed {
    operation: Operation,
    ended: Option<i64>,
    is_given_up: bool,
}

type Asking = Pin<Box<dyn Future<Output = Permit>>>;

struct Caller {
    lane: Lane,
    operation: Operation,
    phase: Phase,
    /// Number of calls still to make.
    left: u8,
    asking: Option<(Asking, Arc<Flag>)>,
    permit: Option<Permit>,
    /// Index of its call in the journal.
    claim: usize,
}

impl<'a> World<'a> {
    fn new(rules: &'a Callers) -> Self {
        let clock = Arc::new(Hand { never_rings: rules.fault == Some(Fault::NoTimers), ..Hand::default() });
        let limiter =
            Limiter::new(settings(rules.fault), Arc::<Hand>::clone(&clock), PersistedState::default());
        let of = |at: usize| (rules.callers[at], rules.calls[at]);
        let caller = |((lane, operation), left)| Caller {
            lane,
            operation,
            phase: Phase::Idle,
            left,
            asking: None,
            permit: None,
            claim: 0,
        };
        let callers = [0, 1, 2].map(|at| caller(of(at))).into();
        let (journal, arrivals, lingering) = (Vec::new(), Vec::new(), Vec::new());
        let (steps, troubles) = (rules.steps, rules.troubles);
        Self {
            rules,
            clock,
            limiter,
            callers,
            journal,
            kept: LimiterState::default(),
            arrivals,
            lingering,
            steps,
            troubles,
        }
    }

    fn now(&self) -> i64 {
        self.clock.now_ms.load(Ordering::Relaxed)
    }

    fn actions(&self) -> Vec<Action> {
        let mut actions = Vec::new();
        for (at, caller) in self.callers.iter().enumerate() {
            match caller.phase {
                Phase::Idle => actions.extend((caller.left > 0).then_some(Action::Ask(at))),
                Phase::Waits => actions.push(Action::GiveUp(at)),
                Phase::Granted => actions.push(Action::Send(at)),
                Phase::Sent => actions.extend([Action::Arrive(at), Action::Lose(at)]),
                Phase::Arrived => {
                    actions.extend([Action::Answer(at), Action::Lose(at)]);
                    let refusals = [Action::Refuse(at, true), Action::Refuse(at, false)];
                    actions.extend(refusals.into_iter().filter(|_| self.troubles > 0));
                }
            }
        }
        actions.extend((self.troubles > 0 && !self.journal.is_empty()).then_some(Action::Restart));
        let is_due_later = self.clock.next_due().is_some_and(|due| due != self.now() + STEP_MS);
        actions.extend((self.steps > 0).then_some(Action::Later));
        actions.extend((self.steps > 0 && is_due_later).then_some(Action::UntilDue));
        actions
    }

    fn act(&mut self, action: Action) -> Result<(), String> {
        match action {
            Action::Ask(at) => self.ask(at),
            Action::GiveUp(at) => {
                self.callers[at].asking = None;
                (self.callers[at].phase, self.callers[at].left) = (Phase::Idle, self.callers[at].left - 1);
            }
            Action::Send(at) => self.send(at),
            Action::Arrive(at) => self.arrive(at)?,
            Action::Answer(at) => self.conclude(at, QuotaOutcome::Answered),
            Action::Refuse(at, is_rate) => {
                self.troubles -= 1;
                let wait = Duration::from_millis(5_000);
                self.conclude(
                    at,
                    if is_rate {
                        QuotaOutcome::RateThrottled(wait)
                    } else {
                        QuotaOutcome::ConcurrencyThrottled
                    },
                );
            }
            Action::Lose(at) => {
                if self.callers[at].phase == Phase::Arrived {
                    self.lingering.push((self.callers[at].operation, self.now() + GRACE_MS));
                }
                self.conclude(at, QuotaOutcome::TimedOut);
            }
            Action::Restart => self.restart(),
            Action::Later => self.pass(STEP_MS),
            Action::UntilDue => self.pass(self.clock.next_due().map_or(0, |due| due - self.now())),
        }
        self.settle()
    }

    fn ask(&mut self, at: usize) {
        let (limiter, caller) = (self.limiter.clone(), &mut self.callers[at]);
        let (operation, lane) = (caller.operation, caller.lane);
        let pace = if lane == Lane::Push { PacePayment::Paid } else { PacePayment::Paced };
        let asking: Asking = Box::pin(async move { limiter.acquire(operation, lane, pace).await });
        caller.asking = Some((asking, Arc::new(Flag(AtomicBool::new(true)))));
        caller.phase = Phase::Waits;
    }

    /// Claims and sends the call, unless a call was throttled meanwhile; then the caller asks again.
    fn send(&mut self, at: usize) {
        let caller = &mut self.callers[at];
        let permit = caller.permit.take().expect("a granted caller has its permit");
        if !permit.may_send() {
            permit.return_unused();
            caller.phase = Phase::Idle;
            return;
        }
        (caller.permit, caller.claim, caller.phase) = (Some(permit), self.journal.len(), Phase::Sent);
        self.journal.push(Claimed { operation: caller.operation, ended: None, is_given_up: false });
    }

    /// Counts the call at the platform.
    fn arrive(&mut self, at: usize) -> Result<(), String> {
        self.callers[at].phase = Phase::Arrived;
        let (now, operation) = (self.now(), self.callers[at].operation);
        self.arrivals.push(now);
        let in_minute = self.arrivals.iter().filter(|arrived| **arrived >= now - MINUTE_MS).count();
        if in_minute > LIMIT {
            return Err(format!("{in_minute} calls within a minute"));
        }
        let ours = |caller: &&Caller| caller.phase == Phase::Arrived && caller.operation == operation;
        let lingering =
            self.lingering.iter().filter(|(busy, until)| *busy == operation && *until > now).count();
        let busy = self.callers.iter().filter(ours).count() + lingering;
        if busy > SLOTS { Err(format!("{busy} calls of {operation} at once")) } else { Ok(()) }
    }

    fn conclude(&mut self, at: usize, outcome: QuotaOutcome) {
        let caller = &mut self.callers[at];
        let permit = caller.permit.take().expect("a call that was sent has its permit");
        let notices = permit.complete_call(outcome);
        (caller.phase, caller.left) = (Phase::Idle, caller.left - 1);
        let claim = &mut self.journal[caller.claim];
        claim.ended = Some(self.clock.now_ms.load(Ordering::Relaxed));
        claim.is_given_up = outcome == QuotaOutcome::TimedOut;
        if !notices.is_empty() {
            self.kept = self.limiter.persisted_state().limiter_state;
        }
    }

    /// Ends the process; the next one has the journal and the stored state.
    fn restart(&mut self) {
        self.troubles -= 1;
        let now = self.now();
        for caller in &mut self.callers {
            if caller.phase == Phase::Arrived {
                self.lingering.push((caller.operation, now + GRACE_MS));
            }
            // The old limiter is dropped with them, so their reports to it have no effect.
            (caller.asking, caller.permit, caller.phase) = (None, None, Phase::Idle);
        }
        let place = |claim: &Claimed| match (claim.ended, claim.is_given_up) {
            (Some(at), true) => PastReservation::GivenUp(claim.operation, Moment(at)),
            (Some(at), false) => PastReservation::Answered(Moment(at)),
            (None, _) => PastReservation::GivenUp(claim.operation, Moment(now)),
        };
        let places = self.journal.iter().map(place).collect();
        // Calls left open by the crash end once the limiter was told of them.
        for claim in self.journal.iter_mut().filter(|claim| claim.ended.is_none()) {
            (claim.ended, claim.is_given_up) = (Some(now), true);
        }
        let memory = PersistedState {
            reservations: places,
            limiter_state: self.kept.clone(),
            ..PersistedState::default()
        };
        let memory =
            if self.rules.fault == Some(Fault::Forgets) { PersistedState::default() } else { memory };
        self.limiter = Limiter::new(settings(self.rules.fault), Arc::<Hand>::clone(&self.clock), memory);
    }

    fn pass(&mut self, by_ms: i64) {
        self.steps = self.steps.saturating_sub(1);
        self.clock.now_ms.fetch_add(by_ms, Ordering::Relaxed);
        self.clock.ring();
    }

    /// Polls every woken caller until none is, and judges each grant.
    fn settle(&mut self) -> Result<(), String> {
        while let Some(at) = self.callers.iter().position(Caller::is_woken) {
            let caller = &mut self.callers[at];
            let Some((asking, flag)) = &mut caller.asking else { continue };
            flag.0.store(false, Ordering::Relaxed);
            let waker = Waker::from(Arc::clone(flag));
            if let Poll::Ready(granted) = asking.as_mut().poll(&mut Context::from_waker(&waker)) {
                caller.permit = Some(granted);
                (caller.asking, caller.phase) = (None, Phase::Granted);
                self.judge_grant(at)?;
                if !self.rules.dawdles {
                    self.send(at);
                }
            }
        }
        Ok(())
    }

    /// Checks that a grant leaves the reserved calls free.
    fn judge_grant(&self, at: usize) -> Result<(), String> {
        let since = self.now() - MINUTE_MS;
        let held = self.journal.iter().filter(|claim| claim.ended.is_none_or(|at| at >= since)).count()
            + self.callers.iter().filter(|caller| caller.phase == Phase::Granted).count();
        let is_bulk = matches!(self.callers[at].lane, Lane::Push | Lane::Poll);
        let most = if is_bulk { LIMIT - RESERVED } else { LIMIT };
        if held > most {
            Err(format!("{held} places held, of which this lane may hold {most}"))
        } else {
            Ok(())
        }
    }

    /// Checks that every waiting caller is served in time, if no fault happens from here on.
    fn all_are_served(mut self) -> Result<(), String> {
        let begun = self.now();
        loop {
            for at in 0..self.callers.len() {
                match self.callers[at].phase {
                    Phase::Granted => self.send(at),
                    Phase::Sent => self.arrive(at)?,
                    Phase::Arrived => self.conclude(at, QuotaOutcome::Answered),
                    Phase::Idle | Phase::Waits => {}
                }
                self.settle()?;
            }
            if self.callers.iter().any(|caller| !matches!(caller.phase, Phase::Idle | Phase::Waits)) {
                continue;
            }
            let waiting = self.callers.iter().position(|caller| caller.phase == Phase::Waits);
            let Some(waiting) = waiting else { return Ok(()) };
            let due = self.clock.next_due().filter(|due| *due - begun < STARVED_MS);
            let Some(due) = due else { return Err(format!("caller {waiting} starves")) };
            self.pass(due - self.now());
            self.settle()?;
        }
    }

    fn digest(&self) -> [u8; 32] {
        let now = self.now();
        let recent = |at: &i64| *at >= now - 2 * MINUTE_MS;
        let arrivals: Vec<i64> = self.arrivals.iter().filter(|at| recent(at)).map(|at| at - now).collect();
        let lingering = self.lingering.iter().filter(|(_, until)| *until > now);
        let lingering: Vec<_> = lingering.map(|(operation, until)| (*operation, until - now)).collect();
        let journal = self.journal.iter().filter(|claim| claim.ended.is_none_or(|at| recent(&at)));
        let journal = journal.map(|claim| Claimed { ended: claim.ended.map(|at| at - now), ..*claim });
        let journal: Vec<Claimed> = journal.collect();
        let callers: Vec<_> = self.callers.iter().map(|caller| (caller.phase, caller.left)).collect();
        let shown = relative(&format!("{:?}", self.limiter), now);
        let kept = relative(&format!("{:?}", self.kept), now);
        let all = (shown, kept, arrivals, lingering, journal, callers, (self.steps, self.troubles));
        Sha256::digest(format!("{all:?}")).into()
    }
}

impl Caller {
    fn is_woken(&self) -> bool {
        self.asking.as_ref().is_some_and(|(_, flag)| flag.0.load(Ordering::Relaxed))
    }
}

fn settings(fault: Option<Fault>) -> LimiterSettings {
    let more = |is: Fault| u32::from(fault == Some(is));
    let number = |count: usize| u32::try_from(count).expect("a small number");
    LimiterSettings {
        calls_per_minute: number(LIMIT) + more(Fault::OneMorePlace),
        concurrent_calls_per_operation: number(SLOTS) + more(Fault::OneMoreSlot),
        reserved_calls: number(RESERVED) - more(Fault::NoReserve),
        ..LimiterSettings::default()
    }
}

/// Returns the limiter's `Debug` output in a comparable form.
///
/// Times are relative to now, calls are named by their order. It omits the waiters of notifies and the
/// pacer's bucket: the last pass and the rate determine the bucket.
fn relative(shown: &str, now: i64) -> String {
    let text = without(&without(shown, "notify: Notify {"), "bucket: RateLimiter {");
    assert!(!text.contains("0x"), "an address is no state: {text}");
    let mut numbers = Vec::new();
    renamed(&text, "TicketId(", |number| {
        numbers.push(number);
        number
    });
    numbers.sort_unstable();
    numbers.dedup();
    let rank = |number: i64| numbers.iter().take_while(|other| **other < number).count() as i64;
    let text = renamed(&text, "TicketId(", rank);
    let text = renamed(&text, "Timestamp(", |at| at - now);
    let text = renamed(&text, "last_ticket: ", |_| 0);
    renamed(&text, "Moment(", |at| at - now)
}

/// A clock that stands until it is advanced.
#[derive(Default)]
struct Hand {
    now_ms: AtomicI64,
    never_rings: bool,
    naps: Arc<Naps>,
}

/// Sleepers: the due time of each, and its waker.
#[derive(Default)]
struct Naps(Mutex<BTreeMap<u64, (i64, Option<Waker>)>>);

/// A sleep; it ends at its time, or when it is dropped.
struct Nap {
    number: u64,
    naps: Arc<Naps>,
}

impl Hand {
    /// Returns the due time of the first sleeper.
    fn next_due(&self) -> Option<i64> {
        let now = self.now_ms.load(Ordering::Relaxed);
        self.naps.0.lock().unwrap().values().map(|(due, _)| *due).filter(|due| *due > now).min()
    }

    /// Wakes the due sleepers; each finds its entry removed when it is polled.
    fn ring(&self) {
        let now = self.now_ms.load(Ordering::Relaxed);
        let mut naps = self.naps.0.lock().unwrap();
        let over: Vec<u64> =
            naps.iter().filter(|(_, (due, _))| *due <= now).map(|(number, _)| *number).collect();
        for (_, waker) in over.iter().filter(|_| !self.never_rings).filter_map(|number| naps.remove(number)) {
            waker.into_iter().for_each(Waker::wake);
        }
    }
}

impl Clock for Hand {
    fn now(&self) -> Timestamp {
        Timestamp(self.now_ms.load(Ordering::Relaxed))
    }

    fn moment(&self) -> Moment {
        Moment(self.now_ms.load(Ordering::Relaxed))
    }

    fn sleep(&self, duration: Duration) -> SleepFuture {
        let due = self.moment().plus(duration).0;
        let mut naps = self.naps.0.lock().unwrap();
        let number = naps.keys().last().map_or(0, |last| last + 1);
        naps.insert(number, (due, None));
        Box::pin(Nap { number, naps: Arc::clone(&self.naps) })
    }
}

impl Future for Nap {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        match self.naps.0.lock().unwrap().get_mut(&self.number) {
            Some((_, waker)) => {
                *waker = Some(context.waker().clone());
                Poll::Pending
            }
            None => Poll::Ready(()),
        }
    }
}

impl Drop for Nap {
    fn drop(&mut self) {
        self.naps.0.lock().unwrap().remove(&self.number);
    }
}

/// Wake-up flag of a task.
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}
