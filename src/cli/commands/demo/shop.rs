//! The simulated shop of the demonstration: customers order and buy, the warehouse counts and moves goods.
//!
//! The customers act on the sandbox directly, unknown to tallyd. The warehouse only inserts changes into the
//! outbox, as any program on the host would.

use super::folder::ASKING_WAREHOUSE;
use super::scenes::DemoStage;
use crate::cli::CommandFailure;
use crate::cli::context::write_and_commit;
use crate::model::OrderId;
use crate::store::StockRow;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::{Instant, interval};

const EVENT_INTERVAL: Duration = Duration::from_millis(400);
const SHOW_EVERY: usize = 5;

#[derive(Clone, Debug, Default)]
pub(super) struct ShopTotals {
    pub(super) open_for: Duration,
    pub(super) orders: u64,
    pub(super) sold: i64,
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
    stage: &'a DemoStage<'a>,
    totals: ShopTotals,
    /// Number of events so far, which makes the keys of changes unique.
    events: usize,
}

impl<'a> SimulatedShop<'a> {
    pub(super) fn new(stage: &'a DemoStage<'a>) -> Self {
        Self { stage, totals: ShopTotals::default(), events: 0 }
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
                return Ok(self.totals.clone());
            }
            let mut levels = self.stage.quiet_levels().await?;
            levels.retain(|level| level.warehouse_id != ASKING_WAREHOUSE);
            let event = self.events;
            self.events += 1;
            if let Some(place) = (event * 7).checked_rem(levels.len()) {
                self.act(event, &levels[place]).await?;
            }
            if event.is_multiple_of(SHOW_EVERY) {
                self.totals.stock_levels = self.stage.store.mirror_counts().await?.stock_levels;
                self.totals.calls = self.stage.sandbox.logged_calls().len();
                show(&self.totals);
            }
        }
    }

    async fn act(&mut self, event: usize, level: &StockRow) -> Result<(), CommandFailure> {
        let StockRow { sku, warehouse_id, quantity, .. } = level;
        let body = |name: &str, units: i64| json!({"sku": sku, "warehouse_id": warehouse_id, name: units});
        match event % 6 {
            0 => {
                let order = OrderId(self.stage.sandbox.place_order(&[(sku.as_str(), 2)]).await?);
                (self.totals.orders, self.totals.sold) = (self.totals.orders + 1, self.totals.sold + 2);
                write_and_commit(self.stage.store, async |write| write.tracked_order_add(&[order]).await)
                    .await?;
                Ok(())
            }
            // Three units fewer than the stock view shows; two of them are sold before the count is delivered.
            1 => {
                let mut count = body("quantity", quantity - 3);
                count["seen"] = (*quantity).into();
                self.sell_elsewhere(level).await?;
                self.queue(event, "count", "quantity.set", &count).await
            }
            2 => self.sell_elsewhere(level).await,
            3 => self.queue(event, "receipt", "quantity.adjust", &body("delta", 17)).await,
            // Both changes go in one entry.
            4 => {
                self.queue(event, "count", "quantity.set", &body("quantity", quantity + 1)).await?;
                self.queue(event, "receipt", "quantity.adjust", &body("delta", 5)).await
            }
            _ => self.queue(event, "breakage", "quantity.adjust", &body("delta", -2)).await,
        }
    }

    async fn sell_elsewhere(&mut self, level: &StockRow) -> Result<(), CommandFailure> {
        self.stage.sandbox.sell_units(&level.sku, level.warehouse_id, 2).await?;
        self.totals.sold += 2;
        Ok(())
    }

    async fn queue(
        &mut self,
        event: usize,
        what: &str,
        kind: &str,
        body: &Value,
    ) -> Result<(), CommandFailure> {
        self.totals.changes += 1;
        self.stage.queue(&format!("{what}-{event}"), kind, body, 0).await
    }
}
