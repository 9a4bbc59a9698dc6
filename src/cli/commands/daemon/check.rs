//! `check`: validates the configuration, prints it, and compares the schedules with the quota.

use super::schedules::describe_schedules;
use crate::cli::context::CliContext;
use crate::cli::output::{TextTable, format_age};
use crate::cli::{CommandFailure, CommandOutput};
use crate::config::Config;
use crate::daemon;
use crate::exec::KeyStatus;
use crate::model::{Clock, JobKind};
use crate::reconcile::proof::KeyState;
use crate::schedule::feasibility::{self, JobDemand};
use crate::store::Store;
use clap::Args;
use std::sync::Arc;

/// Validates the configuration.
#[derive(Debug, Args)]
pub(in crate::cli) struct CheckArgs {
    /// Spend one call to prove the keys
    #[arg(long)]
    online: bool,
}

pub(in crate::cli) async fn check_command(
    context: &CliContext,
    args: CheckArgs,
) -> Result<CommandOutput, CommandFailure> {
    let file = context.config_file()?;
    let config = context.config()?;
    let mut text = format!("{} is valid\n\n", file.display());
    text.push_str(&settings_text(&config));
    text.push('\n');
    text.push_str(&describe_schedules(&config, context.clock().now()));
    text.push('\n');
    text.push_str(&call_demand_text(&config, context).await?);
    let keys = config.service.keys.read_keys();
    let mut code = 0;
    match &keys {
        Ok(keys) => keys.warnings.iter().for_each(|warning| text.push_str(&format!("warning: {warning}\n"))),
        Err(error) => {
            code = 2;
            text.push_str(&format!("keys: {error}\n"));
        }
    }
    if args.online && keys.is_ok() {
        let base_url = config.service.base_url.clone();
        let KeyStatus { key, why } = daemon::check_keys(config, Arc::new(context.clock())).await?;
        code = u8::from(key != KeyState::Works);
        text.push_str(&match key {
            KeyState::Works => "keys: the platform accepts them\n".to_owned(),
            KeyState::Refused => format!("keys: the platform refuses them: {why}\n"),
            KeyState::NotKnown => format!(
                "keys: nobody knows whether the platform accepts them, because it did not answer as its work queue does: \
                 {why}\n      check service.base_url ({base_url}) and the way there, then run it again\n"
            ),
        });
    }
    Ok(CommandOutput { text, exit_code: code })
}

fn settings_text(config: &Config) -> String {
    let limits = &config.limits;
    format!(
        "service   {}\ndatabase  {}\nquota     {} of {} calls a minute, {} of them reserved for the operator; \
         {} at a time per operation\npolicy    {}\n",
        config.service.base_url,
        config.database.path.display(),
        limits.own_limit(),
        limits.calls_per_minute,
        limits.reserved_calls,
        limits.concurrent_calls_per_operation,
        config.quantities.policy.as_str(),
    )
}

/// Compares the schedules with the quota for the entries tracked today.
async fn call_demand_text(config: &Config, context: &CliContext) -> Result<String, CommandFailure> {
    let path = &config.database.path;
    if !path.exists() {
        return Ok("calls     no database yet, so nothing is tracked\n".into());
    }
    let store = Store::open_beside(path).await?;
    let mut text = String::new();
    if store.is_locked().await? {
        text.push_str(
            "warning: another program holds a write transaction open on the database: a start waits until it ends, and \
             so does all that the daemon writes\n",
        );
    }
    let now = context.clock().now();
    let orders = store.tracked_order_due(now).await?;
    let work = EntriesToRead {
        skus: usize::try_from(store.tracked_sku_count().await?).unwrap_or(0),
        skus_per_call: usize::try_from(config.jobs.skus_per_call).unwrap_or(1),
        orders: orders.open.len() + orders.named.len(),
        shipments: store.shipment_due(now).await?.len(),
        storefronts: store.storefront_ids().await?.len(),
        kits: store.kit_ids().await?.len(),
    };
    Ok(text + &feasibility_text(config, &work))
}

/// Returns the calls a minute of each schedule, their sum, and the maximum age of facts.
fn feasibility_text(config: &Config, work: &EntriesToRead) -> String {
    let enabled = config.jobs.enabled_schedules();
    let counts_are_read = enabled.iter().any(|(kind, _)| *kind == JobKind::WorkQueue);
    let demands = enabled.into_iter().map(|(kind, schedule)| JobDemand {
        kind,
        calls: calls_per_run(kind, work),
        interval: schedule.interval_hint(),
        may_hold_back: kind == JobKind::OrderLines && counts_are_read,
    });
    let demands: Vec<JobDemand> = demands.filter(|demand| demand.calls > 0.0).collect();
    let ours = config.limits.own_limit();
    let bulk = ours.saturating_sub(config.limits.reserved_calls).max(1);
    let fit = feasibility::fit_schedules(&demands, f64::from(bulk));
    let mut table = TextTable::new(&["job", "calls a run", "calls a minute", "a fact is at most"]);
    for row in &fit.rows {
        let asked = format!("{:.1}", row.requested);
        let given =
            if row.granted < row.requested { format!(", gets {:.1}", row.granted) } else { String::new() };
        let oldest = i64::try_from(row.max_age.as_secs()).unwrap_or(i64::MAX);
        table.add_row([
            row.kind.as_str().to_owned(),
            format!("{:.0}", row.calls),
            asked + &given,
            format_age(oldest),
        ]);
    }
    let EntriesToRead { skus, orders, shipments, .. } = work;
    let mut text = table.to_text("no job has anything to read yet");
    text.push_str(&format!(
        "\ncalls     the schedules need {:.1} a minute for {skus} SKU(s), {orders} open order(s) and {shipments} \
         shipment(s); {bulk} are for them, headroom {:.1}\n          while pushes fill the line, {:.1} of them are the polls'\n",
        fit.requested,
        fit.headroom,
        f64::from(bulk) / 5.0,
    ));
    if let Some(first) = fit.skipped_first {
        text.push_str(&format!(
            "warning: the schedules do NOT fit: {first} gives way first; give it a longer interval, or read more at a time\n"
        ));
    }
    text
}

/// The number of entries to read today.
struct EntriesToRead {
    skus: usize,
    skus_per_call: usize,
    orders: usize,
    shipments: usize,
    storefronts: usize,
    kits: usize,
}

/// Returns the calls of a run after the first reads.
///
/// An allocation is read once in a line's life, and a month on which two reads agree is not read again.
#[expect(clippy::cast_precision_loss, reason = "counts of SKUs and orders are far below 2^52")]
fn calls_per_run(kind: JobKind, work: &EntriesToRead) -> f64 {
    let calls = match kind {
        JobKind::Balances => work.skus.div_ceil(work.skus_per_call.max(1)),
        JobKind::OrderLines => work.orders,
        JobKind::Shipments => work.shipments,
        JobKind::ListingTemplates => work.storefronts,
        JobKind::KitComponents => work.kits,
        JobKind::Warehouses
        | JobKind::Suppliers
        | JobKind::Storefronts
        | JobKind::TopSelling
        | JobKind::BusinessHealth
        | JobKind::WorkQueue => 1,
        JobKind::Push | JobKind::Settle | JobKind::Prune | JobKind::Backup => 0,
    };
    calls as f64
}
