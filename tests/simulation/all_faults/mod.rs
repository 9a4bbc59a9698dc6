//! A full world: all trade and all faults, every promise judged after each step.
//!
//! `TALLYD_SEEDS=1000 TALLYD_DAYS=7 cargo test --release --test simulation all_faults -- --nocapture` is the
//! long run of many seeds: it prints a line for each seed that breaks a promise, and a summary at the end.
//! `TALLYD_SEED=n` sets the first seed. `TALLYD_WEATHER=lack,twice` limits the faults to these kinds
//! ([`kinds`]). docs/reliability.md has the promises and their limits.

mod acts;
mod agenda;
mod beside;
mod browser;
mod claims;
mod counts;
mod dress;
mod files;
mod forms;
mod health;
mod journal;
mod judge;
mod kinds;
mod kits;
mod office;
mod person;
mod refusals;
mod restores;
mod shipping;
mod shows;
mod strange;
mod strikes;
mod trial;
mod two_hosts;
mod waits;

use self::kinds::{Kind, Kinds};
use self::trial::{Hosts, Outcome, trial};
use super::cluster::{self, Cluster};
use super::rest::runtime;
use super::seed;
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tallyd::store::DatabaseLocation;

/// Number of seeds between two lines of progress.
const TOLD_EVERY: usize = 50;

/// Returns a number from the environment.
fn number(name: &str, otherwise: i64) -> i64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// Runs one seed in a runtime of its own.
fn live(seed: u64, days: i64) -> Outcome {
    live_at(seed, days, (Kinds::chosen(), Hosts::One), cluster::new_location)
}

fn live_at(
    seed: u64,
    days: i64,
    worlds: (Kinds, Hosts),
    location: impl FnOnce(&Path) -> DatabaseLocation,
) -> Outcome {
    runtime().block_on(trial(seed, days, worlds, location))
}

/// Runs one seed; a panic counts as a violation.
fn survive(live: impl Fn() -> Outcome) -> Outcome {
    std::panic::catch_unwind(AssertUnwindSafe(live)).unwrap_or_else(|panic| {
        let said = panic.downcast_ref::<String>().cloned();
        let said = said.or(panic.downcast_ref::<&str>().map(|said| (*said).to_owned()));
        let why = said.unwrap_or_else(|| "it fell over".into());
        Outcome { violations: vec![why], ..Outcome::default() }
    })
}

#[test]
fn all_faults_break_no_promise() {
    run_seeds(live);
}

/// Runs the seeds of the environment, a thread for each core, and fails if one breaks a promise.
fn run_seeds(live: impl Fn(u64, i64) -> Outcome + Sync) {
    let (seeds, days) = (u64::try_from(number("TALLYD_SEEDS", 1)).unwrap(), number("TALLYD_DAYS", 1));
    let (begin, next, outcomes) = (Instant::now(), AtomicU64::new(0), Mutex::new(BTreeMap::new()));
    let threads = thread::available_parallelism().map_or(1, usize::from).min(usize::try_from(seeds).unwrap());
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::SeqCst);
                    if number >= seeds {
                        return;
                    }
                    let seed = seed() + number;
                    let outcome = survive(|| live(seed, days));
                    for violation in &outcome.violations {
                        println!("VIOLATION seed {seed}: {violation}");
                    }
                    let mut outcomes = outcomes.lock().unwrap();
                    outcomes.insert(seed, outcome);
                    if outcomes.len() % TOLD_EVERY == 0 {
                        println!(
                            "{} of {seeds} seeds, {:.0} s",
                            outcomes.len(),
                            begin.elapsed().as_secs_f64()
                        );
                    }
                }
            });
        }
    });
    let outcomes = outcomes.into_inner().unwrap();
    summary(&outcomes, days, begin.elapsed());
    let broken: Vec<&u64> =
        outcomes.iter().filter(|(_, o)| !o.violations.is_empty()).map(|(seed, _)| seed).collect();
    assert!(broken.is_empty(), "{} of {seeds} seeds broke a promise: {broken:?}", broken.len());
}

#[test]
fn the_same_seed_writes_the_same_journal_byte_for_byte() {
    let days = number("TALLYD_DAYS", 1);
    let (first, again) = (live(seed(), days), live(seed(), days));
    assert_eq!(first.violations, Vec::<String>::new(), "seed {}", seed());
    assert_eq!(first.journal.differs(&again.journal), None, "seed {}", seed());
    let other = live(seed() + 1, days);
    assert!(first.journal.differs(&other.journal).is_some(), "another seed is another world");
}

/// Ignored by default: `cargo test --test simulation -- --ignored on_both_engines --nocapture`.
#[test]
#[ignore = "takes half a minute"]
fn the_same_seed_writes_the_same_journal_on_both_engines() {
    let Some(cluster) = Cluster::start() else { return };
    let (seeds, days) = (u64::try_from(number("TALLYD_SEEDS", 1)).unwrap(), number("TALLYD_DAYS", 1));
    // A copy of a file has a mark that a dump of a server lacks, and the reasons of held changes name it.
    let worlds = || (Kinds::chosen().without(&[Kind::Restore]), Hosts::One);
    for seed in (0..seeds).map(|n| seed() + n) {
        let file = live_at(seed, days, worlds(), |file| file.into());
        let server = live_at(seed, days, worlds(), |file| cluster.location(&format!("seed_{seed}"), file));
        assert_eq!(file.violations, Vec::<String>::new(), "seed {seed}");
        assert_eq!(file.journal.differs(&server.journal), None, "seed {seed}");
        assert_eq!(server.violations, Vec::<String>::new(), "seed {seed}");
        println!("seed {seed}: {} rows are equal on both engines", file.journal.rows());
    }
}

/// Ignored by default: `cargo test --test simulation -- --ignored put_back_on_a_server --nocapture`.
#[test]
#[ignore = "takes half a minute"]
fn copies_that_are_put_back_on_a_server_break_no_promise() {
    let Some(cluster) = Cluster::start() else { return };
    run_seeds(|seed, days| {
        let worlds = (Kinds::chosen(), Hosts::One);
        live_at(seed, days, worlds, |file| cluster.location(&format!("seed_{seed}"), file))
    });
}

fn summary(outcomes: &BTreeMap<u64, Outcome>, days: i64, took: Duration) {
    let mut figures: BTreeMap<&str, i64> = BTreeMap::new();
    for (name, figure) in outcomes.values().flat_map(|outcome| &outcome.figures) {
        *figures.entry(name).or_default() += figure;
    }
    let figures: Vec<String> = figures.iter().map(|(name, figure)| format!("{figure} {name}")).collect();
    let violations: usize = outcomes.values().map(|outcome| outcome.violations.len()).sum();
    println!(
        "{} seeds of {days} days in {:.1} s: {violations} violations; {}",
        outcomes.len(),
        took.as_secs_f64(),
        figures.join(", ")
    );
}
