//! The whole daemon and the whole platform in one process, on one clock, from one seed. An auditor with a
//! ground truth of its own judges them. docs/reliability.md has the claims and the way to reproduce a
//! failure.
//!
//! `TALLYD_SEED` chooses the seed, `TALLYD_DAYS` the number of quiet days.

#![allow(
    unreachable_pub,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a simulation ends at the first thing that is not as said, tells its figures, and has its seed from the \
              environment"
)]

mod all_faults;
mod audit;
mod auditor;
mod books;
mod calls;
mod clock;
mod clock_steps;
mod faults;
mod happen;
mod judge;
mod lapse;
mod month;
mod odd;
mod poison;
mod quiet;
mod random;
mod rest;
mod rewrite;
mod rivals;
mod shop;
mod storm;
mod timetable;
mod two_writers;
mod waits;
mod wire;
mod world;

#[path = "../support/cluster.rs"]
#[allow(dead_code, reason = "only some of it is needed here")]
mod cluster;
#[path = "../support/outsider.rs"]
#[allow(dead_code, reason = "only some of it is needed here")]
mod outsider;
#[path = "../support/replayed.rs"]
#[allow(dead_code, reason = "only some of it is needed here")]
mod replayed;

fn seed() -> u64 {
    std::env::var("TALLYD_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1)
}

fn days() -> i64 {
    std::env::var("TALLYD_DAYS").ok().and_then(|days| days.parse().ok()).unwrap_or(3)
}
