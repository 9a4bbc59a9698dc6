//! A world: the whole daemon, the whole platform and a warehouse in one process, on one clock, from one seed. A world
//! on a server may have two hosts, each with a daemon.
//!
//! The world's loop replaces the daemon's supervisor, because the supervisor uses the host's timers. The loop
//! starts the real jobs when they are due or triggered and waits until the world is at rest. Then it advances
//! the clock to the next event: of the trade, a poll, or a sleeper (a call on its way, a wait for a
//! reservation, a pause).
//!
//! Limits: the loop implements the supervisor's rules a second time, in short (a push after a change, the due
//! times of settle, the actions after a failure); tests/it/supervision.rs tests the real ones. The real rules
//! decide when a schedule is due (timetable.rs). SQLite's `now` is the host's, so the world sets the time of
//! creation of a change after the insertion.

mod amid;
mod copies;
mod hosts;
mod strike;
mod supervise;
mod way;

pub use self::amid::{Amid, Saying};
pub use self::copies::{DatabaseCopy, KeptChange};
use self::hosts::{Host, HostAct};
use self::strike::Strike;
pub use self::strike::{Ending, Step};
pub use self::way::HeldCommit;
use super::audit::Audit;
use super::auditor::Auditor;
use super::books::{Books, Level};
use super::clock::SimClock;
use super::cluster;
use super::outsider::{Outsider, quoted};
use super::wire::Wire;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tallyd::config::Config;
use tallyd::daemon::Daemon;
use tallyd::model::{Clock, JobKind, RunTrigger};
use tallyd::sandbox::{self, SandboxCore, SandboxOptions};
use tallyd::store::{DatabaseLocation, Store};

/// Window within which changes share their calls, as in the daemon.
const GATHER_MS: i64 = 40;
/// Time limit of a second read after the first: 5 s, a reservation in the quota, and the call.
const SECOND_LOOK_MS: i64 = 30_000;

/// Parameters of a world.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub skus: u32,
    pub warehouses: u32,
    pub begins_ms: i64,
    /// Lines of the configuration beside the usual ones.
    pub config: String,
    /// The polls with their intervals.
    pub polls: Vec<(JobKind, Duration)>,
    /// True if the configured schedules replace `polls`.
    pub is_scheduled: bool,
}

pub struct World {
    /// Clock of the host that leads, or led last.
    pub clock: SimClock,
    pub core: Arc<SandboxCore>,
    pub wire: Wire,
    pub plan: Plan,
    audit: Arc<Mutex<Audit>>,
    hosts: Vec<Host>,
    /// Host that leads, or led last.
    leader: usize,
    /// Coming acts of hosts, with their times.
    acts: Vec<(i64, usize, HostAct)>,
    strike: Option<Strike>,
    /// Host that is suspended until [`World::resume`].
    suspended: Option<usize>,
    /// Strikes that took place, and starts of another host as the leader.
    pub struck: BTreeMap<String, i64>,
    pub takeovers: i64,
    /// Changes of the leader's calendar: by a step, or because a host with another calendar leads.
    pub calendar_changes: i64,
    /// Time of the last trouble or start of a daemon.
    pub troubled_ms: i64,
    /// Number of finished runs.
    pub runs: u64,
    changes: u64,
    /// Decisions that persons will make amid other work, with their times.
    amid: Vec<(i64, Amid)>,
    pub(super) outsider: Outsider,
    /// Location of the database.
    pub location: DatabaseLocation,
    pub(super) dir: tempfile::TempDir,
}

impl World {
    pub async fn open(plan: Plan) -> Self {
        Self::open_before(plan, None, false, cluster::new_location).await
    }

