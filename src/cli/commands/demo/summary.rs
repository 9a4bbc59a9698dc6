//! The end of a demonstration: mirror and sandbox compared, and the figures.

use super::scenes::{DemoStage, IMPORT_PREFIX};
use crate::cli::CommandFailure;
use crate::cli::output::{SHOWN_MAX, columns, table_text};
use crate::outbox::ChangeState;
use crate::sandbox::SandboxStockLevel;
use crate::store::{OutboxFilter, StockRow};
use std::collections::BTreeMap;
use std::time::Duration;

impl DemoStage<'_> {
    pub(super) async fn sandbox_stock(&self) -> Result<BTreeMap<(String, i64), i64>, CommandFailure> {
        let level = |row: SandboxStockLevel| ((row.sku, row.warehouse_id), row.quantity);
        Ok(self.sandbox.stock_levels().await?.into_iter().map(level).collect())
    }

    async fn count_differences(&self) -> Result<usize, CommandFailure> {
        let level = |row: StockRow| ((row.sku, row.warehouse_id), row.quantity);
        let mirror: BTreeMap<_, _> = self.store.stock_list(&[]).await?.into_iter().map(level).collect();
        let levels = self.sandbox_stock().await?;
        Ok(levels.iter().filter(|(level, quantity)| mirror.get(level) != Some(quantity)).count())
    }

    /// Returns true if no change is on its way and each stock level of the mirror equals the sandbox.
    pub(super) async fn is_equal(&self) -> Result<bool, CommandFailure> {
        let counts = self.store.outbox_counts().await?;
        let is_on_its_way = |state: &str| matches!(state, "pending" | "sending" | "in_doubt");
        let is_drained = !counts.iter().any(|(state, _)| is_on_its_way(state));
        Ok(is_drained && self.count_differences().await? == 0)
    }

    pub(super) async fn summary(&self, sold: i64, took: Duration) -> Result<(String, bool), CommandFailure> {
        let (sandbox, store) = (self.sandbox, self.store);
        let changes = store.outbox_list(&OutboxFilter { limit: 1000, ..OutboxFilter::default() }).await?;
        let count = |state| changes.iter().filter(|change| change.state == state).count();
        let (applied, cancelled) = (count(ChangeState::Applied), count(ChangeState::Cancelled));
        let different = self.count_differences().await?;
        let calls = sandbox.logged_calls();
        let throttled = calls.iter().filter(|call| call.status == Some(429)).count();
        let counts = store.mirror_counts().await?;
        let is_good = different == 0 && applied + cancelled == changes.len() && throttled == 0;

        let of_the_shop =
            changes.iter().filter(|change| !String::from(change.key.clone()).starts_with(IMPORT_PREFIX));
        let decided = of_the_shop.rev().take(SHOWN_MAX);
        let decided = decided.map(
            |change| columns! {"change": change.key, "state": change.state.as_str(), "detail": change.detail},
        );
        let decided = table_text(decided, "no change");
        let figures = [
            ("SKUs mirrored", counts.skus.to_string()),
            ("stock levels mirrored", counts.stock_levels.to_string()),
            ("stock levels that differ from the sandbox", different.to_string()),
            ("orders tracked", counts.orders.to_string()),
            ("units sold in the sandbox", sold.to_string()),
            ("changes applied", format!("{applied} of {}, {cancelled} cancelled", changes.len())),
            ("calls made", format!("{} of {} in {} s", calls.len(), 120, took.as_secs())),
            ("calls answered 429", throttled.to_string()),
            ("runs in the journal", counts.runs.to_string()),
            ("exchanges in the journal", counts.exchanges.to_string()),
        ];
        let figures = figures.into_iter().map(|(figure, value)| columns! {"figure": figure, "value": value});
        let figures = table_text(figures, "");
        let verdict = if is_good {
            "mirror and sandbox are equal"
        } else {
            "mirror and sandbox are NOT equal, or a change is not applied: this is a bug"
        };
        Ok((format!("\n{decided}\n{figures}\n{verdict}\n"), is_good))
    }
}
