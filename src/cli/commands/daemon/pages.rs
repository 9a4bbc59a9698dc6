//! `web`: the page, until an interrupt.

use super::run::wait_for_interrupt;
use crate::cli::context::CliContext;
use crate::cli::{CommandFailure, CommandResult, logging, output};
use crate::web::{PagesOptions, start_pages};
use clap::Args;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::Arc;

#[derive(Debug, Args)]
pub(in crate::cli) struct WebArgs {
    /// Address to listen on; port 0 selects a free port
    #[arg(long, default_value = "127.0.0.1:8484", value_name = "ADDRESS")]
    listen: SocketAddr,
    /// Show everything, and take no decision
    #[arg(long)]
    read_only: bool,
    /// Open the page in the browser of this desktop
    #[arg(long)]
    open: bool,
}

pub(in crate::cli) async fn web_command(context: &CliContext, args: WebArgs) -> CommandResult {
    let config = context.config()?;
    logging::init_logging(config.log.format, config.log.level)?;
    let options = PagesOptions { listen: args.listen, is_read_only: args.read_only };
    let mut pages = start_pages(config, Arc::new(context.clock()), options).await?;
    output::print_text(&format!("{}\n", pages.url));
    if args.open {
        open_browser(&pages.url);
    }
    tokio::select! {
        interrupted = wait_for_interrupt() => interrupted?,
        _ = &mut pages.ended => return Err(CommandFailure::failed("the page has ended; its log has the reason")),
    }
    pages.end().await;
    Ok(String::new().into())
}

fn open_browser(url: &str) {
    let opened = Command::new("xdg-open").arg(url).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    if let Err(error) = opened {
        output::print_error(&format!(
            "tallyd: cannot open a browser (xdg-open: {error}); open the address by hand"
        ));
    }
}
