//! A change does not wait for the trouble of another.
//!
//! While nothing but single entries fails, a change that none of them concerns ends two minutes after its own
//! quiet time.

use super::super::wire::TIMEOUT;
use super::agenda::Act;
use super::trial::Trial;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Longest time that a change may wait for others.
const WAIT_MS: i64 = 120_000;
/// Quiet times after a call with an unknown outcome: of quantities, and of all others.
const QUIET_MS: (i64, i64) = (60_000, 600_000);
/// Time between two checks that find no product.
const LOOKS_MS: i64 = 120_000;
/// Duration of the consequences of a general trouble, after its end.
///
/// A used-up minute and its hold; the next probes of a refused key, at most 5 min apart, of which other troubles may
/// take two answers; calls that take effect late, and the delays between attempts.
const MINUTE_MS: i64 = 150_000;
const PROBE_MS: i64 = 16 * 60_000;
const LATE_MS: i64 = 90_000;
/// Longest delay of the next attempt of an entry that failed amid a general trouble, beside the trouble's own
/// duration.
const ASIDE_MS: i64 = 30 * 60_000;
/// Interval between two judgements of waits.
const EVERY_MS: i64 = 60_000;

const OPEN: &str = "SELECT key, kind, state, coalesce(reason, '') AS reason, coalesce(detail, '') AS detail \
    FROM outbox WHERE state IN ('pending', 'sending', 'held', 'in_doubt') ORDER BY id";

/// Time of the last decision of a person about each change, by the host's calendar.
///
/// It is the transition that let the change go on or ended it: the one after it was held, or stayed in doubt.
/// The time of a change that waited for the decision begins there. Between two transitions the world may have dated
/// the insertion, which raises the revision too.
const DECIDED: &str = "SELECT o.key, max(m.at_ms) FROM change_transition m \
    JOIN change_transition h ON h.change_id = m.change_id AND h.revision = \
        (SELECT max(p.revision) FROM change_transition p WHERE p.change_id = m.change_id AND p.revision < m.revision) \
    JOIN outbox o ON o.id = m.change_id \
    WHERE h.state = 'held' OR h.state = 'in_doubt' AND m.reason = 'operator' GROUP BY o.key";

/// The time since which nothing but single entries fails.
#[derive(Debug, Default)]
pub struct Fair {
    since_ms: i64,
    judged_ms: i64,
    /// True while the platform, the network, the host and its clock are without trouble.
    is_on: bool,
    /// Begin of the last general trouble, and longest wait of an entry that failed amid it.
    foul_ms: i64,
    aside_until_ms: i64,
    /// Time until which the daemon may only probe the key.
    probing_until_ms: i64,
}

/// A change without a final state.
#[derive(Debug, sqlx_macros::FromRow)]
struct Open {
    key: String,
    kind: String,
    state: String,
    reason: String,
    detail: String,
}

