//! The system's clocks: the one place where the program reads them.

use crate::model::{Clock, Moment, Timestamp};
use rustix::time::{ClockId, clock_gettime};

/// `CLOCK_REALTIME` for the calendar, `CLOCK_BOOTTIME` for waits: the latter counts through suspends and knows no
/// clock steps.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp(milliseconds(ClockId::Realtime))
    }

    fn moment(&self) -> Moment {
        Moment(milliseconds(ClockId::Boottime))
    }
}

fn milliseconds(id: ClockId) -> i64 {
    let time = clock_gettime(id);
    time.tv_sec.saturating_mul(1000).saturating_add(time.tv_nsec / 1_000_000)
}

/// The id of this machine, which outlives its boots; `None`: it has none, as many containers do not.
pub(super) fn machine_id() -> Option<String> {
    let id = std::fs::read_to_string("/etc/machine-id").ok()?;
    Some(id.trim().to_owned()).filter(|id| !id.is_empty() && id != "uninitialized")
}

/// Names this boot of the machine: moments of another boot mean nothing in this one.
///
/// Where the kernel does not say, every start counts as another boot, which costs at most a minute of silence.
pub fn boot_id(clock: &dyn Clock) -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    id.map_or_else(|_| format!("unknown-{}", clock.now().0), |id| id.trim().to_owned())
}
