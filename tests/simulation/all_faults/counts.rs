//! Counts: reported at once with the number of the stock view, or later with the moment of the count.

use super::super::auditor::Effect;
use super::super::books::Level;
use super::super::outsider::quoted;
use super::shows::millis_of;
use super::trial::Trial;
use serde_json::json;
use tallyd::model::{Clock, Timestamp};

/// Greatest age of the number in the stock view for a count, ms.
const SHOWN_FRESH_MS: i64 = 600_000;

/// A count that is not reported yet.
#[derive(Clone, Debug)]
pub struct LaterCount {
    level: Level,
    counted: i64,
    shown: i64,
    /// Moment by the host's calendar, and the calendar's offset.
    at: Timestamp,
    ahead_ms: i64,
}

impl Trial {
    /// Counts the shelf and subtracts the units that the stock view shows as sold.
    ///
    /// It counts neither while goods of the stock level are on their way nor against an old number.
    pub async fn count_level(&mut self) {
        let level = self.any_level();
        let Some((counted, shown)) = self.counted(&level).await else { return };
        let effect = self.effect(counted, shown);
        let body = json!({"sku": level.0, "warehouse_id": level.1, "quantity": counted, "seen": shown});
        let key = self.change_level("quantity.set", &level, body, effect).await;
        self.second_thoughts(&key);
    }

    /// Counts a stock level and keeps the count; goods of the stock level may move meanwhile.
    pub async fn count_later(&mut self) {
        let level = self.any_level();
        let Some((counted, shown)) = self.counted(&level).await else { return };
        let (at, ahead_ms) = (self.world.clock.now(), self.world.clock.ahead_ms());
        self.before = Some(level.clone());
        self.count_later = Some(LaterCount { level, counted, shown, at, ahead_ms });
    }

    /// Reports the kept count with its moment, unless the calendar was set meanwhile.
    pub async fn count_told(&mut self) {
        let Some(LaterCount { level, counted, shown, at, ahead_ms }) = self.count_later.take() else {
            return;
        };
        if ahead_ms != self.world.clock.ahead_ms() || !self.truth.contains_key(&level) {
            return;
        }
        let effect = self.effect(counted, shown);
        let body = json!({"sku": level.0, "warehouse_id": level.1, "quantity": counted, "counted_at": at.to_rfc3339()});
        self.change_level("quantity.set", &level, body, effect).await;
    }

    /// Returns the counted number, and the one that the stock view shows.
    async fn counted(&mut self, level: &Level) -> Option<(i64, i64)> {
        let shown = self.shown(level).await?;
        if self.world.is_moving(level).await {
            return None;
        }
        self.judge_levels().await;
        let listed = self.auditor(|auditor| auditor.levels.listed(level));
        Some(((self.truth[level] + shown - listed).max(0), shown))
    }

    fn effect(&self, counted: i64, shown: i64) -> Effect {
        let is_local = self.settings.policy == "local" || self.is_late();
        if is_local { Effect::Anything } else { Effect::Count(counted - shown) }
    }

    /// Returns the number in the stock view, if it is recent.
    async fn shown(&mut self, level: &Level) -> Option<i64> {
        let (sku, warehouse) = (quoted(&level.0), level.1);
        let sql = format!(
            "SELECT quantity, observed_at FROM stock \
             WHERE sku = {sku} AND warehouse_id = {warehouse} AND observed_at IS NOT NULL"
        );
        let (quantity, observed_at) = self.world.outsider.rows::<(i64, String)>(&sql).await.pop()?;
        let age = self.world.clock.now_ms() + self.world.clock.ahead_ms() - millis_of(&observed_at);
        (0..SHOWN_FRESH_MS).contains(&age).then_some(quantity)
    }
}
