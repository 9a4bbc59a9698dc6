//! `warehouse`: the account's warehouses, from the mirror.

use super::create::{self, WarehouseCreateArgs};
use crate::cli::context::CliContext;
use crate::cli::output::{TextTable, or_dash, pretty_json, yes_or_no};
use crate::cli::{CommandFailure, CommandOutput, OutputArgs};
use clap::Subcommand;

/// The company's warehouses.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Command {
    /// List them
    List(OutputArgs),
    /// A change to create one
    Create(WarehouseCreateArgs),
}

pub(in crate::cli) async fn warehouse_command(
    context: &CliContext,
    command: Command,
) -> Result<CommandOutput, CommandFailure> {
    match command {
        Command::List(reading) => list_warehouses(context, reading).await,
        Command::Create(args) => create::queue_warehouse_create(context, args).await,
    }
}

async fn list_warehouses(context: &CliContext, reading: OutputArgs) -> Result<CommandOutput, CommandFailure> {
    let rows = context.open_store().await?.warehouse_list().await?;
    if reading.json {
        return Ok(pretty_json(&rows).into());
    }
    let mut table = TextTable::new(&["warehouse", "name", "type", "active", "account", "missing since"]);
    for row in rows {
        let levels = [
            row.id.to_string(),
            row.name,
            or_dash(row.kind),
            yes_or_no(row.is_active),
            or_dash(row.account_number),
            or_dash(row.missing_since),
        ];
        table.add_row(levels);
    }
    Ok(table.to_text("no warehouse is known yet; let `warehouses` run").into())
}
