//! The full world with two hosts: a daemon leads, the other one stands by, and every step of a call is struck.
//!
//! `TALLYD_SEEDS=300 TALLYD_DAYS=7 cargo test --release --test simulation -- --ignored two_hosts_break --nocapture` is
//! the long run. It needs PostgreSQL.

use super::super::cluster::Cluster;
use super::super::{days, seed};
use super::trial::Hosts;
use super::{live_at, run_seeds};

#[test]
#[ignore = "takes half a minute, and needs PostgreSQL"]
fn two_hosts_break_no_promise() {
    let Some(cluster) = Cluster::start() else { return };
    run_seeds(|seed, days| {
        let schema = format!("seed_{seed}");
        let outcome = live_at(seed, days, Hosts::Two, |file| cluster.location(&schema, file));
        cluster.sql(&format!("DROP SCHEMA {schema} CASCADE"));
        outcome
    });
}

#[test]
#[ignore = "takes half a minute, and needs PostgreSQL"]
fn the_same_seed_of_two_hosts_writes_the_same_journal() {
    let Some(cluster) = Cluster::start() else { return };
    let live = |schema: &str| live_at(seed(), days(), Hosts::Two, |file| cluster.location(schema, file));
    let (first, again) = (live("first"), live("again"));
    assert_eq!(first.violations, Vec::<String>::new(), "seed {}", seed());
    assert_eq!(first.journal.differs(&again.journal), None, "seed {}", seed());
}
