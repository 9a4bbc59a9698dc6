//! `check`: validates the configuration, says what is in force and whether the schedules fit the quota.

use super::calendar::calendar;
use super::place::Place;
use super::{Answer, Failure};
use crate::config::Config;
use crate::daemon;
use crate::job::is_built;
use crate::model::{Clock, JobKind};
use crate::store::Store;
use clap::Args;
use std::sync::Arc;

/// Validates the configuration.
#[derive(Debug, Args)]
pub(super) struct Check {
    /// Spend one call to prove the keys
    #[arg(long)]
    online: bool,
}

pub(super) async fn check(place: &Place, args: Check) -> Result<Answer, Failure> {
    let file = place.config_file()?;
    let config = place.config()?;
    let mut text = format!("{} is valid\n\n", file.display());
    text.push_str(&in_force(&config));
    text.push('\n');
    text.push_str(&calendar(&config, place.clock().now()));
    text.push('\n');
    text.push_str(&load(&config, place).await?);
    let keys = config.service.keys.read();
    let mut code = 0;
    match &keys {
        Ok(keys) => keys.warnings.iter().for_each(|warning| text.push_str(&format!("warning: {warning}\n"))),
        Err(error) => {
            code = 2;
            text.push_str(&format!("keys: {error}\n"));
        }
    }
    if args.online && keys.is_ok() {
        let works = daemon::prove_keys(config, Arc::new(place.clock())).await?;
        code = u8::from(!works);
        text.push_str(if works {
            "keys: the service accepts them\n"
        } else {
            "keys: the service refuses them\n"
        });
    }
    Ok(Answer { text, code })
}

fn in_force(config: &Config) -> String {
    let limits = &config.limits;
    format!(
        "service   {}\ndatabase  {}\nquota     {} of {} calls a minute, {} of them reserved for the operator; \
         {} at a time per operation\npolicy    {}\n",
        config.service.base_url,
        config.database.path.display(),
        limits.ours_per_minute(),
        limits.calls_per_minute,
        limits.reserved_calls,
        limits.concurrent_calls_per_operation,
        config.quantities.policy.as_str(),
    )
}

/// The calls a minute that the schedules need with what is tracked today.
async fn load(config: &Config, place: &Place) -> Result<String, Failure> {
    let path = &config.database.path;
    if !path.exists() {
        return Ok("calls     no database yet, so nothing is tracked\n".into());
    }
    let store = Store::open_beside(path).await?;
    let now = place.clock().now();
    let work = Work {
        skus: usize::try_from(store.tracked_sku_count().await?).unwrap_or(0),
        skus_per_call: usize::try_from(config.jobs.skus_per_call).unwrap_or(1),
        orders: store.tracked_order_due(now).await?.len(),
        shipments: store.shipment_due(now).await?.len(),
        storefronts: store.storefront_ids().await?.len(),
        kits: store.kit_ids().await?.len(),
    };
    let Work { skus, orders, .. } = work;
    let mut sum = 0.0;
    for (kind, schedule) in config.jobs.enabled().into_iter().filter(|(kind, _)| is_built(*kind)) {
        let calls = calls_of_a_run(kind, &work);
        sum += calls * 60.0 / schedule.interval_hint().as_secs_f64().max(1.0);
    }
    let ours = f64::from(config.limits.ours_per_minute());
    let verdict =
        if sum <= ours { "fits" } else { "does NOT fit: facts will be older than their schedules say" };
    Ok(format!(
        "calls     the schedules need {sum:.1} a minute for {skus} SKU(s) and {orders} open order(s); {ours} are ours: {verdict}\n"
    ))
}

/// What there is to read today.
struct Work {
    skus: usize,
    skus_per_call: usize,
    orders: usize,
    shipments: usize,
    storefronts: usize,
    kits: usize,
}

/// The calls of a run once the first reads are done: an allocation is read once in a line's life, and an agreed month
/// not at all.
#[expect(clippy::cast_precision_loss, reason = "counts of SKUs and orders are far below 2^52")]
fn calls_of_a_run(kind: JobKind, work: &Work) -> f64 {
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
