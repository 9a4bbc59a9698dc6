//! `storefront`: the account's active storefronts, from the mirror.

use crate::cli::context::CliContext;
use crate::cli::output::{TextTable, or_dash, pretty_json, yes_or_no};
use crate::cli::{CommandFailure, CommandOutput, OutputArgs};
use clap::Subcommand;

/// The company's storefronts.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Command {
    /// List them
    List(OutputArgs),
}

pub(in crate::cli) async fn storefront_command(
    context: &CliContext,
    command: Command,
) -> Result<CommandOutput, CommandFailure> {
    match command {
        Command::List(reading) => list_storefronts(context, reading).await,
    }
}

async fn list_storefronts(
    context: &CliContext,
    reading: OutputArgs,
) -> Result<CommandOutput, CommandFailure> {
    let rows = context.open_store().await?.storefront_list().await?;
    if reading.json {
        return Ok(pretty_json(&rows).into());
    }
    let mut table = TextTable::new(&["storefront", "name", "type", "active", "missing since"]);
    for row in rows {
        let levels = [
            row.id.to_string(),
            or_dash(row.name),
            or_dash(row.kind),
            yes_or_no(row.is_active),
            or_dash(row.missing_since),
        ];
        table.add_row(levels);
    }
    Ok(table.to_text("no storefront is known yet; let `storefronts` run").into())
}
