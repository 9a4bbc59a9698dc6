//! `demo`: shows tallyd at work on a fresh machine.
//!
//! It runs a sandbox with a simulated shop and the daemon in one process. They use real HTTP on loopback and
//! the real quota of 120 calls a minute. The demonstration succeeds only if, after the shop has closed, every
//! stock level of the mirror equals the sandbox and every queued change was applied.
//!
//! `shop.rs` simulates the shop. `sandbox.rs` is the command `sandbox`.

pub(in crate::cli) mod sandbox;
mod shop;

use self::shop::{ShopTotals, SimulatedShop};
use crate::cli::context::write_and_commit;
use crate::cli::output::progress::progress_bar;
use crate::cli::output::{self, TextTable, cells};
use crate::cli::{CommandFailure, CommandOutput, CommandResult, logging};
use crate::config::Config;
use crate::daemon::{Daemon, SystemClock};
use crate::model::{OrderId, Sku};
use crate::outbox::ChangeState;
use crate::sandbox::{Sandbox, SandboxError, SandboxOptions, SandboxStockLevel, start_sandbox};
use crate::store::{OutboxFilter, StockRow, Store};
use crate::telemetry::LogFormat;
use clap::Args;
use indicatif::ProgressBar;
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, interval, timeout};
use tokio_util::sync::CancellationToken;

const DEMO_SKUS: u32 = 60;
const DEMO_ORDERS: u32 = 8;
/// The time limit for the mirror to equal the closed shop.
const EQUAL_TIMEOUT: Duration = Duration::from_secs(10);
/// The interval of comparisons. They run in this process and cost no call.
const COMPARE_INTERVAL: Duration = Duration::from_millis(200);
/// The allowed opening times of the shop, in seconds.
const OPEN_SECONDS: std::ops::RangeInclusive<u64> = 3..=600;

#[derive(Debug, Args)]
pub(in crate::cli) struct DemoArgs {
    /// Duration of the simulated sales, in seconds
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u64).range(OPEN_SECONDS))]
    seconds: u64,
    /// Keep configuration, keys, database and sandbox data in this folder
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

impl From<SandboxError> for CommandFailure {
    fn from(error: SandboxError) -> Self {
        let code = if matches!(error, SandboxError::RemoteAddress(_)) { 2 } else { 1 };
        Self::new(error.to_string(), code)
    }
}

pub(in crate::cli) async fn demo_command(args: DemoArgs) -> CommandResult {
    logging::init_logging(LogFormat::Text, "warn")?;
    let folder = DemoFolder::create(args.keep)?;
    let (text, is_good) = run_and_compare(&folder, Duration::from_secs(args.seconds)).await?;
    Ok(CommandOutput { text: text + &folder.next_steps_text(), exit_code: u8::from(!is_good) })
}

/// The directory of the demonstration's files. A temporary one is removed with this value.
struct DemoFolder {
    path: PathBuf,
    is_permanent: bool,
}

impl DemoFolder {
    fn create(keep: Option<PathBuf>) -> Result<Self, CommandFailure> {
        let is_permanent = keep.is_some();
        let path =
            keep.unwrap_or_else(|| std::env::temp_dir().join(format!("tallyd-demo-{}", std::process::id())));
        std::fs::create_dir_all(&path).map_err(|error| {
            CommandFailure::failed(format!("cannot create the folder {}: {error}", path.display()))
        })?;
        if path.join("tallyd.db").exists() {
            let path = path.display();
            return Err(CommandFailure::usage(format!(
                "{path} contains another demonstration; name an empty folder with --keep"
            )));
        }
        Ok(Self { path, is_permanent })
    }

    /// Writes a file with mode 0600, because some files hold keys.
    fn write_private_file(&self, name: &str, text: &str) -> Result<PathBuf, CommandFailure> {
        let path = self.path.join(name);
        let file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&path);
        let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
        written
            .map_err(|error| CommandFailure::failed(format!("cannot write {}: {error}", path.display())))?;
        Ok(path)
    }

    fn next_steps_text(&self) -> String {
        let path = self.path.display();
        match self.is_permanent {
            true => format!(
                "\ninspect it: tallyd --config {path}/tallyd.toml status   (or: stock, outbox list, job list, order list)\n"
            ),
            false => "\nto keep the database for inspection: tallyd demo --keep DIR\n".into(),
        }
    }
}

impl Drop for DemoFolder {
    fn drop(&mut self) {
        if !self.is_permanent {
            // The host removes a temporary directory that cannot be removed here.
            drop(std::fs::remove_dir_all(&self.path));
        }
    }
}

