//! A breadth-first search through all states of a machine, within the machine's own bounds.
//!
//! A machine defines its start state, the actions of a state and the state that each action leads to. Its
//! decisions are the product's own functions, called on generated facts. Each state is judged once. The first
//! wrong state is reached on a shortest path, and that path is the message.

use std::collections::{HashMap, VecDeque};
use std::fmt::{self, Debug};
use std::hash::Hash;

/// A state machine to be searched.
pub(crate) trait Machine {
    /// State that decides all further actions; equal states are visited once.
    type State: Clone + Eq + Hash + Debug;
    /// Transition of the machine.
    type Action: Clone + Debug;
    fn start(&self) -> Self::State;
    fn actions(&self, state: &Self::State) -> Vec<Self::Action>;
    /// Returns the state after `action`; an error if the action must never happen.
    fn step(&self, state: &Self::State, action: &Self::Action) -> Result<Self::State, String>;
    /// Checks the invariants of a state.
    fn check(&self, state: &Self::State) -> Result<(), String>;
    /// Returns true for an end state; every other state must lead to an end state.
    fn is_end(&self, state: &Self::State) -> bool;
}

/// A search without a violation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Explored {
    pub(crate) states: usize,
    pub(crate) moves: usize,
    /// Length of the longest of all shortest paths.
    pub(crate) depth: usize,
}

/// A violation, and the shortest path to it.
#[derive(Debug)]
pub(crate) struct Violation {
    pub(crate) why: String,
    pub(crate) path: Vec<String>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.why)?;
        self.path.iter().enumerate().try_for_each(|(at, step)| write!(f, "\n{:>3}. {step}", at + 1))
    }
}

/// The state that an action led from, by its number, and the action; `None` for the first.
type Origin<A> = Option<(usize, A)>;

struct Search<'a, M: Machine> {
    machine: &'a M,
    /// Each state with the state and action by which it was first reached, and its distance.
    seen: Vec<(M::State, Origin<M::Action>, usize)>,
    known: HashMap<M::State, usize>,
    /// All predecessors of each state.
    before: Vec<Vec<usize>>,
}

/// Visits every state.
///
/// # Errors
/// The first violation; also if there are more than `states_max` states, because the search is then
/// incomplete.
pub(crate) fn explore<M: Machine>(machine: &M, states_max: usize) -> Result<Explored, Violation> {
    let mut search = Search { machine, seen: Vec::new(), known: HashMap::new(), before: Vec::new() };
    search.add(machine.start(), None)?;
    let (mut queue, mut moves) = (VecDeque::from([0]), 0);
    while let Some(at) = queue.pop_front() {
        if search.seen.len() > states_max {
            return Err(Violation { why: format!("more than {states_max} states"), path: Vec::new() });
        }
        let state = search.seen[at].0.clone();
        for action in machine.actions(&state) {
            moves += 1;
            let next =
                machine.step(&state, &action).map_err(|why| search.violation(at, Some(&action), why))?;
            let is_new = search.seen.len();
            let next = search.add(next, Some((at, action)))?;
            search.before[next].push(at);
            queue.extend((next == is_new).then_some(next));
        }
    }
    search.all_end()?;
    let depth = search.seen.iter().map(|(_, _, depth)| *depth).max().unwrap_or(0);
    Ok(Explored { states: search.seen.len(), moves, depth })
}

impl<M: Machine> Search<'_, M> {
    /// Returns the state's number; a new state is judged.
    fn add(&mut self, state: M::State, by: Option<(usize, M::Action)>) -> Result<usize, Violation> {
        if let Some(known) = self.known.get(&state) {
            return Ok(*known);
        }
        let at = self.seen.len();
        let depth = by.as_ref().map_or(0, |(from, _)| self.seen[*from].2 + 1);
        self.seen.push((state.clone(), by, depth));
        self.before.push(Vec::new());
        self.known.insert(state.clone(), at);
        self.machine.check(&state).map_err(|why| self.violation(at, None, why))?;
        Ok(at)
    }

    /// Checks that every state leads to an end, by a backward search from all ends at once.
    fn all_end(&self) -> Result<(), Violation> {
        let mut leads = vec![false; self.seen.len()];
        let mut queue: Vec<usize> =
            (0..leads.len()).filter(|at| self.machine.is_end(&self.seen[*at].0)).collect();
        while let Some(at) = queue.pop() {
            if !std::mem::replace(&mut leads[at], true) {
                queue.extend(&self.before[at]);
            }
        }
        match leads.iter().position(|leads| !leads) {
            Some(at) => Err(self.violation(at, None, "nothing leads to an end any more".into())),
            None => Ok(()),
        }
    }

    fn violation(&self, at: usize, last: Option<&M::Action>, why: String) -> Violation {
        let mut path: Vec<String> = last.iter().map(|action| format!("{action:?}")).collect();
        let mut here = at;
        while let Some((from, action)) = &self.seen[here].1 {
            path.push(format!("{action:?}"));
            here = *from;
        }
        path.reverse();
        Violation { why: format!("{why}\nin {:?}", self.seen[at].0), path }
    }
}
