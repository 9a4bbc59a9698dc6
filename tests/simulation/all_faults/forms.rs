//! The page in a person's browser: forms that are sent twice, again after hours, or long after the page was loaded.
//!
//! The real page runs beside the daemon and is asked over HTTP while the world is at rest. The browser keeps what it
//! loaded, and of a later read of the page only the live parts.

use super::super::auditor::Effect;
use super::super::books::Level;
use super::trial::Trial;
use serde_json::json;
use std::net::SocketAddr;
use std::sync::Arc;
use tallyd::present::pages::{PagesOptions, RunningPages};
use tallyd::web::start_pages;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The page, and what persons have of it in their browsers.
#[derive(Default)]
pub struct Browser {
    running: Option<(RunningPages, SocketAddr)>,
    opened: Option<OpenPage>,
    sent: Option<SentForm>,
}

/// The page of a SKU in a browser.
struct OpenPage {
    level: Level,
    cookie: String,
    html: String,
}

/// A form as a browser sends it again.
#[derive(Clone)]
struct SentForm {
    level: Level,
    cookie: String,
    fields: Vec<(String, String)>,
}

impl Browser {
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

    /// Loads the page of a stock level in a new visit.
    async fn open_page(&mut self, level: Level) -> OpenPage {
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
        let (address, path) = self.browser.address();
        let let_in = ask(address, &format!("GET {path} HTTP/1.1\r\n"), "").await;
        let (_, cookie) = let_in.split_once("set-cookie: ").unwrap_or_else(|| panic!("no cookie: {let_in}"));
        let cookie = cookie.split(';').next().unwrap().to_owned();
        let html = self.page_of(&level, &cookie).await;
        OpenPage { level, cookie, html }
    }

    async fn page_of(&self, (sku, _): &Level, cookie: &str) -> String {
        let (address, _) = self.browser.address();
        let head =
            format!("GET /stock/{} HTTP/1.1\r\nAccept: text/html\r\nCookie: {cookie}\r\n", encoded(sku));
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
            "POST /stock/{} HTTP/1.1\r\nCookie: {}\r\nOrigin: http://{address}\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n",
            encoded(&form.level.0),
            form.cookie,
            body.len()
        );
        ask(address, &head, &body).await;
        self.world.inserted_since(before).await.into_iter().map(|change| change.key).collect()
    }

    /// Sends a form for the first time and tells the auditor its effect; returns false if it was refused.
    async fn send_new(&mut self, kind: &str, form: SentForm, units: i64, effect: Effect) {
        let keys = self.send_form(&form).await;
        if keys.len() > 1 {
            self.broken(format!("a form that was sent once made the changes {keys:?}"));
        }
        if let Some(key) = keys.into_iter().next() {
            *self.truth.entry(form.level.clone()).or_default() += units;
            let body = json!({"sku": form.level.0, "warehouse_id": form.level.1});
            self.inserted(&key, kind, &body);
            self.auditor(|auditor| auditor.levels.queued(&key, &form.level, effect));
            self.amid = Some(form.level.clone());
            self.count("forms");
            self.browser.sent = Some(form);
        }
    }

    async fn send_again(&mut self, form: &SentForm) {
        let keys = self.send_form(form).await;
        self.count("forms sent again");
        if !keys.is_empty() {
            self.broken(format!("a form for {:?} that was sent again made {keys:?}", form.level));
        }
    }

    /// Reports a movement by a form, which a double click or a slow answer may send twice.
    pub async fn form(&mut self, is_sent_twice: bool) {
        let level = self.level_by_hand();
        let there = self.truth[&level].max(0);
        let (comes, out) = (self.hands.between(1, 9), self.hands.between(1, 3).min(there));
        let units = if out == 0 || self.hands.percent(50) { comes } else { -out };
        let page = self.open_page(level).await;
        let Some(mut fields) = form_of(&page.html, "adjust", page.level.1) else { return };
        set(&mut fields, "delta", &units.to_string());
        let form = SentForm { level: page.level, cookie: page.cookie, fields };
        self.send_new("quantity.adjust", form, units, Effect::Add(units)).await;
        if let Some(form) = self.browser.sent.clone().filter(|_| is_sent_twice) {
            self.send_again(&form).await;
        }
    }

    /// Goes back in the browser and sends the last form again.
    pub async fn form_again(&mut self) {
        if let Some(form) = self.browser.sent.clone() {
            self.send_again(&form).await;
        }
    }

    /// Loads the page of a stock level that a customer buys from afterwards.
    pub async fn form_opened(&mut self) {
        let level = self.level_by_hand();
        self.browser.opened = Some(self.open_page(level.clone()).await);
        self.sale(level).await;
    }

    /// Counts what the opened page shows by now, and sends its form.
    pub async fn form_late(&mut self) {
        let Some(page) = self.browser.opened.take() else { return };
        if !self.truth.contains_key(&page.level) {
            return;
        }
        let Some((counted, shown)) = self.counted(&page.level).await else { return };
        let fresh = self.page_of(&page.level, &page.cookie).await;
        let Some(mut fields) = form_as_shown(&page.html, &fresh, page.level.1) else { return };
        set(&mut fields, "quantity", &counted.to_string());
        let effect = self.effect(counted, shown);
        let form = SentForm { level: page.level, cookie: page.cookie, fields };
        self.send_new("quantity.set", form, 0, effect).await;
    }

    fn level_by_hand(&mut self) -> Level {
        let levels: Vec<Level> = self.truth.keys().cloned().collect();
        self.hands.pick(&levels).clone()
    }
}

