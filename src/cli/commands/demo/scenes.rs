//! The scenes of the demonstration: an order, a conflict, a lost answer and a brake, each with its end.
//!
//! A scene brings the situation about at the sandbox or in the outbox, waits for what the daemon does, and takes
//! the decision that a person would take. It fails if the daemon does something else.

use super::folder::ASKING_WAREHOUSE;
use crate::cli::CommandFailure;
use crate::cli::context::write_and_commit;
use crate::cli::output::{plain_line, print_text};
use crate::config::Config;
use crate::daemon::SystemClock;
use crate::model::{Clock, OrderId};
use crate::outbox::{ChangeState, Reason, Resolution};
use crate::present::decisions::{KeyDecision, decide, resolve};
use crate::present::tracked::track_orders;
use crate::sandbox::Sandbox;
use crate::store::{ChangeRow, OutboxFilter, StockRow, Store};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Time limit of each step: changes in doubt need their quiet time.
const STEP_TIMEOUT: Duration = Duration::from_secs(60);
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
const UPDATE_OPERATION: &str = "POST /api/inventory/updateQuantityOnHand";
/// The begin of the keys of the broken import.
pub(super) const IMPORT_PREFIX: &str = "import-";
/// The minimum quantity of a stock level used here, so that no product sells out.
const QUANTITY_MIN: i64 = 12;
/// Stock levels that the broken import sets to 0: more than the brake lets through.
const IMPORT_LEVELS: usize = 60;

pub(super) struct DemoStage<'a> {
    pub(super) sandbox: &'a Sandbox,
    pub(super) store: &'a Store,
    pub(super) config: &'a Config,
}

/// Prints a scene: its title, what happened, and how it ended.
pub(super) fn tell(title: &str, happened: &str, ended: &str) {
    print_text(&format!("\n{title}\n  {}\n  {}\n", plain_line(happened), plain_line(ended)));
}

