//! No change is rejected without proof.
//!
//! The trial knows the trouble of each change: SKUs that are gone, cancelled orders, entries that the
//! platform refuses again and again. A rejection for any other cause is a violation.

use super::super::audit::{text, whole};
use super::super::odd::{How, Subject};
use super::trial::Trial;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Longest time until an entry that failed for hours is retried, ms: half an hour, a time-out, a quiet time.
const CURED_MS: i64 = 45 * 60_000;

/// The subject of a change.
#[derive(Clone, Debug)]
pub struct Claim {
    pub kind: String,
    /// SKU; empty if the change has none.
    pub sku: String,
    pub order: Option<i64>,
    /// Key of the change whose shipment the tracking belongs to.
    pub shipment_key: String,
    pub at_ms: i64,
}

/// The trial's knowledge of all changes and all troubles.
#[derive(Debug, Default)]
pub struct Claims {
    changes: BTreeMap<String, Claim>,
    /// SKUs that the platform no longer has, with the time.
    pub gone: BTreeMap<String, i64>,
    discontinued: BTreeSet<String>,
    kits: BTreeSet<String>,
    /// Entries that the platform refused as such; entries that fail now or did so until recently.
    refused: Vec<Subject>,
    poisoned: Vec<(Subject, Option<i64>)>,
    /// Orders that the customer cancelled, and orders whose shipments a colleague cancelled, with the time.
    pub cancelled: BTreeMap<i64, i64>,
    pub reopened: BTreeMap<i64, i64>,
    /// Changes that a person decided about.
    said: BTreeSet<String>,
    /// Changes that a person retried; each is retried once.
    retried: BTreeSet<String>,
    /// End of the policy `remote`.
    remote_until_ms: i64,
    judged: BTreeSet<String>,
}

impl Claim {
    pub fn new(kind: &str, body: &Value, at_ms: i64) -> Self {
        let sku = if body["sku"].is_string() { &body["sku"] } else { &body["Sku"] };
        Self {
            kind: kind.to_owned(),
            sku: text(sku),
            order: body["order_id"].is_number().then(|| whole(&body["order_id"])),
            shipment_key: text(&body["shipment_key"]),
            at_ms,
        }
    }

    /// Returns true if a call with the change, or a read that it needs, holds the subject.
    fn is_about(&self, subject: &Subject) -> bool {
        match subject {
            Subject::Sku(sku) | Subject::Entry(sku) => *sku == self.sku,
            Subject::Order(order) | Subject::Parcel(order) => Some(*order) == self.order,
        }
    }
}

impl Claims {
    pub fn queued(&mut self, key: &str, claim: Claim) {
        self.changes.insert(key.to_owned(), claim);
    }

    /// Records that a change was inserted again after a restore.
    pub fn inserted_again(&mut self, key: &str, at_ms: i64) {
        if let Some(claim) = self.changes.get_mut(key) {
            claim.at_ms = at_ms;
        }
    }

    pub fn of(&self, key: &str) -> Option<&Claim> {
        self.changes.get(key)
    }

    /// Records that the platform no longer has the SKU.
    pub fn gone(&mut self, sku: &str, at_ms: i64) {
        self.gone.insert(sku.to_owned(), at_ms);
    }

    pub fn discontinued(&mut self, sku: &str) {
        self.discontinued.insert(sku.to_owned());
    }

    /// Records that a SKU is a kit from now on, or a product.
    pub fn kit(&mut self, sku: &str, is_kit: bool) {
        self.gone.remove(sku);
        if is_kit {
            self.kits.insert(sku.to_owned())
        } else {
            self.kits.remove(sku)
        };
    }

    pub fn is_kit(&self, sku: &str) -> bool {
        self.kits.contains(sku)
    }

    /// Records that a subject fails from now on; returns false if too many fail already, or this one does.
    pub fn poisoned(&mut self, subject: &Subject, how: How, at_once: usize) -> bool {
        let mut failing = self.poisoned.iter().filter(|(_, until)| until.is_none());
        if failing.clone().count() >= at_once || failing.any(|(of, _)| of == subject) {
            return false;
        }
        if how.is_refusal() {
            self.refused.push(subject.clone());
        }
        self.poisoned.push((subject.clone(), None));
        true
    }

