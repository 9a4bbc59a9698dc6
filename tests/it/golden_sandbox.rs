//! The golden exchanges from the platform's side: the sandbox answers exactly as stored.
//!
//! Each exchange has an account set up as it states, and a sandbox of its own, in process, on a clock that
//! stands still. Values that the sandbox assigns (ids, keys) are compared through stand-ins, see
//! `contract_support`. All else must be equal, headers and status included.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a helper of a test may end the test")]

use crate::it::contract_support::{self, Exchange, Shop, Step, exchanges, shop};
use crate::sandbox::{SandboxAnswer, SandboxClock, SandboxCore, SandboxOptions};
use axum::body::Bytes;
use axum::http::{Request, Response};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Values of the stand-ins of an exchange: stored → assigned, once known.
#[derive(Default)]
struct StandIns(BTreeMap<String, Option<String>>);

/// Share of an answer that must be stored.
#[derive(Clone, Copy, PartialEq)]
enum Extent {
    All,
    Part,
}

impl StandIns {
    fn add(&mut self, stand_ins: &BTreeMap<String, String>) {
        self.0.extend(stand_ins.keys().map(|written| (written.clone(), None)));
    }

    /// Returns the stored value with the assigned values in place of stand-ins.
    fn given(&self, written: &Value) -> Value {
        match written {
            Value::Object(fields) => {
                fields.iter().map(|(name, value)| (name.clone(), self.given(value))).collect()
            }
            Value::Array(items) => items.iter().map(|item| self.given(item)).collect(),
            Value::String(text) => Value::String(self.given_text(text)),
            Value::Number(number) => serde_json::from_str(&self.given_text(&number.to_string())).unwrap(),
            other => other.clone(),
        }
    }

    fn given_text(&self, written: &str) -> String {
        let given = |part: &str| match self.0.get(part) {
            Some(Some(given)) => given.clone(),
            Some(None) => panic!("{part} is sent before the platform gave it"),
            None => part.to_owned(),
        };
        if self.0.contains_key(written) {
            given(written)
        } else {
            parts(written).into_iter().map(given).collect()
        }
    }

    /// Adds differences to `wrong`, and records the values of stand-ins.
    fn compare(&mut self, at: &str, written: &Value, got: &Value, extent: Extent, wrong: &mut Vec<String>) {
        match (written, got) {
            (Value::Object(fields), Value::Object(found)) => {
                for (name, value) in fields {
                    match found.get(name) {
                        Some(found) => self.compare(&format!("{at}/{name}"), value, found, extent, wrong),
                        None => wrong.push(format!("{at}/{name} is missing")),
                    }
                }
                let unknown =
                    found.keys().filter(|name| extent == Extent::All && !fields.contains_key(*name));
                wrong.extend(unknown.map(|name| format!("{at}/{name} is not written down")));
            }
            (Value::Array(items), Value::Array(found)) => {
                if items.len() != found.len() {
                    wrong.push(format!("{at}: {} items, not {}", found.len(), items.len()));
                }
                for (index, (item, found)) in items.iter().zip(found).enumerate() {
                    self.compare(&format!("{at}/{index}"), item, found, extent, wrong);
                }
            }
            (Value::String(text), Value::String(found)) if self.same_text(text, found) => {}
            (Value::Number(_), Value::Number(_)) if self.same(&written.to_string(), &got.to_string()) => {}
            _ if written == got => {}
            _ => wrong.push(format!("{at} is {got}, not {written}")),
        }
    }

    fn same_text(&mut self, written: &str, got: &str) -> bool {
        if self.0.contains_key(written) {
            return self.same(written, got);
        }
        let (written, got) = (parts(written), parts(got));
        written.len() == got.len() && written.iter().zip(got).all(|(written, got)| self.same(written, got))
    }

    fn same(&mut self, written: &str, got: &str) -> bool {
        let taken = self.0.values().flatten().any(|given| given == got);
        match self.0.get_mut(written) {
            None => written == got,
            Some(Some(given)) => given == got,
            Some(unknown) => {
                *unknown = (!taken).then(|| got.to_owned());
                !taken
            }
        }
    }
}

/// Returns a text as runs of digits and of everything else, because an id may stand inside a sentence.
fn parts(text: &str) -> Vec<&str> {
    let is_digit = |c: char| c.is_ascii_digit();
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|c| is_digit(c) != is_digit(first)).unwrap_or(rest.len());
        parts.push(&rest[..end]);
        rest = &rest[end..];
    }
    parts
}

/// The platform of one exchange.
struct Service {
    core: Arc<SandboxCore>,
    shop: Shop,
    stand_ins: StandIns,
}

impl Service {
    async fn of(exchange: &Exchange) -> Self {
        let shop = shop();
        let options = SandboxOptions {
            integration_key: Some(shop.default_key.clone()),
            gateway_key: Some(shop.gateway_key.clone()),
            skus: 10,
            orders: 0,
            ..SandboxOptions::default()
        };
        let now_ms = shop.now_ms;
        let core =
            Arc::new(SandboxCore::open(&options, SandboxClock::from_source(move || now_ms)).await.unwrap());
        let mut stand_ins = StandIns::default();
        stand_ins.add(&shop.stand_ins);
        stand_ins.add(&exchange.stand_ins);
        Self { core, shop, stand_ins }
    }

    fn request(&self, written: &contract_support::Request) -> Request<Bytes> {
        let target = self.stand_ins.given_text(&written.target());
        let mut request = Request::builder().method(written.method.as_str()).uri(target);
        let headers = written.all_headers(&self.shop);
        // The control plane needs no key, and the very first call asks it for one.
        for (name, value) in headers.iter().filter(|_| !written.path.starts_with("/_sandbox/")) {
            request = request.header(name, self.stand_ins.given_text(value));
        }
        let body = written.body.as_ref().map(|body| self.stand_ins.given(body).to_string());
        request.body(Bytes::from(body.unwrap_or_default())).unwrap()
    }

