//! Standing by and taking the lead on a server's schema (docs/rules.md 23). A file has one host: its lock decides.
//!
//! A standby takes the lead at once if nobody leads, or if the leader was this host's last daemon, whose lock it holds.
//! Otherwise it waits until the heartbeat stood still for `database.takeover_after` by its own clock. Only looks that
//! came in time count: a server that stalls stops the heartbeat of a living leader too. A standby ends when the schema
//! is newer than its version, because it could not lead.

use super::health_monitor::replace_metrics;
use super::metrics::standby_metrics;
use super::notifiers::{PingTimes, ping_from_standby};
use super::settings::heartbeat_interval;
use super::start_error::{StartError, check_attempt};
use super::supervise::HEALTH_INTERVAL;
use super::systemd;
use crate::config::Config;
use crate::limiter::QUOTA_WINDOW;
use crate::model::time::whole_millis;
use crate::model::{Clock, Moment, Position};
use crate::store::{DaemonName, DatabaseLock, LeaderRow, LockError, Store, StoreError, StoreOptions};
use crate::telemetry::event;
use std::collections::VecDeque;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::task::AbortOnDropHandle;

/// Interval of the looks. A takeover is promised within `database.takeover_after` and 2 s of the last heartbeat,
/// and a look itself takes time.
const LOOK_INTERVAL: Duration = Duration::from_millis(1_800);
/// Longest time between two looks of which the second proves that the heartbeat stood still since the first.
const LOOK_GAP_MAX: Duration = Duration::from_secs(3);

pub(super) struct Lead {
    pub(super) looks: Looks,
    predecessor_seen: Option<Moment>,
    /// True if this process stood by for another one, whose work it goes on with.
    pub(super) stood_by: bool,
}

/// Positions of the journal that this host saw, each with the time since boot at which it had seen it.
#[derive(Debug, Default)]
pub(super) struct Looks(VecDeque<(Moment, Position)>);

impl Looks {
    pub(super) fn note(&mut self, at: Moment, position: Position) {
        self.0.push_back((at, position));
        while self.0.front().is_some_and(|(seen, _)| at.duration_since(*seen) > 2 * QUOTA_WINDOW) {
            self.0.pop_front();
        }
    }

    /// Returns a moment of this host before which a call was answered, whose answer was stored at a position.
    pub(super) fn answered_before(&self, ended: Position) -> Option<Moment> {
        self.0.iter().find(|(_, position)| *position >= ended).map(|(at, _)| *at)
    }
}

#[derive(Debug, Default)]
struct LeaderWatch {
    /// Session and heartbeat of the last look, the end of the first look that showed them without a gap since,
    /// and the end of the last look.
    seen: Option<((Option<i64>, i64), Moment, Moment)>,
}

impl LeaderWatch {
    /// Returns how long the heartbeat has stood still for certain. The look took from `begun` to `ended`.
    fn look(&mut self, row: &LeaderRow, begun: Moment, ended: Moment) -> Duration {
        let now = (row.session_id, row.heartbeat);
        let since = match self.seen {
            Some((seen, since, last)) if seen == now && ended.duration_since(last) <= LOOK_GAP_MAX => since,
            _ => ended,
        };
        self.seen = Some((now, since, ended));
        begun.duration_since(since)
    }
}

enum Look {
    /// The row, and the time for which the heartbeat has stood still.
    Led(LeaderRow, Duration),
    /// Session that this process leads with, the row before, and the last sign of life of the leader in it.
    Taken(i64, LeaderRow, Moment),
}

struct Candidate<'a> {
    store: &'a Store,
    config: &'a Config,
    clock: &'a dyn Clock,
    name: DaemonName,
    watch: LeaderWatch,
    looks: Looks,
    /// Leader whom the last message named; `None` before the first one.
    stands_by_for: Option<Option<i64>>,
    stood_by: bool,
    has_warned: bool,
    metrics_written: Option<Moment>,
    pings: PingTimes,
    is_real_time: bool,
}

