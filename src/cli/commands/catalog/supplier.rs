//! `supplier`: the account's suppliers, from the mirror.

use crate::cli::context::CliContext;
use crate::cli::output::{TextTable, or_dash, pretty_json, yes_or_no};
use crate::cli::{CommandFailure, CommandOutput, OutputArgs};
use clap::Subcommand;

/// The company's suppliers.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Command {
    /// List them
    List(OutputArgs),
}

pub(in crate::cli) async fn supplier_command(
    context: &CliContext,
    command: Command,
) -> Result<CommandOutput, CommandFailure> {
    match command {
        Command::List(reading) => list_suppliers(context, reading).await,
    }
}

async fn list_suppliers(context: &CliContext, reading: OutputArgs) -> Result<CommandOutput, CommandFailure> {
    let rows = context.open_store().await?.supplier_list().await?;
    if reading.json {
        return Ok(pretty_json(&rows).into());
    }
    let mut table = TextTable::new(&["supplier", "name", "active", "account", "address", "missing since"]);
    for row in rows {
        let levels = [
            row.id.to_string(),
            or_dash(row.name),
            yes_or_no(row.is_active),
            or_dash(row.account_number),
            or_dash(row.supplier_url),
            or_dash(row.missing_since),
        ];
        table.add_row(levels);
    }
    Ok(table.to_text("no supplier is known yet; let `suppliers` run").into())
}
