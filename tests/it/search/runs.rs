//! The runs of two kinds of job: triggers of every source, two at a time, every outcome, crashes and starts.
//!
//! Slots, retries and refusals are the product's (`daemon::Turns`), and so is the table of runs: `run_begin`,
//! `run_end` and `session_begin` on a real database. A database cannot be copied for each state, so the
//! effect of each call on a set of open runs is computed once and cached. Two parts are implemented here a
//! second time: the lock that a run waits for (`Context::turn`), and the path of a person's run, beside the
//! slots.

use super::explorer::Machine;
use super::shown::{renamed, without};
use crate::daemon::JobSlots;
use crate::it::support::cluster;
use crate::journal::RunOutcome;
use crate::model::time::whole_millis;
use crate::model::{JobKind, Moment, RunId, RunTrigger, Timestamp};
use crate::store::{DatabaseLock, Durability, Store};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::hash::{Hash, Hasher};
use std::time::Duration;
use tokio::runtime::Runtime;

/// A push, which changes trigger, and a poll, which a schedule triggers.
const KINDS: [JobKind; 2] = [JobKind::Push, JobKind::Balances];
/// The outcomes other than success.
const OUTCOMES: [RunOutcome; 3] = [RunOutcome::Partial, RunOutcome::Failed, RunOutcome::Interrupted];
/// Interval at which a due retry is put off until its run has ended.
const PUT_OFF: Duration = Duration::from_secs(60);

/// A planted fault, which the search must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A run does not wait for its job slot.
    NoTurn,
    /// A start closes no runs.
    NoMending,
    /// A trigger for a busy job is forgotten.
    ForgetsTriggers,
}

/// The table of runs, and the planted fault.
pub(crate) struct Jobs {
    pub(crate) fault: Option<Fault>,
    /// Number of triggers, persons' runs, failures and crashes on one path.
    pub(crate) events: u8,
    book: RefCell<Book>,
}

/// A run of the supervisor or of a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Run {
    /// Waits for its job slot.
    Waits { is_persons: bool },
    /// Is in the table as running.
    Runs { is_persons: bool },
}

#[derive(Clone, Debug)]
pub(crate) struct State {
    /// Job slots; `None` while the program is down.
    turns: Option<JobSlots<At>>,
    /// Runs of each kind; those that wait, in their order.
    runs: [Vec<Run>; 2],
    /// Number of running entries of each kind in the table.
    open: [u8; 2],
    /// True if a trigger came while the job ran and no run has begun since.
    owed: [bool; 2],
    now: At,
    events: u8,
}

/// Milliseconds since the search began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct At(i64);

impl At {
    fn plus(self, delay: Duration) -> Self {
        Self(self.0 + whole_millis(delay))
    }
}

/// Equal if all further events are equal: retries count from now.
impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        self.told() == other.told()
    }
}

impl Eq for State {}

impl Hash for State {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.told().hash(state);
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    Trigger(usize, RunTrigger),
    /// A person requests a run, beside the slots.
    Person(usize),
    /// The next waiting run begins.
    Begin(usize),
    End(usize, RunOutcome, bool),
    UntilRetry,
    Healed,
    Crash,
    Start,
}

impl State {
    fn told(&self) -> (String, [Vec<Run>; 2], [u8; 2], [bool; 2], u8) {
        // The creation time of a backoff is no part of the state, because the backoff has no limit in time.
        let turns = without(&format!("{:?}", self.turns), "start_time: Instant {");
        let turns = renamed(&turns, "At(", |at| at - self.now.0);
        (turns, self.runs.clone(), self.open, self.owed, self.events)
    }

    /// Adds a run of the supervisor behind the waiting ones.
    fn started(&mut self, kind: usize) {
        self.runs[kind].push(Run::Waits { is_persons: false });
        self.owed[kind] = false;
    }

    fn begin(&mut self, kind: usize, trigger: RunTrigger, fault: Option<Fault>) {
        let Some(turns) = &mut self.turns else { return };
        if fault == Some(Fault::ForgetsTriggers) && turns.is_busy(KINDS[kind]) {
            self.owed[kind] = true;
        } else if turns.take_slot(KINDS[kind], trigger) {
            self.started(kind);
        } else {
            self.owed[kind] = true;
        }
    }
}

impl Machine for Jobs {
    type State = State;
    type Action = Action;