impl Candidate<'_> {
    /// Looks at the leader's row, and takes the lead if the row allows it.
    async fn look(&mut self) -> Result<Look, StoreError> {
        let begun = self.clock.moment();
        let row = self.store.look_at_leader().await?;
        let ended = self.clock.moment();
        self.store.refuse_newer_schema(&row)?;
        self.looks.note(ended, Position(row.position));
        let still = self.watch.look(&row, begun, ended);
        if row.session_id.is_some()
            && !row.is_named(&self.name)
            && still < self.config.database.takeover_after
        {
            return Ok(Look::Led(row, still));
        }
        self.check_clocks().await?;
        Ok(match self.store.take_lead(&row, &self.name).await? {
            Some(session_id) => Look::Taken(session_id, row, ended.minus(still)),
            // Another standby was quicker, or the leader lives.
            None => Look::Led(row, Duration::ZERO),
        })
    }

    async fn check_clocks(&self) -> Result<(), StoreError> {
        if self.is_real_time
            && let Some(warning) = self.store.check_clocks(self.clock).await?
        {
            tracing::warn!(event = event::DAEMON_WARNING, "{warning}");
        }
        Ok(())
    }

    /// Shows operators, systemd and the service that reads the metrics that this process stands by.
    async fn show(&mut self, row: &LeaderRow, still: Duration) -> Result<(), StoreError> {
        if self.stands_by_for != Some(row.session_id) {
            self.store.show_standby(Some(&self.name.host_name)).await?;
            self.check_clocks().await?;
            let leader = leader_name(row);
            tracing::info!(
                event = event::LEAD_STANDBY,
                leader,
                "the tallyd on {leader} leads; this one stands by, and takes over {} s after its last heartbeat",
                self.config.database.takeover_after.as_secs()
            );
            systemd::notify_ready(&format!("standing by; {leader} leads"));
            self.stands_by_for = Some(row.session_id);
        }
        self.stood_by = true;
        self.warn_of_silence(row, still);
        systemd::notify_alive();
        let now = self.clock.moment();
        let is_due = self.metrics_written.is_none_or(|at| now.duration_since(at) >= HEALTH_INTERVAL);
        if let Some(file) = self.config.metrics_file.as_deref().filter(|_| is_due) {
            replace_metrics(file, standby_metrics(self.clock.now(), still)).await;
            self.metrics_written = Some(now);
        }
        ping_from_standby(self.config, &mut self.pings, self.clock);
        Ok(())
    }

    fn warn_of_silence(&mut self, row: &LeaderRow, still: Duration) {
        let takeover_after = self.config.database.takeover_after;
        let is_silent = still >= 2 * heartbeat_interval(takeover_after);
        if is_silent && !self.has_warned {
            let (leader, silent_ms) = (leader_name(row), whole_millis(still));
            tracing::warn!(
                event = event::LEAD_SILENT,
                leader,
                silent_ms,
                "the tallyd on {leader} leads and has shown no sign of life for {} s; this one takes over after {} s",
                still.as_secs(),
                takeover_after.as_secs()
            );
        }
        self.has_warned = is_silent;
    }
}

impl Lead {
    /// Waits until this process leads; `None` for a file. Fails with [`StartError::Led`] if
    /// another leads, unless it stands by.
    pub(super) async fn take(
        store: &Store,
        lock: &DatabaseLock,
        config: &Config,
        clock: &dyn Clock,
        options: &StoreOptions,
    ) -> Result<Option<Self>, StartError> {
        let Some(mut release) = store.watch_release() else { return Ok(None) };
        let mut candidate = Candidate {
            store,
            config,
            clock,
            name: DaemonName::from_lock(lock)
                .map_err(|source| LockError::File { path: store.path().to_owned(), source })?,
            watch: LeaderWatch::default(),
            looks: Looks::default(),
            stands_by_for: None,
            stood_by: false,
            has_warned: false,
            metrics_written: None,
            pings: PingTimes::default(),
            is_real_time: options.is_real_time,
        };
        let stands_by = options.waits_to_start;
        loop {
            let looked = async {
                let look = candidate.look().await?;
                if let Look::Led(row, still) = &look
                    && stands_by
                {
                    candidate.show(row, *still).await?;
                }
                Ok(look)
            };
            let may_retry = |error: &StoreError| stands_by && error.delays_start();
            let attempt = looked.await.map_err(StartError::Store);
            match check_attempt("read which tallyd leads", may_retry, clock, attempt).await? {
                None => {
                    candidate.watch = LeaderWatch::default();
                    // A new connection bears no name yet.
                    candidate.stands_by_for = None;
                }
                Some(Look::Taken(session_id, row, seen)) => {
                    // If this fails, the next connection bears the leader's name.
                    drop(store.show_standby(None).await);
                    let predecessor_seen = row.session_id.map(|_| seen);
                    log_taken(session_id, &row, predecessor_seen.map(|at| clock.moment().duration_since(at)));
                    let Candidate { looks, stood_by, .. } = candidate;
                    return Ok(Some(Self { looks, predecessor_seen, stood_by }));
                }
                Some(Look::Led(row, _)) if !stands_by => {
                    return Err(StartError::Led { host: leader_name(&row).to_owned() });
                }
                // The look that may take the lead comes when it may.
                Some(Look::Led(_, still)) => tokio::select! {
                    () = clock.sleep(LOOK_INTERVAL.min(config.database.takeover_after.saturating_sub(still))) => {}
                    // A notification comes in real time.
                    () = release.wait_for_write(), if options.is_real_time => {}
                },
            }
        }
    }

    pub(super) fn takeover_duration(&self, now: Moment) -> Duration {
        self.predecessor_seen.map_or(Duration::ZERO, |seen| now.duration_since(seen))
    }
}

fn leader_name(row: &LeaderRow) -> &str {
    row.host_name.as_deref().unwrap_or("a starting tallyd")
}

