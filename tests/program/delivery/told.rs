//! A platform whose answers a test changes: rules that rewrite answers on their way.

use super::support::Dock;
use serde_json::Value;
use std::sync::{Arc, Mutex};
use tallyd::client::{HttpTransport, PlatformRequest, PlatformResponse, SendFuture, Transport};
use tallyd::model::Operation;

type Rule = Box<dyn Fn(&PlatformRequest, &mut PlatformResponse) + Send>;

/// The rules in force; each is applied to every answer.
#[derive(Clone, Default)]
pub struct Rules(Arc<Mutex<Vec<Rule>>>);

struct Told {
    http: HttpTransport,
    rules: Rules,
}

/// Creates a dock with changeable answers.
pub async fn told() -> (Dock, Rules) {
    let rules = Rules::default();
    let with = rules.clone();
    (Dock::open_over(|http| Some(Arc::new(Told { http, rules: with }))).await, rules)
}

impl Rules {
    /// Applies `rule` to the answers of `operation` from now on.
    pub fn say(
        &self,
        operation: Operation,
        rule: impl Fn(&PlatformRequest, &mut PlatformResponse) + Send + 'static,
    ) {
        let rule = move |request: &PlatformRequest, response: &mut PlatformResponse| {
            if request.operation == operation {
                rule(request, response);
            }
        };
        self.0.lock().unwrap().push(Box::new(rule));
    }

    /// Applies `rule` to the lines of this order in every answer to *Get line items*.
    pub fn lines(&self, order: i64, rule: impl Fn(&mut Vec<Value>) + Send + 'static) {
        self.say(Operation::GetOrderLineItems, move |request, response| {
            if asks_for(request, order) {
                data_counted(response, &rule);
            }
        });
    }

    /// Removes the lines from the answers for this order; the answers still count them.
    pub fn lines_only_counted(&self, order: i64) {
        self.say(Operation::GetOrderLineItems, move |request, response| {
            if asks_for(request, order) {
                data(response, Vec::clear);
            }
        });
    }

    /// Makes every answer about this order a failure.
    pub fn fail_order(&self, order: i64) {
        self.say(Operation::GetOrderLineItems, move |request, response| {
            if asks_for(request, order) {
                fail(response, 500);
            }
        });
    }

    pub fn clear(&self) {
        self.0.lock().unwrap().clear();
    }
}

/// Replaces an answer by this status and a message.
pub fn fail(response: &mut PlatformResponse, status: u16) {
    *response = PlatformResponse {
        status,
        body: br#"{"Message":"Something went wrong."}"#.to_vec(),
        ..PlatformResponse::default()
    };
}

/// Changes the answer's records; the answer still counts the former ones.
pub fn data(response: &mut PlatformResponse, change: impl FnOnce(&mut Vec<Value>)) {
    let mut answer: Value = serde_json::from_slice(&response.body).unwrap();
    change(answer["data"].as_array_mut().unwrap());
    response.body = serde_json::to_vec(&answer).unwrap();
}

/// Changes the answer's records, and the number that it counts.
pub fn data_counted(response: &mut PlatformResponse, change: impl FnOnce(&mut Vec<Value>)) {
    data(response, change);
    let mut answer: Value = serde_json::from_slice(&response.body).unwrap();
    let count = answer["data"].as_array().unwrap().len();
    if let Some(pagination) = answer["pagination"].as_object_mut() {
        pagination.insert("TotalNumberOfEntries".into(), count.into());
    }
    response.body = serde_json::to_vec(&answer).unwrap();
}

fn asks_for(request: &PlatformRequest, order: i64) -> bool {
    let body: Value = serde_json::from_slice(request.body.as_deref().unwrap()).unwrap();
    body["OrderId"] == order
}

impl Transport for Told {
    fn send(&self, request: PlatformRequest) -> SendFuture<'_> {
        Box::pin(async move {
            let mut response = self.http.send(request.clone()).await?;
            for rule in self.rules.0.lock().unwrap().iter() {
                rule(&request, &mut response);
            }
            Ok(response)
        })
    }
}
