//! Waits: a wish does not wait for another's trouble. While nothing is wrong but with some entries, a wish that none of them concerns
//! comes to its end two minutes after its own quiet time.

use super::super::wire::TIMEOUT;
use super::agenda::Act;
use super::trial::Trial;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A wish may wait so long for others.
const WAIT_MS: i64 = 120_000;
/// Quiet times after a call whose outcome is unknown: of quantities and of all others.
const QUIET_MS: (i64, i64) = (60_000, 600_000);
/// Two looks that find no product lie so far apart.
const LOOKS_MS: i64 = 120_000;
/// The consequences of a trouble of all last at most so long after it: a spent minute and its hold; the next probe of a refused key,
/// whose pauses grow to a quarter of an hour; calls that are done late, and the pauses between attempts.
const MINUTE_MS: i64 = 150_000;
const PROBE_MS: i64 = 16 * 60_000;
const LATE_MS: i64 = 90_000;
/// An entry that failed alone amid a trouble of all is tried again after at most as long as that lasted, and after this.
const ASIDE_MS: i64 = 30 * 60_000;
/// Waits are judged so often.
const EVERY_MS: i64 = 60_000;

const OPEN: &str = "SELECT key, kind, state, coalesce(reason, '') AS reason, coalesce(detail, '') AS detail \
    FROM outbox WHERE state IN ('pending', 'sending', 'held', 'in_doubt') ORDER BY id";

/// When a person's word last let each wish go on, or ended it, by the host's calendar: the move after it was held, or stayed
/// in doubt. What waited for it has its time from then.
const DECIDED: &str = "SELECT o.key, max(m.at_ms) FROM change_transition m \
    JOIN change_transition h ON h.change_id = m.change_id AND h.revision = m.revision - 1 \
    JOIN outbox o ON o.id = m.change_id \
    WHERE h.state = 'held' OR h.state = 'in_doubt' AND m.reason = 'operator' GROUP BY o.key";

/// Since when nothing is wrong but with entries.
#[derive(Debug, Default)]
pub struct Fair {
    since_ms: i64,
    judged_ms: i64,
    /// The host and its database work.
    is_on: bool,
    /// When something last became wrong with the platform while nothing was, and how long an entry that failed amid it may
    /// wait.
    foul_ms: i64,
    aside_until_ms: i64,
}

/// A wish that is not settled.
#[derive(Debug, sqlx::FromRow)]
struct Open {
    key: String,
    kind: String,
    state: String,
    reason: String,
    detail: String,
}

impl Trial {
    /// After an act: whether it is fair from now on, and from when.
    pub fn weather_changed(&mut self, act: Act) {
        let after = match act {
            Act::Burst(_) => MINUTE_MS,
            Act::WrongKey(_) | Act::Lapse(_) | Act::Sick(_) => PROBE_MS,
            Act::Weather(..)
            | Act::Lag(_)
            | Act::Odd(..)
            | Act::Kill
            | Act::Reconfigure
            | Act::Suspend
            | Act::Resume
            | Act::Calendar(_)
            | Act::Calm
            | Act::Lock(_) => LATE_MS,
            _ => return,
        };
        let weather = self.world.wire.weather();
        let is_still = weather.storm.writes == 0 && weather.storm.reads == 0 && !weather.is_wrong_key;
        let is_on = is_still
            && !self.is_late()
            && !self.world.clock.is_suspended()
            && self.world.wire.odd(|odd| odd.is_fair());
        let now = self.world.clock.now_ms();
        match (std::mem::replace(&mut self.fair.is_on, is_on), is_on) {
            (true, false) => self.fair.foul_ms = now,
            (false, true) => {
                let foul = (now - self.fair.foul_ms).min(ASIDE_MS);
                self.fair.aside_until_ms = self.fair.aside_until_ms.max(now + after + foul + WAIT_MS);
            }
            _ => {}
        }
        self.fair.since_ms = self.fair.since_ms.max(now + after);
    }

