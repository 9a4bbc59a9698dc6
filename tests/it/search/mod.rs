//! Exhaustive searches over the product's own decisions, with all events in every order (docs/reliability.md,
//! *State search*). Each search also runs with a planted fault that it must find, because a search that finds
//! nothing may have searched nothing.
//!
//! `TALLYD_SEARCH=long` searches further; without it each search takes seconds.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a helper of a test may end the test"
)]

mod explorer;
mod limiter;
mod outbox;
mod runs;
mod shown;

use crate::model::{Lane, Operation};
use crate::outbox::ChangeKind;
use explorer::{Explored, Machine, Violation, explore};
use limiter::Callers;
use outbox::{Changes, Fault};
use runs::Jobs;
use std::time::Instant;

const STATES_MAX: usize = 5_000_000;

/// Searches all states and prints their number.
fn searched(what: &str, machine: &impl Machine) -> Explored {
    let begun = Instant::now();
    let explored = explore(machine, STATES_MAX).unwrap_or_else(|found| panic!("{what}: {found}"));
    let Explored { states, moves, depth } = explored;
    println!("{what}: {states} states, {moves} moves, {depth} steps deep, {:?}", begun.elapsed());
    assert!(moves > states && states > 100, "{what}: {explored:?} is no search");
    explored
}

/// Returns the violation that a planted fault must cause.
fn found(machine: &impl Machine) -> Violation {
    let found = explore(machine, STATES_MAX).expect_err("what was planted was not found");
    println!("{found}\n");
    found
}

const KINDS: [ChangeKind; 3] =
    [ChangeKind::ProductCreate, ChangeKind::ShipmentCreate, ChangeKind::QuantitySet];

#[test]
fn no_change_is_lost_or_done_twice_and_every_path_ends() {
    for kind in KINDS {
        searched(kind.as_str(), &Changes { kind, fault: None });
    }
}

#[test]
fn a_planted_fault_in_the_life_of_a_change_is_found() {
    let planted = |kind, fault| found(&Changes { kind, fault: Some(fault) }).why;
    for kind in [ChangeKind::ProductCreate, ChangeKind::ShipmentCreate] {
        assert!(planted(kind, Fault::NoQuietTime).contains("done twice"));
        assert!(planted(kind, Fault::CrashMeansPending).contains("nobody knows"));
        assert!(planted(kind, Fault::BrokenMeansRefused).contains("done all the same"));
    }
}

/// Returns an operator, a push and a poll, at one operation or at two.
fn callers(together: bool) -> Callers {
    let (push, read) = (Operation::UpdateQuantityOnHand, Operation::GetProductBalances);
    let other = if together { push } else { read };
    let callers = [(Lane::Operator, push), (Lane::Push, push), (Lane::Poll, other)];
    Callers { fault: None, callers, calls: [1; 3], dawdles: false, steps: 1, troubles: 1 }
}

/// Searches three callers, at one operation or at two.
fn search_callers(what: &str, together: bool) {
    let is_long = std::env::var("TALLYD_SEARCH").is_ok_and(|how| how == "long");
    let long = Callers { calls: [2, 1, 1], dawdles: true, steps: 2, ..callers(together) };
    searched(what, &if is_long { long } else { callers(together) });
}

// Two tests, because each search takes seconds of one processor.
#[test]
fn three_callers_of_one_operation_never_break_the_quota_and_none_starves() {
    search_callers("one operation", true);
}

#[test]
fn three_callers_of_two_operations_never_break_the_quota_and_none_starves() {
    search_callers("two operations", false);
}

#[test]
fn a_planted_fault_in_the_limiter_is_found() {
    use limiter::Fault::{Forgets, NoReserve, NoTimers, OneMorePlace, OneMoreSlot};
    let planted = |fault| found(&Callers { fault: Some(fault), calls: [2; 3], ..callers(true) }).why;
    assert!(planted(OneMoreSlot).contains("at once"));
    assert!(planted(NoReserve).contains("places held"));
    assert!(planted(NoTimers).contains("starves"));
    assert!(planted(Forgets).contains("places held"));
    assert!(planted(OneMorePlace).contains("places held"));
}

#[test]
fn no_two_runs_of_a_job_and_none_left_running() {
    let is_long = std::env::var("TALLYD_SEARCH").is_ok_and(|how| how == "long");
    searched("runs", &Jobs::new(None, if is_long { 9 } else { 6 }));
}

#[test]
fn a_planted_fault_in_the_runs_is_found() {
    let planted = |fault| found(&Jobs::new(Some(fault), 3)).why;
    assert!(planted(runs::Fault::NoTurn).contains("at once"));
    assert!(planted(runs::Fault::NoMending).contains("the book has"));
    assert!(planted(runs::Fault::ForgetsTriggers).contains("came to nothing"));
}
