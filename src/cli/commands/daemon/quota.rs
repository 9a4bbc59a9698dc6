//! `quota`: an operator's decision to end a wait that the platform ordered.

use crate::cli::context::CliContext;
use crate::cli::{CommandOutput, CommandResult};
use crate::exec;
use crate::health;
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Command {
    /// End a wait that the platform ordered for the account by mistake
    Lift,
}

pub(in crate::cli) async fn quota_command(context: &CliContext, command: Command) -> CommandResult {
    let Command::Lift = command;
    let (store, now) = (context.open_store().await?, context.now());
    Ok(match exec::lift_wait(&store, now).await? {
        Some(wait) => {
            let wait = health::hold_text(&wait, now);
            format!("ended: {wait}; if the wait was intended, the platform orders it again\n").into()
        }
        None => CommandOutput { text: "no wait of the account is in force\n".into(), exit_code: 1 },
    })
}
