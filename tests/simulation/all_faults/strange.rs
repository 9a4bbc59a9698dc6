//! The acts that change the platform's behaviour.
//!
//! They are failing entries, a failing platform, a lapsed account, orders that show something else, products
//! that are gone. Beside them stand persons who decide amid the daemon's work, and programs that lock the
//! database.

use super::super::auditor::Effect;
use super::super::odd::{How, Lapse, Subject};
use super::super::outsider::quoted;
use super::super::world::{Amid, Saying};
use super::agenda::{Act, Brought, Sends};
use super::kinds::Kind;
use super::trial::Trial;
use serde_json::json;

/// Most entries that fail at one time.
const POISONS_MAX: usize = 2;
/// Time from an insertion to its push, and the latest time after that of a decision amid it, ms.
const PUSH_MS: i64 = 40;
const AMID_MS: i64 = 700;
/// Most turns of the database's connection before a decision.
const TURNS: i64 = 8;

impl Trial {
    /// Carries out the acts that belong to none of the other files.
    pub async fn happen_strangely(&mut self, act: Act) {
        let now = self.world.clock.now_ms();
        match act {
            Act::Odd(oddity, percent) => self.world.wire.odd(|odd| {
                if percent > 0 {
                    odd.rates.insert(oddity, percent)
                } else {
                    odd.rates.remove(&oddity)
                };
            }),
            Act::Poison => self.poison(),
            Act::Cure => {
                if let Some(subject) = self.claims.poisoned_longest() {
                    self.world.wire.odd(|odd| odd.cure(&subject));
                    self.claims.cured(Some(&subject), now);
                }
            }
            Act::Sick(is_sick) => {
                let how = *self.random.pick(&How::OF_SICKNESS);
                self.world.wire.odd(|odd| odd.sick = is_sick.then_some(how));
            }
            Act::Lapse(is_lapsed) => {
                let (probe, reads_work) = (*self.random.pick(&How::OF_SICKNESS), self.random.percent(60));
                self.world.wire.odd(|odd| odd.lapse = is_lapsed.then_some(Lapse { probe, reads_work }));
            }
            Act::CloseOrder => self.close_order(),
            Act::ReopenOrder => self.reopen_order(),
            Act::CancelOrder => self.cancel_order(),
            Act::Gone => self.gone().await,
            Act::Kit => self.kit().await,
            Act::KitTurns => self.kit_turns().await,
            _ => {}
        }
    }

    /// Carries out the acts on the host, or beside it.
    pub async fn happen_beside(&mut self, act: Act) {
        match act {
            Act::Pair => self.pair().await,
            Act::Word => self.word_on_any().await,
            Act::Lock(lasts_ms) => self.lock(lasts_ms).await,
            Act::Form(sends) => self.form(sends == Sends::Twice).await,
            Act::FormAgain => self.form_again().await,
            Act::FormOpened => self.form_opened().await,
            Act::FormLate => self.form_late().await,
            Act::Office(act) => self.office(act).await,
            Act::File(brought) => self.file(brought == Brought::Partial).await,
            Act::FileAgain => self.file_again().await,
            Act::Copied(by) => self.copy(by).await,
            Act::Restored(keys) => self.restore(keys).await,
            Act::Released => self.release_restored().await,
            Act::Refusal(refuses) => self.refuse(refuses).await,
            _ => {}
        }
    }

    fn poison(&mut self) {
        let sku = self.any_level().0;
        let order = (!self.orders.is_empty()).then(|| self.random.pick(&self.orders).id);
        let how = *self.random.pick(&How::OF_ENTRIES);
        let subject = match (self.random.between(1, 4), order) {
            (1, _) | (3 | 4, None) => Subject::Sku(sku),
            (3, Some(order)) => Subject::Order(order),
            (4, Some(order)) => Subject::Parcel(order),
            _ => Subject::Entry(sku),
        };
        if self.claims.poisoned(&subject, how, POISONS_MAX) {
            self.world.wire.odd(|odd| odd.poisons.extend(subject.poisons(how)));
            self.count("entries that failed");
        }
    }

    /// Ships the rest of an order as a colleague, so that nothing is left.
    fn close_order(&mut self) {
        let closed = self.world.wire.odd(|odd| odd.closed.clone());
        let open = |order: &&super::shipping::Order| {
            order.left.iter().any(|(_, left)| *left > 0) && !closed.contains(&order.id)
        };
        let open: Vec<i64> = self.orders.iter().filter(open).map(|order| order.id).collect();
        if open.is_empty() {
            return;
        }
        let order = *self.random.pick(&open);
        self.world.wire.odd(|odd| odd.closed.insert(order));
        self.count("orders closed");
    }

