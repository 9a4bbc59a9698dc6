//! Copies of the database that are put back.
//!
//! The programs insert the keys again that the restore lost (docs/backup.md), and a person decides about the changes
//! that are held. The person looks at the platform, which here is the outbox before the restore and the auditor's
//! record of the calls that were in flight.

use super::super::auditor::{Effect, Fate};
use super::super::books::Level;
use super::super::world::{DatabaseCopy, KeptChange};
use super::agenda::{CopyBy, Keys};
use super::judge::{FATES, fate};
use super::trial::Trial;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use tallyd::model::{Clock, JobKind};
use tallyd::store::Durability;

/// Calls in flight whose outcome a person cannot see from quantities.
const UNSEEN: &str =
    "SELECT count(*) FROM outbox WHERE state IN ('sending', 'in_doubt') AND kind NOT LIKE 'quantity.%'";

const IN_FLIGHT: &str = "SELECT count(*) FROM outbox WHERE state IN ('sending', 'in_doubt')";

/// Time from the start until a person releases what is held (docs/backup.md): calls of the last daemon have arrived, and
/// every replica shows them.
const RELEASED_AFTER_MS: i64 = 60_000;

/// Age of a copy to which its numbers may be fresh.
const YOUNG_MS: i64 = 10_000;

/// The knowledge that outlives a restore.
#[derive(Debug, Default)]
pub struct Restores {
    copy: Option<DatabaseCopy>,
    copied_ms: i64,
    /// Changes that were final before a restore, with their effect.
    pub known: BTreeMap<String, Fate>,
    /// Quantities of the calls in flight at a restore, by change.
    in_flight: BTreeMap<String, i64>,
    /// Time of the last restore.
    pub last_ms: i64,
    /// True until a person releases everything, which ends the hold of new changes.
    is_held: bool,
}

impl Restores {
    /// Returns true if a person knows that the change took effect before a restore.
    pub fn is_done(&self, key: &str) -> bool {
        self.known.get(key) == Some(&Fate::Done)
    }
}

impl Trial {
    pub async fn copy(&mut self, by: CopyBy) {
        if self.refused.is_some() {
            return;
        }
        // After a read of all balances, the numbers in the copy are fresh for a moment.
        if self.hands.percent(80) {
            self.run_unless_refused(JobKind::Balances).await;
        }
        self.restores.copied_ms = self.world.clock.now_ms();
        self.restores.copy = Some(match by {
            _ if self.world.location.server().is_some() => self.world.dump().await,
            CopyBy::Product => self.world.back_up().await,
            CopyBy::AnotherTool => self.world.copy_files().await,
        });
        self.count("copies");
    }

    /// Puts the copy back.
    pub async fn restore(&mut self, keys: Keys) {
        self.world.rest().await;
        if self.restores.copy.is_none() || self.world.number(UNSEEN).await > 0 {
            return;
        }
        let Some(copy) = self.restores.copy.take() else { return };
        let is_quiet = self.world.number(IN_FLIGHT).await == 0;
        self.refuse(false).await;
        self.judge_levels().await;
        self.auditor(super::super::auditor::Auditor::daemon_died);
        let kept = self.remember().await;
        let (skus, orders) = self.tracked().await;
        self.close_pages().await;
        self.world.put_back(&copy).await;
        let there: BTreeSet<String> = self.world.fates().await.into_keys().collect();
        let lost: Vec<KeptChange> = kept.into_iter().filter(|change| !there.contains(&change.key)).collect();
        if keys == Keys::BeforeTheStart {
            self.insert_again(&lost).await;
        }
        self.world.start_restored().await;
        if keys == Keys::AfterTheStart {
            self.insert_again(&lost).await;
        }
        for sku in skus {
            self.track_sku(&sku).await;
        }
        for order in orders {
            let insert =
                format!("INSERT INTO tracked_order (order_id) VALUES ({order}) ON CONFLICT DO NOTHING");
            self.world.outsider.run(&insert).await.unwrap();
        }
        (self.restores.last_ms, self.restores.is_held) = (self.world.clock.now_ms(), true);
        self.folded = None;
        self.count("restores");
        self.judge_lost().await;
        self.judge_replay().await;
        self.after_restore(&lost, is_quiet).await;
    }

    /// Stores the fate of every change, and the calls in flight; returns the changes as their programs keep them.
    async fn remember(&mut self) -> Vec<KeptChange> {
        let rows: Vec<(String, String, String, Option<i64>)> =
            self.world.outsider.rows(&format!("{FATES} WHERE id > 0")).await;
        for (key, state, reason, undecided) in rows {
            let landed = undecided
                .is_some_and(|written| self.auditor(|auditor| auditor.levels.has_landed(&key, written)));
            let fate = fate(&state, &reason, landed);
            if matches!(fate, Fate::Done | Fate::Undone) {
                self.restores.known.entry(key).or_insert(fate);
            }
        }
        let sql = "SELECT key, written FROM outbox WHERE written IS NOT NULL \
                   AND (state IN ('sending', 'in_doubt') OR state = 'held' AND reason = 'undecided')";
        let in_flight: Vec<(String, i64)> = self.world.outsider.rows(sql).await;
        self.restores.in_flight.extend(in_flight);
        self.world.outsider.rows("SELECT key, kind, body, priority FROM outbox ORDER BY id").await
    }

