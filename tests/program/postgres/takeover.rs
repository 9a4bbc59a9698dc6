//! Many takeovers of two hosts: how long they take, what a replaced leader does, and how much of the quota is used.
//!
//! Ignored by default, because each waits for minutes; `.ci/long` runs them.

#![allow(clippy::print_stdout, reason = "a measurement prints its figures")]

use super::leadership::{Host, fill, write_config};
use crate::support::cluster::Cluster;
use crate::support::outsider::quoted;
use crate::support::proxy::{CommitFate, Proxy};
use crate::support::{World, replayed};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use tallyd::sandbox::SandboxOptions;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::{Duration, Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

/// Program that queues adjustments by 1 of all stock levels in turn.
struct Inserting {
    stop: CancellationToken,
    ended: tokio::task::JoinHandle<usize>,
}

impl Inserting {
    async fn start(world: &World, interval: Duration) -> Self {
        let stop = CancellationToken::new();
        let (levels, mut program, stopped) = (world.shop().await, world.outsider().await, stop.clone());
        let ended = tokio::spawn(async move {
            for n in 0.. {
                let (sku, warehouse, _) = &levels[n % levels.len()];
                let body = format!(r#"{{"sku":{sku:?},"warehouse_id":{warehouse},"delta":1}}"#);
                let row = [&format!("n{n}"), "quantity.adjust", &body].map(quoted).join(", ");
                program.run(&format!("INSERT INTO outbox (key, kind, body) VALUES ({row})")).await.unwrap();
                let is_over = timeout(interval, stopped.cancelled()).await.is_ok();
                if is_over {
                    return n + 1;
                }
            }
            0
        });
        Self { stop, ended }
    }

    /// Ends the program and returns the number of its changes.
    async fn stop(self) -> usize {
        self.stop.cancel();
        self.ended.await.unwrap()
    }
}

/// Waits until every change is applied, and asserts that each was once, in order, and by leaders alone.
async fn judge(world: &World, before: &[(String, i64, i64)], inserted: usize, mut leader: Host) {
    let calm = Instant::now();
    while world.number("SELECT count(*) FROM outbox WHERE state <> 'applied'").await > 0 {
        assert!(calm.elapsed() < Duration::from_secs(180), "not all changes are applied");
        sleep(Duration::from_millis(200)).await;
    }
    leader.signal("-TERM").await;
    assert_eq!(leader.ended().await, Some(0));
    let due = |at: usize| (inserted + before.len() - 1 - at) / before.len();
    let expected: Vec<_> = before
        .iter()
        .enumerate()
        .map(|(at, (sku, warehouse, quantity))| {
            (sku.clone(), *warehouse, quantity + i64::try_from(due(at)).unwrap())
        })
        .collect();
    assert_eq!(world.shop().await, expected);
    let late = "SELECT count(*) FROM exchange e WHERE EXISTS ( \
                    SELECT 1 FROM exchange f WHERE f.session_id > e.session_id AND f.id < e.id)";
    assert_eq!(world.number(late).await, 0, "calls recorded by a replaced leader");
    replayed::assert_replayed(&world.location).await;
}

fn print_spread(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    println!(
        "{what}: median {:.1?}, longest {:.1?} of {}",
        times[times.len() / 2],
        times.last().unwrap(),
        times.len()
    );
}

/// Ends the leader `rounds` times in a way, and returns the times to the next lead and from it to the first call.
async fn takeovers(
    cluster: &Cluster,
    schema: &str,
    signal: &str,
    rounds: usize,
) -> Vec<(Duration, Duration)> {
    let world = World::on_server(cluster, schema).await;
    fill(&world).await;
    let (before, config) = (world.shop().await, world.toml(""));
    let configs = ["one", "other"].map(|name| write_config(&world, name, &config));
    let inserting = Inserting::start(&world, Duration::from_millis(100)).await;
    let mut leader = Host::start_with(configs[0].clone());
    leader.until("daemon.ready").await;
    let mut times = Vec::new();
    for round in 0..rounds {
        let mut standby = Host::start_with(configs[(round + 1) % 2].clone());
        standby.until("lead.standby").await;
        leader.signal(signal).await;
        leader.ended().await;
        let (ended, clock) = (Instant::now(), world.sandbox.core().clock());
        standby.until("lead.taken").await;
        let (took, taken_ms) = (ended.elapsed(), clock.now_ms());
        let ended_ms = taken_ms - i64::try_from(took.as_millis()).unwrap();
        let first_call = || {
            let calls = world.sandbox.logged_calls();
            calls.iter().map(|call| call.started_at_ms).find(|started| *started > ended_ms)
        };
        let called_ms = loop {
            match first_call() {
                Some(called_ms) => break called_ms,
                None => sleep(Duration::from_millis(10)).await,
            }
        };
        times.push((took, Duration::from_millis(called_ms.saturating_sub(taken_ms).try_into().unwrap_or(0))));
        leader = standby;
    }
    judge(&world, &before, inserting.stop().await, leader).await;
    times
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes three minutes; .ci/long runs it"]
async fn twenty_takeovers_of_each_kind_take_as_long_as_promised() {
    let Some(cluster) = Cluster::start() else { return };
    for (kind, signal, lead_limit) in [("stop", "-TERM", 500), ("kill", "-KILL", 17_000)] {
        let schemas = ["a", "b", "c", "d"].map(|name| format!("{kind}_{name}"));
        let [a, b, c, d] = schemas.each_ref().map(|schema| takeovers(&cluster, schema, signal, 5));
        let (a, b, c, d) = tokio::join!(a, b, c, d);
        let (leads, calls): (Vec<_>, Vec<_>) = [a, b, c, d].concat().into_iter().unzip();
        let longest = *leads.iter().max().unwrap();
        let last_call = *calls.iter().max().unwrap();
        print_spread(&format!("{kind}: to the lead"), leads);
        print_spread(&format!("{kind}: from the lead to the first call"), calls);
        assert!(longest <= Duration::from_millis(lead_limit), "{longest:?}");
        assert!(last_call <= Duration::from_secs(1), "{last_call:?}");
    }
}

/// Step at which a leader is stopped, besides any time.
const AT_COMMIT: u8 = 1;
const AT_SEND: u8 = 2;

/// Trap that stops a process at a step.
#[derive(Default)]
struct Trap {
    step: AtomicU8,
    pid: AtomicU32,
    sprung: Notify,
}

impl Trap {
    /// Stops the process if the trap is set for this step.
    fn pass(&self, step: u8) {
        if self.step.compare_exchange(step, 0, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
            let pid = self.pid.load(Ordering::SeqCst).to_string();
            assert!(std::process::Command::new("kill").args(["-STOP", &pid]).status().unwrap().success());
            self.sprung.notify_one();
        }
    }
}

/// Way of one host to the platform, which notes when the host sent something.
struct Road {
    address: SocketAddr,
    last_sent: Arc<Mutex<Option<Instant>>>,
}

impl Road {
    async fn open(to: SocketAddr, trap: Arc<Trap>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, last_sent) = (listener.local_addr().unwrap(), Arc::new(Mutex::new(None)));
        let noted = Arc::clone(&last_sent);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (noted, trap) = (Arc::clone(&noted), Arc::clone(&trap));
                tokio::spawn(async move {
                    let Ok(server) = TcpStream::connect(to).await else { return };
                    let ((mut from, mut back), (mut answers, mut on)) =
                        (client.into_split(), server.into_split());
                    let requests = async {
                        let mut bytes = vec![0; 1 << 16];
                        while let Ok(size @ 1..) = from.read(&mut bytes).await {
                            *noted.lock().unwrap() = Some(Instant::now());
                            trap.pass(AT_SEND);
                            if on.write_all(&bytes[..size]).await.is_err() {
                                return;
                            }
                        }
                    };
                    // Either end closes the other one.
                    tokio::select! {
                        () = requests => {}
                        _ = tokio::io::copy(&mut answers, &mut back) => {}
                    }
                });
            }
        });
        Self { address, last_sent }
    }
}