    /// Opens a world with an auditor that judges each step, and its database at the location for a file. A second
    /// host needs a location on a server.
    pub async fn open_before(
        plan: Plan,
        full: Option<Auditor>,
        has_standby: bool,
        location: impl FnOnce(&Path) -> DatabaseLocation,
    ) -> Self {
        let clock = SimClock::new(plan.begins_ms);
        let options = SandboxOptions {
            seed: plan.seed,
            skus: plan.skus,
            warehouses: plan.warehouses,
            orders: 0,
            ..SandboxOptions::default()
        };
        let time = clock.clone();
        let source = sandbox::SandboxClock::from_source(move || time.now_ms());
        let core = Arc::new(SandboxCore::open(&options, source).await.unwrap());
        let audit = Arc::new(Mutex::new(Audit { full, ..Audit::default() }));
        let wire = Wire::new(Arc::clone(&core), clock.clone(), plan.seed, Arc::clone(&audit));
        // In a file system in memory, syncing costs nothing, and no test here cuts the power.
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let location = location(&dir.path().join("tallyd.db"));
        let hosts = Host::all(has_standby, &location, (&clock, &wire), dir.path());
        // A daemon makes the schema that a program beside it opens.
        let daemon = hosts[0].start_alone(&plan).await;
        let outsider = Outsider::at(&location).await;
        let mut world = Self {
            clock,
            core,
            wire,
            plan,
            audit,
            hosts,
            leader: 0,
            acts: Vec::new(),
            strike: None,
            suspended: None,
            struck: BTreeMap::new(),
            takeovers: 0,
            calendar_changes: 0,
            troubled_ms: 0,
            runs: 0,
            changes: 0,
            amid: Vec::new(),
            outsider,
            location,
            dir,
        };
        let now = world.clock.now_ms();
        let polls = world.plan.polls.iter().map(|(kind, _)| (*kind, (now, RunTrigger::Schedule))).collect();
        world.install(0, daemon, polls);
        world.begin().await;
        world.arm(0).await;
        world
    }

    /// Tracks the SKUs, takes the stock as the ground truth and reads the account once.
    async fn begin(&mut self) {
        // The world sets the time of creation of each change; see the module.
        let of_table = if self.location.server().is_some() { " ON outbox" } else { "" };
        for guard in ["outbox_update_guard", "outbox_moment_ahead"] {
            self.outsider.run(&format!("DROP TRIGGER {guard}{of_table}")).await.unwrap();
        }
        let stock = self.stock().await;
        self.audit().books = Books::new(stock.clone());
        // A kit has no stock of its own.
        let skus: BTreeSet<&String> = stock.keys().map(|(sku, _)| sku).collect();
        self.outsider.track_skus(&Vec::from_iter(skus)).await;
        for kind in [JobKind::Warehouses, JobKind::Balances] {
            self.leading_mut().start_job(kind, RunTrigger::Once);
        }
        self.idle().await;
    }

