//! `quota`: an operator's decision to end a wait that the platform ordered.

use crate::cli::context::CliContext;
use crate::cli::{CommandFailure, CommandOutput};
use crate::exec;
use crate::health;
use crate::model::Clock;
use clap::Subcommand;

/// The account's quota.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Command {
    /// End the wait that the platform ordered for the account, where it was ordered by mistake
    Lift,
}

pub(in crate::cli) async fn quota_command(
    place: &CliContext,
    command: Command,
) -> Result<CommandOutput, CommandFailure> {
    let Command::Lift = command;
    let (store, now) = (place.open_store().await?, place.clock().now());
    Ok(match exec::lift_wait(&store, now).await? {
        Some(wait) => format!(
            "ended: {}; a service that means it orders the next wait at once\n",
            health::hold_text(&wait, now)
        )
        .into(),
        None => {
            CommandOutput { text: "the platform orders no wait of the account now\n".into(), exit_code: 1 }
        }
    })
}
