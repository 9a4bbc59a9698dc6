//! A trigger of another program that refuses commits of answers, and the promise about changes that are being sent.

use super::super::wire::TIMEOUT;
use super::trial::Trial;
use std::collections::BTreeMap;

/// Updates that the trigger refuses: table and condition. All of them let a change become in doubt.
const REFUSED: [(&str, &str); 4] = [
    ("exchange", "NEW.operation LIKE '%updateQuantityOnHand' AND NEW.verdict = 'accepted'"),
    ("stock_level_write", "NEW.ended IS NOT NULL"),
    ("balance", "NEW.own_delta <> OLD.own_delta"),
    ("outbox", "NEW.state = 'applied'"),
];
/// Interval at which changes that are being sent are examined.
const EVERY_MS: i64 = 60_000;
/// Time beyond a call's own after which health does not report well, and after which the promise is broken.
const NAMED_MS: i64 = 60_000;
const LONG_MS: i64 = 180_000;

/// Changes that are being sent, by key and revision, with the time at which each was first seen.
#[derive(Debug, Default)]
pub struct Sending {
    since_ms: BTreeMap<(String, i64), i64>,
    looked_ms: i64,
}

impl Trial {
    /// Makes the trigger, or removes it.
    pub async fn refuse(&mut self, refuses: bool) {
        self.world.rest().await;
        let is_on_server = self.world.location.server().is_some();
        if let Some(table) = self.refused.take() {
            let sql = match is_on_server {
                true => format!("DROP TRIGGER other_program ON {table}; DROP FUNCTION other_program()"),
                false => "DROP TRIGGER other_program".to_owned(),
            };
            self.world.outsider.run(&sql).await.unwrap();
            // The database may have refused the answers to the writes, which lost them.
            self.auditor(|auditor| auditor.levels.all_lost());
        }
        if !refuses {
            return;
        }
        let (table, condition) = *self.hands.pick(&REFUSED);
        let (function, action) = if is_on_server {
            (
                "CREATE FUNCTION other_program() RETURNS trigger LANGUAGE plpgsql AS \
                 'BEGIN RAISE EXCEPTION ''not here''; END'; ",
                "EXECUTE FUNCTION other_program()",
            )
        } else {
            ("", "BEGIN SELECT RAISE(ABORT, 'not here'); END")
        };
        let sql = format!(
            "{function}CREATE TRIGGER other_program BEFORE UPDATE ON {table} FOR EACH ROW WHEN ({condition}) {action}"
        );
        self.world.outsider.run(&sql).await.unwrap();
        self.refused = Some(table);
        self.count("foreign triggers");
    }

    /// Asserts that no change is being sent for longer than a call can take, and that health does not report well
    /// where one is.
    pub async fn judge_sending_long(&mut self) {
        let now = self.world.clock.now_ms();
        if self.world.is_down() || now < self.sending.looked_ms + EVERY_MS {
            return;
        }
        self.sending.looked_ms = now;
        self.world.rest().await;
        let sql = "SELECT key, revision FROM outbox \
                   WHERE state IN ('sending', 'held', 'in_doubt') AND state = 'sending'";
        let rows: Vec<(String, i64)> = self.world.outsider.rows(sql).await;
        let before = std::mem::take(&mut self.sending.since_ms);
        self.sending.since_ms =
            rows.into_iter().map(|row| (row.clone(), before.get(&row).copied().unwrap_or(now))).collect();
        let steady = self.steady_ms();
        let call_ms = tallyd::model::time::whole_millis(TIMEOUT);
        let longest = self
            .sending
            .since_ms
            .iter()
            .map(|(row, since)| (now - (*since).max(steady), row.0.clone()))
            .max();
        let Some((lasts, key)) = longest.filter(|(lasts, _)| *lasts > call_ms + NAMED_MS) else { return };
        if lasts > call_ms + LONG_MS {
            self.broken(format!("{key} is being sent for {} s, and no call takes that long", lasts / 1_000));
        }
        let said = self.health().await;
        if said.is_healthy() && self.world.clock.ahead_ms() == 0 {
            self.broken(format!(
                "{key} is being sent for {} s, and health says: {}",
                lasts / 1_000,
                said.status_line()
            ));
        }
    }
}
