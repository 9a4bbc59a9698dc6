//! The schedules' demand beside the quota, for the entries tracked today.

use super::listing::{ListCell, ListColumns, columns};
use crate::config::Config;
use crate::model::{JobCalls, JobKind, Timestamp, counted, format_elapsed};
use crate::schedule::feasibility::{self, JobAllotment, JobDemand};
use crate::store::{Store, StoreError};

/// The demand of the schedules, the calls a minute for bulk work, and the entries behind both.
pub(crate) struct CallDemand {
    pub(crate) rows: Vec<JobAllotment>,
    bulk: u32,
    work: EntriesToRead,
}

#[derive(Clone, Copy, Debug)]
struct EntriesToRead {
    skus: usize,
    orders: usize,
    shipments: usize,
    storefronts: usize,
    kits: usize,
}

impl EntriesToRead {
    async fn count(store: &Store, now: Timestamp) -> Result<Self, StoreError> {
        let orders = store.tracked_order_due(now).await?;
        Ok(Self {
            skus: usize::try_from(store.tracked_sku_count().await?).unwrap_or(0),
            orders: orders.iter().filter(|(_, is_named, is_closed)| *is_named || !is_closed).count(),
            shipments: store.shipment_due(now).await?.len(),
            storefronts: store.storefront_ids().await?.len(),
            kits: store.kit_ids().await?.len(),
        })
    }
}

impl CallDemand {
    pub(crate) async fn load(config: &Config, store: &Store, now: Timestamp) -> Result<Self, StoreError> {
        let work = EntriesToRead::count(store, now).await?;
        let enabled = config.jobs.enabled_schedules();
        let skus_per_call = usize::try_from(config.jobs.skus_per_call).unwrap_or(1).max(1);
        let demands = enabled.into_iter().map(|(kind, schedule)| JobDemand {
            kind,
            calls: calls_per_run(kind, &work, skus_per_call),
            interval: schedule.interval_hint(),
        });
        let demands: Vec<JobDemand> = demands.filter(|demand| demand.calls > 0.0).collect();
        let bulk = config.limits.own_limit().saturating_sub(config.limits.reserved_calls).max(1);
        Ok(Self { rows: feasibility::fit_schedules(&demands, f64::from(bulk)), bulk, work })
    }

    fn requested(&self) -> f64 {
        self.rows.iter().map(|row| row.requested).sum()
    }

    pub(crate) fn sentence(&self) -> String {
        let EntriesToRead { skus, orders, shipments, .. } = self.work;
        format!(
            "the schedules need {:.1} calls a minute for {}, {} and {}; {} are available, {:.1} spare; while a push uses all \
             calls, {:.1} of them are kept for scheduled reads",
            self.requested(),
            counted(skus, "SKU"),
            counted(orders, "open order"),
            counted(shipments, "shipment"),
            self.bulk,
            f64::from(self.bulk) - self.requested(),
            f64::from(self.bulk) / 5.0,
        )
    }

    pub(crate) fn warning(&self) -> Option<String> {
        let first = self.rows.iter().max_by(|one, two| one.requested.total_cmp(&two.requested))?.kind;
        (self.requested() > f64::from(self.bulk)).then(|| {
            format!(
                "the schedules do NOT fit into the quota: {first} loses calls first; give {first} a longer interval, or \
                 read more SKUs per call (jobs.balances.skus_per_call)"
            )
        })
    }
}

pub(crate) fn allotment_columns(row: &JobAllotment) -> ListColumns {
    let rate = |calls: f64| ListCell::Number(format!("{calls:.1}"));
    columns! {
        "job": row.kind.as_str(), "calls per run": ListCell::Number(format!("{:.0}", row.calls)),
        "calls per minute": rate(row.requested), "granted": rate(row.granted),
        "maximum age": format_elapsed(row.max_age),
    }
}

/// Returns the calls of a run after the first reads: an allocation is read once, and an agreed month not again.
#[expect(clippy::cast_precision_loss, reason = "counts of SKUs and orders are far below 2^52")]
fn calls_per_run(kind: JobKind, work: &EntriesToRead, skus_per_call: usize) -> f64 {
    let calls = match kind.calls() {
        JobCalls::PerSkuPage => work.skus.div_ceil(skus_per_call),
        JobCalls::PerOrder => work.orders,
        JobCalls::PerShipment => work.shipments,
        JobCalls::PerStorefront => work.storefronts,
        JobCalls::PerKit => work.kits,
        JobCalls::Single => 1,
        JobCalls::AsNeeded | JobCalls::None => 0,
    };
    calls as f64
}
