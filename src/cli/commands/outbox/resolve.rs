//! Operators' decisions that need more than a key, or none: `outbox resolve` and `acknowledge --all`.
//!
//! An invalid decision changes nothing, exits with 1 and names the valid command.

use super::select::require_key;
use crate::cli::CommandResult;
use crate::cli::context::CliContext;
use crate::cli::output::decision_output;
use crate::model::{Quantity, ShipmentId, counted};
use crate::outbox::{ChangeState, Resolution};
use crate::present::decisions::{KeyDecision, decide, resolve};
use crate::store::OutboxFilter;
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
    decision_output(resolve(&store, &key, resolution, max_base_age, context.now()).await)
}

pub(super) async fn acknowledge_all_changes(context: &CliContext) -> CommandResult {
    let store = context.open_store().await?;
    let filter = OutboxFilter { states: vec![ChangeState::Rejected], ..OutboxFilter::default() };
    let keys = store.outbox_open_keys(&filter).await?;
    let decided = decide(&store, KeyDecision::Acknowledge, &keys, context.now()).await?;
    Ok(format!("{} acknowledged\n", counted(decided.done.len(), "rejected change")).into())
}
