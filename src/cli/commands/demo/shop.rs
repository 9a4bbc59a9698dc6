//! The simulated shop of the demonstration: customers order and buy, the warehouse counts and moves goods.
//!
//! The customers act on the sandbox directly, unknown to tallyd. The warehouse only inserts changes into the
//! outbox, as any program on the host would.

use crate::cli::Failure;
use crate::model::OrderId;
use crate::sandbox::{self, Sandbox, StockRow};
use crate::store::{Durability, StockRow as Fact, Store};
use serde_json::json;
use std::time::Duration;
use tokio::time::{Instant, interval};

/// The interval of shop events.
const BEAT: Duration = Duration::from_millis(400);
/// The number of events between two progress displays.
const SHOW_EVERY: u64 = 5;
/// The minimum quantity of a stock level used here, so that no product sells out.
const WELL_STOCKED: i64 = 12;

/// The totals so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Story {
    /// The time the shop has been open.
    pub(super) open_for: Duration,
    /// The orders placed.
    pub(super) orders: u64,
    /// The units sold, by orders and otherwise.
    pub(super) sold: i64,
    /// The counts and movements that the warehouse queued.
    pub(super) wishes: u64,
    cells: i64,
    calls: usize,
}

impl Story {
    /// Returns the totals in one line.
    pub(super) fn line(&self) -> String {
        format!(
            "{} cells mirrored, {} orders, {} units sold, {} wishes, {} calls",
            self.cells, self.orders, self.sold, self.wishes, self.calls
        )
    }
}

/// The shop.
pub(super) struct Shop<'a> {
    sandbox: &'a Sandbox,
    store: &'a Store,
    dice: Dice,
    story: Story,
}

impl<'a> Shop<'a> {
    pub(super) fn new(sandbox: &'a Sandbox, store: &'a Store) -> Self {
        Self { sandbox, store, dice: Dice(0x007a_117d), story: Story::default() }
    }

    /// Runs the shop for the given time and shows the totals.
    pub(super) async fn live(&mut self, open: Duration, show: impl Fn(&Story)) -> Result<Story, Failure> {
        let opened = Instant::now();
        let mut beat = interval(BEAT);
        for n in 0.. {
            beat.tick().await;
            self.story.open_for = opened.elapsed();
            if self.story.open_for >= open {
                break;
            }
            match n % 6 {
                0 => self.order().await?,
                1 => self.count_while_selling(n).await?,
                2 => self.sell().await?,
                3 => self.receive(n).await?,
                4 => self.count_and_move(n).await?,
                _ => self.ship(n).await?,
            }
            if n % SHOW_EVERY == 0 {
                let counts = self.store.state_count().await?;
                (self.story.cells, self.story.calls) = (counts.cells, self.sandbox.calls().len());
                show(&self.story);
            }
        }
        Ok(self.story.clone())
    }

    /// Places an order and tracks it, as an import from the shop would.
    async fn order(&mut self) -> Result<(), Failure> {
        let Some(row) = self.well_stocked().await? else { return Ok(()) };
        let quantity = self.dice.between(1, 3);
        let order = self.sandbox.place_order(&[(row.sku.as_str(), quantity)]).await.map_err(refused)?;
        self.story.orders += 1;
        self.story.sold += quantity;
        let mut write = self.store.begin(Durability::Full).await?;
        write.tracked_order_add(&[OrderId(order)]).await?;
        Ok(write.commit().await?)
    }

    /// Sells units without telling the warehouse.
    async fn sell(&mut self) -> Result<(), Failure> {
        if let Some(row) = self.well_stocked().await? {
            self.sell_of(&row.sku, row.warehouse_id, 2).await?;
        }
        Ok(())
    }

    async fn sell_of(&mut self, sku: &str, warehouse: i64, quantity: i64) -> Result<(), Failure> {
        self.sandbox.sale(sku, warehouse, quantity).await.map_err(refused)?;
        self.story.sold += quantity;
        Ok(())
    }

