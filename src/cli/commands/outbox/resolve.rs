//! Operators' decisions on changes: `outbox cancel`, `retry`, `acknowledge` and `resolve`.
//!
//! An invalid decision changes nothing, exits with 1 and names the valid command.

use crate::cli::context::{CliContext, write_and_commit};
use crate::cli::output::plain_line;
use crate::cli::{CommandFailure, CommandOutput, CommandResult};
use crate::model::{Quantity, ShipmentId};
use crate::outbox::Resolution;
use crate::store::{DecisionResult, Durability, Store, StoreError, WriteTransaction};
use clap::Args;

#[derive(Debug, Args)]
pub(in crate::cli) struct OutboxResolveArgs {
    /// Key of the change
    key: String,
    #[command(flatten)]
    resolution: ResolutionArgs,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct ResolutionArgs {
    /// The call took effect at the platform
    #[arg(long = "done")]
    took_effect: bool,
    /// The call had no effect; the change is planned again
    #[arg(long = "not-done")]
    had_no_effect: bool,
    /// The call created this shipment; it is compared with the request
    #[arg(long, value_name = "ID", value_parser = clap::value_parser!(i64).range(1..))]
    shipment: Option<i64>,
    /// The quantity to use: the change's (mine), the platform's (theirs), or a number
    #[arg(long = "use", value_name = "mine|theirs|N", value_parser = parse_use, allow_negative_numbers = true)]
    use_value: Option<Resolution>,
}

fn parse_use(text: &str) -> Result<Resolution, String> {
    match text {
        "mine" => Ok(Resolution::Mine),
        "theirs" => Ok(Resolution::Theirs),
        number => match number.parse().map(Quantity) {
            Ok(number) if (Quantity(0)..=Quantity::MAX).contains(&number) => Ok(Resolution::Exactly(number)),
            _ => Err(format!("expected mine, theirs or a number from 0 to {}", Quantity::MAX)),
        },
    }
}

pub(super) async fn resolve_change(context: &CliContext, args: &OutboxResolveArgs) -> CommandResult {
    let store = context.open_store().await?;
    let max_base_age = context.config()?.quantities.max_base_age;
    let resolution = match (args.resolution.shipment, args.resolution.use_value) {
        (Some(id), _) => Resolution::Shipment(ShipmentId(id)),
        (None, Some(value)) => value,
        (None, None) if args.resolution.took_effect => Resolution::TookEffect,
        // The argument group admits exactly one option, and this is the last one.
        (None, None) => Resolution::HadNoEffect,
    };
    let now = context.now();
    let mut write = store.begin_write(Durability::Full).await?;
    match write.outbox_resolve(&args.key, resolution, max_base_age, now).await? {
        Ok(done) => {
            write.commit().await?;
            let line =
                |key: &String| format!("{}: {}; {}\n", plain_line(key), done.state, plain_line(&done.next));
            Ok(done.keys.iter().map(line).collect::<String>().into())
        }
        Err(why) => Err(CommandFailure::failed(format!("{}: not resolved: {why}", args.key))),
    }
}

pub(super) async fn retry_changes(context: &CliContext, keys: &[String]) -> CommandResult {
    let outcomes = ["pending; planned again by the next push", "not retried"];
    decide_each(context, keys, outcomes, async |_, write, key| write.outbox_retry(key, context.now()).await)
        .await
}

pub(super) async fn cancel_changes(context: &CliContext, keys: &[String]) -> CommandResult {
    decide_each(context, keys, ["cancelled", "not cancelled"], async |store, write, key| {
        if write.outbox_cancel(key, context.now()).await? {
            return Ok(Ok(()));
        }
        Ok(Err(match store.outbox_show(key).await? {
            Some(row) => {
                format!("the change is {}; only a pending or held change can be cancelled", row.state)
            }
            None => "there is no change with this key".into(),
        }))
    })
    .await
}

pub(super) async fn acknowledge_changes(context: &CliContext, keys: &[String]) -> CommandResult {
    decide_each(context, keys, ["acknowledged", "not acknowledged"], async |_, write, key| {
        write.outbox_acknowledge(key, context.now()).await
    })
    .await
}

pub(super) async fn acknowledge_all_changes(context: &CliContext) -> CommandResult {
    let store = context.open_store().await?;
    let now = context.now();
    let count = write_and_commit(&store, async |write| write.outbox_acknowledge_all(now).await).await?;
    Ok(format!("{count} rejected change(s) acknowledged\n").into())
}

/// Decides on each change in its own transaction, with a line for each: `done`, or `refused` and the reason.
///
/// The exit code is 1 if any decision was refused.
async fn decide_each(
    context: &CliContext,
    keys: &[String],
    [done, refused]: [&str; 2],
    decide: impl AsyncFn(&Store, &mut WriteTransaction, &str) -> Result<DecisionResult<()>, StoreError>,
) -> CommandResult {
    let store = context.open_store().await?;
    let mut output = CommandOutput::default();
    for key in keys {
        let line = match write_and_commit(&store, async |write| decide(&store, write, key).await).await? {
            Ok(()) => format!("{}: {done}\n", plain_line(key)),
            Err(why) => {
                output.exit_code = 1;
                format!("{}: {refused}: {}\n", plain_line(key), plain_line(&why))
            }
        };
        output.text.push_str(&line);
    }
    Ok(output)
}
