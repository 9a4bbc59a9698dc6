//! When a job is due. [`rule`] is pure: cron expression, zone, jitter, what to do about missed occurrences.
//! [`driver`] is the ticking itself, and the only file that names tokio-cron-scheduler. [`feasible`] says whether a table
//! of schedules fits the quota; pure. [`Occurrences`] hands out each occurrence once, whatever the clock does; pure.
//!
//! Three times of one occurrence are kept apart. It is *due* when the expression says so; it *starts* up to
//! `jitter` later; it is *missed* when that start passed while nobody could run it. A due time identifies the
//! occurrence, in the journal too, because it does not move when somebody changes the jitter.

pub mod attention;
pub mod driver;
pub mod feasible;
mod occurrence;
mod rule;

pub use driver::{Driver, DriverError, Pulse};
pub use occurrence::{Occurrences, Wall};
pub use rule::{Missed, Schedule, ScheduleError};
