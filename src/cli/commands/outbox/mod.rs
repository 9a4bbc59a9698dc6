//! Commands on the outbox: `outbox`, `plan`, `ship` and `tracking`.
//!
//! A decision is journalled and applied in one transaction. A running daemon notices it at once; a daemon started
//! later finds it applied.

mod bulk;
mod list;
pub(in crate::cli) mod plan;
mod resolve;
mod select;
pub(in crate::cli) mod ship;
mod show;
pub(in crate::cli) mod tracking;

use self::bulk::{decide_named, decide_selected};
use crate::cli::context::CliContext;
use crate::cli::output::decision_output;
use crate::cli::{CommandResult, OutputArgs};
use crate::present::decisions::{KeyDecision, release_all};
use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Command {
    /// List changes by state and reason, with the next step for each reason
    List(list::OutboxListArgs),
    /// Show a change with its body, its history and the evidence
    Show {
        /// Key of the change, its first characters, or its id
        key: String,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Release changes that a brake or a restored database holds, once
    Release(OutboxKeysArgs),
    /// Cancel changes that were not sent yet
    Cancel(bulk::OutboxBulkArgs),
    /// Plan held changes again, after their cause is fixed
    Retry(bulk::OutboxBulkArgs),
    /// Acknowledge rejected changes, so that `status` no longer reports them
    Acknowledge(OutboxKeysArgs),
    /// Resolve a change that is in doubt or in conflict
    Resolve(resolve::OutboxResolveArgs),
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(in crate::cli) struct OutboxKeysArgs {
    /// Keys of the changes, their first characters, or ids
    #[arg(value_name = "KEY")]
    keys: Vec<String>,
    /// Decide on all changes that the command is for. A release lists the open trips, and ends the hold after a restore
    #[arg(long)]
    all: bool,
}

pub(in crate::cli) async fn outbox_command(context: &CliContext, command: Command) -> CommandResult {
    match command {
        Command::List(args) => list::list_changes(context, args).await,
        Command::Show { key, output } => show::show_change(context, &key, output).await,
        Command::Release(args) if args.all => {
            decision_output(release_all(&context.open_store().await?, context.now()).await)
        }
        Command::Release(args) => decide_named(context, &args.keys, KeyDecision::Release).await,
        Command::Cancel(args) => decide_selected(context, &args, KeyDecision::Cancel).await,
        Command::Retry(args) => decide_selected(context, &args, KeyDecision::Retry).await,
        Command::Acknowledge(args) if args.all => resolve::acknowledge_all_changes(context).await,
        Command::Acknowledge(args) => decide_named(context, &args.keys, KeyDecision::Acknowledge).await,
        Command::Resolve(args) => resolve::resolve_change(context, &args).await,
    }
}
