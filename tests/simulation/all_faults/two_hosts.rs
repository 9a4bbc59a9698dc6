//! The full world with two hosts: a daemon leads, the other one stands by, and every step of a call is struck.
//!
//! `TALLYD_SEEDS=300 TALLYD_DAYS=7 cargo test --release --test simulation -- --ignored two_hosts_break --nocapture` is
//! the long run. It needs PostgreSQL.

use super::super::cluster::Cluster;
use super::super::random::Random;
use super::super::rest::runtime;
use super::super::seed;
use super::agenda::BEGIN_MS;
use super::kinds::Kinds;
use super::trial::{Hosts, play};
use super::{live_at, number, run_seeds, strikes};

#[test]
#[ignore = "takes half a minute, and needs PostgreSQL"]
fn two_hosts_break_no_promise() {
    let Some(cluster) = Cluster::start() else { return };
    run_seeds(|seed, days| {
        let schema = format!("seed_{seed}");
        let outcome =
            live_at(seed, days, (Kinds::of_two_hosts(), Hosts::Two), |file| cluster.location(&schema, file));
        cluster.sql(&format!("DROP SCHEMA {schema} CASCADE"));
        outcome
    });
}

#[test]
#[ignore = "takes half a minute, and needs PostgreSQL"]
fn the_same_seed_of_two_hosts_writes_the_same_journal() {
    let Some(cluster) = Cluster::start() else { return };
    let live = |schema: &str| {
        let worlds = (Kinds::of_two_hosts(), Hosts::Two);
        live_at(seed(), number("TALLYD_DAYS", 1), worlds, |file| cluster.location(schema, file))
    };
    let (first, again) = (live("first"), live("again"));
    assert_eq!(first.violations, Vec::<String>::new(), "seed {}", seed());
    assert_eq!(first.journal.differs(&again.journal), None, "seed {}", seed());
}

#[test]
#[ignore = "takes half a minute, and needs PostgreSQL"]
fn a_leader_that_is_struck_at_any_step_of_a_call_does_nothing_twice() {
    let Some(cluster) = Cluster::start() else { return };
    let agenda = strikes::one_of_each(BEGIN_MS);
    let random = Random::new(seed(), "one of each");
    let worlds = (Kinds::none(), Hosts::Two);
    let outcome =
        runtime().block_on(play(seed(), &agenda, random, worlds, |file| cluster.location("each", file)));
    assert_eq!(outcome.violations, Vec::<String>::new(), "seed {}", seed());
    let steps = ["InFlight", "BeforeClaim", "AfterClaim", "BeforeConclusion", "AfterConclusion"];
    for trouble in ["stopped process", "suspended host", "death", "cut", "stop"] {
        for step in steps {
            let struck = |name: &String| name.starts_with(trouble) && name.contains(step);
            assert!(outcome.figures.keys().any(struck), "{trouble} {step}: {:?}", outcome.figures);
        }
    }
    assert!(outcome.figures["takeovers"] >= 15, "{:?}", outcome.figures);
}
