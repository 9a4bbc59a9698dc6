//! `demo --standby URL`: two daemons share a new schema on the caller's PostgreSQL server; the leader is killed in the
//! middle of the sales, and the other goes on. The schema stays, because the server is the caller's.
//!
//! Each daemon is a process of its own with a folder of its own for its lock, as on two hosts.

use super::folder::DemoFolder;
use super::scenes::{DemoScene, DemoStage, until};
use super::shop::SimulatedShop;
use super::{sandbox_options, show_line, show_totals};
use crate::cli::CommandFailure;
use crate::daemon::SystemClock;
use crate::model::Clock as _;
use crate::present::pages::StartPages;
use crate::sandbox::start_sandbox;
use crate::store::{DatabaseLocation, PostgresDatabase, Store};
use indicatif::ProgressBar;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const HOSTS: [&str; 2] = ["north", "south"];

/// A daemon in a process of its own; it is killed with this value.
struct DemoHost(Child);

impl DemoHost {
    fn start(name: &str, folder: &DemoFolder) -> Result<Self, CommandFailure> {
        let failed = |error| CommandFailure::failed(format!("cannot start the daemon {name}: {error}"));
        let log = fs::File::create(folder.path.join(format!("{name}.log"))).map_err(failed)?;
        let mut daemon = Command::new(std::env::current_exe().map_err(failed)?);
        daemon.arg("run").arg("--config").arg(folder.path.join(format!("{name}.toml")));
        // A variable of the caller would change the configuration.
        let variables = std::env::vars_os().map(|(name, _)| name);
        variables.filter(|name| name.to_string_lossy().starts_with("TALLYD_")).for_each(|name| {
            daemon.env_remove(name);
        });
        daemon.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        Ok(Self(daemon.spawn().map_err(failed)?))
    }

    fn kill(&mut self) -> Result<(), CommandFailure> {
        let killed = self.0.kill().and_then(|()| self.0.wait());
        killed.map(drop).map_err(CommandFailure::cannot("kill the leader"))
    }

    fn stop(mut self) -> Result<(), CommandFailure> {
        let failed = |error| CommandFailure::failed(format!("cannot stop the daemon: {error}"));
        kill_process(Pid::from_child(&self.0), Signal::TERM).map_err(|error| failed(error.into()))?;
        let ended = self.0.wait().map_err(failed)?;
        match ended.success() {
            true => Ok(()),
            false => Err(CommandFailure::failed(format!("the second daemon ended with {ended}"))),
        }
    }
}

impl Drop for DemoHost {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Runs the shop with two daemons in a new schema on this server, kills the leader half way, and returns the summary.
pub(super) async fn run_and_take_over(
    folder: &DemoFolder,
    url: &str,
    open: Duration,
    start_pages: StartPages,
) -> Result<(String, bool), CommandFailure> {
    let schema = format!("tallyd_demo_{}", SystemClock.now().0);
    let unusable =
        |why: String| CommandFailure::usage(format!("the server of `--standby` cannot be used: {why}"));
    let server = PostgresDatabase::new(url, &schema).map_err(unusable)?;
    let location = DatabaseLocation::on_server(server, folder.path.join("commands.db"));
    location.check_server(&SystemClock).await.map_err(|error| unusable(error.to_string()))?;
    let sandbox = start_sandbox(sandbox_options(folder)).await?;
    let configure = |name: &str| {
        let path = host_file(&folder.path, name)?;
        let database =
            format!("path = {path:?}\nurl = {url:?}\nschema = {schema:?}\ntakeover_after = \"5s\"");
        folder.write_config(&format!("{name}.toml"), &sandbox, &database)
    };
    configure(HOSTS[0])?;
    let south_config = configure(HOSTS[1])?;
    let mut north = DemoHost::start(HOSTS[0], folder)?;
    let opened = async || Ok(Store::open_beside(&location).await.ok());
    let store = until("north had made its schema", opened).await?;
    let first = until("north led", async || leading_session(&store).await).await?;
    let south = DemoHost::start(HOSTS[1], folder)?;
    let stands_by = async || Ok((!store.standbys().await?.is_empty()).then_some(()));
    until("south stood by", stands_by).await?;
    let max_base_age = south_config.quantities.max_base_age;
    let stage = DemoStage { sandbox: &sandbox, store: &store, max_base_age };
    let play = async |shop: &mut SimulatedShop<'_>, bar: &ProgressBar| {
        shop.run_for(open / 2, |totals| show_totals(bar, totals)).await?;
        north.kill()?;
        show_line(bar, "the leader north was killed; the sales go on");
        let (totals, took_over) = tokio::join!(
            shop.run_for(open / 2, |totals| show_totals(bar, totals)),
            until("south led", async || Ok(leading_session(&store).await?.filter(|now| *now != first)))
        );
        took_over?;
        show_line(bar, "south leads");
        let takeover_ms = store.leader().await?.and_then(|leader| leader.takeover_ms).unwrap_or(0);
        let scene = DemoScene {
            title: "a takeover",
            happened:
                "two daemons on one schema; the leader, north, was killed (kill -9) while the shop was open"
                    .into(),
            ended: format!(
                "south took over {}.{} s after the last sign of life of north, and sent what waited",
                takeover_ms / 1000,
                takeover_ms % 1000 / 100
            ),
        };
        Ok((totals?, vec![scene]))
    };
    let (text, is_good) = stage.demonstrate(south_config, open, start_pages, play).await?;
    south.stop()?;
    sandbox.stop().await;
    let note =
        format!("{text}\nits schema stays on the server; to remove it: DROP SCHEMA {schema} CASCADE\n");
    Ok((note, is_good))
}

async fn leading_session(store: &Store) -> Result<Option<i64>, CommandFailure> {
    Ok(store.leader().await?.and_then(|leader| leader.session_id))
}

/// Creates the folder of a host and returns the file beside which its lock is.
fn host_file(folder: &Path, name: &str) -> Result<std::path::PathBuf, CommandFailure> {
    let own = folder.join(name);
    let created = fs::create_dir(&own);
    created.map_err(CommandFailure::cannot(format!("create {}", own.display())))?;
    Ok(own.join("tallyd.db"))
}