fn log_taken(session: i64, before: &LeaderRow, silent: Option<Duration>) {
    let leader = leader_name(before);
    match silent {
        Some(silent) => tracing::warn!(
            event = event::LEAD_TAKEN,
            session,
            leader,
            silent_ms = whole_millis(silent),
            "this tallyd leads now; the last sign of life of the one on {leader} was {} s ago",
            silent.as_secs()
        ),
        None => tracing::info!(event = event::LEAD_TAKEN, session, "this tallyd leads now; no other did"),
    }
}

/// Heartbeat of a leader, ended on drop; by default there is none.
#[derive(Default)]
pub(super) struct LeaderHeartbeat(Option<AbortOnDropHandle<StoreError>>);

impl LeaderHeartbeat {
    pub(super) fn start(store: &Store, takeover_after: Duration, clock: &Arc<dyn Clock>) -> Self {
        let (store, clock) = (store.clone(), Arc::clone(clock));
        let interval = heartbeat_interval(takeover_after);
        let beat = async move {
            loop {
                match store.heartbeat().await {
                    // A server that is away comes back; until then no standby can take the lead either.
                    Err(error) if !error.is_transient() => return error,
                    Ok(()) | Err(_) => clock.sleep(interval).await,
                }
            }
        };
        Self(Some(AbortOnDropHandle::new(tokio::spawn(beat))))
    }

    pub(super) fn has_ended(&self) -> bool {
        self.0.as_ref().is_some_and(AbortOnDropHandle::is_finished)
    }

    /// Waits until this process no longer leads; for ever without a heartbeat.
    pub(super) async fn wait_for_loss(&mut self) -> StoreError {
        let Self(Some(beating)) = self else { return pending().await };
        match super::join_result(beating.await) {
            Some(error) => error,
            None => pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::settings::send_within;
    use super::*;

    fn row(session_id: Option<i64>, heartbeat: i64) -> LeaderRow {
        LeaderRow {
            session_id,
            heartbeat,
            silent_ms: 0,
            position: 0,
            schema_version: None,
            instance_id: None,
            host_name: None,
            began_ms: None,
            takeover_ms: None,
        }
    }

    /// Looks every two seconds from a moment on, and returns how long the heartbeat stood still at the last look.
    fn look_for(watch: &mut LeaderWatch, row: &LeaderRow, from: i64, looks: i64) -> Duration {
        let mut still = Duration::ZERO;
        for n in 0..looks {
            let begun = from + n * 2_000;
            still = watch.look(row, Moment(begun), Moment(begun + 10));
        }
        still
    }

    #[test]
    fn the_heartbeat_stands_still_from_the_end_of_the_first_look_to_the_begin_of_the_last() {
        let mut watch = LeaderWatch::default();
        assert_eq!(look_for(&mut watch, &row(Some(1), 7), 0, 9), Duration::from_millis(15_990));
        assert_eq!(look_for(&mut watch, &row(Some(1), 8), 18_000, 1), Duration::ZERO);
        assert_eq!(look_for(&mut watch, &row(Some(2), 8), 20_000, 1), Duration::ZERO);
    }

    #[test]
    fn a_look_that_came_late_proves_nothing_about_the_time_before() {
        let mut watch = LeaderWatch::default();
        look_for(&mut watch, &row(Some(1), 7), 0, 8);
        let late = watch.look(&row(Some(1), 7), Moment(14_010), Moment(17_100));
        assert_eq!(
            late,
            Duration::ZERO,
            "the server may have stalled, and a living leader's heartbeat with it"
        );
        look_for(&mut watch, &row(Some(1), 7), 19_000, 8);
        watch = LeaderWatch::default();
        assert_eq!(watch.look(&row(Some(1), 7), Moment(35_000), Moment(35_010)), Duration::ZERO);
    }

    #[test]
    fn a_call_is_sent_before_another_host_can_lead_also_after_a_lost_heartbeat() {
        for seconds in [5, 6, 7, 14, 15, 16, 600] {
            let takeover_after = Duration::from_secs(seconds);
            let last_sent = 2 * heartbeat_interval(takeover_after) + send_within(takeover_after);
            assert!(last_sent <= takeover_after, "{seconds} s: {last_sent:?} after the last heartbeat");
        }
    }

    #[test]
    fn a_call_was_answered_before_the_first_look_that_shows_its_answer() {
        let mut looks = Looks::default();
        for (at, position) in [(1_000, 10), (3_000, 10), (5_000, 14)] {
            looks.note(Moment(at), Position(position));
        }
        assert_eq!(looks.answered_before(Position(10)), Some(Moment(1_000)));
        assert_eq!(looks.answered_before(Position(11)), Some(Moment(5_000)));
        assert_eq!(looks.answered_before(Position(15)), None, "answered after the last look");
        looks.note(Moment(121_001), Position(20));
        assert_eq!(looks.answered_before(Position(10)), Some(Moment(3_000)), "older looks are dropped");
    }
}
