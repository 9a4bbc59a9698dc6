//! The journal's tables: sessions, runs, exchanges, events and snapshots.
//!
//! | file | subject |
//! | --- | --- |
//! | `detail` | exchanges with their bodies, events, and the changes of a run |
//! | `event` | decisions, appended before their effects |
//! | `exchange` | calls: stored before they are sent and completed with their outcome |
//! | `fact_tables` | list of all tables and their role in a replay |
//! | `projection_version` | projection versions, and the exchanges that another version may read better |
//! | `prune` | deletion of bodies by age and size |
//! | `reader` | the journal for a replay, as of one moment |
//! | `run` | sessions, runs and the state of each job |
//! | `snapshot` | all facts at a position, from which a replay begins |

pub(super) mod detail;
pub(super) mod event;
pub(super) mod exchange;
pub(super) mod fact_tables;
pub(super) mod projection_version;
pub(super) mod prune;
pub(super) mod reader;
pub(super) mod run;
pub(super) mod snapshot;