    /// Judges the wishes that are open, once a minute.
    pub async fn judge_waits(&mut self) {
        let now = self.world.clock.now_ms();
        let shortest = WAIT_MS + millis(TIMEOUT) + QUIET_MS.0;
        if !self.fair.is_on || now < self.fair.since_ms + shortest || now < self.fair.judged_ms + EVERY_MS {
            return;
        }
        self.fair.judged_ms = now;
        self.world.rest().await;
        let open: Vec<Open> = sqlx::query_as(OPEN).fetch_all(&mut self.world.outsider).await.unwrap();
        let stuck = self.stuck(&open);
        // A person's word only gives a wish more time.
        if !open.iter().any(|wish| self.waits_too_long(wish, (&stuck, &BTreeMap::new()), now)) {
            return;
        }
        let decided = self.decided().await;
        for wish in open.iter().filter(|wish| self.waits_too_long(wish, (&stuck, &decided), now)) {
            let at = self.claims.of(&wish.key).map_or(0, |claim| claim.at_ms);
            self.broken(format!(
                "{} of {} s ago is still {} ({}: {}), and nothing is wrong with it since {} s",
                wish.key,
                (now - at) / 1_000,
                wish.state,
                wish.reason,
                wish.detail,
                (now - self.fair.since_ms.max(at)) / 1_000
            ));
        }
    }

    /// The things that a person has to decide first: SKUs and orders of wishes that are held or stay in doubt, and these wishes.
    fn stuck(&self, open: &[Open]) -> BTreeSet<String> {
        let waits = |wish: &&Open| wish.state == "held" || wish.reason == "landed_or_another";
        open.iter().filter(waits).flat_map(|wish| self.subjects(&wish.key)).collect()
    }

    /// When a person last decided about a subject.
    async fn decided(&mut self) -> BTreeMap<String, i64> {
        let rows: Vec<(String, i64)> =
            sqlx::query_as(DECIDED).fetch_all(&mut self.world.outsider).await.unwrap();
        let mut decided = BTreeMap::new();
        for (key, at) in rows {
            for subject in self.subjects(&key) {
                let last = decided.entry(subject).or_insert(at);
                *last = at.max(*last);
            }
        }
        decided
    }

    /// The wish itself, its SKU, its order.
    fn subjects(&self, key: &str) -> Vec<String> {
        let claim = self.claims.of(key);
        let (sku, order) = claim.map(|claim| (claim.sku.clone(), claim.order)).unwrap_or_default();
        let subjects = [key.to_owned(), sku, order.map(|order| order.to_string()).unwrap_or_default()];
        subjects.into_iter().filter(|subject| !subject.is_empty()).collect()
    }

    /// When a person last decided about the wish, its SKU, its order or its parcel.
    fn decided_at(&self, key: &str, decided: &BTreeMap<String, i64>) -> i64 {
        let parcel = self.claims.of(key).map(|claim| claim.shipment_key.as_str());
        let parcel =
            parcel.filter(|parcel| !parcel.is_empty()).map(|parcel| self.decided_at(parcel, decided));
        let own = self.subjects(key).iter().filter_map(|subject| decided.get(subject).copied()).max();
        own.max(parcel).unwrap_or(0)
    }

    fn waits_too_long(
        &self,
        wish: &Open,
        (stuck, decided): (&BTreeSet<String>, &BTreeMap<String, i64>),
        now: i64,
    ) -> bool {
        let Some(claim) = self.claims.of(&wish.key) else { return false };
        let quiet = match wish.kind.as_str() {
            kind if kind.starts_with("quantity.") => QUIET_MS.0,
            "product.create" => QUIET_MS.1 + LOOKS_MS,
            _ => QUIET_MS.1,
        };
        let bound = WAIT_MS + millis(TIMEOUT) + quiet;
        // Its parcel may take as long before.
        let is_early =
            !claim.shipment_key.is_empty() && now < claim.at_ms.max(self.fair.since_ms) + 2 * bound;
        let again = self.decided_at(&wish.key, decided) - self.world.clock.ahead_ms();
        let begun = claim.at_ms.max(self.fair.since_ms).max(again);
        let is_aside = wish.reason == "set_aside" && now < self.fair.aside_until_ms;
        !is_early
            && !is_aside
            && !self.is_stuck(&wish.key, stuck)
            && now > begun + bound
            && !self.claims.is_troubled(&wish.key, now)
    }
}

impl Trial {
    /// A person has to decide first about the wish, its SKU, its order or its parcel.
    fn is_stuck(&self, key: &str, stuck: &BTreeSet<String>) -> bool {
        let Some(claim) = self.claims.of(key) else { return false };
        stuck.contains(key)
            || stuck.contains(&claim.sku)
            || claim.order.is_some_and(|order| stuck.contains(&order.to_string()))
            || self.is_stuck(&claim.shipment_key, stuck)
    }
}

fn millis(duration: Duration) -> i64 {
    tallyd::model::time::millis(duration)
}
