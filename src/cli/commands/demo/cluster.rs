//! A PostgreSQL server for the demonstration of a standby: in the demonstration's folder, on a socket, without a port.
//!
//! It is a child of this process, so that Ctrl-C ends it too. Root runs it as the user `postgres`, because no server
//! starts as root.

use crate::cli::CommandFailure;
use crate::daemon::SystemClock;
use crate::store::{DatabaseLocation, PostgresDatabase};
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Time limit for the start of the server.
const START_TIMEOUT: Duration = Duration::from_secs(30);
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
const SCHEMA: &str = "demo";
/// The user that Debian's package creates for servers.
const SERVER_USER: &str = "postgres";
const PROGRAMS: [&str; 2] = ["initdb", "postgres"];

pub(super) struct DemoCluster {
    server: Child,
    socket_folder: PathBuf,
}

impl DemoCluster {
    pub(super) async fn start(folder: &Path) -> Result<Self, CommandFailure> {
        let programs = find_programs()?;
        let socket_folder = folder.join("postgres");
        let owner = create_folder(folder, &socket_folder)?;
        let data = socket_folder.join("data");
        let mut initdb = Command::new(programs.join("initdb"));
        initdb.arg("-D").arg(&data).args(["-U", "tallyd", "-E", "UTF8", "--locale=C", "-A", "trust"]);
        let made = as_user(&mut initdb, owner).current_dir(&socket_folder).output();
        let made = made.map_err(|error| CommandFailure::failed(format!("cannot run initdb: {error}")))?;
        if !made.status.success() {
            let why = String::from_utf8_lossy(&made.stderr).into_owned();
            return Err(CommandFailure::failed(format!("initdb failed in {}: {why}", data.display())));
        }
        let log = fs::File::create(folder.join("postgres.log"))
            .map_err(|error| CommandFailure::failed(format!("cannot create postgres.log: {error}")))?;
        let mut server = Command::new(programs.join("postgres"));
        server.arg("-D").arg(&data).arg("-k").arg(&socket_folder);
        server.args(["-c", "listen_addresses=", "-c", "fsync=off"]).current_dir(&socket_folder);
        server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let server = as_user(&mut server, owner).spawn();
        let server =
            server.map_err(|error| CommandFailure::failed(format!("cannot run postgres: {error}")))?;
        let mut cluster = Self { server, socket_folder };
        cluster.wait_until_ready(folder).await?;
        Ok(cluster)
    }

    /// Returns the location of the demonstration's schema, with a host's file for its lock.
    pub(super) fn location(&self, host_file: &Path) -> Result<DatabaseLocation, CommandFailure> {
        let server = PostgresDatabase::new(&self.url(), SCHEMA);
        let server = server.map_err(|error| CommandFailure::failed(&error))?;
        Ok(DatabaseLocation::on_server(server, host_file))
    }

    /// Returns the lines of `[database]` for a host with this file for its lock.
    pub(super) fn settings(&self, host_file: &Path) -> String {
        let url = self.url();
        format!("path = {host_file:?}\nurl = {url:?}\nschema = {SCHEMA:?}\ntakeover_after = \"5s\"")
    }

    fn url(&self) -> String {
        format!("postgres:///postgres?user=tallyd&host={}", self.socket_folder.display())
    }

    async fn wait_until_ready(&mut self, folder: &Path) -> Result<(), CommandFailure> {
        let location = self.location(&folder.join("ready.db"))?;
        let begun = Instant::now();
        loop {
            let Err(error) = location.check_server(&SystemClock).await else { return Ok(()) };
            let is_gone = self.server.try_wait().is_ok_and(|ended| ended.is_some());
            if is_gone || begun.elapsed() > START_TIMEOUT {
                let log = fs::read_to_string(folder.join("postgres.log")).unwrap_or_default();
                let last = log.lines().last().unwrap_or_default();
                return Err(CommandFailure::failed(format!("PostgreSQL does not start: {error}; {last}")));
            }
            sleep(LOOK_INTERVAL).await;
        }
    }
}

impl Drop for DemoCluster {
    fn drop(&mut self) {
        // The data is removed with the folder, so that the server needs no orderly end.
        drop(self.server.kill());
        drop(self.server.wait());
    }
}

/// Returns the folder of the server's programs: Debian's newest version, else one of `PATH`.
fn find_programs() -> Result<PathBuf, CommandFailure> {
    let version = |folder: &PathBuf| folder.file_name()?.to_str()?.parse::<u32>().ok();
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let newest = versions.map(|entry| entry.path()).max_by_key(version).map(|folder| folder.join("bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    first_with_programs(newest.into_iter().chain(std::env::split_paths(&path)))
}

fn first_with_programs(mut folders: impl Iterator<Item = PathBuf>) -> Result<PathBuf, CommandFailure> {
    folders.find(|folder| PROGRAMS.iter().all(|program| folder.join(program).exists())).ok_or_else(|| {
        CommandFailure::failed(
            "the demonstration of a standby needs a PostgreSQL server, and this host has no `initdb` and `postgres`; \
             install them (Debian: sudo apt install postgresql), then run it again",
        )
    })
}

/// Creates the folder of data and socket, and returns user and group of the server if they are not those of this
/// process.
fn create_folder(above: &Path, folder: &Path) -> Result<Option<(u32, u32)>, CommandFailure> {
    let failed =
        |error| CommandFailure::failed(format!("cannot create the folder {}: {error}", folder.display()));
    fs::create_dir(folder).map_err(failed)?;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).map_err(failed)?;
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let user = users.lines().find_map(server_user).ok_or_else(|| {
        CommandFailure::failed(format!(
            "no PostgreSQL server runs as root, and this host has no user `{SERVER_USER}`; run the demonstration as \
             another user"
        ))
    })?;
    chown(folder, Some(user.0), Some(user.1)).map_err(failed)?;
    fs::set_permissions(above, fs::Permissions::from_mode(0o711)).map_err(failed)?;
    Ok(Some(user))
}

/// Returns user and group id of a line of /etc/passwd, if it is the server's user.
fn server_user(line: &str) -> Option<(u32, u32)> {
    let mut fields = line.split(':');
    let is_server_user = fields.next() == Some(SERVER_USER);
    let mut ids = fields.skip(1).map(|id| id.parse().ok());
    is_server_user.then(|| ids.next()?.zip(ids.next()?))?
}

fn as_user(command: &mut Command, user: Option<(u32, u32)>) -> &mut Command {
    match user {
        Some((user, group)) => command.uid(user).gid(group),
        None => command,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_server_the_demonstration_says_what_to_install() {
        let (empty, half, whole) =
            (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(half.path().join("initdb"), "").unwrap();
        PROGRAMS.iter().for_each(|program| fs::write(whole.path().join(program), "").unwrap());
        let folders = [empty.path(), half.path(), whole.path()].map(Path::to_owned);
        assert_eq!(first_with_programs(folders.clone().into_iter()).unwrap(), whole.path());
        let refused = first_with_programs(folders[..2].iter().cloned()).unwrap_err();
        assert_eq!(refused.exit_code, 1);
        assert!(refused.message.contains("sudo apt install postgresql"), "{}", refused.message);
    }

    #[test]
    fn the_user_of_servers_is_read_from_its_line() {
        assert_eq!(
            server_user("postgres:x:107:114:PostgreSQL:/var/lib/postgresql:/bin/bash"),
            Some((107, 114))
        );
        assert_eq!(server_user("root:x:0:0:root:/root:/bin/bash"), None);
    }
}
