//! The daemon: start order, supervision, drain, stop. It wires the other modules, which take plain values.
//!
//! Start: lock → lead (on a server, see `standby`) → database (migrations) → session (recover interrupted work) → limiter from the journal →
//! client → schedules → ready. Stop: nothing new starts → calls that wait for a reservation give up → calls
//! in flight complete → session ends → WAL checkpoint → lock released.

mod account_check;
mod control;
mod health_monitor;
mod job_slots;
mod key_probe;
mod metrics;
mod notifiers;
mod past_calls;
mod pauses;
mod registry;
mod run_once;
mod settings;
mod standby;
mod start;
mod start_error;
mod supervise;
mod system_clock;
mod systemd;

pub use control::ControlError;
pub(crate) use control::RunResult;
pub use control::{ControlRequest, send_control_request};
#[cfg(test)]
pub(crate) use job_slots::JobSlots;
pub(crate) use metrics::is_old as is_metrics_old;
pub(crate) use notifiers::notice_sender;
pub use registry::run_job;
pub use run_once::OnceReport;
pub(crate) use settings::health_inputs;
pub use start::Daemon;
pub use start_error::StartError;
pub use system_clock::{SystemClock, boot_id};
pub(crate) use systemd::notify_reload_refused;

use crate::config::Config;
use crate::exec::JobError;
use crate::model::Clock;
use crate::push;
use crate::push::PushPreview;
use crate::store::Store;
use tokio::task::JoinError;

/// Returns the result of a task; `None` if the task was cancelled. A panic of the task continues here.
fn join_result<T>(ended: Result<T, JoinError>) -> Option<T> {
    match ended {
        Ok(ended) => Some(ended),
        Err(error) if error.is_cancelled() => None,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

/// Returns the calls that the next push would make, from the current mirror.
/// Makes no call and writes nothing.
pub(crate) async fn preview_push(
    config: &Config,
    store: &Store,
    clock: &dyn Clock,
) -> Result<PushPreview, JobError> {
    push::preview_push(store, &settings::job_settings(config), (clock.now(), clock.moment())).await
}