    /// Returns the entry that has failed longest.
    pub fn poisoned_longest(&self) -> Option<Subject> {
        self.poisoned.iter().find(|(_, until)| until.is_none()).map(|(subject, _)| subject.clone())
    }

    /// Records that an entry works again; `None` means all of them.
    pub fn cured(&mut self, cured: Option<&Subject>, at_ms: i64) {
        self.poisoned.retain(|(_, until)| until.is_none_or(|until| until > at_ms));
        for (subject, until) in &mut self.poisoned {
            if until.is_none() && cured.is_none_or(|cured| cured == subject) {
                *until = Some(at_ms + CURED_MS);
            }
        }
    }

    /// Records a person's decision about a change.
    pub fn said(&mut self, key: &str) {
        self.said.insert(key.to_owned());
    }

    /// Returns true the first time that a person meets the change.
    pub fn is_new_to_a_person(&mut self, key: &str) -> bool {
        self.retried.insert(key.to_owned())
    }

    /// Records that the policy is `remote` until then.
    pub fn remote_wins(&mut self, until_ms: i64) {
        self.remote_until_ms = until_ms;
    }

    /// Returns true if the subject of the change, or of its shipment, has trouble of its own.
    pub fn is_troubled(&self, key: &str, at_ms: i64) -> bool {
        let Some(claim) = self.changes.get(key) else { return true };
        let is_poisoned = self
            .poisoned
            .iter()
            .any(|(subject, until)| until.is_none_or(|until| until > at_ms) && claim.is_about(subject));
        let is_gone = self.gone.contains_key(&claim.sku)
            || self.discontinued.contains(&claim.sku)
            || self.kits.contains(&claim.sku)
            || claim.order.is_some_and(|order| self.cancelled.contains_key(&order));
        let parcel = (!claim.shipment_key.is_empty()).then(|| self.is_troubled(&claim.shipment_key, at_ms));
        is_poisoned || is_gone || parcel.unwrap_or(false)
    }

    /// Returns true if the trouble justifies the rejection or withdrawal of the change.
    fn is_right(&self, key: &str, claim: &Claim, reason: &str, fates: &BTreeMap<String, String>) -> bool {
        match reason {
            "operator" | "landed" => self.said.contains(key),
            "superseded" => claim.kind.starts_with("quantity."),
            "remote_wins" => claim.kind == "quantity.set" && claim.at_ms <= self.remote_until_ms,
            "kit" => self.kits.contains(&claim.sku),
            // The body describes the product as it was before a warehouse was added.
            "bad_body" => claim.kind == "product.update",
            "no_shipment" => {
                let fate = fates.get(&claim.shipment_key).map(String::as_str);
                matches!(fate, Some("rejected" | "cancelled"))
            }
            "service_refused" => {
                self.gone.contains_key(&claim.sku)
                    || self.discontinued.contains(&claim.sku)
                    || self.kits.contains(&claim.sku)
                    || self.refused.iter().any(|subject| claim.is_about(subject))
            }
            _ => false,
        }
    }
}

impl Trial {
    /// Judges the changes that were rejected or cancelled since the last call.
    pub async fn judge_refusals(&mut self) {
        let sql = "SELECT key, state, coalesce(reason, ''), coalesce(detail, '') FROM outbox \
                   WHERE state IN ('rejected', 'cancelled')";
        let over: Vec<(String, String, String, String)> = self.world.outsider.rows(sql).await;
        let fates: BTreeMap<String, String> =
            over.iter().map(|(key, state, ..)| (key.clone(), state.clone())).collect();
        for (key, state, reason, detail) in over {
            if !self.claims.judged.insert(key.clone()) {
                continue;
            }
            if self.was_final(&key) {
                continue;
            }
            let Some(claim) = self.claims.of(&key).cloned() else { continue };
            if !self.claims.is_right(&key, &claim, &reason, &fates) {
                self.broken(format!("{key} was right, and is {state} ({reason}): {detail}; {claim:?}"));
            }
        }
    }
}
