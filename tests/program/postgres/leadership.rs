//! Two hosts with one schema: one daemon leads, the other stands by and takes over.
//!
//! A host is a program with a folder of its own for its lock.

use super::server::text;
use crate::support::cluster::Cluster;
use crate::support::{UPDATE, World, replayed};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tallyd::store::{DatabaseLock, Store, StoreError};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::time::{Duration, Instant, timeout};

/// Longest wait for what must come.
const PATIENCE: Duration = Duration::from_secs(60);

/// Host with a daemon that runs.
pub(super) struct Host {
    pub(super) config: PathBuf,
    pub(super) child: Child,
    /// Lines of its log so far.
    log: watch::Receiver<Vec<Value>>,
}

fn command(config: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tallyd"));
    command.arg("--config").arg(config).args(arguments).env_remove("TALLYD_TEST_ENGINE");
    command.kill_on_drop(true);
    command
}

/// Runs a command and returns its exit code and what it wrote.
pub(super) async fn run(config: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let output = timeout(PATIENCE, command(config, arguments).output()).await;
    let output = output.unwrap_or_else(|_| panic!("{arguments:?} does not end")).unwrap();
    (output.status.code(), text(&output.stdout) + &text(&output.stderr))
}

/// Writes the configuration of a host of its own and returns its path.
fn configure(world: &World, name: &str) -> PathBuf {
    write_config(
        world,
        name,
        &world.toml("").replace("[database]\n", "[database]\ntakeover_after = \"5s\"\n"),
    )
}

/// Writes a configuration of a world for a host of its own and returns its path.
pub(super) fn write_config(world: &World, name: &str, config: &str) -> PathBuf {
    let folder = world.path.with_file_name(name);
    std::fs::create_dir_all(&folder).unwrap();
    let (path, own) = (world.path.to_str().unwrap(), folder.join("tallyd.db"));
    let config = config.replace(path, own.to_str().unwrap());
    let file = folder.join("tallyd.toml");
    std::fs::write(&file, format!("{config}[log]\nformat = \"json\"\n")).unwrap();
    file
}

impl Host {
    /// Starts the daemon of a host.
    fn start(world: &World, name: &str) -> Self {
        Self::start_with(configure(world, name))
    }

