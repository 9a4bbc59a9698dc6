//! No secret leaks, and files have the documented modes.
//!
//! The keys are planted, and all output of the program is searched: its log at the most verbose level, the
//! output of commands, the database with its packed bodies, copies of it, exports, the metrics, errors.

#![allow(clippy::unwrap_used, reason = "a test ends at the first thing that is not as said")]

use crate::support::World;
use sqlx::sqlite::{SqliteConnectOptions, SqliteRow};
use sqlx::{ConnectOptions, Row};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tallyd::journal::PackedBody;
use tallyd::sandbox::SandboxOptions;
use tallyd::store::{DatabaseLock, Store};

const INTEGRATION: &str = "planted-integration-4f6d1c";
const GATEWAY: &str = "planted-gateway-9b27e0";
const PROXY_PASSWORD: &str = "planted-password-55aa01";

/// The program with a configuration of its own, and its collected output.
struct Desk {
    config: PathBuf,
    said: Vec<u8>,
}

impl Desk {
    fn new(folder: &Path, toml: &str) -> Self {
        let config = folder.join("tallyd.toml");
        std::fs::write(&config, toml).unwrap();
        Self { config, said: Vec::new() }
    }

    /// Runs a command and keeps its output.
    async fn run(&mut self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tallyd"));
        command.arg("--config").arg(&self.config).args(args).stdin(Stdio::null());
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        self.said.extend_from_slice(&output.stdout);
        self.said.extend_from_slice(&output.stderr);
        output
    }
}

impl Desk {
    /// Returns the end of the collected output.
    fn tail(&self) -> String {
        let from = self.said.len().saturating_sub(2000);
        String::from_utf8_lossy(&self.said[from..]).into_owned()
    }

    /// Runs the daemon until this file exists, and keeps its output.
    async fn daemon_until(&mut self, file: &Path) {
        let log = self.config.with_file_name("daemon.log");
        let mut command = Command::new(env!("CARGO_BIN_EXE_tallyd"));
        command.arg("--config").arg(&self.config).arg("run").stdin(Stdio::null());
        let mut daemon = command.stderr(std::fs::File::create(&log).unwrap()).spawn().unwrap();
        let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(60);
        while !file.exists() && tokio::time::Instant::now() < deadline {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        let terminate = Command::new("kill").args(["-TERM", &daemon.id().to_string()]).status().unwrap();
        assert!(file.exists() && terminate.success() && daemon.wait().unwrap().success());
        self.said.extend(std::fs::read(log).unwrap());
    }
}

fn holds_a_secret(bytes: &[u8]) -> bool {
    [INTEGRATION, GATEWAY, PROXY_PASSWORD]
        .iter()
        .any(|secret| bytes.windows(secret.len()).any(|window| window == secret.as_bytes()))
}

/// Collects every file below a folder except key files and the configuration.
fn files(folder: &Path, found: &mut Vec<(PathBuf, Vec<u8>)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() {
            files(&path, found);
        } else if !["i", "g", "tallyd.toml"].contains(&name) {
            let bytes = std::fs::read(&path).unwrap();
            found.push((path, bytes));
        }
    }
}

/// Returns the unpacked bodies of a database: of its journal and of a snapshot.
async fn unpacked(database: &Path) -> Vec<Vec<u8>> {
    let mut database = SqliteConnectOptions::new().filename(database).connect().await.unwrap();
    let rows = sqlx::query("SELECT size, packed FROM body").fetch_all(&mut database).await.unwrap();
    let unpack = |row: SqliteRow| {
        let size = usize::try_from(row.get::<i64, _>(0)).unwrap();
        PackedBody::unpack(&row.get::<Vec<u8>, _>(1), size).unwrap()
    };
    rows.into_iter().map(unpack).collect()
}

