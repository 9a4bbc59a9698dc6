//! A PostgreSQL cluster of the tests' own: a temporary folder, a socket in it, no port.

use std::ffi::OsStr;
use std::io::Write as _;
use std::net::IpAddr;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use tallyd::store::{DatabaseLocation, PostgresDatabase};
use tokio::net::TcpSocket;

/// Name of the variable that demands PostgreSQL: `require` fails where it is missing, `auto` (the default)
/// leaves the tests out.
const SWITCH: &str = "TALLYD_TEST_POSTGRES";

/// Name of the variable that chooses the engine of all databases: `postgres`, or SQLite without it.
const ENGINE: &str = "TALLYD_TEST_ENGINE";

/// Returns the location of a new database: the file, or a schema of its own in this process's cluster.
#[allow(clippy::disallowed_methods, reason = "the switch of the tests is an environment variable")]
pub fn new_location(file: &Path) -> DatabaseLocation {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    if std::env::var(ENGINE).is_err() {
        return file.into();
    }
    let schema = format!("test_{}", NEXT.fetch_add(1, Ordering::Relaxed));
    Cluster::shared().location(&schema, file)
}

/// Returns the lines of `[database]` for a location.
pub fn location_toml(location: &DatabaseLocation) -> String {
    let path = format!("path = {:?}\n", location.path());
    match location.server() {
        Some(server) => path + &format!("url = {:?}\nschema = {:?}\n", server.url(), server.schema()),
        None => path,
    }
}

/// Prints what this host lacks for a test of PostgreSQL; fails if the switch demands it.
pub fn leave_out(missing: &str) {
    leave_out_unless_required(SWITCH, missing);
}

/// Prints what this host lacks for a test; fails if the variable demands it by the value `require`.
#[allow(clippy::print_stdout, clippy::disallowed_methods, reason = "a test that skips says so, or may not")]
pub fn leave_out_unless_required(switch: &str, missing: &str) {
    let is_required = std::env::var(switch).is_ok_and(|value| value == "require");
    assert!(!is_required, "{switch}=require, and this host has no {missing}");
    println!("skipped: this host has no {missing}");
}

/// Returns a socket on a port that nobody else is given. A server that is told the number can listen on it: PostgreSQL
/// and Prometheus set `SO_REUSEADDR` too, and this socket never listens.
pub fn reserve_port(address: IpAddr) -> TcpSocket {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }.unwrap();
    socket.set_reuseaddr(true).unwrap();
    socket.bind((address, 0).into()).unwrap();
    socket
}

/// Running cluster; dropping it stops the server.
pub struct Cluster {
    programs: PathBuf,
    dir: tempfile::TempDir,
    owner: Option<(u32, u32)>,
    port: AtomicU16,
}

impl Cluster {
    /// Starts a cluster; `None`: this host has no PostgreSQL, which is printed.
    pub fn start() -> Option<Self> {
        let Some(programs) = find_programs() else {
            leave_out("PostgreSQL (Debian: postgresql)");
            return None;
        };
        let dir = tempfile::tempdir().unwrap();
        let owner = server_owner(dir.path());
        if let Some((user, group)) = owner {
            std::os::unix::fs::chown(dir.path(), Some(user), Some(group)).unwrap();
        }
        let cluster = Self { programs, dir, owner, port: 5432.into() };
        let data = cluster.dir.path().join("data");
        let options = ["-U", "tallyd", "-E", "UTF8", "--locale=C", "-A", "trust", "-N"];
        cluster
            .run("initdb", [OsStr::new("-D"), data.as_os_str()].into_iter().chain(options.map(OsStr::new)));
        cluster.start_server();
        Some(cluster)
    }

    /// Starts the server after [`Cluster::crash`].
    pub fn start_server(&self) {
        self.start_server_with("-c listen_addresses=");
    }

    fn start_server_with(&self, options: &str) {
        let server = format!("-k {} -c fsync=off {options}", self.dir.path().display());
        self.control(&["-o", &server, "start"]);
    }

    /// Restarts the server with options of `postgres`, after a crash.
    pub fn restart_with(&self, options: &str) {
        self.crash();
        self.start_server_with(options);
    }

    /// Restarts the server, which then listens on an address too, and returns its port.
    pub fn listen(&self, address: IpAddr, options: &str) -> u16 {
        let reserved = reserve_port(address);
        let port = reserved.local_addr().unwrap().port();
        self.port.store(port, Ordering::Relaxed);
        self.restart_with(&format!("-c listen_addresses={address} -c port={port} {options}"));
        port
    }

    /// Sets the lines of `pg_hba.conf`, before those that trust the cluster's owner on the socket.
    pub fn authenticate(&self, lines: &str) {
        let text = format!("local all tallyd trust\n{lines}\n");
        std::fs::write(self.dir.path().join("data/pg_hba.conf"), text).unwrap();
        self.sql("SELECT pg_reload_conf()");
    }

    /// Ends the server at once, as a crash of its process does.
    pub fn crash(&self) {
        self.control(&["stop"]);
    }

