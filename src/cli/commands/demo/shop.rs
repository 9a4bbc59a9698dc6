//! The simulated shop of the demonstration: customers order and buy, the warehouse counts and moves goods.
//!
//! The customers act on the sandbox directly, unknown to tallyd. The warehouse only inserts changes into the
//! outbox, as any program on the host would.

use super::folder::ASKING_WAREHOUSE;
use super::scenes::DemoStage;
use crate::cli::CommandFailure;
use crate::cli::output::print_text;
use crate::model::OrderId;
use crate::present::tracked::track_orders;
use crate::store::StockRow;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::{Instant, interval};

const EVENT_INTERVAL: Duration = Duration::from_millis(400);

pub(super) struct SimulatedShop<'a> {
    stage: &'a DemoStage<'a>,
    opened: Instant,
    /// Number of events so far, which makes the keys of changes unique.
    events: usize,
    orders: u64,
    pub(super) sold: i64,
    changes: u64,
}

impl<'a> SimulatedShop<'a> {
    pub(super) fn new(stage: &'a DemoStage<'a>) -> Self {
        Self { stage, opened: Instant::now(), events: 0, orders: 0, sold: 0, changes: 0 }
    }

    pub(super) async fn run_for(&mut self, open: Duration) -> Result<(), CommandFailure> {
        let end = Instant::now() + open;
        let mut beat = interval(EVENT_INTERVAL);
        loop {
            beat.tick().await;
            if Instant::now() >= end {
                return Ok(());
            }
            let mut levels = self.stage.quiet_levels().await?;
            levels.retain(|level| level.warehouse_id != ASKING_WAREHOUSE);
            self.events += 1;
            if let Some(place) = (self.events * 7).checked_rem(levels.len()) {
                self.act(&levels[place]).await?;
            }
            if self.events.is_multiple_of(5) {
                self.print_totals().await?;
            }
        }
    }

    async fn print_totals(&self) -> Result<(), CommandFailure> {
        print_text(&format!(
            "{:>3} s  {} stock levels mirrored, {} orders, {} units sold, {} changes, {} calls\n",
            self.opened.elapsed().as_secs(),
            self.stage.store.mirror_counts().await?.stock_levels,
            self.orders,
            self.sold,
            self.changes,
            self.stage.sandbox.logged_calls().len()
        ));
        Ok(())
    }

    async fn act(&mut self, level: &StockRow) -> Result<(), CommandFailure> {
        let StockRow { sku, warehouse_id, quantity, .. } = level;
        let body = |name: &str, units: i64| json!({"sku": sku, "warehouse_id": warehouse_id, name: units});
        match self.events % 6 {
            0 => {
                let order = OrderId(self.stage.sandbox.place_order(&[(sku.as_str(), 2)]).await?);
                (self.orders, self.sold) = (self.orders + 1, self.sold + 2);
                track_orders(self.stage.store, &[order], false).await?;
                Ok(())
            }
            // Three units fewer than the stock view shows; two of them are sold before the count is delivered.
            1 => {
                let mut count = body("quantity", quantity - 3);
                count["seen"] = (*quantity).into();
                self.sell_elsewhere(level).await?;
                self.queue("count", "quantity.set", &count).await
            }
            2 => self.sell_elsewhere(level).await,
            3 => self.queue("receipt", "quantity.adjust", &body("delta", 17)).await,
            // Both changes go in one entry.
            4 => {
                self.queue("count", "quantity.set", &body("quantity", quantity + 1)).await?;
                self.queue("receipt", "quantity.adjust", &body("delta", 5)).await
            }
            _ => self.queue("breakage", "quantity.adjust", &body("delta", -2)).await,
        }
    }

    async fn sell_elsewhere(&mut self, level: &StockRow) -> Result<(), CommandFailure> {
        self.stage.sandbox.sell_units(&level.sku, level.warehouse_id, 2).await?;
        self.sold += 2;
        Ok(())
    }

    async fn queue(&mut self, what: &str, kind: &str, body: &Value) -> Result<(), CommandFailure> {
        self.changes += 1;
        self.stage.queue(&format!("{what}-{}", self.events), kind, body).await
    }
}
