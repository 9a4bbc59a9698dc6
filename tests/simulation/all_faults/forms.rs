//! The page in a person's browser: forms that are sent twice, again after hours, or long after the page was loaded.
//!
//! The real page runs beside the daemon and is asked over HTTP while the world is at rest. The browser keeps what it
//! loaded, and of a later read of the page only the live parts.

use super::super::auditor::Effect;
use super::super::books::Level;
use super::browser::{Fields, ask, encoded, form_as_shown, form_of, set};
use super::trial::Trial;
use serde_json::json;
use std::net::SocketAddr;
use std::sync::Arc;
use tallyd::web::{PagesOptions, RunningPages, start_pages};

/// A number that rises with each change and each decision.
const WRITTEN: &str =
    "SELECT CAST((SELECT count(*) FROM event) + count(*) + coalesce(sum(revision), 0) AS BIGINT) FROM outbox";

/// The page, and what persons have of it in their browsers.
#[derive(Default)]
pub struct Browser {
    running: Option<(RunningPages, SocketAddr)>,
    opened: Option<(Level, OpenPage)>,
    sent: Option<SentForm>,
}

/// A page in a browser.
pub struct OpenPage {
    path: String,
    cookie: String,
    pub html: String,
}

/// A form as a browser sends it, and sends it again.
#[derive(Clone)]
pub struct SentForm {
    path: String,
    cookie: String,
    pub fields: Fields,
    /// The number that a person typed.
    typed: &'static str,
}

impl OpenPage {
    /// Returns a form of the page, filled in.
    pub fn form(&self, fields: Fields, typed: &'static str) -> SentForm {
        SentForm { path: self.path.clone(), cookie: self.cookie.clone(), fields, typed }
    }
}

impl Browser {
    /// Takes this form for the one that is sent again.
    pub fn is_last(&mut self, form: SentForm) {
        self.sent = Some(form);
    }

    /// Returns the address and its first path, which lets a person in.
    fn address(&self) -> (SocketAddr, String) {
        let (running, address) = self.running.as_ref().expect("the page runs");
        let (_, path) = running.url.split_once("/?").expect("the address has the token");
        (*address, format!("/?{path}"))
    }
}

impl Trial {
    /// Ends the page, before its database is replaced.
    pub async fn close_pages(&mut self) {
        if let Some((running, _)) = self.browser.running.take() {
            running.stop.cancel();
            running.ended.await.unwrap();
        }
        (self.browser.opened, self.browser.sent) = (None, None);
    }

    /// Loads a page in a new visit.
    pub async fn open_page(&mut self, path: String) -> OpenPage {
        self.world.rest().await;
        if self.browser.running.is_none() {
            let mut config = self.world.config();
            config.web.token_file = Some(self.world.dir.path().join("token"));
            let options = PagesOptions { listen: ([127, 0, 0, 1], 0).into(), is_read_only: false };
            let running = start_pages(config, Arc::new(self.world.clock.clone()), options).await.unwrap();
            let address =
                running.url.trim_start_matches("http://").split('/').next().unwrap().parse().unwrap();
            self.browser.running = Some((running, address));
        }
        let (address, token) = self.browser.address();
        let let_in = ask(address, &format!("GET {token} HTTP/1.1\r\n"), "").await;
        let (_, cookie) = let_in.split_once("set-cookie: ").unwrap_or_else(|| panic!("no cookie: {let_in}"));
        let cookie = cookie.split(';').next().unwrap().to_owned();
        let html = self.page_of(&path, &cookie).await;
        OpenPage { path, cookie, html }
    }

    async fn page_of(&self, path: &str, cookie: &str) -> String {
        let (address, _) = self.browser.address();
        let head = format!("GET {path} HTTP/1.1\r\nAccept: text/html\r\nCookie: {cookie}\r\n");
        ask(address, &head, "").await
    }

    /// Sends a form; returns the keys of the changes that it made.
    async fn send_form(&mut self, form: &SentForm) -> Vec<String> {
        self.world.rest().await;
        let before = self.world.last_change().await;
        let (address, _) = self.browser.address();
        let pairs: Vec<String> =
            form.fields.iter().map(|(name, value)| format!("{}={}", encoded(name), encoded(value))).collect();
        let body = pairs.join("&");
        let head = format!(
            "POST {} HTTP/1.1\r\nCookie: {}\r\nOrigin: http://{address}\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n",
            form.path,
            form.cookie,
            body.len()
        );
        ask(address, &head, &body).await;
        self.world.inserted_since(before).await.into_iter().map(|change| change.key).collect()
    }