/// Returns the fields of the count's form in a browser that loaded one page and replaced its live parts by those of
/// another.
fn form_as_shown(loaded: &str, fresh: &str, warehouse: i64) -> Option<Vec<(String, String)>> {
    let form = form_html(loaded, "count", warehouse)?;
    let mut fields = fields_of(form, "count");
    for span in form.split("<span id=\"").skip(1).filter_map(|rest| rest.split('>').next()) {
        let live = format!("<span id=\"{span}>");
        let fresh = fresh.split_once(&live).filter(|_| span.ends_with(" data-live"));
        let fresh = fresh.and_then(|(_, rest)| rest.split("</span>").next());
        for (name, value) in fresh.map(inputs).unwrap_or_default() {
            set(&mut fields, &name, &value);
        }
    }
    Some(fields)
}

/// Returns the fields of the form with this button for a warehouse.
fn form_of(html: &str, action: &str, warehouse: i64) -> Option<Vec<(String, String)>> {
    form_html(html, action, warehouse).map(|form| fields_of(form, action))
}

fn form_html<'a>(html: &'a str, action: &str, warehouse: i64) -> Option<&'a str> {
    let (button, hidden) =
        (format!("name=\"action\" value=\"{action}\""), format!("name=\"warehouse\" value=\"{warehouse}\""));
    let mut forms = html.split("<form").skip(1).filter_map(|rest| rest.split("</form>").next());
    forms.find(|form| form.contains(&button) && form.contains(&hidden))
}

fn fields_of(form: &str, action: &str) -> Vec<(String, String)> {
    let mut fields = inputs(form);
    set(&mut fields, "action", action);
    fields
}

fn inputs(html: &str) -> Vec<(String, String)> {
    let field = |tag: &str| {
        let tag = tag.split('>').next()?;
        Some((attribute(tag, "name")?, attribute(tag, "value").unwrap_or_default()))
    };
    html.split("<input").skip(1).filter_map(field).collect()
}

fn attribute(tag: &str, name: &str) -> Option<String> {
    let (_, rest) = tag.split_once(&format!(" {name}=\""))?;
    let value = rest.split('"').next()?;
    Some(value.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&"))
}

fn set(fields: &mut Vec<(String, String)>, name: &str, value: &str) {
    fields.retain(|(of, _)| of != name);
    fields.push((name.to_owned(), value.to_owned()));
}

fn encoded(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}

/// Sends a request and returns the answer with its head.
async fn ask(address: SocketAddr, head: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("{head}Host: {address}\r\nConnection: close\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn a_form_has_its_hidden_fields_and_those_that_it_was_served_with() {
    let html = r#"<form action="/a"><input type="hidden" name="csrf" value="c&amp;d"><input type="hidden" name="warehouse" value="4"></form><form><input type="hidden" name="csrf" value="c"><input type="hidden" name="warehouse" value="5">
        <input id="seen" name="seen" type="number" value="7"><input name="quantity" required>
        <button type="submit" name="action" value="count">Count</button></form>"#;
    let pairs: &[(&str, &str)] =
        &[("csrf", "c"), ("warehouse", "5"), ("seen", "7"), ("quantity", ""), ("action", "count")];
    let expected: Vec<(String, String)> =
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    assert_eq!(form_of(html, "count", 5), Some(expected));
    assert_eq!(form_of(html, "count", 4), None);
    assert_eq!(attribute(r#"<input name="csrf" value="c&amp;d""#, "value").as_deref(), Some("c&d"));
}

#[test]
fn a_live_part_of_a_form_has_what_the_page_shows_now() {
    let page = |seen: &str, csrf: &str| {
        format!(
            r#"<form><input type="hidden" name="csrf" value="{csrf}"><input type="hidden" name="warehouse" value="5"><span id="x"></span><span id="shown-5" data-live>this page shows {seen} <input type="hidden" name="seen" value="{seen}"></span><button type="submit" name="action" value="count">Count</button></form>"#
        )
    };
    let fields = form_as_shown(&page("50", "first"), &page("40", "second"), 5).unwrap();
    let of = |name: &str| fields.iter().find(|(of, _)| of == name).map(|(_, value)| value.as_str());
    assert_eq!((of("seen"), of("csrf")), (Some("40"), Some("first")));
}
