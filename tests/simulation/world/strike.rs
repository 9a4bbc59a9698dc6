//! Strikes at the daemon that leads, at a step of a call: a pause, a death, a cut of its way to the server, a stop.

use super::World;
use super::hosts::HostAct;
use super::way::{HeldCommit, Way};

/// Time after which a strike takes place at any step.
const PATIENCE_MS: i64 = 120_000;
/// Time after which the server ends a session that is idle in a transaction
/// (`idle_in_transaction_session_timeout` of the daemon's connections).
const IDLE_MS: i64 = 10_000;
/// Time for which a stop waits for the calls in flight, as in the daemon.
const DRAIN_MS: i64 = 8_000;

/// Step at which the daemon is struck.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    Anytime,
    At(HeldCommit),
    /// A call is sent and not answered.
    InFlight,
}

/// Trouble of the daemon, with the time until it works or stands by again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// All processes stand still. True if timers run meanwhile, as for a stopped process; they stand while a machine
    /// is suspended.
    Pause(i64, bool),
    Death(i64),
    Cut(i64),
    Stop(i64),
}

/// Strike that waits for its step.
pub(super) struct Strike {
    step: Step,
    ending: Ending,
    pub(super) until_ms: i64,
}

impl World {
    /// Strikes the daemon that leads, at a step, and after two minutes at any step.
    pub async fn strike(&mut self, step: Step, ending: Ending) {
        self.rest().await;
        if self.is_down() {
            return;
        }
        self.lift_strike();
        self.strike = Some(Strike { step, ending, until_ms: self.clock.now_ms() + PATIENCE_MS });
        match step {
            Step::Anytime => self.strike_now().await,
            Step::At(commit) => self.leading_way().set_trap(Some(commit)),
            Step::InFlight => {}
        }
    }

    fn leading_way(&self) -> &Way {
        self.hosts[self.leader].way.as_ref().expect("a world with a standby")
    }

    fn lift_strike(&mut self) {
        self.strike = None;
        for way in self.hosts.iter().filter_map(|host| host.way.as_ref()) {
            way.set_trap(None);
        }
    }

    /// Strikes if the step has come; returns false if not.
    pub(super) async fn spring_strike(&mut self) -> bool {
        let Some(strike) = &self.strike else { return false };
        let host = &self.hosts[self.leader];
        let has_come = match strike.step {
            Step::Anytime => false,
            Step::At(_) => host.way.as_ref().is_some_and(Way::is_held),
            Step::InFlight => host.wire.has_waiting(),
        };
        if has_come && !host.clock.is_suspended() {
            self.strike_now().await;
            return true;
        }
        false
    }

    /// Strikes now, whatever the step.
    pub(super) async fn strike_now(&mut self) {
        let Some(Strike { step, ending, .. }) = self.strike.take() else { return };
        self.lift_strike();
        let (host, way) = (self.leader, self.leading_way().clone());
        let is_held = way.is_held();
        if self.leading().is_none() || self.hosts[host].clock.is_suspended() {
            return;
        }
        let came = if is_held || step == Step::InFlight && self.hosts[host].wire.has_waiting() {
            format!("{step:?}")
        } else {
            "Anytime".into()
        };
        *self.struck.entry(format!("{} {came}", ending.name())).or_default() += 1;
        self.lose_answers();
        match ending {
            Ending::Pause(lasts_ms, is_timed) => {
                self.hosts[host].clock.suspend();
                let is_in_transaction =
                    matches!(step, Step::At(HeldCommit::BeforeClaim | HeldCommit::BeforeConclusion));
                if is_held && is_in_transaction && lasts_ms > IDLE_MS {
                    self.plan_act(IDLE_MS, host, HostAct::EndIdle);
                }
                self.plan_act(lasts_ms, host, HostAct::GoOn(is_timed));
            }
            Ending::Death(away_ms) => {
                self.end(host).await;
                self.plan_act(away_ms, host, HostAct::Start);
            }
            Ending::Cut(lasts_ms) => {
                way.cut().await;
                self.plan_act(lasts_ms, host, HostAct::Mend);
            }
            Ending::Stop(away_ms) => {
                if let Some(process) = self.hosts[host].process_mut() {
                    process.stop();
                }
                way.release();
                self.plan_act(DRAIN_MS, host, HostAct::EndDrain);
                self.plan_act(DRAIN_MS + away_ms, host, HostAct::Start);
            }
        }
    }

