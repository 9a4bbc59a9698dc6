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

use crate::cli::context::CliContext;
use crate::cli::output::plain_line;
use crate::cli::{CommandFailure, CommandOutput, OutputArgs};
use crate::model::Clock;
use crate::store::Durability;
use clap::{Args, Subcommand};

/// The changes and what became of them.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Command {
    /// List changes by why they stand where they stand, with what to do about each
    List(list::OutboxListArgs),
    /// Show one change with its body, its story and the evidence
    Show(OutboxShowArgs),
    /// Let changes that a brake holds go, once
    Release(OutboxReleaseArgs),
    /// Withdraw changes that still wait; one that was sent cannot be
    Cancel(OutboxKeysArgs),
    /// Plan held changes anew, once their cause is mended
    Retry(OutboxKeysArgs),
    /// Say that you know of rejected changes: `status` names them until then
    Acknowledge(OutboxAcknowledgeArgs),
    /// Settle one change in doubt or in conflict by your word
    Resolve(resolve::OutboxResolveArgs),
}

/// One change.
#[derive(Debug, Args)]
pub(in crate::cli) struct OutboxShowArgs {
    /// The change's key
    key: String,
    #[command(flatten)]
    output: OutputArgs,
}

/// Changes or trip to release.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(in crate::cli) struct OutboxReleaseArgs {
    /// The changes' keys
    #[arg(value_name = "KEY")]
    keys: Vec<String>,
    /// Everything the open trips hold, which are shown
    #[arg(long)]
    all: bool,
}

/// Rejected changes that are known of.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(in crate::cli) struct OutboxAcknowledgeArgs {
    /// The changes' keys
    #[arg(value_name = "KEY")]
    keys: Vec<String>,
    /// Everything that was rejected and not acknowledged yet
    #[arg(long)]
    all: bool,
}

/// Changes by key.
#[derive(Debug, Args)]
pub(in crate::cli) struct OutboxKeysArgs {
    /// The changes' keys
    #[arg(required = true, value_name = "KEY")]
    keys: Vec<String>,
}

pub(in crate::cli) async fn outbox_command(
    context: &CliContext,
    command: Command,
) -> Result<CommandOutput, CommandFailure> {
    match command {
        Command::List(args) => list::list_changes(context, args).await,
        Command::Show(args) => show::show_change(context, &args.key, args.output).await,
        Command::Release(args) => release_changes(context, &args.keys).await,
        Command::Cancel(args) => resolve::cancel_changes(context, &args.keys).await,
        Command::Retry(args) => resolve::retry_changes(context, &args.keys).await,
        Command::Acknowledge(args) if args.all => resolve::acknowledge_all_changes(context).await,
        Command::Acknowledge(args) => resolve::acknowledge_changes(context, &args.keys).await,
        Command::Resolve(args) => resolve::resolve_change(context, &args).await,
    }
}

async fn release_changes(context: &CliContext, keys: &[String]) -> Result<CommandOutput, CommandFailure> {
    let store = context.open_store().await?;
    let trips = store.brake_trip_list().await?;
    let mut write = store.begin_write(Durability::Full).await?;
    let released = write.brake_release(keys, context.clock().now()).await?;
    write.commit().await?;
    let mut text = String::new();
    for trip in trips.iter().filter(|_| keys.is_empty()) {
        text.push_str(&format!("trip {}: {} ({} change(s))\n", trip.id, plain_line(&trip.what), trip.held));
    }
    text.push_str(&format!(
        "{released} change(s) released; they are read again and merged before they are sent\n"
    ));
    Ok(CommandOutput { text, exit_code: u8::from(released == 0) })
}