impl Trial {
    /// Updates, after an act, whether the world is without general trouble, and since when.
    pub fn weather_changed(&mut self, act: Act) {
        let mut after = match act {
            Act::Burst(_) | Act::Restored(_) => MINUTE_MS,
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
            | Act::Lock(_)
            | Act::Refusal(_) => LATE_MS,
            _ => return,
        };
        let weather = self.world.wire.weather();
        let is_still = weather.storm.writes == 0 && weather.storm.reads == 0 && !weather.is_wrong_key;
        let is_on = is_still
            && !self.is_late()
            && self.refused.is_none()
            && !self.world.clock.is_suspended()
            && self.world.wire.odd(|odd| odd.is_fair());
        let now = self.world.clock.now_ms();
        // A trouble may also take the answer of the probe that would have restored the key.
        if after == PROBE_MS || now < self.fair.probing_until_ms {
            after = PROBE_MS;
            self.fair.probing_until_ms = now + PROBE_MS;
        }
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

    /// Counts a trouble of a host as general trouble, as long as it lasts, and a change of the leader too.
    pub fn note_trouble(&mut self) {
        let now = self.world.clock.now_ms();
        let last = if self.world.hosts() > 1 && self.world.is_down() { now } else { self.world.troubled_ms };
        self.fair.since_ms = self.fair.since_ms.max(last + LATE_MS);
        self.steady_since(last);
    }

    /// Judges the open changes, once a minute.
    pub async fn judge_waits(&mut self) {
        let now = self.world.clock.now_ms();
        let shortest = WAIT_MS + millis(TIMEOUT) + QUIET_MS.0;
        if !self.fair.is_on || now < self.fair.since_ms + shortest || now < self.fair.judged_ms + EVERY_MS {
            return;
        }
        self.fair.judged_ms = now;
        self.world.rest().await;
        let open: Vec<Open> = self.world.outsider.rows(OPEN).await;
        let stuck = self.stuck(&open);
        // A person's decision only gives a change more time.
        if !open.iter().any(|change| self.waits_too_long(change, (&stuck, &BTreeMap::new()), now)) {
            return;
        }
        let decided = self.decided().await;
        for change in open.iter().filter(|change| self.waits_too_long(change, (&stuck, &decided), now)) {
            let at = self.claims.of(&change.key).map_or(0, |claim| claim.at_ms);
            self.broken(format!(
                "{} of {} s ago is still {} ({}: {}), and nothing is wrong with it since {} s",
                change.key,
                (now - at) / 1_000,
                change.state,
                change.reason,
                change.detail,
                (now - self.fair.since_ms.max(at)) / 1_000
            ));
        }
    }

    /// Returns the subjects that a person has to decide first.
    ///
    /// They are held changes and changes that stay in doubt, with their SKUs and orders.
    fn stuck(&self, open: &[Open]) -> BTreeSet<String> {
        let waits = |change: &&Open| change.state == "held" || change.reason == "landed_or_another";
        open.iter().filter(waits).flat_map(|change| self.subjects(&change.key)).collect()
    }

    /// Returns the time of a person's last decision, by subject.
    async fn decided(&mut self) -> BTreeMap<String, i64> {
        let rows: Vec<(String, i64)> = self.world.outsider.rows(DECIDED).await;
        let mut decided = BTreeMap::new();
        for (key, at) in rows {
            for subject in self.subjects(&key) {
                let last = decided.entry(subject).or_insert(at);
                *last = at.max(*last);
            }
        }
        decided
    }

    /// Returns the change itself, its SKU and its order.
    fn subjects(&self, key: &str) -> Vec<String> {
        let claim = self.claims.of(key);
        let (sku, order) = claim.map(|claim| (claim.sku.clone(), claim.order)).unwrap_or_default();
        let subjects = [key.to_owned(), sku, order.map(|order| order.to_string()).unwrap_or_default()];
        subjects.into_iter().filter(|subject| !subject.is_empty()).collect()
    }

    /// Returns the time of a person's last decision about the change, its SKU, its order or its shipment.
    fn decided_at(&self, key: &str, decided: &BTreeMap<String, i64>) -> i64 {
        let parcel = self.claims.of(key).map(|claim| claim.shipment_key.as_str());
        let parcel =
            parcel.filter(|parcel| !parcel.is_empty()).map(|parcel| self.decided_at(parcel, decided));
        let own = self.subjects(key).iter().filter_map(|subject| decided.get(subject).copied()).max();
        own.max(parcel).unwrap_or(0)
    }

    fn waits_too_long(
        &self,
        change: &Open,
        (stuck, decided): (&BTreeSet<String>, &BTreeMap<String, i64>),
        now: i64,
    ) -> bool {
        let Some(claim) = self.claims.of(&change.key) else { return false };
        let quiet = match change.kind.as_str() {
            kind if kind.starts_with("quantity.") => QUIET_MS.0,
            "product.create" => QUIET_MS.1 + LOOKS_MS,
            _ => QUIET_MS.1,
        };
        let bound = WAIT_MS + millis(TIMEOUT) + quiet;
        // The shipment that a tracking belongs to may take as long before.
        let is_early =
            !claim.shipment_key.is_empty() && now < claim.at_ms.max(self.fair.since_ms) + 2 * bound;
        let again = self.decided_at(&change.key, decided) - self.world.clock.ahead_ms();
        let begun = claim.at_ms.max(self.fair.since_ms).max(again);
        let is_aside = change.reason == "set_aside" && now < self.fair.aside_until_ms;
        !is_early
            && !is_aside
            && !self.is_stuck(&change.key, stuck)
            && now > begun + bound
            && !self.claims.is_troubled(&change.key, now)
    }
}

impl Trial {
    /// Returns true if a person has to decide first about the change, its SKU, its order or its shipment.
    fn is_stuck(&self, key: &str, stuck: &BTreeSet<String>) -> bool {
        let Some(claim) = self.claims.of(key) else { return false };
        stuck.contains(key)
            || stuck.contains(&claim.sku)
            || claim.order.is_some_and(|order| stuck.contains(&order.to_string()))
            || self.is_stuck(&claim.shipment_key, stuck)
    }
}

fn millis(duration: Duration) -> i64 {
    tallyd::model::time::whole_millis(duration)
}