    fn start(&self) -> State {
        State {
            turns: Some(JobSlots::default()),
            runs: Default::default(),
            open: [0; 2],
            owed: [false; 2],
            now: At(0),
            events: self.events,
        }
    }

    fn actions(&self, state: &State) -> Vec<Action> {
        let Some(turns) = &state.turns else { return vec![Action::Start] };
        let mut actions = Vec::new();
        for (kind, runs) in state.runs.iter().enumerate() {
            if state.events > 0 {
                let trigger =
                    if KINDS[kind] == JobKind::Push { RunTrigger::Outbox } else { RunTrigger::Schedule };
                actions.extend([Action::Trigger(kind, trigger), Action::Person(kind)]);
            }
            let is_taken = runs.iter().any(|run| matches!(run, Run::Runs { .. }));
            let waits = runs.iter().any(|run| matches!(run, Run::Waits { .. }));
            actions.extend(
                (waits && (!is_taken || self.fault == Some(Fault::NoTurn))).then_some(Action::Begin(kind)),
            );
            if is_taken {
                let troubled = OUTCOMES.map(|outcome| Action::End(kind, outcome, false)).into_iter();
                actions.push(Action::End(kind, RunOutcome::Ok, false));
                actions.extend(
                    troubled
                        .chain([Action::End(kind, RunOutcome::Failed, true)])
                        .filter(|_| state.events > 0),
                );
            }
        }
        actions.extend(turns.next_retry().map(|_| Action::UntilRetry));
        actions.push(Action::Healed);
        actions.extend((state.events > 0).then_some(Action::Crash));
        actions
    }

    fn step(&self, state: &State, action: &Action) -> Result<State, String> {
        let mut next = state.clone();
        match *action {
            Action::Trigger(kind, trigger) => {
                next.events -= 1;
                next.begin(kind, trigger, self.fault);
            }
            Action::Person(kind) => {
                next.events -= 1;
                next.runs[kind].push(Run::Waits { is_persons: true });
            }
            Action::Begin(kind) => {
                let waits = next.runs[kind].iter().position(|run| matches!(run, Run::Waits { .. }));
                let run = waits.map(|at| next.runs[kind].remove(at));
                let is_persons = matches!(run, Some(Run::Waits { is_persons: true }));
                next.runs[kind].insert(0, Run::Runs { is_persons });
                next.open = self.book.borrow_mut().ask(next.open, Entry::Begin(kind));
            }
            Action::End(kind, outcome, is_refused) => {
                next.events -= u8::from(outcome != RunOutcome::Ok);
                self.end(&mut next, kind, outcome, is_refused);
            }
            Action::UntilRetry => self.retry(&mut next),
            Action::Healed => {
                let healed = next.turns.as_mut().map(JobSlots::take_refused).unwrap_or_default();
                for kind in (0..KINDS.len()).filter(|kind| healed.contains(&KINDS[*kind])) {
                    next.begin(kind, RunTrigger::Retry, self.fault);
                }
            }
            Action::Crash => {
                next.events -= 1;
                (next.turns, next.runs, next.owed) = (None, Default::default(), [false; 2]);
            }
            Action::Start => {
                next.turns = Some(JobSlots::default());
                if self.fault != Some(Fault::NoMending) {
                    next.open = self.book.borrow_mut().ask(next.open, Entry::Start);
                }
            }
        }
        Ok(next)
    }

    fn check(&self, state: &State) -> Result<(), String> {
        if let Some(kind) = state.open.iter().position(|open| *open > 1) {
            return Err(format!("two runs of {} at once", KINDS[kind]));
        }
        let Some(turns) = &state.turns else { return Ok(()) };
        for (kind, runs) in state.runs.iter().enumerate() {
            let running = runs.iter().filter(|run| matches!(run, Run::Runs { .. })).count();
            if usize::from(state.open[kind]) != running {
                return Err(format!(
                    "the book has {} runs of {} and {running} are there",
                    state.open[kind], KINDS[kind]
                ));
            }
            let ours = runs.iter().filter(|run| {
                matches!(run, Run::Waits { is_persons: false } | Run::Runs { is_persons: false })
            });
            if usize::from(turns.is_busy(KINDS[kind])) != ours.count() {
                return Err(format!("the slot of {} does not say what runs", KINDS[kind]));
            }
            if state.owed[kind] && !turns.is_busy(KINDS[kind]) {
                return Err(format!("a trigger of {} came to nothing", KINDS[kind]));
            }
        }
        Ok(())
    }

