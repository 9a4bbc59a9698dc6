//! `sandbox`: serves a complete implementation of the platform's interface.

use crate::cli::commands::daemon::run::wait_for_interrupt;
use crate::cli::{CommandResult, output};
use crate::sandbox::{self, HeaderName, Sandbox, SandboxError, SandboxHeaders, SandboxOptions};
use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(in crate::cli) struct SandboxArgs {
    /// Address to listen on; port 0 selects a free port
    #[arg(long, default_value = "127.0.0.1:8399", value_name = "ADDRESS")]
    listen: SocketAddr,
    /// Accept other hosts; the control plane needs no key, so any host that reaches the port can change all data
    #[arg(long)]
    allow_remote: bool,
    /// Accept this host name, beside addresses, localhost and names without a dot (may be repeated)
    #[arg(long = "host", value_name = "NAME")]
    hosts: Vec<String>,
    /// Store the data in this file [default: in memory]
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
    /// Seed of the generated data and keys
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of generated products
    #[arg(long, default_value_t = 200)]
    skus: u32,
    /// Number of generated orders
    #[arg(long, default_value_t = 40)]
    orders: u32,
    /// Number of generated warehouses
    #[arg(long, default_value_t = 3)]
    warehouses: u32,
    /// Integration key of the default company [default: derived from the seed]
    #[arg(long, value_name = "KEY")]
    integration_key: Option<String>,
    /// Gateway key [default: derived from the seed]
    #[arg(long, value_name = "KEY")]
    gateway_key: Option<String>,
    /// Header of the integration key
    #[arg(long, default_value = "svc-subscription-key", value_name = "NAME")]
    integration_key_header: HeaderName,
    /// Header of the gateway key
    #[arg(long, default_value = "gateway-subscription-key", value_name = "NAME")]
    gateway_key_header: HeaderName,
    /// Header of a marketplace application's id
    #[arg(long, default_value = "application-id", value_name = "NAME")]
    application_id_header: HeaderName,
    /// Maximum calls of a company in any 60 s; 0 means no limit
    #[arg(long, default_value_t = 120)]
    calls_per_minute: u32,
    /// Maximum simultaneous calls of an operation by a company; 0 means no limit
    #[arg(long, default_value_t = 3)]
    concurrency: u32,
    /// Maximum answers of 400 to a company within 24 h; 0 means no limit
    #[arg(long, default_value_t = 500)]
    bad_requests_per_day: u32,
    /// Minimum duration of each call, in milliseconds
    #[arg(long, default_value_t = 0)]
    latency_ms: u64,
    /// Answer in the platform's other form: 28.0 for 28, and no field that is not set
    #[arg(long)]
    loose_answers: bool,
}

pub(in crate::cli) async fn sandbox_command(args: SandboxArgs) -> CommandResult {
    if args.skus < sandbox::SKUS_MIN {
        let least = sandbox::SKUS_MIN;
        output::print_error(&format!(
            "tallyd: the sandbox needs at least {least} products; generating {least}"
        ));
    }
    let options = SandboxOptions {
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
        headers: SandboxHeaders {
            integration_key: args.integration_key_header,
            gateway_key: args.gateway_key_header,
            application_id: args.application_id_header,
        },
        calls_per_minute: args.calls_per_minute,
        concurrency: args.concurrency,
        bad_requests_per_day: args.bad_requests_per_day,
        latency_ms: args.latency_ms,
        loose_answers: args.loose_answers,
    };
    let sandbox = sandbox::start_sandbox(options).await?;
    output::print_text(&first_words(&sandbox).await?);
    wait_for_interrupt().await?;
    sandbox.stop().await;
    Ok(String::new().into())
}

/// Returns the address and keys, and three commands to try in another terminal.
async fn first_words(sandbox: &Sandbox) -> Result<String, SandboxError> {
    let (address, integration, gateway) =
        (sandbox.local_addr(), sandbox.integration_key(), sandbox.gateway_key());
    let SandboxHeaders { integration_key, gateway_key, .. } = sandbox.headers();
    let levels = sandbox.stock_levels().await?;
    let sku = levels.iter().find(|level| level.quantity > 0).map_or("SKU", |level| level.sku.as_str());
    Ok(format!(
        "sandbox at http://{address}\nintegration key {integration}\ngateway key {gateway}\n\n\
         in another terminal: the warehouses; an order, as a customer places it; a tallyd for it in the folder shop\n  \
         curl -s -H '{integration_key}: {integration}' -H '{gateway_key}: {gateway}' http://{address}/api/Warehouses\n  \
         curl -s http://{address}/_sandbox/orders -d '{{\"Lines\":[{{\"Sku\":\"{sku}\",\"Quantity\":1}}]}}'\n  \
         printf '%s\\n' {integration} {gateway} | tallyd init --base-url http://{address} --config shop/tallyd.toml\n"
    ))
}
