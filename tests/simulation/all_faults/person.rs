//! The person who decides held changes and changes that stay in doubt.
//!
//! The person looks at the platform, which here is the auditor's record, and uses the decisions of `tallyd
//! outbox`.

use super::super::books::Level;
use super::trial::Trial;
use std::collections::BTreeSet;
use std::time::Duration;
use tallyd::model::{Clock, JobKind, ShipmentId};
use tallyd::outbox::Resolution;
use tallyd::store::{Durability, WriteTransaction};

/// A change that waits for a decision.
#[derive(Debug, sqlx_macros::FromRow)]
struct Waiting {
    key: String,
    kind: String,
    state: String,
    reason: String,
    sku: Option<String>,
    warehouse_id: Option<i64>,
    written: Option<i64>,
}

/// A decision of the person.
enum Word {
    Resolve(Resolution),
    Release,
    /// Plan again; the cause may be gone by now.
    Retry,
    Cancel,
}

impl Trial {
    /// Decides every waiting change; returns their number.
    pub async fn decide_what_waits(&mut self) -> usize {
        let decided =
            self.decide("state = 'held' OR (state = 'in_doubt' AND reason = 'landed_or_another')").await;
        self.end_restore().await;
        decided
    }

    /// Decides every change that a restore holds; returns their number.
    pub async fn decide_restored(&mut self) -> usize {
        self.decide("state = 'held' AND reason = 'restored'").await
    }

    async fn decide(&mut self, which: &str) -> usize {
        let sql = format!(
            "SELECT key, kind, state, coalesce(reason, '') AS reason, sku, warehouse_id, written FROM outbox \
             WHERE {which} ORDER BY id"
        );
        let waiting: Vec<Waiting> = self.world.outsider.rows(&sql).await;
        let mut moved = BTreeSet::new();
        for change in &waiting {
            // A decision about one change of an entry applies to all changes of that entry.
            if !moved.contains(&change.key) {
                let word = self.word(change);
                moved.extend(self.say(change, word).await);
            }
        }
        self.world.person_said();
        moved.len()
    }

    fn word(&mut self, change: &Waiting) -> Word {
        match (change.state.as_str(), change.reason.as_str(), change.kind.as_str()) {
            ("in_doubt", ..) => self.shipment_of(&change.key),
            (_, "undecided", "quantity.set" | "quantity.adjust") => {
                let level = self.level_of(change);
                let written = change.written.unwrap_or(-1);
                let landed = self.auditor(|auditor| auditor.levels.has_arrived(&level, written));
                Word::Resolve(if landed { Resolution::TookEffect } else { Resolution::HadNoEffect })
            }
            (_, "brake", _) => Word::Release,
            (_, "conflict" | "stale_base", "quantity.set") => Word::Resolve(Resolution::Theirs),
            (_, "restored", _) => {
                let level = self.level_of(change);
                if self.took_effect(&change.key, &level) {
                    // What this change made is not taken for that of an equal one.
                    self.shipment_of(&change.key);
                    Word::Cancel
                } else if self.was_final(&change.key) {
                    Word::Cancel
                } else {
                    Word::Release
                }
            }
            // The change ends and is not sent again, whatever its effect was.
            (_, "undecided", _) => Word::Resolve(Resolution::TookEffect),
            _ if self.claims.is_new_to_a_person(&change.key) => Word::Retry,
            _ => Word::Cancel,
        }
    }

    fn level_of(&self, change: &Waiting) -> Level {
        let sku = change.sku.clone().unwrap_or_default();
        (self.auditor(|auditor| auditor.levels.canonical(&sku)), change.warehouse_id.unwrap_or_default())
    }

    /// Returns the shipment that the change made, as the auditor observed it.
    fn shipment_of(&self, key: &str) -> Word {
        let found = self.orders.iter().find_map(|order| {
            let parcel = order.parcels.iter().find(|parcel| parcel.shipment_key == key)?;
            self.auditor(|auditor| auditor.parcels.named_by_hand(order.id, &parcel.content))
        });
        Word::Resolve(found.map_or(Resolution::HadNoEffect, |id| Resolution::Shipment(ShipmentId(id))))
    }

    /// Carries out the decision; returns the keys of the changes that it moved.
    async fn say(&mut self, change: &Waiting, word: Word) -> Vec<String> {
        let now = self.world.clock.now();
        let is_retry = matches!(word, Word::Retry);
        let took_effect = matches!(word, Word::Resolve(Resolution::TookEffect));
        let mut write: WriteTransaction = self.world.store().begin_write(Durability::Full).await.unwrap();
        let base_age = Duration::from_secs(900);
        let alone = vec![change.key.clone()];
        let done = match word {
            Word::Resolve(word) => {
                let done = write.outbox_resolve(&change.key, word, base_age, now).await;
                done.map(|done| done.map(|done| done.keys))
            }
            Word::Release => write.brake_release(&alone, now).await.map(|_| Ok(alone)),
            Word::Retry => write.outbox_retry(&change.key, now).await.map(|done| done.map(|()| alone)),
            Word::Cancel => write.outbox_cancel(&change.key, now).await.map(|done| done.map(|()| alone)),
        };
        let done = match done {
            // Another program's trigger refuses it; the person decides again later.
            Err(_) if self.refused.is_some() => return Vec::new(),
            done => done.unwrap(),
        };
        match done {
            Ok(moved) => {
                write.commit().await.unwrap();
                if took_effect {
                    let level = self.level_of(change);
                    self.auditor(|auditor| auditor.told.said(level, now.0));
                }
                for key in moved.iter().filter(|_| !is_retry) {
                    self.claims.said(key);
                }
                moved
            }
            Err(why) => {
                self.broken(format!("a person's word on {change:?} makes no sense: {why}"));
                Vec::new()
            }
        }
    }

    /// Waits until every change is final, with a person's help, until `until_ms`.
    pub async fn settle(&mut self, until_ms: i64) -> Result<(), Vec<String>> {
        const OPEN: &str =
            "SELECT count(*) FROM outbox WHERE state IN ('pending', 'sending', 'in_doubt', 'held')";
        while self.world.number(OPEN).await > 0 && self.world.clock.now_ms() < until_ms {
            if self.decide_what_waits().await > 0 {
                self.world.run_now(JobKind::Settle).await;
                self.world.run_now(JobKind::Push).await;
            }
            let at = (self.world.clock.now_ms() + 60_000).min(until_ms);
            self.go_on_to(at).await?;
        }
        Ok(())
    }
}
