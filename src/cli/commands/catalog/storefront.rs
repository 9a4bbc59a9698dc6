//! `storefront`: the account's active storefronts, from the mirror.

use crate::cli::context::CliContext;
use crate::cli::local_time::local_text;
use crate::cli::output::cells;
use crate::cli::{CommandResult, OutputArgs};
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Command {
    /// List storefronts
    List(OutputArgs),
}

pub(in crate::cli) async fn storefront_command(context: &CliContext, command: Command) -> CommandResult {
    let Command::List(output) = command;
    output.list(
        &context.open_store().await?.storefront_list().await?,
        "no storefront is known: the job `storefronts` has not run (tallyd job list), or the platform listed none",
        ["storefront", "name", "type", "active", "missing since"],
        |row| cells![row.id, row.name, row.kind, row.is_active, row.missing_since.as_ref().map(local_text)],
    )
}