    /// Counts three units fewer than the stock view shows; two are sold before the count is delivered.
    async fn count_while_selling(&mut self, n: u64) -> Result<(), Failure> {
        let Some(fact) = self.fact().await? else { return Ok(()) };
        let body = json!({"sku": fact.sku, "warehouse_id": fact.warehouse_id, "quantity": fact.quantity - 3,
                          "seen": fact.quantity});
        self.sell_of(&fact.sku, fact.warehouse_id, 2).await?;
        self.wish(&format!("count-{n}"), "quantity.set", &body).await
    }

    /// Receives goods.
    async fn receive(&mut self, n: u64) -> Result<(), Failure> {
        let Some(fact) = self.fact().await? else { return Ok(()) };
        let delta = self.dice.between(5, 20);
        let body = json!({"sku": fact.sku, "warehouse_id": fact.warehouse_id, "delta": delta});
        self.wish(&format!("receipt-{n}"), "quantity.adjust", &body).await
    }

    /// Counts and then receives goods; both changes go in one entry.
    async fn count_and_move(&mut self, n: u64) -> Result<(), Failure> {
        let Some(fact) = self.fact().await? else { return Ok(()) };
        let count =
            json!({"sku": fact.sku, "warehouse_id": fact.warehouse_id, "quantity": fact.quantity + 1});
        let moved = json!({"sku": fact.sku, "warehouse_id": fact.warehouse_id, "delta": 5});
        self.wish(&format!("count-{n}"), "quantity.set", &count).await?;
        self.wish(&format!("receipt-{n}"), "quantity.adjust", &moved).await
    }

    /// Removes goods.
    async fn ship(&mut self, n: u64) -> Result<(), Failure> {
        let Some(fact) = self.fact().await? else { return Ok(()) };
        let body =
            json!({"sku": fact.sku, "warehouse_id": fact.warehouse_id, "delta": -self.dice.between(1, 4)});
        self.wish(&format!("breakage-{n}"), "quantity.adjust", &body).await
    }

    async fn wish(&mut self, key: &str, kind: &str, body: &serde_json::Value) -> Result<(), Failure> {
        let mut write = self.store.begin(Durability::Full).await?;
        write.outbox_insert(key, kind, &body.to_string(), 0).await?;
        self.story.wishes += 1;
        Ok(write.commit().await?)
    }

    /// Picks a well stocked level of the sandbox.
    async fn well_stocked(&mut self) -> Result<Option<StockRow>, Failure> {
        let rows = self.sandbox.stock().await.map_err(refused)?;
        let rows: Vec<StockRow> = rows.into_iter().filter(|row| row.quantity >= WELL_STOCKED).collect();
        Ok(self.dice.pick(&rows).cloned())
    }

    /// Picks a well stocked level of the mirror without a pending change; `None` before the first read.
    async fn fact(&mut self) -> Result<Option<Fact>, Failure> {
        let cells = self.sandbox.stock().await.map_err(refused)?;
        let is_cell =
            |fact: &Fact| cells.iter().any(|c| c.sku == fact.sku && c.warehouse_id == fact.warehouse_id);
        let rows = self.store.stock(&[]).await?;
        let quiet = |row: &Fact| row.quantity >= WELL_STOCKED && row.pending_quantity.is_none();
        let rows: Vec<Fact> = rows.into_iter().filter(|row| quiet(row) && is_cell(row)).collect();
        Ok(self.dice.pick(&rows).cloned())
    }
}

fn refused(error: sandbox::Error) -> Failure {
    Failure::failed(format!("the shop of the demonstration stumbled: {error}"))
}

/// A pseudorandom generator with a fixed seed (xorshift), equal in every demonstration.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn between(&mut self, low: i64, high: i64) -> i64 {
        let span = (high - low + 1).unsigned_abs();
        low + i64::try_from(self.roll() % span).unwrap_or(0)
    }

    fn pick<'b, T>(&mut self, from: &'b [T]) -> Option<&'b T> {
        let count = from.len() as u64;
        let index = if count == 0 { return None } else { self.roll() % count };
        from.get(usize::try_from(index).unwrap_or(0))
    }
}