/// Host whose connections can be watched.
struct Watched {
    config: PathBuf,
    trap: Arc<Trap>,
    road: Road,
    _proxy: Proxy,
}

impl Watched {
    async fn new(world: &World, name: &str) -> Self {
        let trap = Arc::new(Trap::default());
        let road = Road::open(world.sandbox.local_addr(), Arc::clone(&trap)).await;
        let at_commit = Arc::clone(&trap);
        let proxy = Proxy::start(&world.location, move || {
            at_commit.pass(AT_COMMIT);
            CommitFate::Passes
        });
        let proxy = proxy.await;
        let url = |location: &tallyd::store::DatabaseLocation| location.server().unwrap().url().to_owned();
        let config = world
            .toml("")
            .replace("[database]\n", "[database]\ntakeover_after = \"5s\"\n")
            .replace(&url(&world.location), &url(&proxy.location))
            .replace(&world.sandbox.local_addr().to_string(), &road.address.to_string());
        Self { config: write_config(world, name, &config), trap, road, _proxy: proxy }
    }

    fn start(&self) -> Host {
        let host = Host::start_with(self.config.clone());
        self.trap.pid.store(host.child.id().unwrap(), Ordering::SeqCst);
        host
    }

    /// Stops the leader at a step, or at any time.
    async fn pause(&self, host: &Host, round: usize) {
        let step = [0, AT_COMMIT, AT_SEND][round % 3];
        if step == 0 {
            sleep(Duration::from_millis(u64::try_from(round * 37 % 400).unwrap())).await;
            return host.signal("-STOP").await;
        }
        self.trap.step.store(step, Ordering::SeqCst);
        timeout(Duration::from_secs(30), self.trap.sprung.notified())
            .await
            .expect("the leader comes to the step");
    }
}

