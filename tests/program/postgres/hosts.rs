//! Hosts of the tests: a program with a folder of its own for its lock, and the account that they share.

#![allow(unreachable_pub, reason = "another suite has hosts too")]

use super::server::text;
use crate::support::cluster::Cluster;
use crate::support::network::NetworkHost;
use crate::support::outsider::quoted;
use crate::support::{World, replayed};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::time::{Duration, Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

/// Longest wait for what must come.
const PATIENCE: Duration = Duration::from_secs(60);

/// Host with a daemon that runs.
pub(super) struct Host {
    pub(super) config: PathBuf,
    pub(super) child: Child,
    /// Lines of its log so far.
    log: watch::Receiver<Vec<Value>>,
}

pub(super) fn command(config: &Path, arguments: &[&str]) -> Command {
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
pub(super) fn configure(world: &World, name: &str) -> PathBuf {
    write_config(
        world,
        name,
        &world.toml("").replace("[database]\n", "[database]\ntakeover_after = \"5s\"\n"),
    )
}

/// Returns the configuration of a world, with the job that decides changes in doubt.
pub(super) fn settling(world: &World) -> String {
    let off = "[jobs.settle]\nenabled = false\n";
    let toml = world.toml("");
    assert!(toml.contains(off));
    toml.replace(off, "")
}

/// Writes a configuration of a world for a host of its own and returns its path.
pub fn write_config(world: &World, name: &str, config: &str) -> PathBuf {
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
    pub(super) fn start(world: &World, name: &str) -> Self {
        Self::start_with(configure(world, name))
    }

    /// Starts the daemon of a configuration.
    pub(super) fn start_with(config: PathBuf) -> Self {
        let command = command(&config, &["run"]);
        Self::start_by(config, command)
    }

    /// Starts the daemon of a configuration in a network of its own.
    pub(super) fn start_on(network: &NetworkHost, config: PathBuf) -> Self {
        let mut command = Command::from(network.command(env!("CARGO_BIN_EXE_tallyd")));
        command.arg("--config").arg(&config).arg("run").env_remove("TALLYD_TEST_ENGINE").kill_on_drop(true);
        Self::start_by(config, command)
    }

    fn start_by(config: PathBuf, mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
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

    /// Waits until this host or another one logs an event; returns true if this one does.
    pub async fn until_first(&mut self, event: &str, other: &mut Self) -> bool {
        let found = |lines: &Vec<Value>| lines.iter().any(|line| line["event"] == event);
        let first = async {
            tokio::select! {
                _ = self.log.wait_for(found) => true,
                _ = other.log.wait_for(found) => false,
            }
        };
        timeout(PATIENCE, first).await.unwrap()
    }

    /// Waits for a line that contains a text.
    pub(super) async fn until_line(&mut self, text: &str) {
        let found = |lines: &Vec<Value>| lines.iter().any(|line| line.to_string().contains(text));
        let is_there = timeout(PATIENCE, self.log.wait_for(found)).await.is_ok_and(|found| found.is_ok());
        assert!(is_there, "no line has {text:?}: {:#?}", self.log.borrow());
    }

    /// Returns the last lines of the log, for a test that fails.
    pub(super) fn log_tail(&self) -> Vec<String> {
        self.log.borrow().iter().rev().take(30).map(Value::to_string).collect()
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

    pub(super) async fn json(&self, arguments: &[&str]) -> Value {
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
pub(super) async fn begin(cluster: &Cluster) -> (World, (String, i64, i64)) {
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
pub(super) async fn adjust(world: &World, level: &(String, i64, i64), key: &str) {
    let body = json!({"sku": level.0, "warehouse_id": level.1, "delta": 1}).to_string();
    world.change(key, "quantity.adjust", &body).await;
    world.until("the change is applied", async |world| world.fate(key).await.0 == "applied").await;
}

/// Gives each host a boot of its own, as the kernels of two machines do; here all hosts have one kernel. Then no host
/// may compare its moments with those of another one.
pub async fn separate_boots(world: &World) {
    world
        .sql(
            "CREATE FUNCTION boot_of_host() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
                 NEW.boot_id := 'boot of ' || (SELECT instance_id FROM leadership WHERE session_id = NEW.id); \
                 RETURN NEW; END $$; \
             CREATE TRIGGER boot_of_host BEFORE INSERT ON session FOR EACH ROW EXECUTE FUNCTION boot_of_host()",
        )
        .await;
}

/// Program that queues adjustments by 1 of all stock levels in turn.
pub(super) struct Inserting {
    stop: CancellationToken,
    ended: tokio::task::JoinHandle<usize>,
}

impl Inserting {
    pub(super) async fn start(world: &World, interval: Duration) -> Self {
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
    pub(super) async fn stop(self) -> usize {
        self.stop.cancel();
        self.ended.await.unwrap()
    }
}

/// Time for the rest of the changes. A create in doubt is sent again after ten quiet minutes only.
const CALM: Duration = Duration::from_secs(780);
/// SQL: a change that is not applied. A shipment that arrived without its answer stays in doubt, because it may be
/// another's (docs/rules.md 14).
const NOT_APPLIED: &str = "state <> 'applied' AND reason IS DISTINCT FROM 'landed_or_another'";

/// Waits until every change is applied but for a shipment that may be another's, and asserts that each quantity was
/// adjusted as often as queued, and that leaders alone called.
pub(super) async fn judge(world: &World, before: &[(String, i64, i64)], inserted: usize, mut leader: Host) {
    let calm = Instant::now();
    while world.number(&format!("SELECT count(*) FROM outbox WHERE {NOT_APPLIED}")).await > 0 {
        let decided = world.number("SELECT count(*) FROM outbox WHERE state IN ('held', 'rejected')").await;
        if decided > 0 || calm.elapsed() >= CALM {
            let shown = leader.json(&["outbox", "list"]).await;
            panic!("not all changes are applied: {shown:#}");
        }
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
