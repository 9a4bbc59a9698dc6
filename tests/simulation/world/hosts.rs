//! The hosts of a world: their daemons from start to end, and the daemon that leads.
//!
//! A world on a file has one host. Of two hosts, each has its own lock file, boot, calendar and way to the server. A
//! daemon that ended is started again after the pause of its systemd unit, and stands by if another leads.

use super::super::clock::SimClock;
use super::super::rest;
use super::super::wire::Wire;
use super::supervise::{Due, PlannedJobs, Process};
use super::way::Way;
use super::{Plan, World, config};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tallyd::daemon::{Daemon, StartError};
use tallyd::model::{JobKind, RunTrigger};
use tallyd::store::{DatabaseLocation, StoreOptions};
use tokio::task::JoinHandle;

/// Attempts to take a held lock and the pause between them, in real time.
const LOCK_TRIES: u32 = 200;
const LOCK_PAUSE: Duration = Duration::from_millis(10);
/// Busy time-out of a statement, in real time.
///
/// It is short because the world's clock stands meanwhile, so every foreign lock outlasts the daemon's busy
/// time-out. A server needs some time to end the transaction of a killed daemon.
const BUSY: Duration = Duration::from_millis(1);
const SERVER_BUSY: Duration = Duration::from_millis(200);
/// Pause before systemd starts a failed daemon again (`RestartSec=` in systemd/tallyd.service).
pub(super) const RESTART_MS: i64 = 5_000;
/// Time since boot of the second host when the clock of a world begins.
const OTHER_UPTIME_MS: i64 = 50_000_000;

/// Machine with a daemon.
pub(super) struct Host {
    pub(super) clock: SimClock,
    pub(super) wire: Wire,
    location: DatabaseLocation,
    /// Way to the server; `None` in a world of one host.
    pub(super) way: Option<Way>,
    state: HostState,
}

enum HostState {
    /// No daemon runs.
    Down,
    /// A daemon starts, or stands by.
    Starting(JoinHandle<Result<Daemon, StartError>>),
    Working(Box<Process>),
}

/// Coming act of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HostAct {
    Start,
    /// The stop waits no longer for the calls in flight.
    EndDrain,
    /// The server ends a session that is idle in a transaction.
    EndIdle,
    /// The host's processes go on. True if its timers ran meanwhile.
    GoOn(bool),
    /// The way to the server is open again.
    Mend,
}

impl Host {
    /// Returns the hosts of a world.
    pub(super) fn all(
        has_standby: bool,
        location: &DatabaseLocation,
        (clock, wire): (&SimClock, &Wire),
        dir: &Path,
    ) -> Vec<Self> {
        let host = |clock: SimClock, wire, way: Option<(Way, DatabaseLocation)>| {
            let (way, location) = way.map_or((None, location.clone()), |(way, by)| (Some(way), by));
            Self { clock, wire, location, way, state: HostState::Down }
        };
        if !has_standby {
            return vec![host(clock.clone(), wire.clone(), None)];
        }
        let other = clock.other_host(OTHER_UPTIME_MS);
        let ways = ["a", "b"].map(|name| Some(Way::open(location, &dir.join(name))));
        let [one, two] = ways;
        vec![host(clock.clone(), wire.clone(), one), host(other.clone(), wire.of_host(other), two)]
    }

    /// Starts a daemon where no other can lead.
    pub(super) async fn start_alone(&self, plan: &Plan) -> Daemon {
        for _ in 0..LOCK_TRIES {
            match start(plan, self, false).await {
                // Another world has just spawned a program, which holds our files until its exec.
                Err(StartError::Lock(_)) => std::thread::sleep(LOCK_PAUSE),
                started => return started.unwrap(),
            }
        }
        panic!("seed {}: the dead daemon's lock is still held", plan.seed);
    }

    /// Returns true if the host's processes stand still, or are about to, so that none of its statements goes on.
    pub(super) fn is_still(&self) -> bool {
        self.clock.is_suspended() || self.way.as_ref().is_some_and(Way::is_held)
    }

    pub(super) fn is_down(&self) -> bool {
        matches!(self.state, HostState::Down)
    }

    /// Returns true if the host's daemon stands by, or starts.
    pub(super) fn stands_by(&self) -> bool {
        matches!(self.state, HostState::Starting(_))
    }

    fn process(&self) -> Option<&Process> {
        match &self.state {
            HostState::Working(process) => Some(process),
            HostState::Down | HostState::Starting(_) => None,
        }
    }

    pub(super) fn process_mut(&mut self) -> Option<&mut Process> {
        match &mut self.state {
            HostState::Working(process) => Some(process),
            HostState::Down | HostState::Starting(_) => None,
        }
    }