    /// Plans an act of a host after a time.
    pub(super) fn plan_act(&mut self, after_ms: i64, host: usize, act: HostAct) {
        self.acts.push((self.clock.now_ms() + after_ms, host, act));
    }

    /// Carries out the next act of a host.
    pub(super) async fn next_act(&mut self) {
        let Some(next) = (0..self.acts.len()).min_by_key(|at| self.acts[*at].0) else { return };
        let (_, host, act) = self.acts.remove(next);
        self.troubled_ms = self.clock.now_ms();
        let way = self.hosts[host].way.clone().expect("a world with a standby");
        match act {
            HostAct::Start if self.hosts[host].is_down() => self.start(host),
            HostAct::Start => {}
            HostAct::EndDrain => {
                if let Some(process) = self.hosts[host].process_mut() {
                    process.end_drain().await;
                }
            }
            HostAct::EndIdle if way.is_held() => way.end_idle().await,
            HostAct::EndIdle => {}
            HostAct::GoOn(is_timed) => self.go_on(host, is_timed),
            HostAct::Mend => way.mend(),
        }
    }

    /// Lets the processes of a host go on.
    fn go_on(&mut self, host: usize, is_timed: bool) {
        self.lose_answers();
        self.acts.retain(|(_, of, act)| *of != host || *act != HostAct::EndIdle);
        let of = &self.hosts[host];
        match of.clock.is_suspended() {
            true if is_timed => of.clock.go_on(),
            true => of.clock.resume(),
            false => {}
        }
        if let Some(way) = of.way.as_ref().filter(|way| way.is_held()) {
            way.release();
        }
    }

    /// Suspends the host that leads, until [`World::resume`].
    pub fn suspend(&mut self) {
        self.hosts[self.leader].clock.suspend();
        self.suspended = Some(self.leader);
    }

    /// Ends a suspend.
    pub fn resume(&mut self) {
        if let Some(host) = self.suspended.take() {
            self.go_on(host, false);
        }
    }

    /// Ends all troubles of hosts: each is awake, has its way to the server, and starts its daemon.
    pub fn calm_hosts(&mut self) {
        self.lift_strike();
        self.resume();
        let now = self.clock.now_ms();
        for (_, host, act) in std::mem::take(&mut self.acts) {
            match act {
                HostAct::GoOn(is_timed) => self.go_on(host, is_timed),
                HostAct::Start | HostAct::EndDrain => self.acts.push((now, host, act)),
                HostAct::EndIdle | HostAct::Mend => {}
            }
        }
        for way in self.hosts.iter().filter_map(|host| host.way.as_ref()) {
            way.mend();
        }
    }

    /// Starts the daemon of each host that has none.
    pub async fn join(&mut self) {
        for host in 0..self.hosts.len() {
            let has_start = self.acts.iter().any(|(_, of, act)| *of == host && *act == HostAct::Start);
            if self.hosts[host].is_down() && !has_start {
                self.start(host);
                self.rest().await;
            }
        }
    }

    /// Ends the daemons that stand by.
    pub async fn leave(&mut self) {
        for host in 0..self.hosts.len() {
            if self.hosts[host].stands_by() && !self.is_down() {
                self.end(host).await;
            }
        }
    }
}

impl Ending {
    /// Returns the time until the daemon works or stands by again.
    pub fn lasts_ms(self) -> i64 {
        match self {
            Ending::Pause(ms, _) | Ending::Death(ms) | Ending::Cut(ms) | Ending::Stop(ms) => ms,
        }
    }

    /// Returns the name for the figures.
    pub fn name(self) -> &'static str {
        match self {
            Ending::Pause(_, true) => "stopped process",
            Ending::Pause(_, false) => "suspended host",
            Ending::Death(_) => "death",
            Ending::Cut(_) => "cut",
            Ending::Stop(_) => "stop",
        }
    }
}
