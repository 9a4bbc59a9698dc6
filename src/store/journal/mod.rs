//! The journal's tables: sessions, runs, exchanges, events and snapshots.

pub(super) mod detail;
pub(super) mod event;
pub(super) mod exchange;
pub(super) mod fact_tables;
pub(super) mod projection_version;
pub(super) mod prune;
pub(super) mod reader;
pub(super) mod run;
pub(super) mod snapshot;
