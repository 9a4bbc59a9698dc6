//! The page over raw HTTP: who gets in, the pages, the forms, and the live parts.
//!
//! `browser.rs` does the same in a real browser.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends at the first thing that is not as said")]

mod browser;
mod door;
mod findings;
mod forms;
mod live;
mod once;
mod pages;
mod speed;
mod states;
mod webdriver;

use crate::support::World;
use crate::support::outsider::quoted;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use tallyd::config::Config;
use tallyd::daemon::SystemClock;
use tallyd::model::Clock;
use tallyd::web::{PagesOptions, RunningPages, start_pages};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Duration, timeout};

/// Time limit for an answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// An answer, as it came.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    fn parse(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        let body = if head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
            unchunked(body)
        } else {
            body.to_owned()
        };
        Self { status, head: head.to_owned(), body }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let named = |line: &&str| line.split(':').next().is_some_and(|one| one.eq_ignore_ascii_case(name));
        self.head.lines().find(named).and_then(|line| line.split_once(':')).map(|(_, value)| value.trim())
    }
}

fn unchunked(mut body: &str) -> String {
    let mut text = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let Ok(size) = usize::from_str_radix(size.trim(), 16) else { break };
        text.push_str(rest.get(..size).unwrap_or(rest));
        body = rest.get(size + 2..).unwrap_or_default();
    }
    text
}

/// The page of a world, and a visit to it.
pub(crate) struct Visit {
    pub(crate) address: SocketAddr,
    pub(crate) token: String,
    pub(crate) cookie: String,
    /// The page of this process; `None`: it is a process of its own.
    running: Option<RunningPages>,
}

impl Visit {
    pub(crate) async fn start(world: &World) -> Self {
        Self::with(world.config(), false).await
    }

    pub(crate) async fn with(config: Config, is_read_only: bool) -> Self {
        Self::by_clock(config, is_read_only, Arc::new(SystemClock)).await
    }

    pub(crate) async fn by_clock(config: Config, is_read_only: bool, clock: Arc<dyn Clock>) -> Self {
        let options = PagesOptions { listen: ([127, 0, 0, 1], 0).into(), is_read_only };
        let running = start_pages(config, clock, options).await.unwrap();
        let visit = Self::at(&running.url).await;
        Self { running: Some(running), ..visit }
    }

    /// Visits the page at an address with its token.
    pub(crate) async fn at(url: &str) -> Self {
        let (address, token) = url.strip_prefix("http://").unwrap().split_once("/?token=").unwrap();
        let (address, token) = (address.parse().unwrap(), token.to_owned());
        let mut visit = Self { address, token, cookie: String::new(), running: None };
        let answer = visit.raw(&format!("GET /?token={} HTTP/1.1\r\n", visit.token)).await;
        assert_eq!(answer.status, 303, "{answer:?}");
        visit.cookie = answer.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
        visit
    }

    pub(crate) async fn stop(self) {
        self.running.as_ref().unwrap().stop.cancel();
        self.ended().await;
    }

    /// Waits until the page has ended by itself.
    pub(crate) async fn ended(self) {
        timeout(PATIENCE, self.running.unwrap().ended).await.unwrap().unwrap();
    }

    /// Sends a request line with headers; the usual host and the end of the head are added.
    pub(crate) async fn raw(&self, head: &str) -> Answer {
        self.bytes(format!("{head}Host: {}\r\nConnection: close\r\n\r\n", self.address).as_bytes()).await
    }

    /// Sends bytes and returns the answer.
    pub(crate) async fn bytes(&self, bytes: &[u8]) -> Answer {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        let mut answer = Vec::new();
        timeout(PATIENCE, stream.read_to_end(&mut answer)).await.unwrap().unwrap();
        Answer::parse(&String::from_utf8_lossy(&answer))
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.raw(&format!("GET {path} HTTP/1.1\r\nAccept: text/html\r\nCookie: {}\r\n", self.cookie)).await
    }

    pub(crate) async fn json(&self, path: &str) -> Value {
        let head = format!("GET {path} HTTP/1.1\r\nAccept: application/json\r\nCookie: {}\r\n", self.cookie);
        let answer = self.raw(&head).await;
        assert_eq!(
            (answer.status, answer.header("content-type")),
            (200, Some("application/json")),
            "{path}: {answer:?}"
        );
        serde_json::from_str(&answer.body).unwrap()
    }

    /// Returns the value that each form of this visit carries.
    pub(crate) async fn csrf(&self) -> String {
        let page = self.get("/stock").await.body;
        let (_, rest) = page.split_once("name=\"csrf\" value=\"").unwrap();
        rest.split('"').next().unwrap().to_owned()
    }

