//! Operators' decisions on changes: `outbox cancel`, `retry`, `acknowledge` and `resolve`.
//!
//! An invalid decision changes nothing, exits with 1 and names the valid command.

use crate::cli::context::CliContext;
use crate::cli::output::plain_line;
use crate::cli::{CommandFailure, CommandOutput};
use crate::model::{Clock, Quantity, ShipmentId};
use crate::outbox::Resolution;
use crate::store::Durability;
use clap::Args;

/// A word on one change.
#[derive(Debug, Args)]
pub(in crate::cli) struct OutboxResolveArgs {
    /// The change's key
    key: String,
    #[command(flatten)]
    resolution: ResolutionArgs,
}

/// The word.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct ResolutionArgs {
    /// It took effect at the platform
    #[arg(long = "done")]
    took_effect: bool,
    /// It had no effect there, and is planned anew
    #[arg(long = "not-done")]
    had_no_effect: bool,
    /// It made this shipment, which is compared with what was sent
    #[arg(long, value_name = "ID", value_parser = clap::value_parser!(i64).range(1..))]
    shipment: Option<i64>,
    /// Which number holds: the change's, the platform's, or this one
    #[arg(long = "use", value_name = "mine|theirs|N", value_parser = parse_use, allow_negative_numbers = true)]
    use_value: Option<Resolution>,
}

/// Parses the value of `--use`.
fn parse_use(text: &str) -> Result<Resolution, String> {
    match text {
        "mine" => Ok(Resolution::Mine),
        "theirs" => Ok(Resolution::Theirs),
        number => match number.parse().map(Quantity) {
            Ok(number) if (Quantity(0)..=Quantity::MAX).contains(&number) => Ok(Resolution::Exactly(number)),
            _ => Err(format!("say mine, theirs or a number from 0 to {}", Quantity::MAX)),
        },
    }
}

impl ResolutionArgs {
    fn resolution(&self) -> Resolution {
        match (self.shipment, self.use_value) {
            (Some(id), _) => Resolution::Shipment(ShipmentId(id)),
            (None, Some(number)) => number,
            (None, None) if self.took_effect => Resolution::TookEffect,
            // The argument group admits exactly one option, and this is the last one.
            (None, None) => Resolution::HadNoEffect,
        }
    }
}

pub(super) async fn resolve_change(
    place: &CliContext,
    args: &OutboxResolveArgs,
) -> Result<CommandOutput, CommandFailure> {
    let store = place.open_store().await?;
    let max_base_age = place.config()?.quantities.max_base_age;
    let mut write = store.begin_write(Durability::Full).await?;
    let word = args.resolution.resolution();
    match write.outbox_resolve(&args.key, word, max_base_age, place.clock().now()).await? {
        Ok(done) => {
            write.commit().await?;
            let line =
                |key: &String| format!("{}: {}; {}\n", plain_line(key), done.state, plain_line(&done.next));
            Ok(done.keys.iter().map(line).collect::<String>().into())
        }
        Err(why) => Err(CommandFailure::failed(format!("{}: not resolved: {why}", args.key))),
    }
}

pub(super) async fn retry_changes(
    place: &CliContext,
    keys: &[String],
) -> Result<CommandOutput, CommandFailure> {
    let store = place.open_store().await?;
    let mut answers = KeyOutcomes::default();
    for key in keys {
        let mut write = store.begin_write(Durability::Full).await?;
        let reply = write.outbox_retry(key, place.clock().now()).await?;
        write.commit().await?;
        answers.add_outcome(key, "pending, planned anew", "not retried", reply);
    }
    Ok(answers.0)
}

pub(super) async fn cancel_changes(
    place: &CliContext,
    keys: &[String],
) -> Result<CommandOutput, CommandFailure> {
    let store = place.open_store().await?;
    let mut answers = KeyOutcomes::default();
    for key in keys {
        let mut write = store.begin_write(Durability::Full).await?;
        let cancelled = write.outbox_cancel(key, place.clock().now()).await?;
        write.commit().await?;
        let reply = match store.outbox_show(key).await? {
            _ if cancelled => Ok(()),
            Some(row) => Err(format!("it is {}, and only a change that waits can be cancelled", row.state)),
            None => Err("there is no change with this key".into()),
        };
        answers.add_outcome(key, "cancelled", "not cancelled", reply);
    }
    Ok(answers.0)
}

pub(super) async fn acknowledge_changes(
    place: &CliContext,
    keys: &[String],
) -> Result<CommandOutput, CommandFailure> {
    let store = place.open_store().await?;
    let mut answers = KeyOutcomes::default();
    for key in keys {
        let mut write = store.begin_write(Durability::Full).await?;
        let reply = write.outbox_acknowledge(key, place.clock().now()).await?;
        write.commit().await?;
        answers.add_outcome(key, "acknowledged", "not acknowledged", reply);
    }
    Ok(answers.0)
}

pub(super) async fn acknowledge_all_changes(context: &CliContext) -> Result<CommandOutput, CommandFailure> {
    let store = context.open_store().await?;
    let mut write = store.begin_write(Durability::Full).await?;
    let news = write.outbox_acknowledge_all(context.clock().now()).await?;
    write.commit().await?;
    Ok(format!("{news} rejected change(s) acknowledged\n").into())
}

/// A line per change; the exit code is 1 if any was refused.
#[derive(Default)]
struct KeyOutcomes(CommandOutput);

impl KeyOutcomes {
    fn add_outcome(&mut self, key: &str, done: &str, refused: &str, reply: Result<(), String>) {
        let key = plain_line(key);
        match reply {
            Ok(()) => self.0.text.push_str(&format!("{key}: {done}\n")),
            Err(why) => {
                self.0.text.push_str(&format!("{key}: {refused}: {}\n", plain_line(&why)));
                self.0.exit_code = 1;
            }
        }
    }
}