    /// Returns the auditor's state.
    pub fn audit(&self) -> MutexGuard<'_, Audit> {
        self.audit.lock().unwrap()
    }

    pub fn daemon(&self) -> &Daemon {
        &self.leading().expect("a daemon leads").daemon
    }

    pub fn store(&self) -> &Store {
        &self.daemon().context().store
    }

    /// Returns the stock at the platform.
    pub async fn stock(&self) -> BTreeMap<Level, i64> {
        let rows = self.core.stock_levels().await.unwrap();
        rows.into_iter().map(|row| ((row.sku, row.warehouse_id), row.quantity)).collect()
    }

    /// Returns the mirror, as a program beside the daemon reads it.
    pub async fn mirror(&mut self) -> BTreeMap<Level, i64> {
        let sql = "SELECT sku, warehouse_id, quantity FROM stock";
        let rows: Vec<(String, i64, i64)> = self.outsider.rows(sql).await;
        rows.into_iter().map(|(sku, warehouse, quantity)| ((sku, warehouse), quantity)).collect()
    }

    /// Returns a number from the database.
    pub async fn number(&mut self, sql: &str) -> i64 {
        self.outsider.value(sql).await
    }

    /// Returns pairs of numbers from the database.
    pub async fn pairs(&mut self, sql: &'static str) -> BTreeMap<i64, i64> {
        let rows: Vec<(i64, i64)> = self.outsider.rows(sql).await;
        rows.into_iter().collect()
    }

    /// Names, as a person, the shipment that a change in doubt made.
    pub async fn adopt(&mut self, change: i64, shipment: i64) {
        let row = format!("({change}, {shipment})");
        self.outsider
            .run(&format!("INSERT INTO adoption (change_id, shipment_id) VALUES {row}"))
            .await
            .unwrap();
    }

    /// Inserts a change as a program beside the daemon would; returns its key.
    pub async fn change(&mut self, kind: &str, body: &Value) -> String {
        self.insert(kind, &body.to_string(), 0).await
    }

    /// Inserts a change with a body as it was written; returns its key.
    pub async fn change_text(&mut self, kind: &str, body: &str) -> String {
        self.insert(kind, body, 0).await
    }

    /// Inserts a person's count of a stock level; returns its key.
    pub async fn change_urgently(&mut self, (sku, warehouse): &Level, units: i64) -> String {
        let body = json!({"sku": sku, "warehouse_id": warehouse, "quantity": units});
        self.insert("quantity.set", &body.to_string(), 1).await
    }

    async fn insert(&mut self, kind: &str, body: &str, priority: i64) -> String {
        self.changes += 1;
        let key = format!("{kind} {}", self.changes);
        let [row_key, kind, body] = [&key, kind, body].map(quoted);
        let created_at = quoted(&self.clock.now().to_rfc3339());
        let insertion = format!(
            "BEGIN; INSERT INTO outbox (key, kind, body, priority) VALUES ({row_key}, {kind}, {body}, {priority}); \
             UPDATE outbox SET revision = revision + 1, created_at = {created_at} WHERE key = {row_key}; COMMIT"
        );
        self.outsider.run(&insertion).await.unwrap();
        self.plan_job(JobKind::Push, self.clock.now_ms() + GATHER_MS, RunTrigger::Outbox);
        key
    }

    /// Returns the send time of the call that carried a change.
    pub async fn sent_at(&mut self, key: &str) -> i64 {
        let sql = "SELECT e.sent_ms FROM outbox o JOIN exchange e ON e.id = o.exchange_id WHERE o.key";
        self.number(&format!("{sql} = {}", quoted(key))).await
    }

    /// Inserts a change of a stock level; returns its key.
    pub async fn change_level(
        &mut self,
        kind: &str,
        (sku, warehouse): &Level,
        name: &str,
        units: i64,
    ) -> String {
        self.change(kind, &json!({"sku": sku, "warehouse_id": warehouse, name: units})).await
    }

    /// Returns (state, reason) of every change, by key.
    pub async fn fates(&mut self) -> BTreeMap<String, (String, String)> {
        let sql = "SELECT key, state, coalesce(reason, '') FROM outbox";
        let rows: Vec<(String, String, String)> = self.outsider.rows(sql).await;
        rows.into_iter().map(|(key, state, reason)| (key, (state, reason))).collect()
    }

    /// Returns true if changes of the stock level are on their way, so that its quantity moves without a
    /// sale.
    pub async fn is_moving(&mut self, (sku, warehouse): &Level) -> bool {
        let sql = format!(
            "SELECT sku FROM outbox \
             WHERE warehouse_id = {warehouse} AND state IN ('pending', 'sending', 'in_doubt') AND sku IS NOT NULL"
        );
        let moving: Vec<(String,)> = self.outsider.rows(&sql).await;
        let case_key = |sku: &str| sku.trim().to_lowercase().to_uppercase();
        moving.iter().any(|(other,)| case_key(other) == case_key(sku))
    }

    /// Runs a job now, and the runs that follow from it.
    pub async fn run_now(&mut self, kind: JobKind) {
        self.idle().await;
        self.leading_mut().start_job(kind, RunTrigger::Operator);
        self.idle().await;
    }

    /// Triggers the jobs that a person's decision beside the daemon triggers.
    pub fn person_said(&mut self) {
        self.plan_job(JobKind::Push, self.clock.now_ms(), RunTrigger::Outbox);
        self.plan_job(JobKind::Settle, self.clock.now_ms(), RunTrigger::Outbox);
    }

    /// Writes the configuration to a file, for a command beside the daemon; returns its path.
    pub fn config_file(&self) -> PathBuf {
        let file = self.dir.path().join("tallyd.toml");
        std::fs::write(&file, toml(&self.plan, &self.location)).unwrap();
        file
    }

    pub fn config(&self) -> Config {
        config(&self.plan, &self.location)
    }

    /// Returns the number of changes inserted.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Advances to a time; everything due until then happens, in order.
    pub async fn go_on_to(&mut self, until_ms: i64) {
        while self.step(until_ms).await {}
        self.clock.advance_to(until_ms.max(self.clock.now_ms()));
    }

    /// Advances until no job runs.
    pub async fn idle(&mut self) {
        loop {
            self.rest().await;
            if self.processes().all(|process| process.is_idle()) {
                return;
            }
            self.step(i64::MAX).await;
        }
    }

    /// Advances until no change is on its way, for at most `within_ms` simulated milliseconds.
    pub async fn settled(&mut self, within_ms: i64) {
        const OPEN: &str = "SELECT count(*) FROM outbox WHERE state IN ('pending', 'sending') \
                            OR (state = 'in_doubt' AND reason <> 'landed_or_another')";
        let until = self.clock.now_ms() + within_ms;
        self.rest().await;
        while self.number(OPEN).await > 0 {
            if !self.step(until).await {
                let mut fates = self.fates().await;
                fates.retain(|_, (state, _)| ["pending", "sending", "in_doubt"].contains(&state.as_str()));
                panic!("seed {}: changes are still open: {fates:?}", self.plan.seed);
            }
            self.rest().await;
        }
        self.idle().await;
    }

    /// Advances until no stock level waits for a second read.
    ///
    /// A read that shows the quantity before our last write decides nothing alone.
    pub async fn looked_twice(&mut self) {
        const DOUBTED: &str = "SELECT count(*) FROM stock_level_write WHERE first_mismatch_ms IS NOT NULL";
        let until = self.clock.now_ms() + SECOND_LOOK_MS;
        while self.number(DOUBTED).await > 0 && self.step(until).await {
            self.rest().await;
        }
        self.idle().await;
    }

    /// Carries out the next event; returns false if none is due by `until_ms`.
    pub async fn step(&mut self, until_ms: i64) -> bool {
        self.rest().await;
        let sleeper = self.clock.next_ms();
        let due = self.next_due();
        let act = self.acts.iter().map(|(at, ..)| *at).min();
        let strike = self.strike.as_ref().map(|strike| strike.until_ms);
        let at = [due.map(|(at, ..)| at), act, strike, sleeper].into_iter().flatten().min();
        let Some(at) = at.filter(|at| *at <= until_ms) else { return false };
        let has_decision = self.say_amid(at);
        let now = at.max(self.clock.now_ms());
        match due {
            Some((due_at, host, due)) if due_at <= at => {
                self.clock.advance_to(now);
                self.carry_out(host, due).await;
            }
            _ if act.is_some_and(|act| act <= at) => {
                self.clock.advance_to(now);
                self.next_act().await;
            }
            _ if strike.is_some_and(|until| until <= at) => {
                self.clock.advance_to(now);
                self.strike_now().await;
            }
            _ => self.clock.wake_next(),
        }
        if has_decision {
            self.notice_decision();
        }
        true
    }

    /// Waits for rest and handles the runs that finished.
    pub async fn rest(&mut self) {
        loop {
            self.settle_down().await;
            if !self.spring_strike().await && !self.handle_hosts().await {
                return;
            }
        }
    }

    /// Kills the daemon after `steps` steps and `rounds` rounds of the runtime.
    ///
    /// The state of SQLite's threads at that moment is random, so an assertion afterwards must hold for every
    /// state.
    pub async fn kill_amid(&mut self, steps: i64, rounds: i64) {
        for _ in 0..steps {
            self.step(i64::MAX).await;
        }
        if self.clock.next_ms().is_some() {
            self.clock.wake_next();
        }
        for _ in 0..rounds {
            tokio::task::yield_now().await;
        }
        self.kill().await;
    }
}