/// Returns every file below a folder, and every unpacked body of the journals in its databases.
async fn written(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    files(folder, &mut found);
    let mut all = Vec::new();
    for (path, bytes) in found {
        if path.extension().is_some_and(|extension| extension == "db") {
            let bodies = unpacked(&path).await.into_iter();
            all.extend(bodies.map(|body| (format!("a body in {}", path.display()), body)));
        }
        all.push((path.display().to_string(), bytes));
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn a_planted_key_is_found_in_nothing_the_program_writes() {
    let options = SandboxOptions {
        skus: 20,
        orders: 4,
        calls_per_minute: 0,
        integration_key: Some(INTEGRATION.into()),
        gateway_key: Some(GATEWAY.into()),
        ..SandboxOptions::default()
    };
    let world = World::with(options, "").await;
    if world.is_on_server("its files have no rows") {
        return;
    }
    world.track_all().await;
    let folder = world.path.parent().unwrap();
    let metrics = folder.join("tallyd.prom");
    let more = format!("[log]\nlevel = \"trace\"\n[metrics]\ntextfile = {metrics:?}\n");
    let mut desk = Desk::new(folder, &world.toml(&more));
    let (sku, warehouse, _) = world.shop().await[0].clone();
    let warehouse = warehouse.to_string();
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let (copy, replayed, past) = (path("copy.db"), path("replayed.db"), path("past.db"));
    for args in [
        &["check", "--online"][..],
        &["run", "--once"],
        &["quantity", "adjust", &sku, &warehouse, "+1", "--key", "change"],
        &["plan"],
        &["plan", "--json"],
        &["run", "--once"],
        &["check"],
        &["status"],
        &["status", "--json"],
        &["stock", "--json"],
        &["job", "list", "--json"],
        &["outbox", "list", "--json"],
        &["outbox", "show", "change", "--json"],
        &["explain", &sku, "--json"],
        &["product", "find", &sku],
        &["verify", "--json"],
        &["journal", "show", "--json"],
        &["journal", "diff", "1", "20"],
        &["journal", "prune", "--dry-run"],
        &["backup", &copy],
        &["replay", "--into", &replayed],
        &["replay", "--into", &past, "--until", "2099-01-01T00:00:00Z", "--json"],
        &["man", "--markdown"],
    ] {
        assert_eq!(desk.run(args).await.status.code(), Some(0), "{args:?}: {}", desk.tail());
    }
    let exported = desk.run(&["journal", "export"]).await;
    assert!(exported.stdout.len() > 10_000, "the journal is in the export");
    for position in [1, 2, 3] {
        desk.run(&["journal", "show", &position.to_string(), "--json"]).await;
        desk.run(&["job", "show", &position.to_string(), "--json"]).await;
    }
    desk.daemon_until(&metrics).await;
    let lines = String::from_utf8_lossy(&desk.said).into_owned();
    assert!(lines.contains("\"event\":\"job.finished\""), "the daemon worked");
    std::fs::write(folder.join("i"), format!("{INTEGRATION}-wrong")).unwrap();
    assert_eq!(desk.run(&["run", "--once"]).await.status.code(), Some(1), "a refused key fails");
    std::fs::write(folder.join("i"), format!("{INTEGRATION}\nand more")).unwrap();
    assert_eq!(desk.run(&["run", "--once"]).await.status.code(), Some(2), "a key of two lines is refused");
    assert!(!holds_a_secret(&desk.said), "{}", String::from_utf8_lossy(&desk.said));
    let written = written(folder).await;
    for name in ["tallyd.db", "copy.db", "replayed.db", "past.db", "tallyd.prom", "a body in "] {
        assert!(written.iter().any(|(file, _)| file.contains(name)), "{name} was searched");
    }
    for (name, bytes) in written {
        assert!(!holds_a_secret(&bytes), "{name} holds a key");
    }
}

/// Starts a gateway that quotes the whole request in its answer, each character as `spell` writes it.
fn echoing(spell: fn(char) -> String) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let (mut request, mut chunk) = (Vec::new(), [0; 4096]);
            while !request.windows(4).any(|end| end == b"\r\n\r\n") {
                match stream.read(&mut chunk) {
                    Ok(0) | Err(_) => break,
                    Ok(read) => request.extend_from_slice(&chunk[..read]),
                }
            }
            let spelled: String = String::from_utf8_lossy(&request).chars().map(spell).collect();
            let quoted = format!(r#"{{"Message":"{spelled}"}}"#);
            let length = quoted.len();
            let head = format!(
                "HTTP/1.1 500 Oops\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
            );
            drop(stream.write_all(format!("{head}{quoted}").as_bytes()));
        }
    });
    address
}