    /// Starts the daemon of a configuration.
    pub(super) fn start_with(config: PathBuf) -> Self {
        let mut child =
            command(&config, &["run"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (lines, log) = watch::channel(Vec::new());
        let (out, err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        tokio::spawn(read_lines(out, lines.clone()));
        tokio::spawn(read_lines(err, lines));
        Self { config, child, log }
    }

    /// Waits for a log line with this event, and returns it.
    pub(super) async fn until(&mut self, event: &str) -> Value {
        let found = |lines: &Vec<Value>| lines.iter().any(|line| line["event"] == event);
        // Both a time-out and the end of the log lead to the panic.
        let _ = timeout(PATIENCE, self.log.wait_for(found)).await;
        let lines = self.log.borrow();
        let line = lines.iter().find(|line| line["event"] == event);
        line.unwrap_or_else(|| panic!("{event} is not logged: {lines:#?}")).clone()
    }

    pub(super) fn has_logged(&self, event: &str) -> bool {
        self.log.borrow().iter().any(|line| line["event"] == event)
    }

    pub(super) async fn signal(&self, signal: &str) {
        let id = self.child.id().unwrap().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().await.unwrap().success());
    }

    /// Waits for the end of the daemon and returns its exit code.
    pub(super) async fn ended(&mut self) -> Option<i32> {
        timeout(PATIENCE, self.child.wait()).await.unwrap().unwrap().code()
    }

    async fn json(&self, arguments: &[&str]) -> Value {
        let output = command(&self.config, arguments).arg("--json").output().await.unwrap();
        let shown = text(&output.stdout);
        serde_json::from_str(&shown).unwrap_or_else(|_| panic!("{shown}{}", text(&output.stderr)))
    }
}

async fn read_lines(from: impl tokio::io::AsyncRead + Unpin, to: watch::Sender<Vec<Value>>) {
    let mut lines = BufReader::new(from).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let line = serde_json::from_str(&line).unwrap_or(Value::String(line));
        to.send_modify(|lines| lines.push(line));
    }
}

/// Returns a world with tracked SKUs on a server, and a stock level with room.
async fn begin(cluster: &Cluster) -> (World, (String, i64, i64)) {
    let world = World::on_server(cluster, "north").await;
    fill(&world).await;
    let level = world.shop().await.into_iter().find(|level| level.2 >= 50).unwrap();
    (world, level)
}

/// Tracks all SKUs of a world and reads them.
pub(super) async fn fill(world: &World) {
    world.track_all().await;
    assert!(world.once().await.is_good());
}

/// Queues an adjustment by 1 and waits until it is applied.
async fn adjust(world: &World, level: &(String, i64, i64), key: &str) {
    let body = json!({"sku": level.0, "warehouse_id": level.1, "delta": 1}).to_string();
    world.change(key, "quantity.adjust", &body).await;
    world.until("the change is applied", async |world| world.fate(key).await.0 == "applied").await;
}

#[tokio::test]
async fn a_standby_leads_as_soon_as_the_leader_stops_in_good_order() {
    let Some(cluster) = Cluster::start() else { return };
    let (world, level) = begin(&cluster).await;
    let mut one = Host::start(&world, "one");
    one.until("daemon.ready").await;
    let mut other = Host::start(&world, "other");
    assert!(other.until("lead.standby").await["leader"].is_string());
    adjust(&world, &level, "first").await;
    assert!(!other.has_logged("lead.taken"));
    let status = other.json(&["status"]).await;
    assert_eq!(status["leader"]["lives"], true, "{status}");
    assert_eq!(status["standbys"].as_array().unwrap().len(), 1, "{status}");
    one.signal("-TERM").await;
    assert_eq!(one.ended().await, Some(0));
    let released = Instant::now();
    other.until("lead.taken").await;
    assert!(released.elapsed() < Duration::from_millis(500), "{:?}", released.elapsed());
    other.until("daemon.ready").await;
    adjust(&world, &level, "second").await;
    other.signal("-TERM").await;
    assert_eq!(other.ended().await, Some(0));
    assert_eq!(world.shop_level(&level.0, level.1).await, level.2 + 2);
    assert_eq!(world.calls(UPDATE), 2);
    replayed::assert_replayed(&world.location).await;
}

#[tokio::test]
async fn a_standby_takes_over_from_a_killed_leader_and_a_killed_leader_from_itself() {
    let Some(cluster) = Cluster::start() else { return };
    let (world, level) = begin(&cluster).await;
    let mut one = Host::start(&world, "one");
    one.until("daemon.ready").await;
    one.signal("-KILL").await;
    one.ended().await;
    let died = Instant::now();
    let mut again = Host::start(&world, "one");
    again.until("daemon.ready").await;
    assert!(died.elapsed() < Duration::from_secs(4), "its own lock shows that the leader is dead");
    let mut other = Host::start(&world, "other");
    other.until("lead.standby").await;
    again.signal("-KILL").await;
    again.ended().await;
    let died = Instant::now();
    other.until("lead.taken").await;
    assert!(died.elapsed() < Duration::from_secs(5 + 3), "{:?}", died.elapsed());
    other.until("daemon.ready").await;
    adjust(&world, &level, "after").await;
    let status = other.json(&["status"]).await;
    assert!(status["leader"]["takeover_ms"].as_i64().unwrap() >= 5_000, "{status}");
    other.signal("-TERM").await;
    assert_eq!(other.ended().await, Some(0));
    replayed::assert_replayed(&world.location).await;
}

#[tokio::test]
async fn a_leader_that_was_replaced_while_it_was_paused_commits_nothing_and_ends() {
    let Some(cluster) = Cluster::start() else { return };
    let (world, level) = begin(&cluster).await;
    let mut one = Host::start(&world, "one");
    one.until("daemon.ready").await;
    let mut other = Host::start(&world, "other");
    other.until("lead.standby").await;
    one.signal("-STOP").await;
    other.until("daemon.ready").await;
    let session = world.number("SELECT max(id) FROM session").await;
    adjust(&world, &level, "while paused").await;
    one.signal("-CONT").await;
    assert_eq!(one.ended().await, Some(1), "systemd starts it anew, and it stands by");
    one.until("lead.lost").await;
    adjust(&world, &level, "after").await;
    assert_eq!(world.number("SELECT max(id) FROM session").await, session);
    let late = format!(
        "SELECT count(*) FROM exchange e JOIN session s ON s.id = e.session_id \
                        WHERE s.id < {session} AND e.id > (SELECT min(id) FROM exchange WHERE session_id = {session})"
    );
    assert_eq!(world.number(&late).await, 0, "calls of the replaced leader");
    assert_eq!(world.shop_level(&level.0, level.1).await, level.2 + 2);
    let mut again = Host::start(&world, "one");
    again.until("lead.standby").await;
    other.signal("-TERM").await;
    assert_eq!(other.ended().await, Some(0));
    again.until("daemon.ready").await;
    replayed::assert_replayed(&world.location).await;
}

#[tokio::test]
async fn a_host_without_the_lead_asks_and_queues_and_never_calls() {
    let Some(cluster) = Cluster::start() else { return };
    let (world, level) = begin(&cluster).await;
    let mut one = Host::start(&world, "one");
    one.until("daemon.ready").await;
    let elsewhere = configure(&world, "elsewhere");
    let file = world.path.with_file_name("moved.db");
    let (url, file) = (cluster.url(), file.to_str().unwrap());
    for (arguments, reason) in [
        (&["run", "--once"][..], "leads this account"),
        (&["restored"], "leads the database"),
        (&["journal", "prune"], "leads the database"),
        (&["move", "--from", &url, "--to", file], "leads the database"),
    ] {
        let (code, shown) = run(&elsewhere, arguments).await;
        assert_eq!(code, Some(1), "{arguments:?}: {shown}");
        assert!(shown.contains(reason), "{arguments:?}: {shown}");
    }
    let warehouse = level.1.to_string();
    for arguments in [
        &["quantity", "adjust", &level.0, &warehouse, "1"][..],
        &["stock"],
        &["job", "run", "balances"],
        &["explain", &level.0],
        &["outbox", "list"],
    ] {
        let (code, shown) = run(&elsewhere, arguments).await;
        assert_eq!(code, Some(0), "{arguments:?}: {shown}");
    }
    let sessions = world.number("SELECT count(*) FROM session").await;
    one.signal("-TERM").await;
    assert_eq!(one.ended().await, Some(0));
    assert_eq!(sessions, 2, "the first load's and the leader's: no command led");
}

#[tokio::test]
async fn a_server_that_went_back_ends_the_leader_and_holds_what_may_have_been_sent() {
    let Some(cluster) = Cluster::start() else { return };
    let (world, level) = begin(&cluster).await;
    let body = json!({"sku": level.0, "warehouse_id": level.1, "delta": 1}).to_string();
    world.change("sent", "quantity.adjust", &body).await;
    cluster.crash();
    cluster.copy_data("data", "replica with lag");
    cluster.start_server();
    let mut one = Host::start(&world, "one");
    one.until("daemon.ready").await;
    world.until("the change is applied", async |world| world.fate("sent").await.0 == "applied").await;
    cluster.crash();
    cluster.copy_data("replica with lag", "data");
    cluster.start_server();
    assert_eq!(one.ended().await, Some(1));
    one.until("lead.lost").await;
    let mut again = Host::start(&world, "one");
    again.until("daemon.ready").await;
    again.until("database.restored").await;
    assert_eq!(world.fate("sent").await.0, "held");
    assert_eq!(world.shop_level(&level.0, level.1).await, level.2 + 1);
}

#[tokio::test]
async fn a_store_is_not_opened_beside_a_leader() {
    let Some(cluster) = Cluster::start() else { return };
    let (world, _) = begin(&cluster).await;
    let working = world.work().await;
    let path = world.path.with_file_name("beside.db");
    let lock = DatabaseLock::acquire(&path).unwrap();
    let location = cluster.location("north", &path);
    let refused = Store::open(&location, &lock).await.unwrap_err();
    assert!(matches!(refused, StoreError::Led { .. }), "{refused}");
    working.stop().await;
    Store::open(&location, &lock).await.unwrap();
}
