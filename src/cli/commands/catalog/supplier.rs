//! `supplier`: the account's suppliers, from the mirror.

use crate::cli::context::CliContext;
use crate::cli::local_time::local_text;
use crate::cli::output::cells;
use crate::cli::{CommandResult, OutputArgs};
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Command {
    /// List suppliers
    List(OutputArgs),
}

pub(in crate::cli) async fn supplier_command(context: &CliContext, command: Command) -> CommandResult {
    let Command::List(output) = command;
    output.list(
        &context.open_store().await?.supplier_list().await?,
        "no supplier is known: the job `suppliers` has not run (tallyd job list), or the platform listed none",
        ["supplier", "name", "active", "account", "address", "missing since"],
        |row| {
            cells![
                row.id,
                row.name,
                row.is_active,
                row.account_number,
                row.supplier_url,
                row.missing_since.as_ref().map(local_text)
            ]
        },
    )
}
