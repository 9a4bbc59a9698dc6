//! tallyd keeps a warehouse's stock book and a selling platform's stock book the same.
//!
//! Four nouns carry it. **Facts**: what the service said, with when and by which exchange (the mirror). **Wishes**:
//! what the warehouse wants done there (the outbox). **Decisions**: pure functions from both to a plan. **The journal**:
//! every run and every exchange, in order; the mirror is a fold over it.
//!
//! The rooms, in the order of the flow. Imports point one way: a room uses those above it, and `tests/tidy.rs` holds
//! the sources to that.
//!
//! | room | what it is for |
//! | --- | --- |
//! | [`model`] | the nouns decisions are made on: ids, SKU, quantity, cell, operation, lane, time |
//! | [`outbox`] | what a wish may say, the states it stands in, and why; pure |
//! | [`reconcile`] | what a cell becomes, how entries are packed into calls, when a brake trips; pure |
//! | [`journal`] | the words of the record, and bodies kept once; pure |
//! | [`schedule`] | when a job is due (pure), and the driver that fires it |
//! | [`telemetry`] | the names of events, and where they are written |
//! | [`config`] | the configuration, typed, with every problem reported at once |
//! | [`client`] | the only room that knows the service speaks JSON: requests, one send, one verdict |
//! | [`limiter`] | the account's budget: the account of calls, pace, lanes, slots, holds, the ledger of 400s |
//! | [`store`] | the only room that knows SQLite |
//! | [`projection`] | an answered exchange becomes facts, live and in a replay |
//! | [`exec`] | the shared parts of all jobs: a run, a call, its commit; where client and store meet |
//! | [`sync`] | the jobs that read the platform, one file per job, and the care of the database |
//! | [`settle`] | decides changes in doubt by checks at the platform |
//! | [`push`] | delivers the changes of the outbox |
//! | [`health`] | the findings for status, metrics and log; pure rules over rows |
//! | [`daemon`] | start order, supervision, the dispatcher of jobs, signals, drain, stop: the only wiring |
//! | [`cli`] | one file per command; the only room that prints |
//! | [`sandbox`] | an island: the service itself, for tests and demonstrations |
//!
//! What always holds:
//!
//! - No call is made inside a write transaction, and none that the journal does not know before its first byte leaves.
//! - A call holds its place in the quota from before it is sent until 60 s after its answer, on disk.
//! - A write whose answer was lost is never sent again blindly.
//! - A fact is taken for a cell only if it was asked for after the cell's last write was answered.
//! - Decisions read no clock and do no I/O; only `daemon` and `cli` read the clock.
//! - The sandbox imports nothing of the rest: a misread field must be misread twice, independently, to stay unseen.

pub mod cli;
pub mod client;
pub mod config;
pub mod daemon;
pub mod exec;
pub mod health;
pub mod journal;
pub mod limiter;
pub mod model;
pub mod outbox;
pub mod projection;
pub mod push;
pub mod reconcile;
pub mod sandbox;
pub mod schedule;
pub mod settle;
pub mod store;
pub mod sync;
pub mod telemetry;
