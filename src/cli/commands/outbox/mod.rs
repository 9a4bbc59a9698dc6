//! Commands on the outbox: `outbox`, `plan`, `ship` and `tracking`.
//!
//! `outbox` shows the changes and their state, and takes an operator's decisions on them. A decision is
//! journalled and applied in one transaction. A running daemon notices it at once; a daemon started later
//! finds it applied.
//!
//! | file | subject |
//! |---|---|
//! | `list.rs`, `show.rs` | `outbox list` and `outbox show` |
//! | `resolve.rs` | decisions on changes |
//! | `plan.rs` | `plan`: the next push |
//! | `ship.rs` | `ship`: shipments |
//! | `tracking.rs` | `tracking`: tracking numbers of shipments |

mod list;
pub(in crate::cli) mod plan;
mod resolve;
pub(in crate::cli) mod ship;
mod show;
pub(in crate::cli) mod tracking;

use crate::cli::context::{CliContext, write_and_commit};
use crate::cli::output::plain_line;
use crate::cli::{CommandOutput, CommandResult, OutputArgs};
use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Command {
    /// List changes by state and reason, with the next step for each reason
    List(list::OutboxListArgs),
    /// Show a change with its body, its history and the evidence
    Show {
        /// Key of the change
        key: String,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Release changes that a brake holds, once
    Release(OutboxReleaseArgs),
    /// Cancel changes that were not sent yet
    Cancel(OutboxKeysArgs),
    /// Plan held changes again, after their cause is fixed
    Retry(OutboxKeysArgs),
    /// Acknowledge rejected changes, so that `status` no longer reports them
    Acknowledge(OutboxAcknowledgeArgs),
    /// Resolve a change that is in doubt or in conflict
    Resolve(resolve::OutboxResolveArgs),
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(in crate::cli) struct OutboxReleaseArgs {
    /// Keys of the changes
    #[arg(value_name = "KEY")]
    keys: Vec<String>,
    /// Release the changes of all open trips, and list the trips
    #[arg(long)]
    all: bool,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(in crate::cli) struct OutboxAcknowledgeArgs {
    /// Keys of the changes
    #[arg(value_name = "KEY")]
    keys: Vec<String>,
    /// Acknowledge all rejected changes
    #[arg(long)]
    all: bool,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct OutboxKeysArgs {
    /// Keys of the changes
    #[arg(required = true, value_name = "KEY")]
    keys: Vec<String>,
}

pub(in crate::cli) async fn outbox_command(context: &CliContext, command: Command) -> CommandResult {
    match command {
        Command::List(args) => list::list_changes(context, args).await,
        Command::Show { key, output } => show::show_change(context, &key, output).await,
        Command::Release(args) => release_changes(context, &args.keys).await,
        Command::Cancel(args) => resolve::cancel_changes(context, &args.keys).await,
        Command::Retry(args) => resolve::retry_changes(context, &args.keys).await,
        Command::Acknowledge(args) if args.all => resolve::acknowledge_all_changes(context).await,
        Command::Acknowledge(args) => resolve::acknowledge_changes(context, &args.keys).await,
        Command::Resolve(args) => resolve::resolve_change(context, &args).await,
    }
}

async fn release_changes(context: &CliContext, keys: &[String]) -> CommandResult {
    let store = context.open_store().await?;
    let trips = store.brake_trip_list().await?;
    let now = context.now();
    let released = write_and_commit(&store, async |write| write.brake_release(keys, now).await).await?;
    let mut text = String::new();
    for trip in trips.iter().filter(|_| keys.is_empty()) {
        text.push_str(&format!("trip {}: {} ({} change(s))\n", trip.id, plain_line(&trip.what), trip.held));
    }
    text.push_str(&format!(
        "{released} change(s) released; their stock levels are read again and merged before they are sent\n"
    ));
    Ok(CommandOutput { text, exit_code: u8::from(released == 0) })
}