/// Runs sandbox, daemon and shop, waits until mirror and sandbox are equal, and returns the summary.
async fn run_and_compare(folder: &DemoFolder, open: Duration) -> Result<(String, bool), CommandFailure> {
    let options = SandboxOptions {
        listen: ([127, 0, 0, 1], 0).into(),
        data: folder.is_permanent.then(|| folder.path.join("sandbox.db")),
        skus: DEMO_SKUS,
        orders: DEMO_ORDERS,
        ..SandboxOptions::default()
    };
    let sandbox = start_sandbox(options).await?;
    let config = write_config(folder, &sandbox)?;
    let daemon = Daemon::start(config, Arc::new(SystemClock)).await?;
    let store = Store::open_beside(&folder.path.join("tallyd.db")).await?;
    track_all(&sandbox, &store).await?;

    let started = Instant::now();
    let stop = CancellationToken::new();
    // The channel must stay open, although no configuration is sent.
    let (_changed, reload) = mpsc::channel(1);
    let running = tokio::spawn(daemon.run(stop.clone(), reload));
    timeout(EQUAL_TIMEOUT, wait_for_first_facts(&store)).await.unwrap_or(Ok(()))?;
    let bar = progress_bar(open.as_secs(), "{bar:20} {elapsed} {msg}");
    let mut shop = SimulatedShop::new(&sandbox, &store);
    let totals = shop.run_for(open, |totals| show_totals(&bar, totals)).await?;
    let waiting = "the sales have ended; waiting until mirror and sandbox are equal";
    bar.set_message(waiting);
    if bar.is_hidden() {
        output::print_text(&format!("       {waiting}\n"));
    }
    let is_equal = timeout(EQUAL_TIMEOUT, wait_until_equal(&sandbox, &store)).await.unwrap_or(Ok(false))?;
    bar.finish_and_clear();
    let took = started.elapsed();
    stop.cancel();
    running.await.map_err(|error| CommandFailure::failed(format!("the daemon failed: {error}")))??;
    let summary = demo_summary(&sandbox, &store, &totals, is_equal, took).await?;
    sandbox.stop().await;
    Ok(summary)
}

async fn track_all(sandbox: &Sandbox, store: &Store) -> Result<(), CommandFailure> {
    let skus = sandbox.all_skus().await?;
    let skus: Vec<Sku> = skus.into_iter().filter_map(|sku| Sku::new(sku).ok()).collect();
    let orders: Vec<OrderId> = sandbox.order_ids().await?.into_iter().map(OrderId).collect();
    write_and_commit(store, async |write| {
        write.tracked_sku_add(&skus).await?;
        write.tracked_order_add(&orders).await
    })
    .await?;
    output::print_text(&format!(
        "the sandbox at http://{} has {} SKUs and {} orders; tallyd begins to mirror them\n",
        sandbox.local_addr(),
        skus.len(),
        orders.len()
    ));
    Ok(())
}

fn write_config(folder: &DemoFolder, sandbox: &Sandbox) -> Result<Config, CommandFailure> {
    let integration = folder.write_private_file("integration-key", sandbox.integration_key())?;
    let gateway = folder.write_private_file("gateway-key", sandbox.gateway_key())?;
    let text = format!(
        "# Written by `tallyd demo`: short intervals, so that changes are visible within seconds.\n\
         [service]\nbase_url = \"http://{}\"\nintegration_key_file = {integration:?}\ngateway_key_file = {gateway:?}\n\n\
         [limits]\ncalls_per_minute = 120\n\n[database]\npath = {:?}\n\n[backup]\ndirectory = {:?}\n\n\
         [quantities]\npolicy = \"merge\"\nmax_fact_age = \"0s\"\n\n\
         [jobs.balances]\nschedule = \"*/3 * * * * *\"\n\
         [jobs.order_lines]\nschedule = \"*/20 * * * * *\"\n\
         [jobs.work_queue]\nschedule = \"*/10 * * * * *\"\n\
         [jobs.warehouses]\nschedule = \"0 * * * * *\"\n\
         # The first run of top_selling reads two years, a fifth of the minute's calls.\n[jobs.top_selling]\nenabled = false\n",
        sandbox.local_addr(),
        folder.path.join("tallyd.db"),
        folder.path.join("backup"),
    );
    let file = folder.write_private_file("tallyd.toml", &text)?;
    Config::load(&file, []).map_err(|error| CommandFailure::multiline(error.to_string(), 1))
}