    /// Cancels those shipments as the colleague.
    fn reopen_order(&mut self) {
        let now = self.world.clock.now_ms();
        if let Some(order) = self.world.wire.odd(|odd| odd.closed.pop_first()) {
            self.claims.reopened.insert(order, now);
            self.count("orders reopened");
        }
    }

    /// Cancels an order as the customer, so that the order has no lines.
    fn cancel_order(&mut self) {
        let now = self.world.clock.now_ms();
        let cancelled = &self.claims.cancelled;
        let ids = self.orders.iter().map(|order| order.id).filter(|id| !cancelled.contains_key(id));
        let ids: Vec<i64> = ids.collect();
        if ids.is_empty() {
            return;
        }
        let order = *self.random.pick(&ids);
        self.world.wire.odd(|odd| odd.emptied.insert(order));
        self.claims.cancelled.insert(order, now);
        for order in self.orders.iter_mut().filter(|of| of.id == order) {
            order.left.clear();
        }
        self.count("orders cancelled");
    }

    /// Removes a product: the platform keeps it under a SKU that nobody asks for.
    async fn gone(&mut self) {
        let (skus, new) = (self.old_skus(), format!("GONE-{}", self.names));
        self.names += 1;
        let sku = self.random.pick(&skus).clone();
        if skus.len() > 8 && self.renamed(&sku, &new).await {
            let untrack = format!("DELETE FROM tracked_sku WHERE sku = {}", quoted(&new));
            self.world.outsider.run(&untrack).await.unwrap();
            self.truth.retain(|(of, _), _| *of != new);
            self.auditor(|auditor| auditor.levels.forget(&new));
            self.count("products gone");
        }
    }

    /// Inserts two adjusts of one stock level at the same moment, as two programs do.
    ///
    /// In most pairs they cancel each other out. A person may cancel one of them.
    async fn pair(&mut self) {
        let level = self.any_level();
        let there = self.truth[&level].max(0);
        let out = self.random.between(1, 3).min(there);
        let comes = if self.random.percent(60) { out } else { self.random.between(1, 5) };
        if out == 0 {
            return;
        }
        let mut keys = Vec::new();
        for units in [-out, comes] {
            self.goods_moved(&level, units);
            let body = json!({"sku": level.0, "warehouse_id": level.1, "delta": units});
            keys.push(self.change_level("quantity.adjust", &level, body, Effect::Add(units)).await);
        }
        let key = self.random.pick(&keys).clone();
        let (speaks, at, turns) =
            (self.random.percent(70), self.random.between(0, AMID_MS), self.random.between(0, TURNS));
        if speaks {
            let at_ms = self.world.clock.now_ms() + at;
            self.say_later(at_ms, Amid { key, saying: Saying::Cancel, turns });
        }
    }

    /// Decides, as a person, about any open change, or about a new one.
    async fn word_on_any(&mut self) {
        let sql = "SELECT key FROM outbox WHERE state IN ('pending', 'held') \
                   AND coalesce(reason, '') <> 'restored' ORDER BY id";
        let keys: Vec<(String,)> = self.world.outsider.rows(sql).await;
        let saying = *self.random.pick(&[Saying::Cancel, Saying::Retry, Saying::Retry, Saying::Release]);
        let turns = self.random.between(0, TURNS);
        let at_ms = self.world.clock.now_ms() + self.random.between(0, 600_000);
        if !keys.is_empty() {
            let (key,) = self.random.pick(&keys).clone();
            self.say_later(at_ms, Amid { key, saying, turns });
        }
    }

    /// Cancels, rarely, a change that was just inserted, while it is read, sent or answered.
    pub fn second_thoughts(&mut self, key: &str) {
        let (speaks, later) = (self.random.percent(10), self.random.between(0, AMID_MS));
        let turns = self.random.between(0, TURNS);
        if speaks && self.kinds.has(Kind::People) {
            let at_ms = self.world.clock.now_ms() + PUSH_MS + later;
            self.say_later(at_ms, Amid { key: key.to_owned(), saying: Saying::Cancel, turns });
        }
    }

    fn say_later(&mut self, at_ms: i64, word: Amid) {
        self.claims.said(&word.key);
        self.world.say_later(at_ms, word);
        self.count("words amid");
    }

    /// Locks the database for a time, as another program does.
    async fn lock(&mut self, lasts_ms: i64) {
        let until = self.world.clock.now_ms() + lasts_ms;
        let Some(lock) = self.world.lock_for_writing(until).await else { return };
        self.count("foreign locks");
        let gone_on = Box::pin(self.go_on_to(until)).await;
        lock.release().await;
        for why in gone_on.err().into_iter().flatten() {
            self.broken(format!("{why} (while another program had the database locked)"));
        }
    }
}
