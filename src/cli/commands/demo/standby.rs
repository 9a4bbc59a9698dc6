//! `demo --standby URL`: two daemons share a new schema on the caller's PostgreSQL server; the leader is killed in the
//! middle of the sales, and the other goes on. The schema stays, because the server is the caller's.
//!
//! Each daemon is a process of its own with a lock of its own, as on two hosts.

use super::folder::DemoFolder;
use super::sandbox_options;
use super::scenes::{DemoStage, tell, until};
use super::shop::SimulatedShop;
use crate::cli::CommandFailure;
use crate::cli::output::print_text;
use crate::daemon::SystemClock;
use crate::model::Clock as _;
use crate::sandbox::start_sandbox;
use crate::store::{DatabaseLocation, PostgresDatabase, Store};
use std::process::Stdio;
use std::time::Duration;
use tokio::process::{Child, Command};

/// Starts a daemon in a process of its own, which is killed with the returned value. A variable of the caller would
/// change its configuration.
fn start_host(name: &str, folder: &DemoFolder) -> Result<Child, CommandFailure> {
    let failed = CommandFailure::cannot(format!("start the daemon {name}"));
    let log = std::fs::File::create(folder.path.join(format!("{name}.log"))).map_err(&failed)?;
    let mut daemon = Command::new(std::env::current_exe().map_err(&failed)?);
    daemon.arg("run").arg("--config").arg(folder.path.join(format!("{name}.toml"))).env_clear();
    daemon.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).kill_on_drop(true);
    daemon.spawn().map_err(failed)
}

/// Runs the shop with two daemons in a new schema on this server, kills the leader half way, and returns the summary.
pub(super) async fn run_and_take_over(
    folder: &DemoFolder,
    url: &str,
    open: Duration,
) -> Result<(String, bool), CommandFailure> {
    let schema = format!("tallyd_demo_{}", SystemClock.now().0);
    let unusable =
        |why: String| CommandFailure::usage(format!("the server of `--standby` cannot be used: {why}"));
    let server = PostgresDatabase::new(url, &schema).map_err(unusable)?;
    let location = DatabaseLocation::on_server(server, folder.path.join("commands.db"));
    location.check_server(&SystemClock).await.map_err(|error| unusable(error.to_string()))?;
    let sandbox = start_sandbox(sandbox_options(folder)).await?;
    let configure = |name: &str| {
        let path = folder.path.join(format!("{name}.db"));
        let database =
            format!("path = {path:?}\nurl = {url:?}\nschema = {schema:?}\ntakeover_after = \"5s\"");
        folder.write_config(&format!("{name}.toml"), &sandbox, &database)
    };
    configure("north")?;
    let config = configure("south")?;
    let mut north = start_host("north", folder)?;
    let opened = async || Ok(Store::open_beside(&location).await.ok());
    let store = until("north had made its schema", opened).await?;
    let first = until("north led", async || leading_session(&store).await).await?;
    let _south = start_host("south", folder)?;
    let stands_by = async || Ok((!store.standbys().await?.is_empty()).then_some(()));
    until("south stood by", stands_by).await?;
    let stage = DemoStage { sandbox: &sandbox, store: &store, config: &config };
    let begun = stage.open().await?;
    let mut shop = SimulatedShop::new(&stage);
    shop.run_for(open / 2).await?;
    north.kill().await.map_err(CommandFailure::cannot("kill the leader"))?;
    print_text("the leader north was killed; the sales go on\n");
    let other_leads = async || Ok(leading_session(&store).await?.filter(|now| *now != first));
    let (sold, took_over) = tokio::join!(shop.run_for(open / 2), until("south led", other_leads));
    sold?;
    took_over?;
    let takeover_ms = store.leader().await?.and_then(|leader| leader.takeover_ms).unwrap_or(0);
    tell(
        "south leads",
        "two daemons on one schema; the leader, north, was killed (kill -9) while the shop was open",
        &format!(
            "south took over {}.{} s after the last sign of life of north, and sent what waited",
            takeover_ms / 1000,
            takeover_ms % 1000 / 100
        ),
    );
    let (text, is_good) = stage.close(begun, shop.sold).await?;
    sandbox.stop().await;
    let note =
        format!("{text}\nits schema stays on the server; to remove it: DROP SCHEMA {schema} CASCADE\n");
    Ok((note, is_good))
}

async fn leading_session(store: &Store) -> Result<Option<i64>, CommandFailure> {
    Ok(store.leader().await?.and_then(|leader| leader.session_id))
}
