//! A storm of faults on the network, and a daemon that is killed in it.
//!
//! Each change takes effect once, and its outcome is known.

use super::audit::whole;
use super::books::Level;
use super::clock::START_MS;
use super::random::Random;
use super::seed;
use super::storm::{Mishap, Storm};
use super::world::{Plan, World};
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;
use tallyd::model::JobKind;

/// Half of the writes and one read in ten meet a fault.
const STORM: Storm = Storm { writes: 50, reads: 10 };
const ROUNDS: i64 = 12;
/// Units shipped of each order; as many again are left, so a second shipment would be possible.
const SHIPPED: i64 = 2;

/// An order with its changes.
pub struct Parcel {
    pub order: i64,
    shipment: String,
    tracking: String,
}

/// The moments at which the daemon is killed.
#[derive(Clone, Copy)]
enum Dies {
    Never,
    /// In every round, at any state of its calls; SQLite is idle.
    AtCalls,
    /// In every round, also within a transaction.
    Anywhere,
}

#[tokio::test]
async fn nothing_is_done_twice_in_a_storm() {
    let mut met = BTreeMap::new();
    for seed in seed()..seed() + 3 {
        met.extend(storm(seed, Dies::Never).await);
    }
    let unmet: Vec<&Mishap> = Mishap::ALL.iter().filter(|mishap| !met.contains_key(mishap)).collect();
    assert!(unmet.is_empty(), "seeds from {}: a storm without {unmet:?}", seed());
}

#[tokio::test]
async fn nothing_is_done_twice_by_a_daemon_that_dies_again_and_again() {
    for seed in seed()..seed() + 2 {
        storm(seed, Dies::AtCalls).await;
    }
}

#[tokio::test]
async fn nothing_is_done_twice_by_a_daemon_that_dies_within_its_commits() {
    for seed in seed()..seed() + 2 {
        storm(seed, Dies::Anywhere).await;
    }
}

async fn storm(seed: u64, dies: Dies) -> BTreeMap<Mishap, usize> {
    let polls = vec![(JobKind::Balances, Duration::from_secs(300))];
    let plan = Plan {
        seed,
        skus: 22,
        warehouses: 2,
        config: String::new(),
        begins_ms: START_MS,
        polls,
        is_scheduled: false,
    };
    let mut world = World::open(plan).await;
    let mut random = Random::new(seed, "storm");
    let levels: Vec<Level> = world.stock().await.into_keys().collect();
    let (sold, moved) = levels.split_at(levels.len() / 4);
    let mut parcels = Vec::new();
    world.wire.storm(STORM);
    for _ in 0..ROUNDS {
        for _ in 0..4 {
            let (level, units) = (random.pick(moved).clone(), random.between(-3, 6));
            let units = world.audit().books.moved(&level, units);
            if units != 0 {
                world.change_level("quantity.adjust", &level, "delta", units).await;
            }
        }
        parcels.extend(world.parcel(random.pick(sold)).await);
        let pause = random.between(1, 60_000);
        let at = world.clock.now_ms() + pause;
        world.go_on_to(at).await;
        match dies {
            Dies::Never => {}
            Dies::AtCalls => world.kill().await,
            Dies::Anywhere => world.kill_amid(random.between(0, 9), random.between(0, 60)).await,
        }
    }
    world.calm().await;
    world.judge_parcels(&parcels).await;
    world.agrees().await;
    let wrong: Vec<Level> = world.audit().books.wrong().into_iter().map(|(level, _)| level.clone()).collect();
    assert!(wrong.is_empty(), "seed {seed}: an adjust was lost or done twice in {wrong:?}");
    let applied = "SELECT count(*) FROM outbox WHERE kind = 'quantity.adjust' AND state <> 'applied'";
    assert_eq!(world.number(applied).await, 0, "seed {seed}: every adjust is known to be applied");
    world.audit().mishaps.clone()
}

impl World {
    /// Makes an order, and changes that ship a part of it and submit a tracking number.
    ///
    /// Returns `None` if the stock is too low.
    pub async fn parcel(&mut self, (sku, _): &Level) -> Option<Parcel> {
        if self.audit().books.ordered(sku, 3 * SHIPPED).is_empty() {
            return None;
        }
        let order = self.core.place_order(&[(sku, 3 * SHIPPED)]).await.unwrap();
        let lines = self.ask("/api/orders/getOrderLineItems", &json!({"OrderId": order})).await;
        let line = whole(&lines["data"][0]["OrderLineItemId"]);
        let lines = json!([{"line_item_id": line, "quantity": SHIPPED}]);
        let shipment = self.change("shipment.create", &json!({"order_id": order, "lines": lines})).await;
        let number = format!("1Z{order}");
        let tracking = json!({"shipment_key": shipment, "tracking_number": number});
        let tracking = self.change("tracking.submit", &tracking).await;
        Some(Parcel { order, shipment, tracking })
    }

    /// Ends the storm. A person then names the shipments that no check can identify, until no change is open.
    pub async fn calm(&mut self) {
        self.wire.storm(Storm::default());
        let in_doubt = "SELECT id, json_extract(body, '$.order_id') FROM outbox \
                        WHERE state = 'in_doubt' AND reason = 'landed_or_another'";
        for _ in 0..4 {
            let at = self.clock.now_ms() + 3_600_000;
            self.go_on_to(at).await;
            let unnamed: BTreeMap<i64, i64> = self.pairs(in_doubt).await;
            for (change, order) in unnamed {
                let shipment = self.audit().shipped[&order][0].0;
                self.adopt(change, shipment).await;
            }
            self.run_now(JobKind::Settle).await;
        }
        self.settled(3_600_000).await;
    }

    pub async fn judge_parcels(&mut self, parcels: &[Parcel]) {
        let (fates, seed) = (self.fates().await, self.plan.seed);
        let audit = self.audit();
        for parcel in parcels {
            let shipments = audit.shipped.get(&parcel.order).cloned().unwrap_or_default();
            let order = parcel.order;
            assert_eq!(shipments.len(), 1, "seed {seed}: order {order} was shipped so: {shipments:?}");
            assert_eq!(shipments[0].1, SHIPPED, "seed {seed}: order {order}");
            assert_eq!(fates[&parcel.shipment].0, "applied", "seed {seed}: {}", parcel.shipment);
            assert_eq!(fates[&parcel.tracking].0, "applied", "seed {seed}: {}", parcel.tracking);
            let numbers = &audit.tracked[&shipments[0].0];
            assert!(numbers.iter().all(|number| *number == format!("1Z{order}")), "seed {seed}: {numbers:?}");
        }
    }
}