    async fn tracked(&mut self) -> (Vec<String>, Vec<i64>) {
        let skus: Vec<(String,)> = self.world.outsider.rows("SELECT sku FROM tracked_sku ORDER BY sku").await;
        let orders: Vec<(i64,)> =
            self.world.outsider.rows("SELECT order_id FROM tracked_order ORDER BY order_id").await;
        (skus.into_iter().map(|(sku,)| sku).collect(), orders.into_iter().map(|(order,)| order).collect())
    }

    async fn insert_again(&mut self, lost: &[KeptChange]) {
        self.world.insert_again(lost).await;
        let now = self.world.clock.now_ms();
        for change in lost {
            self.claims.inserted_again(&change.key, now);
        }
    }

    /// Counts a stock level whose last writes the copy lacks, and reports a movement of another one, at once.
    async fn after_restore(&mut self, lost: &[KeptChange], is_quiet: bool) {
        let done = lost.iter().filter(|change| self.restores.is_done(&change.key));
        let written: BTreeSet<Level> = done
            .filter(|change| change.kind.starts_with("quantity."))
            .map(|change| {
                let body: Value = serde_json::from_str(&change.body).unwrap();
                let sku = self
                    .auditor(|auditor| auditor.levels.canonical(body["sku"].as_str().unwrap_or_default()));
                (sku, super::super::audit::whole(&body["warehouse_id"]))
            })
            .collect();
        let mut levels: Vec<Level> =
            written.into_iter().filter(|level| self.truth.contains_key(level)).collect();
        // A person who decides at once ends the hold while the copy's numbers are as young as they can be. Nobody sees at
        // the platform what a call on its way will do.
        let is_young = self.world.clock.now_ms() < self.restores.copied_ms + YOUNG_MS;
        let at_once = is_young || self.hands.percent(30);
        if at_once && is_quiet {
            self.world.go_on_to(self.world.clock.now_ms() + RELEASED_AFTER_MS).await;
            self.release_restored().await;
            self.count("restores decided at once");
        }
        if !levels.is_empty() {
            let at = self.hands.between(0, i64::try_from(levels.len()).unwrap() - 1);
            let level = levels.swap_remove(usize::try_from(at).unwrap());
            self.goods_moved(&level, 1);
            let body = json!({"sku": level.0, "warehouse_id": level.1, "delta": 1});
            self.change_level("quantity.adjust", &level, body, Effect::Add(1)).await;
        }
        for level in levels {
            let listed = self.auditor(|auditor| auditor.levels.listed(&level));
            let units = self.truth[&level];
            if units == listed && units >= 0 && !self.world.is_moving(&level).await {
                let body = json!({"sku": level.0, "warehouse_id": level.1, "quantity": units});
                let effect =
                    if self.settings.policy == "merge" { Effect::Absolute } else { Effect::Anything };
                self.change_level("quantity.set", &level, body, effect).await;
                self.count("counts after a restore");
                return;
            }
        }
    }

    /// Decides the changes that a restore holds.
    pub async fn release_restored(&mut self) {
        self.world.rest().await;
        self.decide_restored().await;
        self.end_restore().await;
        self.run_unless_refused(JobKind::Push).await;
    }

    /// Runs a job to its end. With a refused key jobs wait for the right one, or for a call that arrives, and both come
    /// only as the agenda goes on.
    async fn run_unless_refused(&mut self, kind: JobKind) {
        const REFUSED: &str = "SELECT count(*) FROM (SELECT verdict FROM exchange \
            WHERE verdict IN ('accepted', 'refused') ORDER BY id DESC LIMIT 1) last WHERE verdict = 'refused'";
        if !self.world.wire.weather().is_wrong_key && self.world.number(REFUSED).await == 0 {
            self.world.run_now(kind).await;
        }
    }

    /// Releases everything, once, after the decisions about what may have been done.
    pub async fn end_restore(&mut self) {
        if !std::mem::take(&mut self.restores.is_held) {
            return;
        }
        let now = self.world.clock.now();
        let mut write = self.world.store().begin_write(Durability::Full).await.unwrap();
        write.brake_release(&[], now).await.unwrap();
        write.commit().await.unwrap();
    }

    /// Returns true if a change that a restore holds took effect, as a person sees it at the platform.
    pub fn took_effect(&mut self, key: &str, level: &Level) -> bool {
        if let Some(fate) = self.restores.known.get(key) {
            return *fate == Fate::Done;
        }
        let written = self.restores.in_flight.get(key).copied();
        let landed =
            written.is_some_and(|written| self.auditor(|auditor| auditor.levels.has_arrived(level, written)));
        if landed {
            self.restores.known.insert(key.to_owned(), Fate::Done);
        }
        landed
    }

    /// Returns true if the change was final before a restore.
    pub fn was_final(&self, key: &str) -> bool {
        self.restores.known.contains_key(key)
    }
}