    /// Returns true if nothing runs, waits or is owed.
    fn is_end(&self, state: &State) -> bool {
        state.turns.as_ref().is_some_and(|turns| turns.next_retry().is_none())
            && state.runs.iter().all(Vec::is_empty)
            && state.owed == [false; 2]
    }
}

impl Jobs {
    pub(crate) fn new(fault: Option<Fault>, events: u8) -> Self {
        Self { fault, events, book: RefCell::new(Book::open()) }
    }

    fn end(&self, next: &mut State, kind: usize, outcome: RunOutcome, is_refused: bool) {
        let ended = next.runs[kind].iter().position(|run| matches!(run, Run::Runs { .. }));
        let run = ended.map(|at| next.runs[kind].remove(at));
        next.open = self.book.borrow_mut().ask(next.open, Entry::End(kind, outcome));
        // A person's run does not change the slots.
        if run == Some(Run::Runs { is_persons: true }) {
            return;
        }
        let now = next.now;
        let again = next
            .turns
            .as_mut()
            .and_then(|turns| turns.end_run(KINDS[kind], outcome, is_refused, |delay| now.plus(delay)).0);
        if let Some(trigger) = again {
            next.begin(kind, trigger, self.fault);
        }
    }

    fn retry(&self, next: &mut State) {
        let Some(turns) = &mut next.turns else { return };
        next.now = turns.next_retry().unwrap_or(next.now).max(next.now);
        let due = turns.retries_due(next.now, next.now.plus(PUT_OFF));
        for kind in (0..KINDS.len()).filter(|kind| due.contains(&KINDS[*kind])) {
            next.begin(kind, RunTrigger::Retry, self.fault);
        }
    }
}

/// A write to the table of runs.
#[derive(Clone, Copy, Debug)]
enum Entry {
    Begin(usize),
    End(usize, RunOutcome),
    Start,
}

/// The product's table of runs.
struct Book {
    runtime: Runtime,
    store: Store,
    _lock: DatabaseLock,
    _folder: tempfile::TempDir,
    known: HashMap<([u8; 2], String), [u8; 2]>,
}

impl Book {
    fn open() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let location = cluster::new_location(&folder.path().join("tallyd.db"));
        let lock = DatabaseLock::acquire(location.path()).unwrap();
        let store = runtime.block_on(Store::open(&location, &lock)).unwrap();
        Self { runtime, store, _lock: lock, _folder: folder, known: HashMap::new() }
    }

    /// Returns the open runs of each kind after `entry`, from those before.
    fn ask(&mut self, open: [u8; 2], entry: Entry) -> [u8; 2] {
        let asked = (open, format!("{entry:?}"));
        if let Some(known) = self.known.get(&asked) {
            return *known;
        }
        let answer = self.runtime.block_on(entered(&self.store, open, entry));
        self.known.insert(asked, answer);
        answer
    }
}

async fn entered(store: &Store, open: [u8; 2], entry: Entry) -> [u8; 2] {
    let at = Timestamp(1_800_000_000_000);
    let mut write = store.begin_write(Durability::Normal).await.unwrap();
    // Earlier calls left runs open: these are closed, and those of this call are opened.
    let session = write.session_begin("boot", "test", at, Moment(0)).await.unwrap().session_id;
    let mut runs: BTreeMap<usize, RunId> = BTreeMap::new();
    for (kind, count) in open.into_iter().enumerate() {
        for _ in 0..count {
            runs.insert(kind, write.run_begin(session, KINDS[kind], RunTrigger::Schedule, at).await.unwrap());
        }
    }
    match entry {
        Entry::Begin(kind) => {
            let _run = write.run_begin(session, KINDS[kind], RunTrigger::Schedule, at).await.unwrap();
        }
        Entry::End(kind, outcome) => {
            let run = runs.get(&kind).copied().expect("a run that ends was begun");
            write.run_end(run, KINDS[kind], outcome, "over", at).await.unwrap();
        }
        Entry::Start => {
            let _started = write.session_begin("boot", "test", at, Moment(0)).await.unwrap();
        }
    }
    write.commit().await.unwrap();
    let mut counts = [0; 2];
    for (kind, count) in counts.iter_mut().enumerate() {
        let runs = store.run_list(Some(KINDS[kind]), 9).await.unwrap();
        *count = u8::try_from(runs.iter().filter(|run| run.outcome == "running").count()).unwrap();
    }
    counts
}