    /// Returns a function that tells if no task of the daemon can go on.
    fn rests(&self) -> Box<dyn Fn() -> bool> {
        let (clock, way) = (self.clock.clone(), self.way.clone());
        let is_held = move || way.as_ref().is_some_and(Way::is_held);
        match &self.state {
            HostState::Down => Box::new(|| true),
            HostState::Starting(starting) => {
                let task = starting.abort_handle();
                Box::new(move || is_held() || task.is_finished() || clock.has_asleep(task.id()))
            }
            HostState::Working(process) => {
                let store = process.store().clone();
                Box::new(move || is_held() || store.is_idle())
            }
        }
    }
}

fn start(
    plan: &Plan,
    host: &Host,
    stands_by: bool,
) -> impl Future<Output = Result<Daemon, StartError>> + Send + use<> {
    let (config, clock) = (config(plan, &host.location), Arc::new(host.clock.clone()));
    let (wire, is_on_server) = (Arc::new(host.wire.clone()), host.location.server().is_some());
    let busy_timeout = if is_on_server { SERVER_BUSY } else { BUSY };
    let opening =
        StoreOptions { is_single: true, busy_timeout, waits_to_start: stands_by, ..StoreOptions::default() };
    Daemon::start_with_transport(config, clock, wire, None, opening)
}

impl World {
    /// Returns the number of hosts.
    pub fn hosts(&self) -> usize {
        self.hosts.len()
    }

    /// Returns the daemons that work.
    pub(super) fn processes(&self) -> impl Iterator<Item = &Process> {
        self.hosts.iter().filter_map(Host::process)
    }

    /// Returns the daemon whose session began last: it leads.
    pub(super) fn leading(&self) -> Option<&Process> {
        self.hosts[self.leader].process()
    }

    pub(super) fn leading_mut(&mut self) -> &mut Process {
        self.hosts[self.leader].process_mut().expect("a daemon leads")
    }

    /// Returns true if no daemon leads that can work: it ended, stands still, or is cut off from the server.
    pub fn is_down(&self) -> bool {
        let host = &self.hosts[self.leader];
        let is_cut = host.way.as_ref().is_some_and(Way::is_cut);
        host.process().is_none_or(Process::must_end) || host.is_still() || is_cut
    }

    /// Returns true if the daemon that leads runs a job.
    pub fn has_running(&self, kind: JobKind) -> bool {
        self.leading().is_some_and(|process| process.has_running(kind))
    }

    /// Plans a run of a job in every daemon that works: each notices a change that was inserted.
    pub(super) fn plan_job(&mut self, kind: JobKind, at_ms: i64, trigger: RunTrigger) {
        for process in self.hosts.iter_mut().filter_map(Host::process_mut) {
            process.plan_job(kind, at_ms, trigger);
        }
    }

    /// Waits until every task sleeps or is done.
    pub(super) async fn settle_down(&self) {
        let (wire, hosts) = (self.wire.clone(), self.hosts.iter().map(Host::rests).collect::<Vec<_>>());
        rest::until(move || wire.is_at_rest() && hosts.iter().all(|rests| rests())).await;
    }

    /// Returns the next event of a daemon that works.
    pub(super) fn next_due(&self) -> Option<(i64, usize, Due)> {
        let next = |(host, of): (usize, &Host)| {
            let is_cut = of.way.as_ref().is_some_and(Way::is_cut);
            let (at, due) = of.process()?.next(is_cut)?;
            Some((at, host, due))
        };
        self.hosts.iter().enumerate().filter_map(next).min_by_key(|(at, ..)| *at)
    }

    pub(super) async fn carry_out(&mut self, host: usize, due: Due) {
        if let Some(process) = self.hosts[host].process_mut() {
            process.carry_out(due).await;
        }
    }

    /// Handles one run, start or end of a daemon; returns false if there is none.
    pub(super) async fn handle_hosts(&mut self) -> bool {
        for host in 0..self.hosts.len() {
            if self.hosts[host].is_still() {
                continue;
            }
            match &mut self.hosts[host].state {
                HostState::Down => {}
                HostState::Starting(starting) => {
                    if starting.is_finished() {
                        self.handle_start(host).await;
                        return true;
                    }
                }
                HostState::Working(process) => {
                    if process.must_end() {
                        self.end(host).await;
                        self.plan_act(RESTART_MS, host, HostAct::Start);
                        return true;
                    }
                    if process.has_stopped() {
                        self.close(host).await;
                        return true;
                    }
                    if process.handle_ended(&mut self.runs).await {
                        return true;
                    }
                }
            }
        }
        false
    }

    /// Takes a daemon that leads now, or plans another start.
    async fn handle_start(&mut self, host: usize) {
        let HostState::Starting(starting) = std::mem::replace(&mut self.hosts[host].state, HostState::Down)
        else {
            return;
        };
        match starting.await.expect("a start has no bugs") {
            Ok(daemon) => {
                self.lose_answers();
                self.takeovers += i64::from(host != self.leader);
                self.install(host, daemon, PlannedJobs::new());
                self.plan_job(JobKind::Push, self.clock.now_ms(), RunTrigger::Outbox);
                self.plan_job(JobKind::Settle, self.clock.now_ms(), RunTrigger::Outbox);
                self.arm(host).await;
            }
            Err(StartError::Lock(_)) => {
                std::thread::sleep(LOCK_PAUSE);
                self.start(host);
            }
            Err(StartError::Store(error))
                if error.is_fenced() || error.is_commit_unknown() || error.is_transient() =>
            {
                self.plan_act(RESTART_MS, host, HostAct::Start);
            }
            Err(error) => panic!("seed {}: {error}", self.plan.seed),
        }
    }

