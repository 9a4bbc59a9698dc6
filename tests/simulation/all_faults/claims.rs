//! Nothing is refused without proof. The trial knows what was wrong with each wish: which SKUs were gone, which orders
//! cancelled, which entries the platform refused again and again. A wish that is rejected for anything else was right.

use super::super::audit::{text, whole};
use super::super::odd::{How, Subject};
use super::trial::Trial;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// An entry that failed for hours is tried again so much later at the latest, ms: half an hour, a time-out, a quiet time.
const CURED_MS: i64 = 45 * 60_000;

/// The subject of a wish.
#[derive(Clone, Debug)]
pub struct Claim {
    pub kind: String,
    /// Empty where it is about none.
    pub sku: String,
    pub order: Option<i64>,
    /// The wish whose parcel it tells of.
    pub shipment_key: String,
    pub at_ms: i64,
}

/// The trial's knowledge of all wishes, and of everything that is wrong.
#[derive(Debug, Default)]
pub struct Claims {
    wishes: BTreeMap<String, Claim>,
    /// SKUs the service does not have any more, since when.
    pub gone: BTreeMap<String, i64>,
    discontinued: BTreeSet<String>,
    kits: BTreeSet<String>,
    /// Entries that the platform refused as such, and those that fail now or did so until a little while ago.
    refused: Vec<Subject>,
    poisoned: Vec<(Subject, Option<i64>)>,
    /// Orders the customer cancelled, and those whose parcels a colleague cancelled, since when.
    pub cancelled: BTreeMap<i64, i64>,
    pub reopened: BTreeMap<i64, i64>,
    /// Wishes of which a person spoke.
    said: BTreeSet<String>,
    /// Wishes that a person let be planned anew once.
    retried: BTreeSet<String>,
    /// The policy let the service win until then.
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

    /// True if a call that holds the wish, or a look that it needs, holds the subject.
    fn is_about(&self, subject: &Subject) -> bool {
        match subject {
            Subject::Sku(sku) | Subject::Entry(sku) => *sku == self.sku,
            Subject::Order(order) | Subject::Parcel(order) => Some(*order) == self.order,
        }
    }
}

impl Claims {
    pub fn wished(&mut self, key: &str, claim: Claim) {
        self.wishes.insert(key.to_owned(), claim);
    }

    pub fn of(&self, key: &str) -> Option<&Claim> {
        self.wishes.get(key)
    }

    /// The service does not have the SKU any more.
    pub fn gone(&mut self, sku: &str, at_ms: i64) {
        self.gone.insert(sku.to_owned(), at_ms);
    }

    pub fn discontinued(&mut self, sku: &str) {
        self.discontinued.insert(sku.to_owned());
    }

    /// A SKU is a kit from now on, or a product.
    pub fn kit(&mut self, sku: &str, is_kit: bool) {
        self.gone.remove(sku);
        if is_kit {
            self.kits.insert(sku.to_owned())
        } else {
            self.kits.remove(sku)
        };
    }

    /// It fails from now on; false where so many fail already, or this one.
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

    /// The entry that has failed longest.
    pub fn poisoned_longest(&self) -> Option<Subject> {
        self.poisoned.iter().find(|(_, until)| until.is_none()).map(|(subject, _)| subject.clone())
    }

    /// It works again; none: all of them do.
    pub fn cured(&mut self, cured: Option<&Subject>, at_ms: i64) {
        self.poisoned.retain(|(_, until)| until.is_none_or(|until| until > at_ms));
        for (subject, until) in &mut self.poisoned {
            if until.is_none() && cured.is_none_or(|cured| cured == subject) {
                *until = Some(at_ms + CURED_MS);
            }
        }
    }

    /// A person speaks of a wish.
    pub fn said(&mut self, key: &str) {
        self.said.insert(key.to_owned());
    }

    /// True the first time that a person meets the wish.
    pub fn is_new_to_a_person(&mut self, key: &str) -> bool {
        self.retried.insert(key.to_owned())
    }

    /// The policy lets the service win until then.
    pub fn remote_wins(&mut self, until_ms: i64) {
        self.remote_until_ms = until_ms;
    }

    /// True if what the wish is about, or what its parcel is of, has trouble of its own.
    pub fn is_troubled(&self, key: &str, at_ms: i64) -> bool {
        let Some(claim) = self.wishes.get(key) else { return true };
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

    /// True if that is reason enough to refuse the wish, or to withdraw it.
    fn is_right(&self, key: &str, claim: &Claim, reason: &str, fates: &BTreeMap<String, String>) -> bool {
        match reason {
            "operator" | "landed" => self.said.contains(key),
            "superseded" => claim.kind.starts_with("quantity."),
            "remote_wins" => claim.kind == "quantity.set" && claim.at_ms <= self.remote_until_ms,
            "unknown_sku" => self.gone.contains_key(&claim.sku),
            "kit" => self.kits.contains(&claim.sku),
            // It describes the product as it was before a warehouse came.
            "bad_body" => claim.kind == "product.update",
            "unknown_order" | "foreign_line" => {
                claim.order.is_some_and(|order| self.cancelled.contains_key(&order))
            }
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
    /// Judges the wishes that were refused or withdrawn since.
    pub async fn judge_refusals(&mut self) {
        let sql = "SELECT key, state, coalesce(reason, ''), coalesce(detail, '') FROM outbox \
                   WHERE state IN ('rejected', 'cancelled')";
        let over: Vec<(String, String, String, String)> =
            sqlx::query_as(sql).fetch_all(&mut self.world.outsider).await.unwrap();
        let fates: BTreeMap<String, String> =
            over.iter().map(|(key, state, ..)| (key.clone(), state.clone())).collect();
        for (key, state, reason, detail) in over {
            if !self.claims.judged.insert(key.clone()) {
                continue;
            }
            let Some(claim) = self.claims.of(&key).cloned() else { continue };
            if !self.claims.is_right(&key, &claim, &reason, &fates) {
                self.broken(format!("{key} was right, and is {state} ({reason}): {detail}; {claim:?}"));
            }
        }
    }
}
