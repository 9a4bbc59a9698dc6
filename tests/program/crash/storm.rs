//! Repeated `kill -9` of the real program, or of its PostgreSQL, while another process inserts changes. On two hosts also
//! pauses, orderly stops and cuts of the way to the server.
//!
//! Every change is applied, every quantity is exact, and no person has to act.

use super::rig;
use crate::postgres::hosts;
use crate::support::cluster::Cluster;
use crate::support::outsider::{Outsider, quoted};
use crate::support::proxy::{CommitFate, Proxy};
use crate::support::{UPDATE, World, replayed};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Mutex;
use std::time::Duration;
use tallyd::store::DatabaseLocation;
use tokio::time::{Instant, sleep};

/// Time limit for the rest to settle: two checks after the quiet time, and the backlog.
const CALM: Duration = Duration::from_secs(90);

/// A reproducible sequence of pseudo-random numbers.
struct Dice(u64);

impl Dice {
    fn throw(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

/// The running program; killed when the test aborts.
struct Running(Child);

impl Running {
    fn start(config: &Path) -> Self {
        Self(rig::command(config, &["run"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().unwrap();
    }
}

/// Returns the changes that are not applied, by state, reason and detail.
async fn waiting(world: &World) -> String {
    let sql = "SELECT state || ' ' || coalesce(reason, '') || ': ' || coalesce(detail, ''), count(*) FROM outbox \
               WHERE state <> 'applied' GROUP BY 1";
    let rows: Vec<(String, i64)> = world.outsider().await.rows(sql).await;
    format!("{rows:#?}")
}

type Levels = Vec<(String, i64, i64)>;

/// Connects as soon as the database can be reached.
async fn connect(location: &DatabaseLocation) -> Outsider {
    loop {
        match Outsider::try_at(location).await {
            Ok(connected) => return connected,
            Err(_) => sleep(Duration::from_millis(20)).await,
        }
    }
}

/// Inserts adjusts until the time is over; returns the expected quantity of each stock level.
async fn insert(world: &World, levels: &Levels, until: Instant) -> BTreeMap<(String, i64), i64> {
    let mut dice = Dice(7);
    let mut expected: BTreeMap<_, _> = levels.iter().map(|c| ((c.0.clone(), c.1), c.2)).collect();
    let mut other = Outsider::at(&world.location).await;
    let mut n = 0;
    while Instant::now() < until {
        let level = &levels[usize::try_from(dice.throw(levels.len() as u64)).unwrap()];
        let delta = if dice.throw(3) == 0 { -1 } else { 2 };
        let body = format!(r#"{{"sku":"{}","warehouse_id":{},"delta":{delta}}}"#, level.0, level.1);
        let row = format!("'w{n}', 'quantity.adjust', {}", quoted(&body));
        // A server that is away may have committed; a repeated key has no effect.
        while other.run(&format!("INSERT INTO outbox (key, kind, body) VALUES ({row})")).await.is_err() {
            other = connect(&world.location).await;
        }
        *expected.get_mut(&(level.0.clone(), level.1)).unwrap() += delta;
        n += 1;
        sleep(Duration::from_millis(15)).await;
    }
    expected
}

/// Kills each start of the program after 50 to 900 ms; returns the number of kills.
async fn kill(config: &Path, until: Instant) -> u32 {
    let (mut dice, mut kills) = (Dice(42), 0);
    while Instant::now() < until {
        let running = Running::start(config);
        sleep(Duration::from_millis(50 + dice.throw(850))).await;
        drop(running);
        kills += 1;
    }
    kills
}

async fn storm(lasts: Duration) {
    let world = World::new().await;
    let (expected, config, kills) = weather(&world, lasts, kill).await;
    judge(&world, &expected, &config, &format!("{kills} kills")).await;
}

/// Inserts adjusts while `trouble` disturbs the program; returns what it returned.
async fn weather<T>(
    world: &World,
    lasts: Duration,
    trouble: impl AsyncFnOnce(&Path, Instant) -> T,
) -> (BTreeMap<(String, i64), i64>, PathBuf, T) {
    world.make().await;
    let config = rig::config_file(world, "");
    let levels: Levels = world.shop().await.into_iter().filter(|level| level.2 > 20).take(12).collect();
    let until = Instant::now() + lasts;
    let (expected, troubles) = tokio::join!(insert(world, &levels, until), trouble(&config, until));
    (expected, config, troubles)
}

/// Lets the program finish, and asserts that each change took effect once.
async fn judge(world: &World, expected: &BTreeMap<(String, i64), i64>, config: &Path, troubles: &str) {
    let sessions = world.number("SELECT coalesce(max(id), 0) FROM session").await;
    let mut last = Running::start(config);
    let (calm, open) = (Instant::now(), "SELECT count(*) FROM outbox WHERE state <> 'applied'");
    while world.number(open).await > 0 {
        assert!(calm.elapsed() < CALM, "{}", waiting(world).await);
        sleep(Duration::from_millis(50)).await;
    }
    let took = calm.elapsed();
    world
        .until("it has started", async |w| {
            w.number("SELECT coalesce(max(id), 0) FROM session").await > sessions
        })
        .await;
    let stopped = std::process::Command::new("kill").arg(last.0.id().to_string()).status().unwrap();
    assert!(stopped.success() && last.0.wait().unwrap().success(), "SIGTERM ends it with 0");
    for ((sku, warehouse), quantity) in expected {
        assert_eq!(world.shop_level(sku, *warehouse).await, *quantity, "{sku} in {warehouse}");
    }
    let number = async |sql: &str| world.number(sql).await;
    assert_eq!(number("SELECT count(*) FROM run WHERE outcome = 'running'").await, 0);
    assert_eq!(number("SELECT count(*) FROM brake_trip").await, 0, "no kill is a restore");
    world.assert_sound().await;
    let changes = number("SELECT count(*) FROM outbox").await;
    let doubts = number("SELECT count(*) FROM event WHERE kind = 'outbox.finished'").await;
    println!("{troubles}, {changes} changes, {doubts} doubts settled, calm after {took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storm_of_kills_loses_and_doubles_nothing() {
    storm(Duration::from_secs(8)).await;
}

/// Ignored by default: `cargo test --test program -- --ignored long_storm --nocapture`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes more than a minute"]
async fn a_long_storm_of_kills_loses_and_doubles_nothing() {
    storm(Duration::from_secs(40)).await;
}

/// Keeps the program running as systemd does; returns the number of its starts.
async fn keep_running(config: &Path, until: Instant) -> u32 {
    let mut starts = 0;
    while Instant::now() < until {
        let mut running = Running::start(config);
        starts += 1;
        while Instant::now() < until && running.0.try_wait().unwrap().is_none() {
            sleep(Duration::from_millis(20)).await;
        }
    }
    starts
}

/// Crashes the server after each of 1 to 4 s, and starts it again after `away`; returns the number of crashes.
async fn crash_server(cluster: &Cluster, away: Duration, until: Instant) -> u32 {
    let (mut dice, mut crashes) = (Dice(11), 0);
    while Instant::now() < until {
        sleep(Duration::from_millis(1_000 + dice.throw(3_000))).await;
        tokio::task::block_in_place(|| cluster.crash());
        sleep(away).await;
        tokio::task::block_in_place(|| cluster.start_server());
        crashes += 1;
    }
    crashes
}

async fn server_storm(lasts: Duration, away: Duration) {
    let Some(cluster) = Cluster::start() else { return };
    let world = World::on_server(&cluster, "north").await;
    let trouble = async |config: &Path, until| {
        tokio::join!(keep_running(config, until), crash_server(&cluster, away, until))
    };
    let (expected, config, (starts, crashes)) = weather(&world, lasts, trouble).await;
    judge(&world, &expected, &config, &format!("{crashes} crashes of the server, {starts} starts")).await;
    let claims = "SELECT count(*) FROM exchange WHERE operation = ";
    let claimed = world.number(&format!("{claims}{}", quoted(UPDATE))).await;
    let calls = world.calls(UPDATE);
    assert!(calls <= usize::try_from(claimed).unwrap(), "{calls} calls, {claimed} claims");
    replayed::assert_replayed(&world.location).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storm_of_server_crashes_loses_and_doubles_nothing() {
    server_storm(Duration::from_secs(10), Duration::ZERO).await;
}

/// Ignored by default: `cargo test --test program -- --ignored long_storm_of_server --nocapture`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes more than ten minutes"]
async fn a_long_storm_of_server_crashes_loses_and_doubles_nothing() {
    server_storm(Duration::from_secs(600), Duration::ZERO).await;
}

/// Ignored by default, as above.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes more than a minute"]
async fn a_server_that_is_away_for_a_minute_loses_and_doubles_nothing() {
    server_storm(Duration::from_secs(5), Duration::from_secs(60)).await;
}

/// Host of a daemon, which is started again whenever it ends, and its way to the server.
struct StormHost {
    config: PathBuf,
    way: Proxy,
    running: Mutex<Option<Running>>,
}

impl StormHost {
    async fn new(world: &World, name: &str) -> Self {
        let way = Proxy::start(&world.location, || CommitFate::Passes).await;
        let url = |location: &DatabaseLocation| location.server().unwrap().url().to_owned();
        let toml = rig::toml(world, "").replace("[database]\n", "[database]\ntakeover_after = \"5s\"\n");
        let toml = toml.replace(&url(&world.location), &url(&way.location));
        let config = hosts::write_config(world, name, &toml);
        Self { config, way, running: Mutex::new(None) }
    }

    /// Starts the program some seconds after each of its ends, as systemd does; returns the number of starts.
    async fn keep_running(&self, seed: u64, until: Instant) -> u32 {
        let (mut dice, mut starts) = (Dice(seed), 0);
        while Instant::now() < until {
            *self.running.lock().unwrap() = Some(Running::start(&self.config));
            starts += 1;
            while Instant::now() < until && self.runs() {
                sleep(Duration::from_millis(20)).await;
            }
            sleep(Duration::from_millis(dice.throw(7_000))).await;
        }
        starts
    }

    fn runs(&self) -> bool {
        self.running.lock().unwrap().as_mut().is_some_and(|running| running.0.try_wait().unwrap().is_none())
    }

    /// Returns true if the lock of this host has the name of the last leader's.
    async fn leads(&self, world: &World) -> bool {
        let sql = "SELECT instance_id FROM leadership ORDER BY session_id DESC LIMIT 1";
        let last: Vec<(String,)> = connect(&world.location).await.rows(sql).await;
        let lock = std::fs::read_to_string(self.config.with_file_name("tallyd.db.lock")).unwrap_or_default();
        last.first().is_some_and(|(name,)| lock.contains(name.as_str()))
    }

    fn signal(&self, signal: &str) {
        if self.runs()
            && let Some(running) = &*self.running.lock().unwrap()
        {
            let id = running.0.id().to_string();
            assert!(std::process::Command::new("kill").args([signal, &id]).status().unwrap().success());
        }
    }

    /// Mends the way, wakes the program and stops it in good order.
    async fn calm_down(&self) {
        self.way.set_cut(false);
        self.signal("-CONT");
        self.signal("-TERM");
        let stopping = Instant::now();
        while self.runs() && stopping.elapsed() < CALM {
            sleep(Duration::from_millis(20)).await;
        }
        // One that stood by, and was fenced meanwhile, ends too.
        assert!(!self.runs(), "the program ends");
    }
}

/// Disturbs the leader, or another host one time in three, and the server; returns what happened how often.
async fn disturb(
    cluster: &Cluster,
    world: &World,
    sites: &[StormHost; 2],
    (pause_max, until): (Duration, Instant),
) -> BTreeMap<&'static str, u32> {
    const EVENTS: [&str; 5] = ["kill", "stop", "pause", "cut", "crash of the server"];
    let pause_max = u64::try_from(pause_max.as_millis()).unwrap();
    let (mut dice, mut counts) = (Dice(18), BTreeMap::new());
    while Instant::now() < until {
        sleep(Duration::from_millis(1_000 + dice.throw(pause_max - 1_000))).await;
        let leads = sites[0].leads(world).await;
        let site = &sites[usize::from(leads == (dice.throw(3) == 0))];
        // Some are shorter than the time after which a standby takes over.
        let lasts = Duration::from_millis(2_000 + dice.throw(10_000));
        let event = EVENTS[usize::try_from(dice.throw(5)).unwrap()];
        match event {
            "kill" => site.signal("-KILL"),
            "stop" => site.signal("-TERM"),
            "pause" => {
                site.signal("-STOP");
                sleep(lasts).await;
                site.signal("-CONT");
            }
            "cut" => {
                site.way.set_cut(true);
                sleep(lasts).await;
                site.way.set_cut(false);
            }
            _ => tokio::task::block_in_place(|| {
                cluster.crash();
                cluster.start_server();
            }),
        }
        *counts.entry(event).or_default() += 1;
    }
    counts
}

async fn host_storm(lasts: Duration, pause_max: Duration) {
    let Some(cluster) = Cluster::start() else { return };
    let world = World::on_server(&cluster, "north").await;
    let trouble = async |_: &Path, until| {
        hosts::separate_boots(&world).await;
        let sites = [StormHost::new(&world, "one").await, StormHost::new(&world, "other").await];
        let (counts, one, other) = tokio::join!(
            disturb(&cluster, &world, &sites, (pause_max, until)),
            sites[0].keep_running(3, until),
            sites[1].keep_running(4, until)
        );
        for site in &sites {
            site.calm_down().await;
        }
        (counts, one + other)
    };
    let (expected, config, (counts, starts)) = weather(&world, lasts, trouble).await;
    let leads = world.number("SELECT count(*) FROM leadership").await;
    assert!(leads > 2, "the lead changed: {counts:?}");
    judge(&world, &expected, &config, &format!("{counts:?}, {starts} starts, {leads} leads")).await;
    let late = "SELECT count(*) FROM exchange e WHERE EXISTS ( \
                    SELECT 1 FROM exchange f WHERE f.session_id > e.session_id AND f.id < e.id)";
    assert_eq!(world.number(late).await, 0, "calls recorded by a replaced leader");
    replayed::assert_replayed(&world.location).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storm_over_two_hosts_loses_and_doubles_nothing() {
    host_storm(Duration::from_secs(40), Duration::from_secs(3)).await;
}

/// Ignored by default: `cargo test --test program -- --ignored long_storm_over_two --nocapture`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes more than ten minutes"]
async fn a_long_storm_over_two_hosts_loses_and_doubles_nothing() {
    host_storm(Duration::from_secs(600), Duration::from_secs(10)).await;
}
