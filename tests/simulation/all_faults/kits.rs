//! Kits and substitutes.
//!
//! A kit is made of a product of the account and sold, so that the daemon discovers it from the allocations.
//! Kits turn into products, and back. A substitute is an allocation that names another product than the
//! order's line.

use super::super::audit::whole;
use super::super::books::Level;
use super::kinds::Kind;
use super::trial::Trial;
use serde_json::{Value, json};

/// A SKU that is a kit, or a product in its place.
#[derive(Clone, Debug)]
pub struct KitSet {
    pub sku: String,
    /// SKU under which the other of the two is hidden.
    aside: String,
    has_product: bool,
    is_kit: bool,
}

impl Trial {
    /// Makes a kit of two units of a product and sells one.
    pub async fn kit(&mut self) {
        let of = self.any_level().0;
        let sku = format!("SET-{}", self.names);
        let aside = format!("ASIDE-{}", self.names);
        self.names += 1;
        let body = json!({"Sku": sku, "Name": "A set", "Components": [{"Sku": of, "Quantity": 2}]});
        if self.by_hand("POST", "/_sandbox/kits", &body).await.is_none() {
            return;
        }
        self.claims.kit(&sku, true);
        self.track_sku(&sku).await;
        self.kits.push(KitSet { sku: sku.clone(), aside, has_product: false, is_kit: true });
        let Some(taken) = self.take(&of, 2) else { return };
        let placed = self.world.core.place_order(&[(sku.as_str(), 1)]).await;
        let Ok(order) = placed else { return self.broken(format!("an order of a {sku}: {placed:?}")) };
        for (level, units) in taken {
            self.taken(&level, units);
        }
        self.track_order(order).await;
    }

    /// Turns a kit into a product or back: the SKU names another product from then on.
    pub async fn kit_turns(&mut self) {
        if self.kits.is_empty() {
            return;
        }
        let at = self.random.pick(&(0..self.kits.len()).collect::<Vec<_>>()).to_owned();
        let set = self.kits[at].clone();
        let kind = if set.is_kit { "Kit" } else { "Product" };
        if !self.put(&set.sku, json!({"Sku": format!("{}-NOW", set.aside), "Type": kind})).await {
            return;
        }
        let is_turned = match (set.has_product, set.is_kit) {
            (false, _) => self.make_product(&set.sku).await,
            (true, true) => self.put(&set.aside, json!({"Sku": set.sku})).await,
            (true, false) => self.put(&set.aside, json!({"Sku": set.sku, "Type": "Kit"})).await,
        };
        let put_aside = format!("{}-NOW", set.aside);
        if is_turned {
            self.put(&put_aside, json!({"Sku": set.aside, "Type": kind})).await;
            let turned = &mut self.kits[at];
            (turned.has_product, turned.is_kit) = (true, !set.is_kit);
            self.turned(&set).await;
            self.count("kits turned");
        } else if !self.put(&put_aside, json!({"Sku": set.sku, "Type": kind})).await {
            // The account's minute is used up, so the SKU stays hidden.
            self.kits.remove(at);
            self.claims.gone(&set.sku, self.world.clock.now_ms());
            self.truth.retain(|(sku, _), _| *sku != set.sku);
            self.auditor(|auditor| auditor.levels.forget(&set.sku));
        }
    }

    async fn make_product(&mut self, sku: &str) -> bool {
        let made = self.by_hand("POST", "/api/Inventory", &json!({"Sku": sku, "Name": "No set"})).await;
        made.is_some_and(|made| made["data"]["WasSuccessful"] == true)
    }

    /// Updates the ground truth: a kit has no stock of its own, and the platform shows what its components
    /// make.
    async fn turned(&mut self, set: &KitSet) {
        let now = self.world.clock.now_ms();
        self.claims.kit(&set.sku, !set.is_kit);
        if !set.is_kit {
            self.truth.retain(|(sku, _), _| *sku != set.sku);
            return self.auditor(|auditor| auditor.levels.forget(&set.sku));
        }
        for (level, units) in self.world.stock().await.into_iter().filter(|((sku, _), _)| *sku == set.sku) {
            self.auditor(|auditor| auditor.levels.known(&level, units, now));
            self.truth.insert(level, units);
        }
    }

    /// Makes the allocation name another product than was ordered.
    pub async fn substitute(&mut self, order: i64) {
        let (is_so, level): (bool, Level) = (self.random.percent(10), self.any_level());
        if !is_so || !self.kinds.has(Kind::Kits) {
            return;
        }
        let asked = json!({"idType": "sku", "idList": [level.0]});
        let found: Option<Value> = self.by_hand("POST", "/api/inventory/getProducts", &asked).await;
        let Some(id) = found.map(|found| found["data"][0]["Id"].clone()).filter(Value::is_number) else {
            return;
        };
        self.world.wire.odd(|odd| odd.substituted.insert(order, (level.0, whole(&id))));
        self.count("substitutes");
    }
}