    /// Sends a form for the first time; returns the key of its change, or `None` if it was refused.
    pub async fn send_change(&mut self, form: SentForm) -> Option<String> {
        let keys = self.send_form(&form).await;
        if keys.len() > 1 {
            self.broken(format!("a form of {} that was sent once made the changes {keys:?}", form.path));
        }
        let key = keys.into_iter().next()?;
        self.count("forms");
        self.browser.sent = Some(form);
        Some(key)
    }

    /// Sends a form that decides; returns false if nothing was decided.
    pub async fn send_decision(&mut self, form: SentForm) -> bool {
        self.world.rest().await;
        let before = self.world.number(WRITTEN).await;
        self.send_form(&form).await;
        let is_decided = self.world.number(WRITTEN).await != before;
        if is_decided {
            self.count("decisions on the page");
            self.browser.sent = Some(form);
        }
        is_decided
    }

    /// Sends a form for the first time and tells the auditor its effect.
    async fn send_level(
        &mut self,
        (kind, level): (&str, Level),
        form: SentForm,
        (units, effect): (i64, Effect),
    ) -> Option<String> {
        let key = self.send_change(form).await?;
        self.goods_moved(&level, units);
        self.inserted(&key, kind, &json!({"sku": level.0, "warehouse_id": level.1}));
        self.auditor(|auditor| auditor.levels.queued(&key, &level, effect));
        self.amid = Some(level);
        Some(key)
    }

    /// Sends the last form again: nothing is queued or decided by it any more.
    async fn send_again(&mut self, form: &SentForm) {
        self.world.rest().await;
        let before = self.world.number(WRITTEN).await;
        let keys = self.send_form(form).await;
        self.count("forms sent again");
        if !keys.is_empty() {
            self.broken(format!("a form of {} that was sent again made {keys:?}", form.path));
        } else if self.world.number(WRITTEN).await != before {
            self.broken(format!(
                "a form of {} that was sent again decided again: {:?}",
                form.path, form.fields
            ));
        }
    }

    /// Sends the last form again at once, as a double click does.
    pub async fn send_twice(&mut self) {
        if let Some(form) = self.browser.sent.clone() {
            self.send_again(&form).await;
        }
    }

    /// Reports a movement by a form, which a double click or a slow answer may send twice.
    pub async fn form(&mut self, is_sent_twice: bool) {
        let level = self.level_by_hand();
        let there = self.truth[&level].max(0);
        let (comes, out) = (self.hands.between(1, 9), self.hands.between(1, 3).min(there));
        let units = if out == 0 || self.hands.percent(50) { comes } else { -out };
        let page = self.open_page(page_of_sku(&level)).await;
        let hidden = level.1.to_string();
        let Some(mut fields) = form_of(&page.html, "adjust", ("warehouse", &hidden)) else { return };
        set(&mut fields, "delta", &units.to_string());
        let form = page.form(fields, "delta");
        self.send_level(("quantity.adjust", level), form, (units, Effect::Add(units))).await;
        if is_sent_twice {
            self.send_twice().await;
        }
    }

    /// Goes back in the browser, sometimes types another number, and sends the last form again.
    pub async fn form_again(&mut self) {
        let Some(mut form) = self.browser.sent.clone() else { return };
        if !form.typed.is_empty() && self.hands.percent(50) {
            set(&mut form.fields, form.typed, "1");
        }
        self.send_again(&form).await;
    }

    /// Loads the page of a stock level that a customer buys from afterwards.
    pub async fn form_opened(&mut self) {
        let level = self.level_by_hand();
        self.browser.opened = Some((level.clone(), self.open_page(page_of_sku(&level)).await));
        self.sale(level).await;
    }

    /// Counts what the opened page shows by now, and sends its form.
    pub async fn form_late(&mut self) {
        let Some((level, page)) = self.browser.opened.take() else { return };
        if !self.truth.contains_key(&level) {
            return;
        }
        let Some((counted, shown)) = self.counted(&level).await else { return };
        let fresh = self.page_of(&page.path, &page.cookie).await;
        let Some(mut fields) = form_as_shown(&page.html, &fresh, level.1) else { return };
        set(&mut fields, "quantity", &counted.to_string());
        let (effect, covered) = (self.effect(counted, shown), self.held_movements(&level).await);
        let form = page.form(fields, "quantity");
        let Some(key) = self.send_level(("quantity.set", level), form, (0, effect)).await else { return };
        self.auditor(|auditor| auditor.levels.covers(&key, covered));
    }

    fn level_by_hand(&mut self) -> Level {
        let levels: Vec<Level> = self.truth.keys().cloned().collect();
        self.hands.pick(&levels).clone()
    }
}

fn page_of_sku((sku, _): &Level) -> String {
    format!("/stock/{}", encoded(sku))
}