impl DemoStage<'_> {
    pub(super) async fn play(&self) -> Result<(), CommandFailure> {
        self.ship_order().await?;
        self.decide_conflict().await?;
        self.lose_answer().await?;
        self.trip_brake().await
    }

    async fn ship_order(&self) -> Result<(), CommandFailure> {
        let sku = self.pick_level(|_| true).await?.sku;
        let order = OrderId(self.sandbox.place_order(&[(sku.as_str(), 2)]).await?);
        track_orders(self.store, &[order], true).await?;
        let has_lines = async || Ok(self.store.order_row(order).await?.filter(|row| row.lines > 0));
        until("the new order was read", has_lines).await?;
        let key = format!("ship-{order}");
        self.queue(&key, "shipment.create", &json!({"order_id": order.0})).await?;
        let shipped = self.until_state(&key, ChangeState::Applied).await?;
        tell(
            "an order",
            &format!("a customer ordered 2 of {sku} at the platform; tallyd read order {order}"),
            &format!("the warehouse shipped it: {}", detail(&shipped)),
        );
        Ok(())
    }

    /// The warehouse counts while the platform sells, in the warehouse whose counts ask for a decision.
    async fn decide_conflict(&self) -> Result<(), CommandFailure> {
        let level = self.pick_level(|level| level.warehouse_id == ASKING_WAREHOUSE).await?;
        let StockRow { sku, warehouse_id, quantity, .. } = &level;
        self.sandbox.sell_units(sku, *warehouse_id, 2).await?;
        let body =
            json!({"sku": sku, "warehouse_id": warehouse_id, "quantity": quantity - 3, "seen": quantity});
        let key = "count-in-conflict";
        self.queue(key, "quantity.set", &body).await?;
        let held = self.until_state(key, ChangeState::Held).await?;
        let max_base_age = self.config.quantities.max_base_age;
        resolve(self.store, key, Resolution::Mine, max_base_age, SystemClock.now()).await?;
        let applied = self.until_state(key, ChangeState::Applied).await?;
        tell(
            "a conflict",
            &format!("{sku} in warehouse {warehouse_id} is held: {}", detail(&held)),
            &format!("a person decided, `outbox resolve {key} --use mine`: {}", detail(&applied)),
        );
        Ok(())
    }

    /// The platform makes a change, and the connection breaks before its answer.
    async fn lose_answer(&self) -> Result<(), CommandFailure> {
        let level = self.pick_level(|level| level.warehouse_id != ASKING_WAREHOUSE).await?;
        let StockRow { sku, warehouse_id, .. } = &level;
        self.sandbox.lose_next_answer(UPDATE_OPERATION)?;
        let body = json!({"sku": sku, "warehouse_id": warehouse_id, "delta": 5});
        self.queue("receipt-without-answer", "quantity.adjust", &body).await?;
        let applied = self.until_state("receipt-without-answer", ChangeState::Applied).await?;
        let moves = self.store.change_transitions(applied.id).await?;
        let doubt = moves.iter().find(|row| row.state == ChangeState::InDoubt.as_str());
        let doubt =
            doubt.ok_or_else(|| CommandFailure::failed("the answer was lost, and no change was in doubt"))?;
        let why = doubt.detail.as_deref().unwrap_or_default();
        tell(
            "a lost answer",
            &format!("the answer to +5 of {sku} was lost, so the change was in doubt: {why}"),
            &format!("tallyd read the stock and did not send it twice: {}", detail(&applied)),
        );
        Ok(())
    }

    /// A program imports a broken file, which sets many stock levels to 0.
    async fn trip_brake(&self) -> Result<(), CommandFailure> {
        let mut levels = self.quiet_levels().await?;
        levels.truncate(IMPORT_LEVELS);
        write_and_commit(self.store, async |write| {
            for (number, level) in levels.iter().enumerate() {
                let body = json!({"sku": level.sku, "warehouse_id": level.warehouse_id, "quantity": 0});
                let key = format!("{IMPORT_PREFIX}{number}");
                write.outbox_insert(&key, "quantity.set", &body.to_string(), 0).await?;
            }
            Ok(())
        })
        .await?;
        let (states, reason) = (vec![ChangeState::Held], Some(Reason::Brake.to_string()));
        let filter = OutboxFilter { states, reason, limit: 1000, ..OutboxFilter::default() };
        let all_held = async || {
            let held = self.store.outbox_list(&filter).await?;
            Ok((held.len() == levels.len()).then_some(held))
        };
        let held = until("the brake held the broken import", all_held).await?;
        let what = self.store.brake_trip_list().await?.pop().map(|trip| trip.what).unwrap_or_default();
        let keys: Vec<String> = held.iter().map(|change| String::from(change.key.clone())).collect();
        decide(self.store, KeyDecision::Cancel, &keys, SystemClock.now()).await?;
        tell(
            "a brake",
            &format!("a broken file was imported: {what}; tallyd held all {}", held.len()),
            "a person cancelled them with `outbox cancel`: no stock level became 0",
        );
        Ok(())
    }

    pub(super) async fn queue(&self, key: &str, kind: &str, body: &Value) -> Result<(), CommandFailure> {
        let body = body.to_string();
        write_and_commit(self.store, async |write| write.outbox_insert(key, kind, &body, 1).await).await?;
        Ok(())
    }

    async fn until_state(&self, key: &str, state: ChangeState) -> Result<ChangeRow, CommandFailure> {
        let look = async || Ok(self.store.outbox_show(key).await?.filter(|row| row.state == state));
        until(&format!("{key} became {state}"), look).await
    }

    async fn pick_level(&self, is_wanted: impl Fn(&StockRow) -> bool) -> Result<StockRow, CommandFailure> {
        let look = async || Ok(self.quiet_levels().await?.into_iter().find(|row| is_wanted(row)));
        until("a stock level of the mirror equals the sandbox", look).await
    }

    /// Returns the well stocked levels of the mirror that equal the sandbox and have no pending change, without
    /// kits.
    pub(super) async fn quiet_levels(&self) -> Result<Vec<StockRow>, CommandFailure> {
        let levels = self.sandbox_stock().await?;
        let mut rows = self.store.stock_list(&[]).await?;
        rows.retain(|row| {
            let shown = levels.get(&(row.sku.clone(), row.warehouse_id));
            row.quantity >= QUANTITY_MIN && row.pending_quantity.is_none() && shown == Some(&row.quantity)
        });
        Ok(rows)
    }
}

fn detail(change: &ChangeRow) -> &str {
    change.detail.as_deref().unwrap_or("done")
}

pub(super) async fn until<T>(
    what: &str,
    look: impl AsyncFn() -> Result<Option<T>, CommandFailure>,
) -> Result<T, CommandFailure> {
    let begun = Instant::now();
    loop {
        if let Some(found) = look().await? {
            return Ok(found);
        }
        if begun.elapsed() > STEP_TIMEOUT {
            let seconds = STEP_TIMEOUT.as_secs();
            return Err(CommandFailure::failed(format!(
                "the demonstration waited {seconds} s until {what}, in vain: this is a bug"
            )));
        }
        sleep(LOOK_INTERVAL).await;
    }
}
