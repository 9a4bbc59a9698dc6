//! What a crash, a power cut, a full disk or an old copy of the database may do to wishes: nothing.

#![allow(
    unreachable_pub,
    clippy::unwrap_used,
    reason = "a test ends at the first thing that is not as said, and nobody imports it"
)]

mod backup;
mod belonging;
mod conclude;
mod matrix;
mod power;
mod recovery;
mod restored;
mod rig;
mod storm;
#[path = "../support/mod.rs"]
mod support;
mod trouble;