/// Pauses leaders `rounds` times, wakes them after the takeover, and returns how many sent something then.
async fn pauses(cluster: &Cluster, schema: &str, rounds: usize) -> usize {
    let world = World::on_server(cluster, schema).await;
    fill(&world).await;
    let before = world.shop().await;
    let sites = [Watched::new(&world, "one").await, Watched::new(&world, "other").await];
    let inserting = Inserting::start(&world, Duration::from_millis(40)).await;
    let mut leader = sites[0].start();
    leader.until("daemon.ready").await;
    let mut standby = sites[1].start();
    let mut late = 0;
    for round in 0..rounds {
        standby.until("lead.standby").await;
        let site = &sites[round % 2];
        site.pause(&leader, round).await;
        standby.until("lead.taken").await;
        let taken = Instant::now();
        standby.until("daemon.ready").await;
        leader.signal("-CONT").await;
        assert_eq!(leader.ended().await, Some(1), "a replaced leader ends");
        leader.until("lead.lost").await;
        late += usize::from(site.road.last_sent.lock().unwrap().is_some_and(|sent| sent > taken));
        leader = std::mem::replace(&mut standby, site.start());
    }
    let inserted = inserting.stop().await;
    drop(standby);
    judge(&world, &before, inserted, leader).await;
    late
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes six minutes; .ci/long runs it"]
async fn two_hundred_paused_leaders_commit_nothing_after_their_takeover() {
    let Some(cluster) = Cluster::start() else { return };
    let schemas = ["a", "b", "c", "d", "e"];
    let [a, b, c, d, e] = schemas.map(|schema| pauses(&cluster, schema, 40));
    let (a, b, c, d, e) = tokio::join!(a, b, c, d, e);
    let late = a + b + c + d + e;
    println!("{late} of 200 paused leaders sent something after their takeover");
    assert!(late <= 1, "{late}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes eleven minutes; .ci/long runs it"]
async fn leaders_that_change_every_20_s_keep_the_quota_and_use_it() {
    const CALLS_PER_MINUTE: usize = 120;
    let Some(cluster) = Cluster::start() else { return };
    let options = SandboxOptions {
        skus: 400,
        calls_per_minute: u32::try_from(CALLS_PER_MINUTE).unwrap(),
        ..SandboxOptions::default()
    };
    // Reads of one SKU each are a backlog that never ends.
    let extra = "[limits]\ncalls_per_minute = 120\nshare = 1.0\n\
                 [jobs.balances]\nschedule = \"* * * * * *\"\nskus_per_call = 1\n";
    let mut world = World::with(options, extra).await;
    world.location = cluster.location("north", &world.path);
    world.track_all().await;
    let config = world.toml("");
    let configs = ["one", "other"].map(|name| write_config(&world, name, &config));
    let mut leader = Host::start_with(configs[0].clone());
    leader.until("daemon.ready").await;
    let begun_ms = world.sandbox.core().clock().now_ms();
    for round in 0..30 {
        let mut standby = Host::start_with(configs[(round + 1) % 2].clone());
        standby.until("lead.standby").await;
        sleep(Duration::from_secs(20)).await;
        leader.signal("-TERM").await;
        assert_eq!(leader.ended().await, Some(0));
        standby.until("daemon.ready").await;
        leader = standby;
    }
    let calls = world.sandbox.logged_calls();
    assert!(calls.iter().all(|call| call.status != Some(429)), "the platform refused a call");
    let started: Vec<i64> = calls.iter().map(|call| call.started_at_ms).collect();
    let fullest =
        started.iter().map(|from| started.iter().filter(|at| (*from..from + 60_000).contains(at)).count());
    let fullest = fullest.max().unwrap();
    let minutes = (world.sandbox.core().clock().now_ms() - begun_ms) as f64 / 60_000.0;
    let used = calls.len() as f64 / (minutes * CALLS_PER_MINUTE as f64);
    println!(
        "{} calls in {minutes:.1} minutes: {used:.3} of the quota; fullest minute {fullest}",
        calls.len()
    );
    assert!(fullest <= CALLS_PER_MINUTE, "{fullest}");
    assert!(used >= 0.9, "{used}");
}
