//! Crashes, power cuts, full disks and old copies of the database: no change is lost or applied twice.

#![allow(
    unreachable_pub,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test ends at the first thing that is not as said, nobody imports it, and it shows what it measured"
)]

mod backup;
mod belonging;
mod checkpoint;
mod conclude;
mod hosts;
mod kinds;
mod matrix;
mod power;
mod recovery;
mod restored;
mod rig;
mod storm;
mod trouble;
