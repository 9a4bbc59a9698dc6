//! The spellings that programs use: SKUs in other case and with blanks, numbers in every form of JSON.

use super::super::books::Level;
use super::claims::Claim;
use super::kinds::Kind;
use super::trial::Trial;
use serde_json::{Value, json};

/// SKUs of some products, in scripts whose case is not a matter of ASCII.
///
/// Among them are a letter whose capital is two letters, and one with two small forms.
const SCRIPTS: [&str; 3] = ["ΟΔΟΣ-1", "ТОВАР-Ж2", "GRÖẞE-Ü3"];

impl Trial {
    /// Gives some products names in other scripts at the beginning.
    pub async fn name_in_other_scripts(&mut self) {
        if !self.kinds.has(Kind::Spelling) {
            return;
        }
        let skus = self.old_skus();
        for (old, new) in skus.iter().zip(SCRIPTS) {
            self.renamed(old, new).await;
        }
    }

    /// Inserts a change as one of the warehouse's programs writes it; returns its key.
    pub async fn change(&mut self, kind: &str, body: &Value) -> String {
        let text = self.dressed(body);
        let key = self.world.change_text(kind, &text).await;
        let now = self.world.clock.now_ms();
        self.claims.queued(&key, Claim::new(kind, body, now));
        key
    }

    /// Records a change that a program of the product inserted.
    pub fn inserted(&mut self, key: &str, kind: &str, body: &Value) {
        let now = self.world.clock.now_ms();
        self.claims.queued(key, Claim::new(kind, body, now));
    }

    fn dressed(&mut self, body: &Value) -> String {
        let (other_spelling, points, form) =
            (self.random.percent(20), self.random.percent(15), self.random.between(1, 4));
        let mut body = body.clone();
        if other_spelling && self.kinds.has(Kind::Spelling) && body["sku"].is_string() {
            let sku = super::super::audit::text(&body["sku"]);
            body["sku"] = spelled(&sku, form).into();
        }
        if points && self.kinds.has(Kind::Floats) {
            let text = super::super::rewrite::with_points(body).to_string();
            // 5.0 in half of the bodies, 5e0 in the others.
            let ends = [".0,", ".0}", ".0]"];
            let exponents =
                ends.iter().fold(text.clone(), |text, end| text.replace(end, &end.replace(".0", "e0")));
            return if form % 2 == 0 { text } else { exponents };
        }
        body.to_string()
    }

    /// Gives a product another SKU; returns false if the call failed.
    pub async fn renamed(&mut self, old: &str, new: &str) -> bool {
        if !self.put(old, json!({"Sku": new})).await {
            return false;
        }
        let now = self.world.clock.now_ms();
        let levels: Vec<Level> = self.truth.keys().filter(|(sku, _)| sku == old).cloned().collect();
        for level in levels {
            let renamed = (new.to_owned(), level.1);
            let units = self.truth.remove(&level).unwrap_or_default();
            self.truth.insert(renamed.clone(), units);
            self.auditor(|auditor| {
                let listed = auditor.levels.listed(&level);
                auditor.levels.known(&renamed, listed, now);
                auditor.told.renamed(&level, &renamed);
            });
        }
        self.auditor(|auditor| auditor.levels.forget(old));
        self.claims.gone(old, now);
        self.track_sku(new).await;
        true
    }
}

/// Returns another spelling of the SKU: small, capital, with blanks around it.
fn spelled(sku: &str, form: i64) -> String {
    // Letter by letter, as simple programs do: a sigma at the end of a word keeps its usual form.
    let small: String = sku.chars().flat_map(char::to_lowercase).collect();
    match form {
        1 | 2 => small,
        3 => format!(" {sku} "),
        _ => format!("{small} "),
    }
}

#[test]
fn a_spelling_differs_in_case_and_blanks_alone() {
    for sku in SCRIPTS.iter().chain(&["SKU-00001"]) {
        for form in 1..=4 {
            let other = spelled(sku, form);
            let case_key = |sku: &str| sku.trim().to_lowercase().to_uppercase();
            assert_ne!(other, **sku);
            assert_eq!(case_key(&other), case_key(sku), "{other}");
        }
    }
}