/// Lets the program call a gateway that quotes each request. Nothing that it prints or writes may hold a secret, as it
/// stands or as a reader of JSON takes it.
async fn nothing_holds_what_is_quoted(spell: fn(char) -> String) {
    let folder = tempfile::tempdir().unwrap();
    let (i, g) = (folder.path().join("i"), folder.path().join("g"));
    std::fs::write(&i, INTEGRATION).unwrap();
    std::fs::write(&g, GATEWAY).unwrap();
    let toml = format!(
        "[service]\nbase_url = \"http://{}\"\nintegration_key_file = {i:?}\ngateway_key_file = {g:?}\n\
         proxy = \"http://user:{PROXY_PASSWORD}@127.0.0.1:9\"\n\
         [database]\npath = {:?}\n[log]\nlevel = \"trace\"\n",
        echoing(spell),
        folder.path().join("tallyd.db"),
    );
    let mut desk = Desk::new(folder.path(), &toml);
    desk.run(&["check", "--online"]).await;
    assert!(!holds_a_secret(&desk.said), "{}", String::from_utf8_lossy(&desk.said));
    let written = written(folder.path()).await;
    let read = |bytes: &[u8]| {
        let body = serde_json::from_slice::<serde_json::Value>(bytes).unwrap_or_default();
        body["Message"].as_str().unwrap_or_default().to_owned()
    };
    let quoted = |bytes: &[u8]| read(bytes).contains("svc-subscription-key");
    assert!(written.iter().any(|(_, bytes)| quoted(bytes)), "the answer stands in the journal, and is JSON");
    for (name, bytes) in written {
        assert!(!holds_a_secret(&bytes) && !holds_a_secret(read(&bytes).as_bytes()), "{name} holds a key");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_quotes_our_request_gets_no_key_into_journal_or_log() {
    nothing_holds_what_is_quoted(|c| serde_json::json!(c).to_string().trim_matches('"').to_owned()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_quotes_our_key_in_escapes_gets_it_nowhere_either() {
    nothing_holds_what_is_quoted(|c| format!("\\u{:04X}", u32::from(c))).await;
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

/// No file that the program makes is open to everybody because its caller's umask is.
#[tokio::test]
async fn what_the_program_makes_has_its_modes_whatever_the_umask_is() {
    let world = World::new().await;
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("tallyd.toml");
    let backups = folder.path().join("backups");
    let toml = world.toml(&format!("[backup]\ndirectory = {backups:?}\n"));
    std::fs::write(&config, &toml).unwrap();
    world.make().await;
    for (umask, pages) in [("000", "man0"), ("077", "man77")] {
        let replayed = folder.path().join(format!("replayed-{umask}.db"));
        let (replayed, pages) = (replayed.to_str().unwrap(), folder.path().join(pages));
        let script = format!("umask {umask}; \"$0\" \"$@\"");
        let run = |args: &[&str]| {
            let mut command = std::process::Command::new("sh");
            let done = command
                .args(["-c", &script, env!("CARGO_BIN_EXE_tallyd"), "--config"])
                .arg(&config)
                .args(args);
            done.output().unwrap()
        };
        let replay = run(&["replay", "--into", replayed]);
        assert!(replay.status.success(), "{replay:?}");
        assert_eq!(mode(Path::new(replayed)), 0o640, "umask {umask}");
        assert!(run(&["man", "--directory", pages.to_str().unwrap()]).status.success());
        assert_eq!(mode(&pages.join("tallyd.1")), 0o644, "everybody reads a manual: umask {umask}");
        if world.location.server().is_none() {
            let backup = run(&["job", "run", "backup"]);
            assert!(backups.is_dir(), "{backup:?}");
            assert_eq!(mode(&backups), 0o750, "umask {umask}");
            std::fs::remove_dir_all(&backups).unwrap();
        }
    }
}

/// The modes of the database and its lock do not depend on the umask of the process.
#[tokio::test]
async fn the_database_and_its_lock_are_the_groups_and_nobody_elses() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.db");
    let lock = DatabaseLock::acquire(&path).unwrap();
    let store = Store::open(&path, &lock).await.unwrap();
    for name in ["t.db", "t.db-wal", "t.db-shm", "t.db.lock"] {
        assert_eq!(mode(&folder.path().join(name)), 0o660, "{name}");
    }
    store.close().await.unwrap();
    drop(lock);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    let lock = DatabaseLock::acquire(&path).unwrap();
    Store::open(&path, &lock).await.unwrap().close().await.unwrap();
    assert_eq!(mode(&path), 0o600, "what its owner closed stays closed");
}
