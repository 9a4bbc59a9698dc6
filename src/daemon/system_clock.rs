//! The system's clocks. Nothing else in the program reads them.

use crate::model::{Clock, Moment, Timestamp};
use rustix::time::{ClockId, clock_gettime};

/// `CLOCK_REALTIME` for calendar time, `CLOCK_BOOTTIME` for waits. `CLOCK_BOOTTIME` counts
/// through suspends and has no steps.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp(clock_millis(ClockId::Realtime))
    }

    fn moment(&self) -> Moment {
        Moment(clock_millis(ClockId::Boottime))
    }
}

fn clock_millis(id: ClockId) -> i64 {
    let time = clock_gettime(id);
    time.tv_sec.saturating_mul(1000).saturating_add(time.tv_nsec / 1_000_000)
}

/// Returns the id of this machine, stable over boots; `None` if it has none, as in many containers.
pub(super) fn machine_id() -> Option<String> {
    let id = std::fs::read_to_string("/etc/machine-id").ok()?;
    Some(id.trim().to_owned()).filter(|id| !id.is_empty() && id != "uninitialized")
}

/// Returns the id of this boot of the clock's host. Moments of different boots cannot be compared. If the
/// kernel gives no id, every start counts as another boot, which delays calls by at most one minute.
pub fn boot_id(clock: &dyn Clock) -> String {
    clock.boot_id().unwrap_or_else(|| {
        let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
        id.map_or_else(|_| format!("unknown-{}", clock.now().0), |id| id.trim().to_owned())
    })
}
