//! tallyd keeps a warehouse's stock and a selling platform's stock in step.
//!
//! Four terms carry the design (docs/glossary.md). A **fact** is a value that the platform returned, with the time
//! and the exchange; the mirror holds them. A **change** is a queued change of something at the platform; the outbox
//! holds them. A **decision** is a pure function from facts and changes to a plan. The **journal** records every run
//! and every exchange in order; the mirror is a projection of it.
//!
//! The rooms follow in the order of the flow. Imports point one way: a room uses those above it. `tests/tidy` checks
//! that. A change of a quantity takes this way: `outbox` → `push::pipeline`, which plans it (`push::snapshot`, by
//! `reconcile`), reads a stale fact (`exec::balances_reader`) and plans it again → `push::send` → `push::claim`, which
//! makes the call (`exec::call`) and records its answer (`projection`) → `push::finished_calls`. All other kinds take
//! `push::kinds` → `push::claim`. `push::turns` starts the calls of both.
//!
//! | room | subject |
//! | --- | --- |
//! | [`model`] | ids, SKU, quantity, stock level, operation, lane, time |
//! | [`outbox`] | bodies, states and reasons of changes; pure |
//! | [`reconcile`] | plans of stock levels, packing of calls, brakes, changes in doubt; pure |
//! | [`journal`] | records of runs and exchanges, packed bodies; pure |
//! | [`schedule`] | due times of jobs (pure), and the driver that fires them |
//! | [`telemetry`] | names of events, and their output |
//! | [`client`] | requests, transport, verdicts; only here is the platform's JSON known |
//! | [`limiter`] | the account's quota: sliding window, pace, lanes, slots, holds, bad-request budget |
//! | [`store`] | the database; only here are SQLite and PostgreSQL known |
//! | [`projection`] | facts from answered exchanges, live and in a replay |
//! | [`exec`] | the shared parts of all jobs: a run, a call, its commit |
//! | [`health`] | findings for status, metrics and log; pure rules over rows |
//! | [`notify`] | notices to receivers: what to tell, and its delivery |
//! | [`config`] | the typed configuration, which reports all its problems at once |
//! | [`sync`] | the jobs that read the platform, one file per job, and the care of the database |
//! | [`settle`] | decides changes in doubt by checks at the platform |
//! | [`push`] | delivers the changes of the outbox |
//! | [`explain`] | steps and sentences of a stock level's history, for the command line and the page |
//! | [`daemon`] | start order, supervision, the dispatcher of jobs, signals, drain, stop; the only wiring |
//! | [`present`] | the data of views, which the command line and the page share |
//! | [`web`] | the page: one file per address, served beside the daemon |
//! | [`cli`] | one file per command; the only room that prints |
//! | [`sandbox`] | the platform itself, for tests and demonstrations; it imports nothing of the rest |
//!
//! What always holds:
//!
//! - No call is made inside a write transaction. The journal has each call before its first byte leaves.
//! - A call holds its reservation in the quota from before it is sent until 60 s after its answer, also on disk.
//! - A write whose answer was lost is never sent again blindly.
//! - A fact counts for a stock level only if its request was sent after the answer to the stock level's last write.
//! - Decisions read no clock and do no I/O; only `daemon` and `cli` read the clock.
//! - The sandbox imports nothing of the rest: a misread field must be misread twice, independently, to stay unseen.

#[cfg(test)]
extern crate self as tallyd; // the support of the suites names the crate as the other binaries do
#[cfg(test)]
#[path = "../tests/it/mod.rs"]
mod it;

pub mod cli;
pub mod client;
pub mod config;
pub mod daemon;
pub mod exec;
pub mod explain;
pub mod health;
pub mod journal;
pub mod limiter;
pub mod model;
pub mod notify;
pub mod outbox;
pub mod present;
pub mod projection;
pub mod push;
pub mod reconcile;
pub mod sandbox;
pub mod schedule;
pub mod settle;
pub mod store;
pub mod sync;
pub mod telemetry;
pub mod web;
