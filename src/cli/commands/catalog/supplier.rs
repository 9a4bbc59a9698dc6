//! `supplier`: the account's suppliers, from the mirror.

use crate::cli::context::CliContext;
use crate::cli::output::{or_dash, yes_or_no};
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
        context.open_store().await?.supplier_list().await?,
        "no supplier is known yet; run: tallyd job run suppliers",
        ["supplier", "name", "active", "account", "address", "missing since"],
        |row| {
            [
                row.id.to_string(),
                or_dash(row.name),
                yes_or_no(row.is_active),
                or_dash(row.account_number),
                or_dash(row.supplier_url),
                or_dash(row.missing_since),
            ]
        },
    )
}
