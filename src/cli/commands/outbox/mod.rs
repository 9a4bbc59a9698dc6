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

use crate::cli::context::Place;
use crate::cli::output::plain;
use crate::cli::{Answer, Failure, Reading};
use crate::model::Clock;
use crate::store::Durability;
use clap::{Args, Subcommand};

/// The wishes and what became of them.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Command {
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
    Resolve(resolve::Resolve),
}

/// One wish.
#[derive(Debug, Args)]
pub(in crate::cli) struct Show {
    /// The wish's key
    key: String,
    #[command(flatten)]
    reading: Reading,
}

/// What to let go.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(in crate::cli) struct Release {
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
pub(in crate::cli) struct Acknowledge {
    /// The wishes' keys
    #[arg(value_name = "KEY")]
    keys: Vec<String>,
    /// Everything that was rejected and not acknowledged yet
    #[arg(long)]
    all: bool,
}

/// Wishes by key.
#[derive(Debug, Args)]
pub(in crate::cli) struct Keys {
    /// The wishes' keys
    #[arg(required = true, value_name = "KEY")]
    keys: Vec<String>,
}

pub(in crate::cli) async fn outbox(place: &Place, command: Command) -> Result<Answer, Failure> {
    match command {
        Command::List(args) => list::list(place, args).await,
        Command::Show(args) => show::show(place, &args.key, args.reading).await,
        Command::Release(args) => release(place, &args.keys).await,
        Command::Cancel(args) => resolve::cancel(place, &args.keys).await,
        Command::Retry(args) => resolve::retry(place, &args.keys).await,
        Command::Acknowledge(args) if args.all => resolve::acknowledge_all(place).await,
        Command::Acknowledge(args) => resolve::acknowledge(place, &args.keys).await,
        Command::Resolve(args) => resolve::resolve(place, &args).await,
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