/// A write lock of another program on the database, held until it is dropped.
pub struct ForeignLock(Outsider);

impl ForeignLock {
    pub async fn release(mut self) {
        self.0.run("ROLLBACK").await.unwrap();
    }
}

impl World {
    /// Locks the database for writing, as a program beside the daemon does.
    ///
    /// Returns `None` if something is due before `until_ms` for which the world itself writes.
    pub async fn lock_for_writing(&mut self, until_ms: i64) -> Option<ForeignLock> {
        self.rest().await;
        if self.processes().any(|process| process.writes_before(until_ms)) {
            return None;
        }
        let mut connection = Outsider::at(&self.location).await;
        let lock = match self.location.server() {
            Some(_) => "BEGIN; SELECT position FROM journal_sequence FOR UPDATE",
            None => "BEGIN IMMEDIATE",
        };
        connection.run(lock).await.unwrap();
        Some(ForeignLock(connection))
    }
}

fn config(plan: &Plan, location: &DatabaseLocation) -> Config {
    Config::from_toml(&toml(plan, location)).unwrap()
}

fn toml(plan: &Plan, location: &DatabaseLocation) -> String {
    format!(
        "[service]\nbase_url = \"http://127.0.0.1:1\"\ntimeout = \"{}s\"\n[database]\n{}{}",
        super::wire::TIMEOUT.as_secs(),
        cluster::location_toml(location),
        plan.config
    )
}
