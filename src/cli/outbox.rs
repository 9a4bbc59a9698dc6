//! `outbox`: the changes, their state, and an operator's decisions on them.
//!
//! A decision is journalled and applied in one transaction. A running daemon notices it at once; a daemon
//! started later finds it applied.

mod list;
mod show;
mod word;

use super::place::Place;
use super::print::plain;
use super::{Answer, Failure, Reading};
use crate::model::Clock;
use crate::store::Durability;
use clap::{Args, Subcommand};

/// The wishes and what became of them.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// List wishes by why they stand where they stand, with what to do about each
    List(list::List),
    /// Show one wish with its body, its story and the evidence
    Show(Show),
    /// Let wishes that a brake holds go, once
    Release(Release),
    /// Withdraw wishes that still wait; one that was sent cannot be
    Cancel(Keys),
    /// Plan held wishes anew, once their cause is mended
    Retry(Keys),
    /// Say that you know of rejected wishes: `status` names them until then
    Acknowledge(Acknowledge),
    /// Settle one wish in doubt or in conflict by your word
    Resolve(word::Resolve),
}

/// One wish.
#[derive(Debug, Args)]
pub(super) struct Show {
    /// The wish's key
    key: String,
    #[command(flatten)]
    reading: Reading,
}

/// What to let go.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(super) struct Release {
    /// The wishes' keys
    #[arg(value_name = "KEY")]
    keys: Vec<String>,
    /// Everything the open trips hold, which are shown
    #[arg(long)]
    all: bool,
}

/// Rejected wishes that are known of.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(super) struct Acknowledge {
    /// The wishes' keys
    #[arg(value_name = "KEY")]
    keys: Vec<String>,
    /// Everything that was rejected and not acknowledged yet
    #[arg(long)]
    all: bool,
}

/// Wishes by key.
#[derive(Debug, Args)]
pub(super) struct Keys {
    /// The wishes' keys
    #[arg(required = true, value_name = "KEY")]
    keys: Vec<String>,
}

pub(super) async fn outbox(place: &Place, command: Command) -> Result<Answer, Failure> {
    match command {
        Command::List(args) => list::list(place, args).await,
        Command::Show(args) => show::show(place, &args.key, args.reading).await,
        Command::Release(args) => release(place, &args.keys).await,
        Command::Cancel(args) => word::cancel(place, &args.keys).await,
        Command::Retry(args) => word::retry(place, &args.keys).await,
        Command::Acknowledge(args) if args.all => word::acknowledge_all(place).await,
        Command::Acknowledge(args) => word::acknowledge(place, &args.keys).await,
        Command::Resolve(args) => word::resolve(place, &args).await,
    }
}

async fn release(place: &Place, keys: &[String]) -> Result<Answer, Failure> {
    let store = place.store().await?;
    let trips = store.brake_trips().await?;
    let mut write = store.begin(Durability::Full).await?;
    let released = write.brake_release(keys, place.clock().now()).await?;
    write.commit().await?;
    let mut text = String::new();
    for trip in trips.iter().filter(|_| keys.is_empty()) {
        text.push_str(&format!("trip {}: {} ({} wish(es))\n", trip.id, plain(&trip.what), trip.held));
    }
    text.push_str(&format!(
        "{released} wish(es) released; they are read again and merged before they are sent\n"
    ));
    Ok(Answer { text, code: u8::from(released == 0) })
}