    /// Sends a form with these fields, its CSRF token and its key, as a page that was just loaded has them.
    pub(crate) async fn post(&self, path: &str, fields: &[(&str, &str)]) -> Answer {
        let served = self.served("/stock", "track").await;
        self.send_served(path, &served, fields).await
    }

    /// Loads a page and returns the hidden fields of its form with this button.
    pub(crate) async fn served(&self, path: &str, action: &str) -> Vec<(String, String)> {
        let page = self.get(path).await.body;
        let button = format!("name=\"action\" value=\"{action}\"");
        let forms = page.split("<form method=\"post\"").skip(1);
        let mut forms = forms.map(|form| form.split("</form>").next().unwrap());
        let form = forms.find(|form| form.contains(&button));
        let form = form.unwrap_or_else(|| panic!("no form with {action} at {path}: {page}"));
        let value = |input: &str, name: &str| {
            let (_, rest) = input.split_once(&format!(" {name}=\""))?;
            Some(rest.split('"').next().unwrap().to_owned())
        };
        let inputs = form.split("<input").filter(|input| input.contains("type=\"hidden\""));
        inputs.filter_map(|input| Some((value(input, "name")?, value(input, "value")?))).collect()
    }

    /// Sends a form that was served before, with what a person filled in.
    pub(crate) async fn send_served(
        &self,
        path: &str,
        served: &[(String, String)],
        fields: &[(&str, &str)],
    ) -> Answer {
        let hidden = served.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let fields: Vec<(&str, &str)> = hidden.chain(fields.iter().copied()).collect();
        self.send_form(path, &encoded(&fields), "").await
    }

    /// Returns the text of the notice on the page to which an answer leads.
    pub(crate) async fn notice(&self, answer: &Answer) -> String {
        assert_eq!(answer.status, 303, "{answer:?}");
        let page = self.get(answer.header("location").unwrap()).await.body;
        let (_, notice) = page.split_once("class=\"notice").unwrap_or_else(|| panic!("no notice: {page}"));
        let (_, text) = notice.split_once('>').unwrap();
        plain(text.split("</p>").next().unwrap())
    }

    pub(crate) async fn send_form(&self, path: &str, body: &str, more: &str) -> Answer {
        let head = format!(
            "POST {path} HTTP/1.1\r\nCookie: {}\r\nOrigin: http://{}\r\n{more}\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\nHost: {}\r\nConnection: close\r\n\r\n",
            self.cookie,
            self.address,
            body.len(),
            self.address
        );
        self.bytes((head + body).as_bytes()).await
    }

    /// Sends a form and returns the text of the next page's notice.
    pub(crate) async fn act(&self, path: &str, fields: &[(&str, &str)]) -> String {
        let answer = self.post(path, fields).await;
        self.notice(&answer).await
    }
}

/// Returns the text of a part of a page, as a person reads it.
pub(crate) fn plain(html: &str) -> String {
    let mut text = String::new();
    for (index, part) in html.split('<').enumerate() {
        text.push_str(if index == 0 { part } else { part.split_once('>').unwrap().1 });
    }
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&")
}

/// Inserts a count of 0 for every stock level above zero, in one commit, and returns their number.
pub(crate) async fn zero_everything(world: &World) -> i64 {
    let levels = world.shop().await.into_iter().filter(|(_, _, quantity)| *quantity > 0);
    let row = |(number, (sku, warehouse, _)): (usize, (String, i64, i64))| {
        let body = json!({"sku": sku, "warehouse_id": warehouse, "quantity": 0}).to_string();
        format!("('zero {number}', 'quantity.set', {})", quoted(&body))
    };
    let rows: Vec<String> = levels.enumerate().map(row).collect();
    world.sql(&format!("INSERT INTO outbox (key, kind, body) VALUES {}", rows.join(", "))).await;
    i64::try_from(rows.len()).unwrap()
}

/// Inserts a count that disagrees with the platform, and waits until it is held as a conflict.
pub(crate) async fn disagree(world: &World, key: &str, (sku, warehouse, quantity): &(String, i64, i64)) {
    let body = json!({"sku": sku, "warehouse_id": warehouse, "quantity": 15, "seen": quantity + 3});
    world.change(key, "quantity.set", &body.to_string()).await;
    world.until("the conflict is held", async |world| world.fate(key).await.1 == "conflict").await;
}

pub(crate) fn encoded(fields: &[(&str, &str)]) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let encode = |text: &str| -> String {
        text.bytes()
            .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
            .collect()
    };
    let pairs: Vec<String> =
        fields.iter().map(|(name, value)| format!("{}={}", encode(name), encode(value))).collect();
    pairs.join("&")
}
