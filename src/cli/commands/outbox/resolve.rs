//! Operators' decisions on changes: `outbox release`, `cancel`, `retry`, `acknowledge` and `resolve`.
//!
//! An invalid decision changes nothing, exits with 1 and names the valid command.

use super::bulk::{DecisionKind, OutboxBulkArgs, decide_each, decide_selected};
use super::select::{find_key, require_key};
use crate::cli::context::{CliContext, write_and_commit};
use crate::cli::output::plain_line;
use crate::cli::{CommandFailure, CommandOutput, CommandResult};
use crate::model::{Quantity, ShipmentId, counted};
use crate::outbox::{ChangeState, Resolution};
use crate::store::{BrakeTripRow, Durability, Store, WriteTransaction};
use clap::Args;

#[derive(Debug, Args)]
pub(in crate::cli) struct OutboxResolveArgs {
    /// Key of the change, its first characters, or its id
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
    let key = require_key(&store, &args.key).await?;
    let resolution = match (args.resolution.shipment, args.resolution.use_value) {
        (Some(id), _) => Resolution::Shipment(ShipmentId(id)),
        (None, Some(value)) => value,
        (None, None) if args.resolution.took_effect => Resolution::TookEffect,
        // The argument group admits exactly one option, and this is the last one.
        (None, None) => Resolution::HadNoEffect,
    };
    let now = context.now();
    let mut write = store.begin_write(Durability::Full).await?;
    match write.outbox_resolve(&key, resolution, max_base_age, now).await? {
        Ok(done) => {
            write.commit().await?;
            let line =
                |key: &String| format!("{}: {}; {}\n", plain_line(key), done.state, plain_line(&done.next));
            Ok(done.keys.iter().map(line).collect::<String>().into())
        }
        Err(why) => Err(CommandFailure::failed(format!("{key}: not resolved: {why}"))),
    }
}

const RETRY: DecisionKind = DecisionKind {
    verb: "retry",
    past: "retried",
    done: "pending; planned again by the next push",
    refused: "not retried",
    states: &[ChangeState::Held],
};
const CANCEL: DecisionKind = DecisionKind {
    verb: "cancel",
    past: "cancelled",
    done: "cancelled",
    refused: "not cancelled",
    states: &[ChangeState::Pending, ChangeState::Held],
};

pub(super) async fn retry_changes(context: &CliContext, args: &OutboxBulkArgs) -> CommandResult {
    let decide = async |_: &Store, write: &mut WriteTransaction, key: &str| {
        write.outbox_retry(key, context.now()).await
    };
    decide_selected(context, args, &RETRY, decide).await
}

pub(super) async fn cancel_changes(context: &CliContext, args: &OutboxBulkArgs) -> CommandResult {
    let decide = async |_: &Store, write: &mut WriteTransaction, key: &str| {
        write.outbox_cancel(key, context.now()).await
    };
    decide_selected(context, args, &CANCEL, decide).await
}

/// Releases the named changes with one event; a line for each that nothing releases.
pub(super) async fn release_changes(context: &CliContext, names: &[String]) -> CommandResult {
    let store = context.open_store().await?;
    let now = context.now();
    let (mut keys, mut output) = (Vec::new(), CommandOutput::default());
    for name in names {
        let found = match find_key(&store, name).await? {
            Ok(key) => store.outbox_check_release(&key).await?.map(|()| key),
            Err(why) => Err(why),
        };
        match found {
            Ok(key) => keys.push(key),
            Err(why) => {
                output.exit_code = 1;
                output.text.push_str(&format!("{}: not released: {}\n", plain_line(name), plain_line(&why)));
            }
        }
    }
    if !keys.is_empty() {
        let released = write_and_commit(&store, async |write| write.brake_release(&keys, now).await).await?;
        output.text.push_str(&released_text(released));
    }
    Ok(output)
}

/// Releases the changes of all open trips.
pub(super) async fn release_all_changes(context: &CliContext) -> CommandResult {
    let store = context.open_store().await?;
    let trips = store.brake_trip_list().await?;
    if trips.is_empty() {
        let text =
            "no brake holds a change; changes held for another reason: tallyd outbox list --state held\n";
        return Ok(CommandOutput { text: text.into(), exit_code: 1 });
    }
    let now = context.now();
    let released = write_and_commit(&store, async |write| write.brake_release(&[], now).await).await?;
    let trip = |trip: &BrakeTripRow| {
        format!("trip {}: {} ({})\n", trip.id, plain_line(&trip.what), counted(trip.held, "change"))
    };
    let mut text = trips.iter().map(trip).collect::<String>() + &released_text(released);
    if trips.iter().any(|trip| trip.is_restore) {
        text.push_str("new changes are sent again; one that repeats a lost change would be done twice\n");
    }
    Ok(text.into())
}

fn released_text(released: u64) -> String {
    format!(
        "{} released; the stock levels are read again and merged before anything is sent\n",
        counted(released, "change")
    )
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
    Ok(format!("{} acknowledged\n", counted(count, "rejected change")).into())
}
