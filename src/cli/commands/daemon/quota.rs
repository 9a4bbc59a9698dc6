//! `quota`: an operator's decision to end a wait that the platform ordered.

use crate::cli::CommandResult;
use crate::cli::context::CliContext;
use crate::cli::output::decision_output;
use crate::present::call_budget::lift_wait;
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Command {
    /// End a wait that the platform ordered for the account by mistake
    Lift,
}

pub(in crate::cli) async fn quota_command(context: &CliContext, command: Command) -> CommandResult {
    let Command::Lift = command;
    decision_output(lift_wait(&context.open_store().await?, context.now()).await)
}
