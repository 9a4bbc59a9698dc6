//! A month of orders, sales, pushes, storms, kills and prunings. The projection of its journal equals the
//! mirror, and one manipulated stock level is found and named.
//!
//! The ordinary run takes a few days of it. The month is `TALLYD_DAYS=30 cargo test --test simulation a_month
//! -- --nocapture`.

use super::books::Level;
use super::clock::START_MS;
use super::cluster;
use super::outsider::quoted;
use super::random::Random;
use super::replayed;
use super::shop::{Trade, events};
use super::storm::Storm;
use super::world::{Plan, World};
use super::{days, seed};
use std::time::Duration;
use tallyd::exec::JournalRetention;
use tallyd::model::{Clock, JobKind};
use tallyd::sync;
use tallyd::sync::PruneOptions;

const DAY_MS: i64 = 86_400_000;
const HOUR: Duration = Duration::from_secs(3600);
/// Faults of every third day: one write in five, one read in twenty.
const STORM: Storm = Storm { writes: 20, reads: 5 };
/// Retention below the length of the run, so that the end is projected from a snapshot.
const KEPT: JournalRetention =
    JournalRetention { keep_bodies: Duration::from_secs(36 * 3600), max_size: 1 << 30 };

const TRADE: Trade = Trade {
    lasts_ms: DAY_MS,
    sale_ms: 600_000,
    moved_ms: 1_800_000,
    colleague_ms: 20_000_000,
    count_ms: 3_600_000,
    pick_ms: 1_800_000,
    delivery: 12,
    open_hours: (7, 18),
};

fn plan() -> Plan {
    use JobKind::{Balances, OrderLines, Shipments, Suppliers, TopSelling, Warehouses, WorkQueue};
    let polls = vec![
        (Balances, HOUR / 6),
        (OrderLines, HOUR / 2),
        (Shipments, HOUR),
        (WorkQueue, HOUR),
        (Warehouses, 12 * HOUR),
        (Suppliers, 24 * HOUR),
        (TopSelling, 24 * HOUR),
    ];
    Plan {
        seed: seed(),
        skus: 22,
        warehouses: 2,
        begins_ms: START_MS,
        config: String::new(),
        polls,
        is_scheduled: false,
    }
}

#[tokio::test]
async fn a_month_with_storms_and_prunings_is_folded_to_its_mirror_and_a_changed_stock_level_is_named() {
    let mut world = World::open(plan()).await;
    let mut random = Random::new(seed(), "month");
    let levels: Vec<Level> = world.stock().await.into_keys().collect();
    let all = events(&Trade { lasts_ms: days() * DAY_MS, ..TRADE }, &levels, &mut random);
    let (mut gone, mut parcels) = (0, 0);
    for day in 0..days() {
        let (from, to) = (START_MS + day * DAY_MS, START_MS + (day + 1) * DAY_MS);
        world.wire.storm(if day % 3 == 1 { STORM } else { Storm::default() });
        let noon = all.iter().filter(|(at, _)| (from..from + DAY_MS / 2).contains(at)).cloned();
        world.live(&noon.collect::<Vec<_>>()).await;
        parcels += i64::from(world.order_shipped(random.pick(&levels)).await);
        if day % 3 == 2 {
            world.kill().await;
        }
        let evening = all.iter().filter(|(at, _)| (from + DAY_MS / 2..to).contains(at)).cloned();
        world.live(&evening.collect::<Vec<_>>()).await;
        world.go_on_to(to).await;
        world.calm().await;
        let pruned = sync::prune_journal(world.store(), KEPT, PruneOptions::default(), world.clock.now())
            .await
            .unwrap();
        gone += pruned.deleted.bodies;
    }
    assert!(gone > 0 && parcels > 0, "seed {}: {gone} bodies went, {parcels} orders were shipped", seed());
    let path = world.store().path().to_owned();
    let equal = replayed::replayed(&path).await;
    assert!(equal.is_equal(), "seed {}: {equal:#?}", seed());
    println!(
        "{} days, seed {}: {} events, {parcels} orders shipped, {} changes, {} calls, {gone} bodies pruned; {} tables equal \
         at position {}",
        days(),
        seed(),
        all.len(),
        world.changes(),
        world.audit().calls.len(),
        equal.tables.len(),
        equal.position
    );
    world.a_changed_stock_level_is_named(&levels[0]).await;
}

impl World {
    /// Makes an order and ships a part of it; returns false if the stock was too low.
    async fn order_shipped(&mut self, level: &Level) -> bool {
        let Some(parcel) = self.parcel(level).await else { return false };
        self.outsider.track_orders(&[parcel.order]).await;
        true
    }

    /// Changes a stock level with SQL; `tallyd replay` must name it and exit with 3.
    async fn a_changed_stock_level_is_named(&mut self, (sku, warehouse): &Level) {
        let sql = format!(
            "UPDATE balance SET quantity = quantity + 1 \
             WHERE warehouse_id = {warehouse} AND product = (SELECT id FROM product WHERE sku = {}) RETURNING 1",
            quoted(sku)
        );
        assert_eq!(self.number(&sql).await, 1);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tallyd.toml");
        let database = cluster::location_toml(&self.location);
        let toml = format!("[service]\nbase_url = \"http://127.0.0.1:1\"\n[database]\n{database}");
        std::fs::write(&file, toml).unwrap();
        let mut replay = std::process::Command::new(env!("CARGO_BIN_EXE_tallyd"));
        replay.arg("--config").arg(file).args(["replay", "--into"]).arg(folder.path().join("again.db"));
        let done = tokio::task::spawn_blocking(move || replay.output().unwrap()).await.unwrap();
        assert_eq!(done.status.code(), Some(3), "{done:?}");
        let text = String::from_utf8_lossy(&done.stdout).into_owned();
        let named = format!("balance {}: live {{\"quantity\":", serde_json::json!([sku, warehouse]));
        assert!(text.contains(&named), "{text}");
    }
}