    /// Makes a started daemon the one that leads.
    pub(super) fn install(&mut self, host: usize, daemon: Daemon, polls: PlannedJobs) {
        let (is_replaceable, of) = (self.hosts.len() > 1, &mut self.hosts[host]);
        let mut process = Process::new(daemon, of.clock.clone(), &self.plan, is_replaceable);
        process.due = polls;
        of.state = HostState::Working(Box::new(process));
        let clock = of.clock.clone();
        self.calendar_changes += i64::from(clock.ahead_ms() != self.clock.ahead_ms());
        (self.leader, self.clock) = (host, clock);
    }

    /// Makes the runs after downtime. It returns when they rest, so that the caller's statements come after theirs.
    pub(super) async fn arm(&mut self, host: usize) {
        if !self.plan.is_scheduled {
            return;
        }
        let config = self.config();
        if let Some(process) = self.hosts[host].process_mut() {
            process.arm(&config).await;
        }
        self.settle_down().await;
    }

    /// Starts a daemon that stands by while another leads.
    pub(super) fn start(&mut self, host: usize) {
        let of = &mut self.hosts[host];
        of.state = HostState::Starting(tokio::spawn(start(&self.plan, of, true)));
    }

    /// Ends a host's daemon as a kill would, at any state of its jobs. Calls on their way go on.
    pub(super) async fn end(&mut self, host: usize) -> PlannedJobs {
        self.lose_answers();
        let of = &mut self.hosts[host];
        let polls = match std::mem::replace(&mut of.state, HostState::Down) {
            HostState::Down => PlannedJobs::new(),
            HostState::Starting(starting) => {
                starting.abort();
                drop(starting.await);
                PlannedJobs::new()
            }
            HostState::Working(process) => process.abort().await,
        };
        of.close_way().await;
        polls
    }

    /// Ends the session of a daemon that stopped.
    async fn close(&mut self, host: usize) {
        let of = &mut self.hosts[host];
        if let HostState::Working(process) = std::mem::replace(&mut of.state, HostState::Down) {
            let closed = process.daemon.close().await;
            let is_known = closed
                .as_ref()
                .err()
                .is_none_or(|error| error.is_fenced() || error.is_commit_unknown() || error.is_transient());
            assert!(is_known, "seed {}: {closed:?}", self.plan.seed);
        }
        of.close_way().await;
    }

    /// Ends every daemon as a kill would, and starts them again: that of the leader first.
    pub async fn kill(&mut self) {
        self.calm_hosts();
        let others: Vec<usize> = (0..self.hosts.len())
            .filter(|host| *host != self.leader && !self.hosts[*host].is_down())
            .collect();
        let mut polls = PlannedJobs::new();
        for host in 0..self.hosts.len() {
            polls.extend(self.end(host).await);
        }
        if self.hosts.len() > 1 {
            self.start(self.leader);
            self.rest().await;
            for host in others {
                self.start(host);
                self.rest().await;
            }
            return;
        }
        let daemon = self.hosts[0].start_alone(&self.plan).await;
        if self.plan.is_scheduled {
            polls.clear();
        }
        self.install(0, daemon, polls);
        self.plan_job(JobKind::Push, self.clock.now_ms(), RunTrigger::Outbox);
        self.plan_job(JobKind::Settle, self.clock.now_ms(), RunTrigger::Outbox);
        self.arm(0).await;
    }

    /// Notes trouble of a daemon: no answer that is outstanding is certain to be recorded.
    pub(super) fn lose_answers(&mut self) {
        self.troubled_ms = self.clock.now_ms();
        if let Some(auditor) = &mut self.audit.lock().unwrap().full {
            auditor.daemon_died();
        }
    }

    /// Sets the offset of the leading host's calendar from the world's time.
    pub fn set_calendar(&mut self, ahead_ms: i64) {
        self.set_calendar_of(self.leader, ahead_ms);
    }

    pub fn set_calendar_of(&mut self, host: usize, ahead_ms: i64) {
        let before_ms = self.clock.ahead_ms();
        match self.hosts[host].process_mut() {
            Some(process) => process.set_calendar(ahead_ms),
            None => self.hosts[host].clock.set_calendar(ahead_ms),
        }
        self.calendar_changes += i64::from(self.clock.ahead_ms() != before_ms);
    }
}

impl Host {
    /// Ends the connections of a dead daemon, before anything waits for its locks.
    async fn close_way(&self) {
        if let Some(way) = &self.way {
            let is_cut = way.is_cut();
            way.cut().await;
            if !is_cut {
                way.mend();
            }
        }
    }
}