    /// Copies the data of a server that does not run, or takes a copy back.
    pub fn copy_data(&self, from: &str, to: &str) {
        let path = |name: &str| self.dir.path().join(name);
        if path(to).exists() {
            std::fs::remove_dir_all(path(to)).unwrap();
        }
        let copied = Command::new("cp").arg("-a").args([path(from), path(to)]).status().unwrap();
        assert!(copied.success());
    }

    /// Returns the cluster of all tests of this process. It is stopped after the end of the process.
    fn shared() -> &'static Self {
        static SHARED: OnceLock<(Cluster, Child)> = OnceLock::new();
        let start = || {
            let cluster = Self::start().expect("the tests are to run on PostgreSQL");
            // The pipe to this program closes with the process, also after a panic.
            let program = cluster.programs.join("pg_ctl");
            let data = cluster.dir.path().join("data");
            let mut stop = Command::new("sh");
            stop.args(["-c", "cat; \"$0\" -D \"$1\" -m immediate stop; rm -rf \"$2\""]);
            stop.args([program.as_path(), &data, cluster.dir.path()]).current_dir("/");
            stop.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
            let stop = cluster.as_owner(&mut stop).spawn().unwrap();
            (cluster, stop)
        };
        &SHARED.get_or_init(start).0
    }

    /// Makes a command run as the user of the server.
    pub fn as_owner<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        match self.owner {
            Some((user, group)) => command.uid(user).gid(group),
            None => command,
        }
    }

    /// Runs SQL in the database `postgres` as the owner of the cluster and returns the rows, columns separated
    /// by `|`.
    pub fn sql(&self, sql: &str) -> Vec<String> {
        let done = self.psql("tallyd", sql, &["-v", "ON_ERROR_STOP=1"]);
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap().lines().map(str::to_owned).collect()
    }

    /// Runs SQL in the database `postgres` as a role, by the server's `psql` with these options.
    pub fn psql(&self, role: &str, sql: &str, options: &[&str]) -> Output {
        let mut psql = Command::new(self.programs.join("psql"));
        psql.args(["-X", "-q", "-At"]).args(options).arg(self.url_of(role));
        psql.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut running = psql.spawn().unwrap();
        running.stdin.take().unwrap().write_all(sql.as_bytes()).unwrap();
        running.wait_with_output().unwrap()
    }

    /// Returns the location of a schema; `file` is beside the files of the host.
    pub fn location(&self, schema: &str, file: &Path) -> DatabaseLocation {
        self.location_of("tallyd", schema, file)
    }

    /// Returns the location of a schema for a role.
    pub fn location_of(&self, role: &str, schema: &str, file: &Path) -> DatabaseLocation {
        DatabaseLocation::on_server(PostgresDatabase::new(&self.url_of(role), schema).unwrap(), file)
    }

    /// Returns the address of the database `postgres`.
    pub fn url(&self) -> String {
        self.url_of("tallyd")
    }

    /// Returns the address of the database `postgres` for a role.
    pub fn url_of(&self, role: &str) -> String {
        let port = self.port.load(Ordering::Relaxed);
        format!("postgres:///postgres?port={port}&user={role}&host={}", self.dir.path().display())
    }

    /// Returns the folder of the server's socket and files, which belongs to the user of the server.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Returns the folder of the server's programs.
    pub fn programs(&self) -> &Path {
        &self.programs
    }

    fn control(&self, arguments: &[&str]) {
        let data = self.dir.path().join("data");
        // Without a log file the server keeps the pipe of its starter open.
        let always = ["-D".as_ref(), data.as_os_str(), "-l".as_ref(), "/dev/null".as_ref(), "-w".as_ref()];
        let arguments = ["-m", "immediate"].iter().chain(arguments).map(OsStr::new);
        self.run("pg_ctl", always.into_iter().chain(arguments));
    }

    fn run<'a>(&self, program: &str, arguments: impl Iterator<Item = &'a OsStr>) {
        let mut command = Command::new(self.programs.join(program));
        command.args(arguments).current_dir(self.dir.path());
        let done = self.as_owner(&mut command).output().unwrap();
        assert!(done.status.success(), "{program}: {}", String::from_utf8_lossy(&done.stderr));
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.crash();
    }
}

/// Returns the folder of the server's programs: Debian's newest, else one on the path.
fn find_programs() -> Option<PathBuf> {
    let version = |dir: &PathBuf| dir.file_name()?.to_str()?.parse::<u32>().ok();
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let newest = versions.map(|entry| entry.path()).max_by_key(version).map(|dir| dir.join("bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders = newest.into_iter().chain(std::env::split_paths(&path));
    folders.find(|dir| ["initdb", "pg_ctl", "psql"].iter().all(|program| dir.join(program).exists()))
}

/// Returns user and group of `postgres` where the test runs as root, as which no server starts.
fn server_owner(dir: &Path) -> Option<(u32, u32)> {
    use std::os::unix::fs::MetadataExt as _;
    if std::fs::metadata(dir).unwrap().uid() != 0 {
        return None;
    }
    let users = std::fs::read_to_string("/etc/passwd").unwrap();
    let user = users.lines().find(|line| line.starts_with("postgres:")).expect("Debian's package makes it");
    let mut ids = user.split(':').skip(2).map(|id| id.parse().unwrap());
    ids.next().zip(ids.next())
}
