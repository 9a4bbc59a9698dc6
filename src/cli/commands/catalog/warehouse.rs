//! `warehouse`: the account's warehouses, from the mirror.

use super::create::{self, WarehouseCreateArgs};
use crate::cli::context::CliContext;
use crate::cli::local_time::local_text;
use crate::cli::output::cells;
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
        Command::List(output) => output.list(
            &context.open_store().await?.warehouse_list().await?,
            "no warehouse is known: the job `warehouses` has not run (tallyd job list), or the platform listed none",
            ["warehouse", "name", "type", "active", "account", "missing since"],
            |row| {
                cells![
                    row.id,
                    row.name,
                    row.kind,
                    row.is_active,
                    row.account_number,
                    row.missing_since.as_ref().map(local_text)
                ]
            },
        ),
        Command::Create(args) => create::queue_warehouse_create(context, args).await,
    }
}
