//! Health never reports well while a change waits past its time.
//!
//! The test asks the daemon's own rules, from which `tallyd status`, the log, the metrics and systemd are
//! fed, at the world's time. The program itself reads the host's clock, by which every job is late.

use super::agenda::Act;
use super::trial::Trial;
use std::collections::BTreeMap;
use std::time::Duration;
use tallyd::daemon::boot_id;
use tallyd::health::{DaemonState, HealthInputs, HealthReport, check_health};
use tallyd::model::Clock;

/// Time after which a waiting change is late, if no other named trouble explains the wait.
const LATE_MS: i64 = 15 * 60_000;
/// Interval at which the open changes are examined.
const EVERY_MS: i64 = 5 * 60_000;

/// Changes that wait, as far as observed.
#[derive(Debug, Default)]
pub struct Waiting {
    /// Time since which each change is pending or being sent, by key.
    since_ms: BTreeMap<String, i64>,
    looked_ms: i64,
    /// Last start of the daemon, suspend or resume of its host, step of its calendar, or foreign lock.
    steady_ms: i64,
}

impl Trial {
    /// Restarts the measurement of waits after an act that affects the host.
    pub fn host_changed(&mut self, act: Act) {
        if matches!(
            act,
            Act::Kill
                | Act::Reconfigure
                | Act::Suspend
                | Act::Resume
                | Act::Calendar(_)
                | Act::Calm
                | Act::Lock(_)
                | Act::Restored(_)
                | Act::Refusal(_)
        ) {
            self.waiting.steady_ms = self.world.clock.now_ms();
        }
    }

    /// Returns the time since which waits are measured.
    pub fn steady_ms(&self) -> i64 {
        self.waiting.steady_ms
    }

    /// Measures waits from a time on.
    pub fn steady_since(&mut self, at_ms: i64) {
        self.waiting.steady_ms = self.waiting.steady_ms.max(at_ms);
    }

    /// Examines the waiting changes, and asks for health if one waits too long.
    pub async fn judge_health(&mut self) {
        let now = self.world.clock.now_ms();
        if now < self.waiting.looked_ms + EVERY_MS || self.world.is_down() {
            return;
        }
        self.waiting.looked_ms = now;
        self.world.rest().await;
        // A change that was held meanwhile waits anew.
        let sql = "SELECT key, state = 'sending' AS is_sending, \
                   coalesce((SELECT max(at_ms) FROM change_transition \
                             WHERE change_id = outbox.id AND state NOT IN ('pending', 'sending')), 0) AS held_ms \
                   FROM outbox \
                   WHERE state IN ('pending', 'sending', 'held', 'in_doubt') AND state IN ('pending', 'sending')";
        let open: Vec<(String, bool, i64)> = self.world.outsider.rows(sql).await;
        let before = std::mem::take(&mut self.waiting.since_ms);
        let since = |(key, _, held_ms): &(String, bool, i64)| {
            (key.clone(), before.get(key).copied().unwrap_or(now).max(*held_ms))
        };
        self.waiting.since_ms = open.iter().map(since).collect();
        let steady = self.waiting.steady_ms;
        let is_late = |key: &String| now > self.waiting.since_ms[key].max(steady) + LATE_MS;
        // A change that is being sent does not wait.
        let waiting = open.into_iter().filter(|(_, is_on_its_way, _)| !is_on_its_way).map(|(key, ..)| key);
        let late: Vec<String> = waiting.filter(is_late).collect();
        if late.is_empty() || self.world.clock.ahead_ms() != 0 {
            return;
        }
        self.count("looks at health");
        let said = self.health().await;
        if said.is_healthy() {
            self.broken(format!(
                "{late:?} wait for more than 15 min, and health says: {}",
                said.status_line()
            ));
        }
    }

    /// Counts, in the evening, the times when health reports well, so that its other answer means something.
    pub async fn note_health(&mut self) {
        if self.health().await.is_healthy() {
            self.count("evenings when health says well");
        }
    }

    pub async fn health(&self) -> HealthReport {
        let context = self.world.daemon().context();
        let look = HealthInputs {
            daemon: DaemonState::Running,
            host: "here".into(),
            keys: Default::default(),
            metrics_file: None,
            is_metrics_old: false,
            at_once: false,
            call_timeout: Duration::from_secs(30),
            limits: self.world.config().limits.clone(),
            boot_id: boot_id(&*context.clock),
            now: context.now(),
            moment: self.world.clock.moment(),
        };
        check_health(&context.store, &look).await.unwrap()
    }
}
