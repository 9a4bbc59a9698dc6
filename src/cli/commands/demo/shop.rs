//! The simulated shop of the demonstration: customers order and buy, the warehouse counts and moves goods.
//!
//! The customers act on the sandbox directly, unknown to tallyd. The warehouse only inserts changes into the
//! outbox, as any program on the host would.

use super::folder::ASKING_WAREHOUSE;
use crate::cli::CommandFailure;
use crate::cli::context::write_and_commit;
use crate::model::OrderId;
use crate::sandbox::{Sandbox, SandboxStockLevel};
use crate::store::{StockRow, Store};
use serde_json::json;
use std::time::Duration;
use tokio::time::{Instant, interval};

const EVENT_INTERVAL: Duration = Duration::from_millis(400);
const SHOW_EVERY: u64 = 5;
/// The minimum quantity of a stock level used here, so that no product sells out.
const MIN_QUANTITY: i64 = 12;

#[derive(Clone, Debug, Default)]
pub(super) struct ShopTotals {
    pub(super) open_for: Duration,
    pub(super) orders: u64,
    pub(super) sold: i64,
    /// The counts and movements that the warehouse queued.
    pub(super) changes: u64,
    stock_levels: i64,
    calls: usize,
}

impl ShopTotals {
    pub(super) fn summary_line(&self) -> String {
        format!(
            "{} stock levels mirrored, {} orders, {} units sold, {} changes, {} calls",
            self.stock_levels, self.orders, self.sold, self.changes, self.calls
        )
    }
}

pub(super) struct SimulatedShop<'a> {
    sandbox: &'a Sandbox,
    store: &'a Store,
    random: ShopRandom,
    totals: ShopTotals,
    /// Number of events so far, which makes the keys of changes unique.
    events: u64,
}

impl<'a> SimulatedShop<'a> {
    pub(super) fn new(sandbox: &'a Sandbox, store: &'a Store) -> Self {
        Self { sandbox, store, random: ShopRandom(0x007a_117d), totals: ShopTotals::default(), events: 0 }
    }

    pub(super) async fn run_for(
        &mut self,
        open: Duration,
        show: impl Fn(&ShopTotals),
    ) -> Result<ShopTotals, CommandFailure> {
        let (opened, before) = (Instant::now(), self.totals.open_for);
        let mut beat = interval(EVENT_INTERVAL);
        loop {
            beat.tick().await;
            self.totals.open_for = before + opened.elapsed();
            if opened.elapsed() >= open {
                break;
            }
            let n = self.events;
            self.events += 1;
            match n % 6 {
                0 => self.place_order().await?,
                1 => self.count_while_selling(n).await?,
                2 => self.sell_elsewhere().await?,
                3 => self.adjust_level(&format!("receipt-{n}"), (5, 20), 1).await?,
                4 => self.count_and_receive(n).await?,
                _ => self.adjust_level(&format!("breakage-{n}"), (1, 4), -1).await?,
            }
            if n.is_multiple_of(SHOW_EVERY) {
                let counts = self.store.mirror_counts().await?;
                (self.totals.stock_levels, self.totals.calls) =
                    (counts.stock_levels, self.sandbox.logged_calls().len());
                show(&self.totals);
            }
        }
        Ok(self.totals.clone())
    }

    /// Places an order and tracks it, as an import from the shop would.
    async fn place_order(&mut self) -> Result<(), CommandFailure> {
        let Some(row) = self.pick_sandbox_level().await? else { return Ok(()) };
        let quantity = self.random.between(1, 3);
        let order = OrderId(self.sandbox.place_order(&[(row.sku.as_str(), quantity)]).await?);
        self.totals.orders += 1;
        self.totals.sold += quantity;
        write_and_commit(self.store, async |write| write.tracked_order_add(&[order]).await).await?;
        Ok(())
    }

    /// Sells units without telling the warehouse.
    async fn sell_elsewhere(&mut self) -> Result<(), CommandFailure> {
        if let Some(row) = self.pick_sandbox_level().await? {
            self.sell_units(&row.sku, row.warehouse_id, 2).await?;
        }
        Ok(())
    }

