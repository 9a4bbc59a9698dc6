//! `sandbox`: serves a complete implementation of the platform's interface.

use crate::cli::commands::daemon::run::wait_for_interrupt;
use crate::cli::{CommandFailure, CommandOutput, output};
use crate::sandbox::{self, SandboxOptions};
use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Serves the sandbox until it is interrupted.
#[derive(Debug, Args)]
pub(in crate::cli) struct SandboxArgs {
    /// Where to listen; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:8399", value_name = "ADDRESS")]
    listen: SocketAddr,
    /// Let other hosts in: whoever reaches the port can do anything with the shop
    #[arg(long)]
    allow_remote: bool,
    /// A name it may be called by, beside addresses, localhost and names of one word (may be repeated)
    #[arg(long = "host", value_name = "NAME")]
    hosts: Vec<String>,
    /// Keep the shop in this file [default: in memory]
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
    /// What the generated shop and its keys follow from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Products of the generated shop
    #[arg(long, default_value_t = 200)]
    skus: u32,
    /// Orders of the generated shop
    #[arg(long, default_value_t = 40)]
    orders: u32,
    /// Warehouses of the generated shop
    #[arg(long, default_value_t = 3)]
    warehouses: u32,
    /// The default company's integration key [default: follows from the seed]
    #[arg(long, value_name = "KEY")]
    integration_key: Option<String>,
    /// The gateway key [default: follows from the seed]
    #[arg(long, value_name = "KEY")]
    gateway_key: Option<String>,
    /// Calls of one company in any 60 s; 0: no limit
    #[arg(long, default_value_t = 120)]
    calls_per_minute: u32,
    /// Simultaneous calls of one operation by one company; 0: no limit
    #[arg(long, default_value_t = 3)]
    concurrency: u32,
    /// Answers of 400 within 24 h before a company is refused; 0: no limit
    #[arg(long, default_value_t = 500)]
    bad_requests_per_day: u32,
    /// What every call takes at least, in milliseconds
    #[arg(long, default_value_t = 0)]
    latency_ms: u64,
}

impl From<SandboxArgs> for SandboxOptions {
    fn from(args: SandboxArgs) -> Self {
        Self {
            listen: args.listen,
            allow_remote: args.allow_remote,
            hosts: args.hosts,
            data: args.data,
            seed: args.seed,
            skus: args.skus,
            orders: args.orders,
            warehouses: args.warehouses,
            integration_key: args.integration_key,
            gateway_key: args.gateway_key,
            calls_per_minute: args.calls_per_minute,
            concurrency: args.concurrency,
            bad_requests_per_day: args.bad_requests_per_day,
            latency_ms: args.latency_ms,
        }
    }
}

pub(in crate::cli) async fn sandbox_command(args: SandboxArgs) -> Result<CommandOutput, CommandFailure> {
    if args.skus < sandbox::SKUS_MIN {
        let least = sandbox::SKUS_MIN;
        output::print_error(&format!(
            "tallyd: a generated shop has at least {least} products, so it is made with {least}"
        ));
    }
    let sandbox = sandbox::start_sandbox(args.into()).await.map_err(|error| match error {
        sandbox::SandboxError::RemoteAddress(_) => CommandFailure::usage(error.to_string()),
        other => CommandFailure::failed(other.to_string()),
    })?;
    output::print_text(&format!(
        "sandbox at http://{}\nintegration key {}\ngateway key {}\n",
        sandbox.local_addr(),
        sandbox.integration_key(),
        sandbox.gateway_key()
    ));
    wait_for_interrupt().await?;
    sandbox.stop().await;
    Ok(String::new().into())
}
