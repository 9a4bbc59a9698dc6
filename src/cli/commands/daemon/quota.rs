//! `quota`: an operator's decision to end a wait that the platform ordered.

use crate::cli::context::Place;
use crate::cli::{Answer, Failure};
use crate::exec;
use crate::health;
use crate::model::Clock;
use clap::Subcommand;

/// The account's quota.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Command {
    /// End the wait that the service ordered for the account, where it was ordered by mistake
    Lift,
}

pub(in crate::cli) async fn quota(place: &Place, command: Command) -> Result<Answer, Failure> {
    let Command::Lift = command;
    let (store, now) = (place.store().await?, place.clock().now());
    Ok(match exec::lift_wait(&store, now).await? {
        Some(wait) => format!(
            "ended: {}; a service that means it orders the next wait at once\n",
            health::told_hold(&wait, now)
        )
        .into(),
        None => Answer { text: "the service orders no wait of the account now\n".into(), code: 1 },
    })
}