    async fn send(&self, written: &contract_support::Request) -> Response<Bytes> {
        match self.core.handle_request(self.request(written)).await {
            SandboxAnswer::Full(response) => response,
            other => panic!("{} {}: {other:?}", written.method, written.path),
        }
    }

    async fn set_up(&mut self, step: &Step) {
        if let Some(count) = step.in_flight {
            return self.leave_in_flight(step, count).await;
        }
        for _ in 0..step.times.unwrap_or(1) {
            let response = self.send(&step.request).await;
            let said = format!("{} {}: {:?}", step.request.method, step.request.path, response.body());
            assert!(step.times.is_some() || response.status() == 200, "the setup fails: {said}");
            if let Some(answer) = &step.answer {
                let (got, mut wrong) = (json(&response), Vec::new());
                self.stand_ins.compare("", answer, &got, Extent::Part, &mut wrong);
                assert!(wrong.is_empty(), "the setup differs: {wrong:#?} in {said}");
            }
        }
    }

    async fn leave_in_flight(&self, step: &Step, count: usize) {
        let before = self.core.logged_calls().len();
        for _ in 0..count {
            let (core, request) = (Arc::clone(&self.core), self.request(&step.request));
            tokio::spawn(async move { core.handle_request(request).await });
        }
        while self.core.logged_calls().len() < before + count {
            tokio::task::yield_now().await;
        }
    }

    /// Returns the differences between the actual answer and the stored one.
    async fn differences(&mut self, exchange: &Exchange) -> Vec<String> {
        let response = self.send(&exchange.request).await;
        let header = |name| response.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
        let mut wrong = Vec::new();
        let written = &exchange.response;
        if response.status() != written.status {
            wrong.push(format!("the status is {}, not {}", response.status(), written.status));
        }
        if header("retry-after") != written.retry_after {
            wrong.push(format!("Retry-After is {:?}, not {:?}", header("retry-after"), written.retry_after));
        }
        if header("content-type").as_deref() != Some("application/json; charset=utf-8") {
            wrong.push(format!("Content-Type is {:?}", header("content-type")));
        }
        self.stand_ins.compare("", &written.body, &json(&response), Extent::All, &mut wrong);
        wrong
    }
}

fn json(response: &Response<Bytes>) -> Value {
    serde_json::from_slice(response.body()).unwrap()
}

async fn differences(exchange: &Exchange) -> Vec<String> {
    let mut service = Service::of(exchange).await;
    for step in &std::mem::take(&mut service.shop.setup) {
        service.set_up(step).await;
    }
    for step in &exchange.setup {
        service.set_up(step).await;
    }
    service.differences(exchange).await
}

#[tokio::test]
async fn every_exchange_is_answered_as_it_is_written_down() {
    let mut failed = Vec::new();
    for exchange in exchanges() {
        let wrong = differences(&exchange).await;
        if !wrong.is_empty() {
            failed.push(format!("{} ({}): {wrong:#?}", exchange.title, exchange.heading));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn every_documented_kind_of_answer_has_an_exchange() {
    let kinds: BTreeSet<_> = exchanges()
        .iter()
        .map(|exchange| (exchange.response.status, exchange.response.retry_after.is_some()))
        .collect();
    let documented = [
        (200, false),
        (400, false),
        (403, false),
        (403, true),
        (404, false),
        (429, false),
        (429, true),
        (500, false),
    ];
    assert_eq!(kinds, BTreeSet::from(documented));
}

#[test]
fn titles_are_unique_and_every_exchange_cites_the_document() {
    let exchanges = exchanges();
    let titles: BTreeSet<_> = exchanges.iter().map(|exchange| &exchange.title).collect();
    assert_eq!(titles.len(), exchanges.len());
    assert!(exchanges.iter().all(|exchange| !exchange.heading.is_empty()));
}

#[test]
fn a_difference_is_found_wherever_it_is() {
    let written =
        serde_json::json!({ "Id": 7001, "Twin": 7002, "Text": "item 7001 of 3", "List": [1.0, null] });
    let compare = |got: &str| {
        let mut stand_ins = StandIns::default();
        let listed = ["7001", "7002"].map(|id| (id.to_owned(), String::new()));
        stand_ins.add(&BTreeMap::from(listed));
        let mut wrong = Vec::new();
        stand_ins.compare("", &written, &serde_json::from_str(got).unwrap(), Extent::All, &mut wrong);
        wrong.len()
    };
    for (got, differences) in [
        (r#"{"Id":5,"Twin":6,"Text":"item 5 of 3","List":[1.0,null]}"#, 0),
        (r#"{"Id":5,"Twin":6,"Text":"item 6 of 3","List":[1.0,null]}"#, 1),
        (r#"{"Id":5,"Twin":5,"Text":"item 5 of 3","List":[1.0,null]}"#, 1),
        (r#"{"Id":5,"Twin":6,"Text":"item 5 of 4","List":[1,null]}"#, 2),
        (r#"{"Id":5,"Twin":6,"Text":"item 5 of 3","List":[1.0,null],"New":0}"#, 1),
        (r#"{"Id":5,"Twin":6,"Text":"item 5 of 3","List":[1.0]}"#, 1),
        (r#"{"Id":5,"Twin":6,"List":[1.0,null]}"#, 1),
        (r#"{"Id":"5","Twin":6,"Text":"item 5 of 3","List":[1.0,0]}"#, 2),
    ] {
        assert_eq!(compare(got), differences, "{got}");
    }
}