/// Shows the totals in the bar on a terminal, in a line elsewhere.
fn show_totals(bar: &ProgressBar, totals: &ShopTotals) {
    let (seconds, line) = (totals.open_for.as_secs(), totals.summary_line());
    if bar.is_hidden() {
        output::print_text(&format!("{seconds:>3} s  {line}\n"));
    }
    bar.set_position(seconds);
    bar.set_message(line);
}

async fn sandbox_stock(sandbox: &Sandbox) -> Result<BTreeMap<(String, i64), i64>, CommandFailure> {
    let level = |row: SandboxStockLevel| ((row.sku, row.warehouse_id), row.quantity);
    Ok(sandbox.stock_levels().await?.into_iter().map(level).collect())
}

async fn count_differences(sandbox: &Sandbox, store: &Store) -> Result<usize, CommandFailure> {
    let level = |row: StockRow| ((row.sku, row.warehouse_id), row.quantity);
    let mirror: BTreeMap<_, _> = store.stock_list(&[]).await?.into_iter().map(level).collect();
    let levels = sandbox_stock(sandbox).await?;
    Ok(levels.iter().filter(|(level, quantity)| mirror.get(level) != Some(quantity)).count())
}

/// Waits for the mirror's first facts, because it cannot see a sale before them.
async fn wait_for_first_facts(store: &Store) -> Result<(), CommandFailure> {
    let mut ticks = interval(COMPARE_INTERVAL);
    while store.mirror_counts().await?.stock_levels == 0 {
        ticks.tick().await;
    }
    Ok(())
}

async fn wait_until_equal(sandbox: &Sandbox, store: &Store) -> Result<bool, CommandFailure> {
    let mut ticks = interval(COMPARE_INTERVAL);
    loop {
        ticks.tick().await;
        let counts = store.outbox_counts().await?;
        let is_drained = !counts.iter().any(|(state, _)| matches!(state.as_str(), "pending" | "sending"));
        if is_drained && count_differences(sandbox, store).await? == 0 {
            return Ok(true);
        }
    }
}

async fn demo_summary(
    sandbox: &Sandbox,
    store: &Store,
    totals: &ShopTotals,
    is_equal: bool,
    took: Duration,
) -> Result<(String, bool), CommandFailure> {
    let changes = store.outbox_list(&OutboxFilter { limit: 1000, ..OutboxFilter::default() }).await?;
    let applied = changes.iter().filter(|change| change.state == ChangeState::Applied).count();
    let open =
        changes.iter().filter(|change| !matches!(change.state.as_str(), "applied" | "cancelled")).count();
    let different = count_differences(sandbox, store).await?;
    // Kits are left out, because their quantity follows from their components.
    let levels = sandbox_stock(sandbox).await?;
    let moved = store.moved_by_others().await?.into_iter();
    let moved: i64 =
        moved.filter(|(sku, w, _)| levels.contains_key(&(sku.clone(), *w))).map(|(_, _, n)| n).sum();
    let calls = sandbox.logged_calls();
    let throttled = calls.iter().filter(|call| call.status == Some(429)).count();
    let counts = store.mirror_counts().await?;
    let is_good = is_equal && different == 0 && open == 0 && throttled == 0;

    let decided = changes.iter().rev().map(|change| cells![change.key, change.state.as_str(), change.detail]);
    let decided = TextTable::new(["change", "state", "detail"], decided).to_text("no change");
    let figures = [
        ["SKUs mirrored".to_owned(), counts.skus.to_string()],
        ["stock levels mirrored".into(), counts.stock_levels.to_string()],
        ["stock levels that differ from the sandbox".into(), different.to_string()],
        ["orders tracked".into(), counts.orders.to_string()],
        ["units sold in the sandbox".into(), totals.sold.to_string()],
        ["units that others took, by the mirror".into(), (-moved).to_string()],
        ["changes of the warehouse applied".into(), format!("{applied} of {}", changes.len())],
        ["calls made".into(), format!("{} of {} in {} s", calls.len(), 120, took.as_secs())],
        ["calls answered 429".into(), throttled.to_string()],
        ["runs in the journal".into(), counts.runs.to_string()],
        ["exchanges in the journal".into(), counts.exchanges.to_string()],
    ];
    let figures = TextTable::new(["figure", "value"], figures).to_text("");
    let verdict = if is_good {
        "mirror and sandbox are equal"
    } else {
        "mirror and sandbox are NOT equal, or a change is not applied: this is a bug"
    };
    Ok((format!("\n{decided}\n{figures}\n{verdict}\n"), is_good))
}
