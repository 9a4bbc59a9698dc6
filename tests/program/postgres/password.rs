//! The password of the server stands in nothing that the program writes or shows.

use super::server::text;
use crate::support::World;
use crate::support::cluster::Cluster;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tallyd::store::{DatabaseLocation, PostgresDatabase};

const PASSWORD: &str = "planted-password-7c41d9";

/// A configuration with the database on a server that asks for a password, and all that the program showed.
struct Desk {
    world: World,
    folder: PathBuf,
    /// Folder of the systemd credential; `None`: the password is in its file.
    credentials: Option<PathBuf>,
    shown: Vec<(String, Vec<u8>)>,
}

impl Desk {
    async fn new(cluster: &Cluster) -> Self {
        cluster.sql(&format!("CREATE ROLE keeper LOGIN PASSWORD '{PASSWORD}'"));
        cluster.sql("CREATE SCHEMA north AUTHORIZATION keeper");
        cluster.authenticate("local all keeper scram-sha-256\nhost all all all scram-sha-256");
        let mut world = World::on_server(cluster, "north").await;
        world.location = cluster.location_of("keeper", "north", &world.path);
        let folder = world.path.parent().unwrap().to_owned();
        Self { world, folder, credentials: None, shown: Vec::new() }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let metrics = self.folder.join("tallyd.prom");
        let more = format!("[log]\nlevel = \"trace\"\n[metrics]\ntextfile = {metrics:?}\n");
        let config = self.folder.join("tallyd.toml");
        std::fs::write(&config, self.world.toml(&more)).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_tallyd"));
        command.arg("--config").arg(config).args(arguments).stdin(Stdio::null());
        if let Some(credentials) = &self.credentials {
            command.env("CREDENTIALS_DIRECTORY", credentials);
        }
        command
    }

    /// Runs a command, keeps what it showed, and returns its exit code.
    async fn run(&mut self, arguments: &[&str]) -> Option<i32> {
        let mut command = self.command(arguments);
        let done = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        self.shown.push((format!("stdout of {arguments:?}"), done.stdout));
        self.shown.push((format!("stderr of {arguments:?}"), done.stderr));
        done.status.code()
    }

    /// Starts the daemon with its log in a file.
    fn start(&self, log: &Path) -> Child {
        let log = std::fs::File::create(log).unwrap();
        self.command(&["run"]).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap()
    }

    /// Keeps what the kernel shows of a process.
    fn keep_process(&mut self, daemon: &Child) {
        for name in ["cmdline", "environ"] {
            let shown = std::fs::read(format!("/proc/{}/{name}", daemon.id())).unwrap();
            assert!(!shown.is_empty());
            self.shown.push((name.into(), shown));
        }
    }

    /// Keeps every file of the host but the password's.
    fn keep_files(&mut self) {
        for entry in std::fs::read_dir(&self.folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() && !path.ends_with("database-password") {
                self.shown.push((path.display().to_string(), std::fs::read(&path).unwrap()));
            }
        }
    }

    /// Waits until a file contains a text.
    async fn until(&self, file: &Path, wanted: &str) {
        let read = || std::fs::read(file).map(|bytes| text(&bytes)).unwrap_or_default();
        self.world.until(wanted, async |_| read().contains(wanted)).await;
    }

    fn assert_nothing_leaked(&self) {
        for (place, bytes) in &self.shown {
            let leaks = bytes.windows(PASSWORD.len()).any(|window| window == PASSWORD.as_bytes());
            assert!(!leaks, "{place}: {}", text(bytes));
        }
    }
}

