//! Schedules: the due times of jobs, and the driver that fires them.
//!
//! - [`rule`]: cron expression, zone, jitter, policy for missed occurrences; pure.
//! - [`driver`]: the ticking; the only file that names tokio-cron-scheduler.
//! - [`feasibility`]: the schedules' demand against the quota; pure.
//! - [`JobOccurrences`]: each occurrence once, also if the clock jumps; pure.
//!
//! An occurrence has three times. It is *due* at the time the expression gives. It *starts* up to `jitter`
//! later. It is *missed* if the start passed while no daemon could run it. The due time identifies the
//! occurrence, also in the journal, because a new jitter does not move it.

pub(crate) mod driver;
pub(crate) mod feasibility;
mod occurrence;
mod rule;

pub(crate) use driver::{DriverError, DueJob, Heartbeat, ScheduleDriver};
pub use occurrence::JobOccurrences;
pub(crate) use rule::MissedPolicy;
pub use rule::Schedule;
pub(crate) use rule::ScheduleError;
