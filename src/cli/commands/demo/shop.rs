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
use serde_json::json;
use std::time::Duration;
use tokio::time::{Instant, interval};

const EVENT_INTERVAL: Duration = Duration::from_millis(400);

pub(super) struct SimulatedShop<'a> {
    stage: &'a DemoStage<'a>,
    opened: Instant,
    /// Number of events so far, which makes the keys of changes unique.
    events: usize,
    pub(super) sold: i64,
}

impl<'a> SimulatedShop<'a> {
    pub(super) fn new(stage: &'a DemoStage<'a>) -> Self {
        Self { stage, opened: Instant::now(), events: 0, sold: 0 }
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
        let counts = self.stage.store.mirror_counts().await?;
        let changes: i64 = self.stage.store.outbox_counts().await?.iter().map(|(_, count)| count).sum();
        print_text(&format!(
            "{:>3} s  {} stock levels mirrored, {} orders, {} units sold, {changes} changes, {} calls\n",
            self.opened.elapsed().as_secs(),
            counts.stock_levels,
            counts.orders,
            self.sold,
            self.stage.sandbox.logged_calls().len()
        ));
        Ok(())
    }

    async fn act(&mut self, level: &StockRow) -> Result<(), CommandFailure> {
        let StockRow { sku, warehouse_id, quantity, .. } = level;
        let count = |units: i64| {
            let body = json!({"sku": sku, "warehouse_id": warehouse_id, "quantity": units, "seen": quantity});
            ("count", "quantity.set", body)
        };
        let adjust = |what: &'static str, units: i64| {
            (what, "quantity.adjust", json!({"sku": sku, "warehouse_id": warehouse_id, "delta": units}))
        };
        let (sold, changes) = match self.events % 6 {
            0 => {
                let order = OrderId(self.stage.sandbox.place_order(&[(sku.as_str(), 2)]).await?);
                track_orders(self.stage.store, &[order], false).await?;
                self.sold += 2;
                (0, vec![])
            }
            // Three units fewer than the stock view shows; two of them are sold before the count is delivered.
            1 => (2, vec![count(quantity - 3)]),
            2 => (2, vec![]),
            3 => (0, vec![adjust("receipt", 17)]),
            // Both changes go in one entry.
            4 => (0, vec![count(quantity + 1), adjust("receipt", 5)]),
            _ => (0, vec![adjust("breakage", -2)]),
        };
        if sold > 0 {
            self.stage.sandbox.sell_units(sku, *warehouse_id, sold).await?;
            self.sold += sold;
        }
        for (what, kind, body) in changes {
            self.stage.queue(&format!("{what}-{}", self.events), kind, &body).await?;
        }
        Ok(())
    }
}
