//! `demo`: shows tallyd at work on a fresh machine.
//!
//! It runs a sandbox with a simulated shop and the daemon in one process. They use real HTTP on loopback and
//! the real quota of 120 calls a minute. The demonstration succeeds only if, after the shop has closed, every
//! stock level of the mirror equals the sandbox and every queued change was applied or cancelled.

mod folder;
pub(in crate::cli) mod sandbox;
mod scenes;
mod shop;
mod standby;
mod summary;

use self::folder::DemoFolder;
use self::scenes::{DemoStage, until};
use self::shop::SimulatedShop;
use crate::cli::commands::daemon::run::wait_for_interrupt;
use crate::cli::output;
use crate::cli::{CommandFailure, CommandOutput, CommandResult, logging};
use crate::config::Config;
use crate::daemon::{Daemon, SystemClock};
use crate::model::{OrderId, Sku};
use crate::present::tracked::{track_orders, track_skus};
use crate::sandbox::{SandboxOptions, start_sandbox};
use crate::store::Store;
use crate::telemetry::LogFormat;
use crate::web::{PagesOptions, RunningPages, start_pages};
use clap::Args;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

const OPEN_SECONDS: std::ops::RangeInclusive<u64> = 3..=600;

#[derive(Debug, Args)]
pub(in crate::cli) struct DemoArgs {
    /// Duration of the simulated sales, in seconds
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u64).range(OPEN_SECONDS))]
    seconds: u64,
    /// Keep configuration, keys, database and sandbox data in this folder
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Run sandbox and daemon of a kept demonstration until Ctrl-C, for commands in another terminal
    #[arg(long, value_name = "DIR", conflicts_with_all = ["seconds", "keep"])]
    resume: Option<PathBuf>,
    /// Demonstrate a takeover: two daemons on this PostgreSQL server, of which the leader is killed in the middle
    #[arg(long, value_name = "URL", conflicts_with_all = ["keep", "resume"])]
    standby: Option<String>,
}

pub(in crate::cli) async fn demo_command(args: DemoArgs) -> CommandResult {
    // The scenes bring about the warnings.
    logging::init_logging(LogFormat::Text, "error")?;
    if let Some(folder) = &args.resume {
        return resume_demo(folder).await;
    }
    let folder = DemoFolder::create(args.keep)?;
    let open = Duration::from_secs(args.seconds);
    let (text, is_good) = match &args.standby {
        Some(url) => standby::run_and_take_over(&folder, url, open).await?,
        None => run_and_compare(&folder, open).await?,
    };
    Ok(CommandOutput { text: text + &folder.next_steps_text(), exit_code: u8::from(!is_good) })
}

fn sandbox_options(folder: &DemoFolder) -> SandboxOptions {
    SandboxOptions {
        listen: ([127, 0, 0, 1], 0).into(),
        data: folder.is_permanent.then(|| folder.path.join("sandbox.db")),
        skus: 60,
        orders: 8,
        ..SandboxOptions::default()
    }
}

async fn resume_demo(path: &Path) -> CommandResult {
    let (folder, config, listen) = DemoFolder::open_kept(path)?;
    let sandbox = start_sandbox(SandboxOptions { listen, ..sandbox_options(&folder) }).await?;
    let named = format!("--config {}", folder.path.join("tallyd.toml").display());
    with_daemon(config.clone(), async {
        output::print_text(&format!(
            "the sandbox at http://{listen} and its daemon run until Ctrl-C; in another terminal:\n  \
             tallyd {named} status\n  tallyd {named} stock\n  tallyd {named} outbox list\n"
        ));
        let pages = show_pages(config).await?;
        wait_for_interrupt().await?;
        pages.end().await;
        Ok(())
    })
    .await?;
    sandbox.stop().await;
    Ok(folder.next_steps_text().into())
}

/// Runs the daemon in this process until `work` is done.
async fn with_daemon<T>(
    config: Config,
    work: impl Future<Output = Result<T, CommandFailure>>,
) -> Result<T, CommandFailure> {
    let daemon = Daemon::start(config, Arc::new(SystemClock)).await?;
    let stop = CancellationToken::new();
    // The channel must stay open, although no configuration is sent.
    let (_changed, reload) = mpsc::channel(1);
    let running = tokio::spawn(daemon.run(stop.clone(), reload));
    let done = work.await;
    stop.cancel();
    running.await.map_err(|error| CommandFailure::failed(format!("the daemon failed: {error}")))??;
    done
}

async fn run_and_compare(folder: &DemoFolder, open: Duration) -> Result<(String, bool), CommandFailure> {
    let sandbox = start_sandbox(sandbox_options(folder)).await?;
    let database = folder.path.join("tallyd.db");
    let config = folder.write_config("tallyd.toml", &sandbox, &format!("path = {database:?}"))?;
    let summary = with_daemon(config.clone(), async {
        let store = Store::open_beside(&database).await?;
        let stage = DemoStage { sandbox: &sandbox, store: &store, config: &config };
        let begun = stage.open().await?;
        let mut shop = SimulatedShop::new(&stage);
        shop.run_for(open).await?;
        stage.play().await?;
        stage.close(begun, shop.sold).await
    });
    let summary = summary.await?;
    sandbox.stop().await;
    Ok(summary)
}

impl DemoStage<'_> {
    /// Tracks all that the sandbox has, shows the page, and waits for the first facts, before which the mirror cannot
    /// see a sale.
    async fn open(&self) -> Result<(RunningPages, Instant), CommandFailure> {
        let skus = self.sandbox.all_skus().await?;
        let skus: Vec<Sku> = skus.into_iter().filter_map(|sku| Sku::new(sku).ok()).collect();
        let orders: Vec<OrderId> = self.sandbox.order_ids().await?.into_iter().map(OrderId).collect();
        track_skus(self.store, &skus).await?;
        track_orders(self.store, &orders, false).await?;
        output::print_text(&format!(
            "the sandbox at http://{} has {} SKUs and {} orders; tallyd begins to mirror them\n",
            self.sandbox.local_addr(),
            skus.len(),
            orders.len()
        ));
        let pages = show_pages(self.config.clone()).await?;
        let started = Instant::now();
        let has_facts = async || Ok((self.store.mirror_counts().await?.stock_levels > 0).then_some(()));
        until("the first facts were read", has_facts).await?;
        Ok((pages, started))
    }

    /// Waits until mirror and sandbox are equal, and returns the summary, which judges. Without agreement in time it
    /// shows the figures.
    async fn close(
        &self,
        (pages, started): (RunningPages, Instant),
        sold: i64,
    ) -> Result<(String, bool), CommandFailure> {
        let has_settled = async || Ok(self.is_equal().await?.then_some(()));
        drop(until("mirror and sandbox were equal", has_settled).await);
        let took = started.elapsed();
        pages.end().await;
        self.summary(sold, took).await
    }
}

async fn show_pages(config: Config) -> Result<RunningPages, CommandFailure> {
    let options = PagesOptions { listen: ([127, 0, 0, 1], 0).into(), is_read_only: false };
    let pages = start_pages(config, Arc::new(SystemClock), options).await?;
    output::print_text(&format!("the page, for a browser: {}\n", pages.url));
    Ok(pages)
}
