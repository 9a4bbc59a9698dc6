//! `warehouse`: the account's warehouses, from the mirror.

use super::create::{self, WarehouseCreateArgs};
use crate::cli::context::CliContext;
use crate::cli::output::{or_dash, yes_or_no};
use crate::cli::{CommandResult, OutputArgs};
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Command {
    /// List warehouses
    List(OutputArgs),
    /// Queue the creation of a warehouse
    Create(WarehouseCreateArgs),
}

pub(in crate::cli) async fn warehouse_command(context: &CliContext, command: Command) -> CommandResult {
    match command {
        Command::List(output) => list_warehouses(context, output).await,
        Command::Create(args) => create::queue_warehouse_create(context, args).await,
    }
}

async fn list_warehouses(context: &CliContext, output: OutputArgs) -> CommandResult {
    output.list(
        context.open_store().await?.warehouse_list().await?,
        "no warehouse is known yet; run: tallyd job run warehouses",
        ["warehouse", "name", "type", "active", "account", "missing since"],
        |row| {
            [
                row.id.to_string(),
                row.name,
                or_dash(row.kind),
                yes_or_no(row.is_active),
                or_dash(row.account_number),
                or_dash(row.missing_since),
            ]
        },
    )
}
