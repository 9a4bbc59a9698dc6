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
    /// Moment by the leader's calendar, and the changes of that calendar until then.
    at: Timestamp,
    calendar_changes: i64,
    /// Movements that were held.
    covered: Vec<(String, i64)>,
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
        let covered = self.held_movements(&level).await;
        let key = self.change_level("quantity.set", &level, body, effect).await;
        self.auditor(|auditor| auditor.levels.covers(&key, covered));
        self.second_thoughts(&key);
    }

    /// Counts a stock level and keeps the count; goods of the stock level may move meanwhile.
    pub async fn count_later(&mut self) {
        let level = self.any_level();
        let Some((counted, shown)) = self.counted(&level).await else { return };
        let (at, calendar_changes) = (self.world.clock.now(), self.world.calendar_changes);
        self.before = Some(level.clone());
        let covered = self.held_movements(&level).await;
        self.count_later = Some(LaterCount { level, counted, shown, at, calendar_changes, covered });
    }

    /// Reports the kept count with its moment, unless the calendar changed meanwhile, although it may have changed back:
    /// changes that were inserted in between are dated by another calendar than the count.
    pub async fn count_told(&mut self) {
        let Some(LaterCount { level, counted, shown, at, calendar_changes, covered }) =
            self.count_later.take()
        else {
            return;
        };
        if calendar_changes != self.world.calendar_changes || !self.truth.contains_key(&level) {
            return;
        }
        let effect = self.effect(counted, shown);
        let body = json!({"sku": level.0, "warehouse_id": level.1, "quantity": counted, "counted_at": at.to_rfc3339()});
        let key = self.change_level("quantity.set", &level, body, effect).await;
        self.auditor(|auditor| auditor.levels.covers(&key, covered));
    }

    /// Returns the counted number, and the one that the stock view shows.
    pub async fn counted(&mut self, level: &Level) -> Option<(i64, i64)> {
        let shown = self.shown(level).await?;
        if self.world.is_moving(level).await {
            return None;
        }
        self.judge_levels().await;
        let listed = self.auditor(|auditor| auditor.levels.listed(level));
        Some(((self.truth[level] + shown - listed).max(0), shown))
    }

    /// Returns the movements of a stock level that are held and took no effect, with their units.
    pub async fn held_movements(&mut self, level: &Level) -> Vec<(String, i64)> {
        let sql = "SELECT key FROM outbox WHERE state = 'held' AND reason <> 'undecided'";
        let keys = self.world.outsider.rows::<(String,)>(sql).await.into_iter().map(|(key,)| key).collect();
        self.auditor(|auditor| auditor.levels.movements(level, keys))
    }

    pub fn effect(&self, counted: i64, shown: i64) -> Effect {
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
        if millis_of(&observed_at) < self.restores.last_ms + self.world.clock.ahead_ms() {
            return None;
        }
        let age = self.world.clock.now_ms() + self.world.clock.ahead_ms() - millis_of(&observed_at);
        (0..SHOWN_FRESH_MS).contains(&age).then_some(quantity)
    }
}
