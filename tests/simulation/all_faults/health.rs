//! Health never says well while a change waits past its time: the daemon's own judgement, which `tallyd status`, the log, the
//! metrics and systemd read, at the world's time. The program itself reads the host's clock, by which all is late.

use super::agenda::Act;
use super::trial::Trial;
use std::collections::BTreeMap;
use tallyd::daemon::{boot_id, limits};
use tallyd::job::{DaemonState, Health, Look, health};
use tallyd::model::Clock;

/// A change that waits so long, without another trouble that is named anyway, waits past its time.
const LATE_MS: i64 = 15 * 60_000;
/// The open wishes are looked at so often.
const EVERY_MS: i64 = 5 * 60_000;

/// Wishes that wait, as far as is seen.
#[derive(Debug, Default)]
pub struct Waiting {
    /// Since when each is not sent, by key.
    since_ms: BTreeMap<String, i64>,
    looked_ms: i64,
    /// The last start of the daemon, its host's last suspend, the last time its calendar was set.
    steady_ms: i64,
}

impl Trial {
    /// After an act: what the daemon knows of times begins anew.
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
        ) {
            self.waiting.steady_ms = self.world.clock.now_ms();
        }
    }

    /// Looks at what waits, and asks for the judgement where something waits too long.
    pub async fn judge_health(&mut self) {
        let now = self.world.clock.now_ms();
        if now < self.waiting.looked_ms + EVERY_MS || self.world.clock.is_suspended() {
            return;
        }
        self.waiting.looked_ms = now;
        self.world.rest().await;
        let sql = "SELECT key, state = 'sending' FROM outbox \
                   WHERE state IN ('pending', 'sending', 'held', 'in_doubt') AND state IN ('pending', 'sending')";
        let open: Vec<(String, bool)> =
            sqlx::query_as(sql).fetch_all(&mut self.world.outsider).await.unwrap();
        let before = std::mem::take(&mut self.waiting.since_ms);
        let since = |key: &String| (key.clone(), before.get(key).copied().unwrap_or(now));
        self.waiting.since_ms = open.iter().map(|(key, _)| since(key)).collect();
        let steady = self.waiting.steady_ms;
        let is_late = |key: &String| now > self.waiting.since_ms[key].max(steady) + LATE_MS;
        // What is on its way waits for nothing any more.
        let waiting = open.into_iter().filter(|(_, is_on_its_way)| !is_on_its_way).map(|(key, _)| key);
        let late: Vec<String> = waiting.filter(is_late).collect();
        if late.is_empty() || self.world.clock.ahead_ms() != 0 {
            return;
        }
        self.count("looks at health");
        let said = self.health().await;
        if said.is_well() {
            self.broken(format!("{late:?} wait for more than 15 min, and health says: {}", said.verdict()));
        }
    }

    /// In the evening: how often all is well, so that the other word says something.
    pub async fn note_health(&mut self) {
        if self.health().await.is_well() {
            self.count("evenings when health says well");
        }
    }

    async fn health(&self) -> Health {
        let context = self.world.daemon().context();
        let look = Look {
            daemon: DaemonState::Works,
            limits: limits(&self.world.config()),
            boot_id: boot_id(&*context.clock),
            now: context.now(),
            moment: self.world.clock.moment(),
        };
        health(&context.store, &look).await.unwrap()
    }
}
