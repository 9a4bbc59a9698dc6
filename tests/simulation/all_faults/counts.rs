//! Counts: told at once with what the stock view showed, or later with the moment at which they were made.

use super::super::auditor::Effect;
use super::super::books::Cell;
use super::trial::Trial;
use serde_json::json;
use tallyd::model::{Clock, Timestamp};

/// A count is made against what the stock view shows if that is not older, ms.
const SHOWN_FRESH_MS: i64 = 600_000;

/// A count that is not told yet.
#[derive(Clone, Debug)]
pub struct LaterCount {
    cell: Cell,
    counted: i64,
    shown: i64,
    /// By the calendar of the host, and how far that is ahead.
    at: Timestamp,
    ahead_ms: i64,
}

impl Trial {
    /// A clerk counts what lies there, and takes off what the stock view shows as sold. He does not count while goods of
    /// the cell are on their way, nor against a number that is old.
    pub async fn count_cell(&mut self) {
        let cell = self.any_cell();
        let Some((counted, shown)) = self.counted(&cell).await else { return };
        let effect = self.effect(counted, shown);
        let body = json!({"sku": cell.0, "warehouse_id": cell.1, "quantity": counted, "seen": shown});
        let key = self.wish_cell("quantity.set", &cell, body, effect).await;
        self.second_thoughts(&key);
    }

    /// A clerk counts, and goes on to other cells; meanwhile goods of the cell move.
    pub async fn count_later(&mut self) {
        let cell = self.any_cell();
        let Some((counted, shown)) = self.counted(&cell).await else { return };
        let (at, ahead_ms) = (self.world.clock.now(), self.world.clock.ahead_ms());
        self.before = Some(cell.clone());
        self.count_later = Some(LaterCount { cell, counted, shown, at, ahead_ms });
    }

    /// He tells it with its moment, unless somebody set the calendar meanwhile.
    pub async fn count_told(&mut self) {
        let Some(LaterCount { cell, counted, shown, at, ahead_ms }) = self.count_later.take() else { return };
        if ahead_ms != self.world.clock.ahead_ms() || !self.truth.contains_key(&cell) {
            return;
        }
        let effect = self.effect(counted, shown);
        let body =
            json!({"sku": cell.0, "warehouse_id": cell.1, "quantity": counted, "counted_at": at.rfc3339()});
        self.wish_cell("quantity.set", &cell, body, effect).await;
    }

    /// The number that he counts, and the one that the stock view shows.
    async fn counted(&mut self, cell: &Cell) -> Option<(i64, i64)> {
        let shown = self.shown(cell).await?;
        if self.world.is_moving(cell).await {
            return None;
        }
        self.judge_cells().await;
        let listed = self.auditor(|auditor| auditor.cells.listed(cell));
        Some(((self.truth[cell] + shown - listed).max(0), shown))
    }

    fn effect(&self, counted: i64, shown: i64) -> Effect {
        let is_local = self.settings.policy == "local" || self.is_late();
        if is_local { Effect::Anything } else { Effect::Count(counted - shown) }
    }

    /// The number in the stock view, if it is young.
    async fn shown(&mut self, cell: &Cell) -> Option<i64> {
        let sql = "SELECT quantity, CAST((julianday(observed_at) - 2440587.5) * 86400000 AS INTEGER) FROM stock \
                   WHERE sku = ?1 AND warehouse_id = ?2 AND observed_at IS NOT NULL";
        let row = sqlx::query_as(sql).bind(&cell.0).bind(cell.1);
        let (quantity, observed_ms): (i64, i64) =
            row.fetch_optional(&mut self.world.outsider).await.unwrap()?;
        let age = self.world.clock.now_ms() + self.world.clock.ahead_ms() - observed_ms;
        (0..SHOWN_FRESH_MS).contains(&age).then_some(quantity)
    }
}
