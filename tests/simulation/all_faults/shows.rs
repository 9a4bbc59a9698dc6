//! The promises about the mirror's content.
//!
//! No fact is younger than the last answer that held it, no SKU that is gone is shown, and orders are as the
//! platform shows them.

use super::super::audit::whole;
use super::super::books::Level;
use super::trial::Trial;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use tallyd::model::Operation;

/// Time after which a product that is gone is no longer shown: a few passes of balances, some amid faults.
const GONE_MS: i64 = 4 * 3_600_000;
/// Time within which closed or empty orders are read again, which happens daily.
const ORDERS_MS: i64 = 26 * 3_600_000;
/// Time for which a stock level may be missing in the view after an answer that hid records.
const HIDDEN_MS: i64 = 3_600_000;
/// Runs between two comparisons of the stock view with the auditor's record.
const EVERY_RUNS: u64 = 6;

/// Returns a time of the views in ms.
pub fn millis_of(at: &str) -> i64 {
    chrono::DateTime::parse_from_rfc3339(at).unwrap().timestamp_millis()
}

impl Trial {
    /// Asserts that no fact is dated later than the last answer that held it.
    pub async fn judge_shown(&mut self) {
        if !self.world.runs.is_multiple_of(EVERY_RUNS) {
            return;
        }
        let sql = "SELECT sku, warehouse_id, observed_at FROM stock WHERE observed_at IS NOT NULL";
        let rows: Vec<(String, i64, String)> = self.world.outsider.rows(sql).await;
        self.judge_vanished(rows.iter().map(|(sku, warehouse, _)| (sku.clone(), *warehouse)).collect());
        let wrong = self.auditor(|auditor| {
            rows.into_iter().find_map(|(sku, warehouse, observed_at)| {
                let (level, observed): (Level, i64) = ((sku, warehouse), millis_of(&observed_at));
                let answer = auditor.told.last(&level)?;
                // The view rounds its times.
                (observed > answer + 2).then_some((level, observed - answer))
            })
        });
        if let Some((level, by)) = wrong {
            self.broken(format!(
                "{level:?} is shown as observed {} s after the last answer that held it",
                by / 1_000
            ));
        }
    }

    /// Asserts that no stock level leaves the view while the platform has it, unless answers hid it. It may have left at
    /// any time since the last look, between which the host may have slept.
    fn judge_vanished(&mut self, shown: BTreeSet<Level>) {
        let (since, before) = std::mem::replace(&mut self.shown_last, (self.world.clock.now_ms(), shown));
        let is_hidden = self.auditor(|auditor| {
            let last = [Operation::GetProductBalances, Operation::GetProducts]
                .iter()
                .filter_map(|operation| auditor.hidden_ms.get(operation.as_str()))
                .max();
            last.is_some_and(|last| since < last + HIDDEN_MS)
        });
        if is_hidden || self.is_late() || since < self.restores.last_ms + HIDDEN_MS {
            return;
        }
        // A SKU that is a kit in turns names another product each time.
        let is_there = |level: &&Level| {
            self.truth.contains_key(level) && !self.claims.is_kit(&level.0) && !level.0.starts_with("SET-")
        };
        let vanished: Vec<&Level> = before.difference(&self.shown_last.1).filter(is_there).collect();
        if !vanished.is_empty() {
            self.broken(format!("{vanished:?} left the view `stock`, and the platform has them"));
        }
    }

    /// Asserts, in the evening, that no entry of a list is called missing, unless answers hid it. Nothing is ever
    /// removed from these lists.
    pub async fn judge_lists(&mut self) {
        for (table, operation) in [
            ("warehouse", Operation::ListWarehouses),
            ("supplier", Operation::ListSuppliers),
            ("storefront", Operation::ListStorefronts),
        ] {
            let sql = format!("SELECT count(*) FROM {table} WHERE missing_since_ms IS NOT NULL");
            let missing = self.world.number(&sql).await;
            if missing == 0 {
                self.auditor(|auditor| auditor.hidden_ms.remove(operation.as_str()));
            } else if self.auditor(|auditor| !auditor.hidden_ms.contains_key(operation.as_str())) {
                self.broken(format!("{missing} of {} are called missing, and exist", operation.as_str()));
            }
        }
    }

    /// Asserts, in the evening, that gone SKUs are not shown and that orders show the platform's state.
    pub async fn judge_ends(&mut self) {
        let now = self.world.clock.now_ms();
        let shown = self.world.mirror().await;
        let gone = &self.claims.gone;
        let restored = self.restores.last_ms;
        let is_gone = |(sku, _): &&Level| gone.get(sku).is_some_and(|at| now > restored.max(*at) + GONE_MS);
        let wrong: Vec<&Level> = shown.keys().filter(is_gone).collect();
        if !wrong.is_empty() {
            self.broken(format!("{wrong:?} are gone for hours and shown as stock"));
        }
        let sql = "SELECT order_id, CAST(sum(quantity_left) AS BIGINT) FROM order_line GROUP BY order_id";
        let left: BTreeMap<i64, i64> = self.world.pairs(sql).await;
        let cancelled = self.claims.cancelled.clone();
        for (order, at) in cancelled.into_iter().filter(|(_, at)| now > restored.max(*at) + ORDERS_MS) {
            let picked = left.get(&order).copied().unwrap_or(0);
            if picked > 0 {
                let hours = (now - at) / 3_600_000;
                self.broken(format!(
                    "order {order} was cancelled {hours} h ago, {picked} are left to be picked"
                ));
            }
        }
        let closed = self.world.wire.odd(|odd| odd.closed.clone());
        let is_open = |order: &i64| !closed.contains(order) && !self.claims.cancelled.contains_key(order);
        let reopened = self.claims.reopened.clone();
        let last = |(order, at): (i64, i64)| {
            // A quiet order is read daily, so a shipment of it may show only then, and lines hidden by empty
            // answers too.
            let news = self.auditor(|auditor| auditor.parcels.last_news(order));
            (order, news.map_or(at, |news| at.max(news)).max(restored))
        };
        let reopened = reopened.into_iter().map(last);
        for (order, at) in reopened.filter(|(order, at)| now > at + ORDERS_MS && is_open(order)) {
            self.judge_reopened(order, now - at, left.get(&order).copied()).await;
        }
    }

    async fn judge_reopened(&self, order: i64, since_ms: i64, shown: Option<i64>) {
        let asked = json!({"OrderId": order});
        let Some(said) = self.by_hand("POST", "/api/orders/getOrderLineItems", &asked).await else { return };
        let lines = said["data"].as_array().into_iter().flatten();
        let left: i64 = lines.map(|line| whole(&line["QuantityNotTiedToShipment"])).sum();
        if shown.unwrap_or(0) != left {
            let hours = since_ms / 3_600_000;
            self.broken(format!(
                "order {order} is open again since {hours} h: {left} are left, {shown:?} are shown"
            ));
        }
    }
}