    async fn sell_units(&mut self, sku: &str, warehouse: i64, quantity: i64) -> Result<(), CommandFailure> {
        self.sandbox.sell_units(sku, warehouse, quantity).await?;
        self.totals.sold += quantity;
        Ok(())
    }

    /// Counts three units fewer than the stock view shows; two are sold before the count is delivered.
    async fn count_while_selling(&mut self, n: u64) -> Result<(), CommandFailure> {
        let Some(fact) = self.pick_mirror_level().await? else { return Ok(()) };
        let body = json!({"sku": fact.sku, "warehouse_id": fact.warehouse_id, "quantity": fact.quantity - 3,
                          "seen": fact.quantity});
        self.sell_units(&fact.sku, fact.warehouse_id, 2).await?;
        self.queue_change(&format!("count-{n}"), "quantity.set", &body).await
    }

    /// Adds (`sign` 1) or removes (−1) a random number of units between two limits.
    async fn adjust_level(
        &mut self,
        key: &str,
        (low, high): (i64, i64),
        sign: i64,
    ) -> Result<(), CommandFailure> {
        let Some(fact) = self.pick_mirror_level().await? else { return Ok(()) };
        let delta = sign * self.random.between(low, high);
        let body = json!({"sku": fact.sku, "warehouse_id": fact.warehouse_id, "delta": delta});
        self.queue_change(key, "quantity.adjust", &body).await
    }

    /// Counts and then receives goods; both changes go in one entry.
    async fn count_and_receive(&mut self, n: u64) -> Result<(), CommandFailure> {
        let Some(fact) = self.pick_mirror_level().await? else { return Ok(()) };
        let count =
            json!({"sku": fact.sku, "warehouse_id": fact.warehouse_id, "quantity": fact.quantity + 1});
        let moved = json!({"sku": fact.sku, "warehouse_id": fact.warehouse_id, "delta": 5});
        self.queue_change(&format!("count-{n}"), "quantity.set", &count).await?;
        self.queue_change(&format!("receipt-{n}"), "quantity.adjust", &moved).await
    }

    async fn queue_change(
        &mut self,
        key: &str,
        kind: &str,
        body: &serde_json::Value,
    ) -> Result<(), CommandFailure> {
        let body = body.to_string();
        write_and_commit(self.store, async |write| write.outbox_insert(key, kind, &body, 0).await).await?;
        self.totals.changes += 1;
        Ok(())
    }

    async fn pick_sandbox_level(&mut self) -> Result<Option<SandboxStockLevel>, CommandFailure> {
        let mut levels = self.sandbox.stock_levels().await?;
        levels.retain(|level| level.quantity >= MIN_QUANTITY);
        Ok(self.random.pick(&levels).cloned())
    }

    /// Picks a well stocked level of the mirror without a pending change; `None` before the first read.
    async fn pick_mirror_level(&mut self) -> Result<Option<StockRow>, CommandFailure> {
        let levels = self.sandbox.stock_levels().await?;
        let is_in_sandbox = |row: &StockRow| {
            levels.iter().any(|level| level.sku == row.sku && level.warehouse_id == row.warehouse_id)
        };
        let mut rows = self.store.stock_list(&[]).await?;
        rows.retain(|row| {
            row.quantity >= MIN_QUANTITY
                && row.pending_quantity.is_none()
                && row.warehouse_id != ASKING_WAREHOUSE
                && is_in_sandbox(row)
        });
        Ok(self.random.pick(&rows).cloned())
    }
}

/// A pseudorandom generator with a fixed seed (xorshift), equal in every demonstration.
struct ShopRandom(u64);

impl ShopRandom {
    fn next_bits(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn between(&mut self, low: i64, high: i64) -> i64 {
        let span = (high - low + 1).unsigned_abs();
        low + i64::try_from(self.next_bits() % span).unwrap_or(0)
    }

    fn pick<'b, T>(&mut self, from: &'b [T]) -> Option<&'b T> {
        let index = self.next_bits().checked_rem(from.len() as u64)?;
        from.get(usize::try_from(index).ok()?)
    }
}
