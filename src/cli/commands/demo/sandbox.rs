//! `sandbox`: serves a complete implementation of the platform's interface.

use crate::cli::commands::daemon::run::wait_for_interrupt;
use crate::cli::{CommandResult, output};
use crate::sandbox::{self, Sandbox, SandboxError, SandboxHeaders, SandboxOptions};

pub(in crate::cli) async fn sandbox_command(options: SandboxOptions) -> CommandResult {
    let sandbox = sandbox::start_sandbox(options).await?;
    output::print_text(&first_words(&sandbox).await?);
    wait_for_interrupt().await?;
    sandbox.stop().await;
    Ok(String::new().into())
}

async fn first_words(sandbox: &Sandbox) -> Result<String, SandboxError> {
    let (address, integration, gateway) =
        (sandbox.local_addr(), sandbox.integration_key(), sandbox.gateway_key());
    let SandboxHeaders { integration_key_header, gateway_key_header, .. } = sandbox.headers();
    let levels = sandbox.stock_levels().await?;
    let sku = levels.iter().find(|level| level.quantity > 0).map_or("SKU", |level| level.sku.as_str());
    Ok(format!(
        "sandbox at http://{address}\nintegration key {integration}\ngateway key {gateway}\n\n\
         in another terminal: the warehouses; an order, as a customer places it; a tallyd for it in the folder shop\n  \
         curl -s -H '{integration_key_header}: {integration}' -H '{gateway_key_header}: {gateway}' http://{address}/api/Warehouses\n  \
         curl -s http://{address}/_sandbox/orders -d '{{\"Lines\":[{{\"Sku\":\"{sku}\",\"Quantity\":1}}]}}'\n  \
         printf '%s\\n' {integration} {gateway} | tallyd init --base-url http://{address} --config shop/tallyd.toml\n"
    ))
}