/// Ends the daemon. It ends by itself if the server was lost at a commit.
fn terminate(mut daemon: Child) {
    Command::new("kill").args(["-TERM", &daemon.id().to_string()]).status().unwrap();
    daemon.wait().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_password_stands_in_nothing_that_the_program_shows() {
    let Some(cluster) = Cluster::start() else { return };
    let mut desk = Desk::new(&cluster).await;
    let beside = desk.folder.join("database-password");
    let credentials = desk.folder.join("credentials");
    std::fs::create_dir(&credentials).unwrap();
    for source in ["a file", "a credential"] {
        std::fs::write(&beside, PASSWORD).unwrap();
        if source == "a credential" {
            std::fs::rename(&beside, credentials.join("database-password")).unwrap();
            desk.credentials = Some(credentials.clone());
        }
        for arguments in [
            &["check"][..],
            &["run", "--once"],
            &["status"],
            &["status", "--json"],
            &["stock", "--json"],
            &["schema"],
            &["journal", "export"],
        ] {
            assert_eq!(desk.run(arguments).await, Some(0), "{arguments:?}: {:?}", desk.shown.last());
        }
        let log = desk.folder.join("daemon.log");
        let daemon = desk.start(&log);
        desk.until(&log, "daemon.ready").await;
        desk.until(&desk.folder.join("tallyd.prom"), "tallyd").await;
        desk.keep_process(&daemon);
        cluster.crash();
        desk.until(&log, "ended the connection").await;
        assert_eq!(desk.run(&["check"]).await, Some(1), "the server is away");
        assert_eq!(desk.run(&["status", "--json"]).await, Some(1), "the server is away");
        cluster.start_server();
        terminate(daemon);
        desk.keep_files();
    }
    // What the database holds and the server shows of sessions.
    let dump = Command::new(cluster.programs().join("pg_dump")).arg(cluster.url()).output().unwrap();
    assert!(text(&dump.stdout).contains("north.exchange"), "{}", text(&dump.stderr));
    desk.shown.push(("the database".into(), dump.stdout));

    desk.credentials = None;
    std::fs::write(&beside, format!("{PASSWORD}-wrong")).unwrap();
    for arguments in [&["check"][..], &["run"], &["status"]] {
        assert_eq!(desk.run(arguments).await, Some(1), "{arguments:?}");
        let (_, why) = desk.shown.last().unwrap();
        assert!(text(why).contains("password authentication failed"), "{}", text(why));
    }
    std::fs::write(&beside, PASSWORD).unwrap();
    let port = cluster.listen(Ipv4Addr::LOCALHOST.into(), "");
    let url = format!("postgres://keeper@127.0.0.1:{port}/postgres?sslmode=verify-full");
    let server = PostgresDatabase::new(&url, "north").unwrap();
    desk.world.location = DatabaseLocation::on_server(server, &desk.world.path);
    for arguments in [&["check"][..], &["run"], &["status"]] {
        assert_eq!(desk.run(arguments).await, Some(1), "{arguments:?}");
        let (_, why) = desk.shown.last().unwrap();
        assert!(text(why).contains("does not support TLS"), "{}", text(why));
    }
    desk.assert_nothing_leaked();
}

/// systemd sets `CREDENTIALS_DIRECTORY` with what the unit loads, and the second host has the file alone.
#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_of_the_packaged_unit_reads_the_password_beside_its_configuration() {
    let Some(cluster) = Cluster::start() else { return };
    let mut desk = Desk::new(&cluster).await;
    let credentials = desk.folder.join("credentials");
    std::fs::create_dir(&credentials).unwrap();
    let unit = include_str!("../../../systemd/tallyd.service");
    for line in unit.lines().filter_map(|line| line.strip_prefix("LoadCredential=")) {
        let (name, _) = line.split_once(':').unwrap();
        std::fs::write(credentials.join(name), "a key").unwrap();
    }
    assert!(credentials.join("gateway-key").exists() && !credentials.join("database-password").exists());
    desk.credentials = Some(credentials.clone());
    assert_eq!(desk.run(&["run", "--once"]).await, Some(1), "the server asks for a password");
    std::fs::write(desk.folder.join("database-password"), PASSWORD).unwrap();
    assert_eq!(desk.run(&["run", "--once"]).await, Some(0), "{:?}", desk.shown.last());

    std::fs::write(credentials.join("database-password"), "another").unwrap();
    assert_eq!(desk.run(&["run", "--once"]).await, Some(1), "a credential counts before the file");
}
