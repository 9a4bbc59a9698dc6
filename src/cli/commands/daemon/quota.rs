//! `quota`: an operator's decision to end a wait that the platform ordered.

use crate::cli::context::CliContext;
use crate::cli::local_time::local_sentence;
use crate::cli::{CommandOutput, CommandResult};
use crate::present::call_budget::lift_wait;
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Command {
    /// End a wait that the platform ordered for the account by mistake
    Lift,
}

pub(in crate::cli) async fn quota_command(context: &CliContext, command: Command) -> CommandResult {
    let Command::Lift = command;
    let lifted = lift_wait(&context.open_store().await?, context.now()).await?;
    let exit_code = u8::from(lifted.is_err());
    Ok(CommandOutput { text: local_sentence(lifted.unwrap_or_else(|why| why)) + "\n", exit_code })
}
