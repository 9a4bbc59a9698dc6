//! A failing platform: answers that prove nothing reject no change, and no call is repeated without end.

use super::support::{Dock, LONG, PRODUCT, TEMPLATE};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tallyd::client::{
    FailureKind, HttpTransport, PlatformRequest, PlatformResponse, SendFuture, Transport, TransportError,
};
use tallyd::model::{JobKind, Operation, RunTrigger, WarehouseId};
use tallyd::store::Durability;
use tallyd::sync;

/// An answer in place of the platform's own.
#[derive(Clone, Debug)]
pub enum Instead {
    Answer(u16, &'static str),
    Cut,
    NoConnection,
}

/// The interface's answer for a company without an active account.
const LAPSED: Instead = Instead::Answer(400, r#"{"Message":"no active account","ExceptionMessage":null}"#);
pub const NO_LINES: &str = r#"{"status":"Success","messages":[],"pagination":null,"data":[]}"#;

/// The platform behind a transport that answers in its place.
#[derive(Clone, Default)]
pub struct Sick(Arc<Mutex<BTreeMap<Operation, (Instead, usize)>>>);

struct Way {
    http: HttpTransport,
    sick: Sick,
}

impl Sick {
    pub async fn dock() -> (Dock, Self) {
        let sick = Self::default();
        let way = sick.clone();
        (Dock::open_over(|http| Some(Arc::new(Way { http, sick: way }))).await, sick)
    }

    /// Answers this operation so from now on.
    pub fn answers(&self, operation: Operation, instead: &Instead) {
        self.times(operation, instead, usize::MAX);
    }

    /// Answers this operation so for a number of calls.
    pub fn times(&self, operation: Operation, instead: &Instead, times: usize) {
        self.0.lock().unwrap().insert(operation, (instead.clone(), times));
    }

    pub fn is_well(&self) {
        self.0.lock().unwrap().clear();
    }

    fn instead(&self, operation: Operation) -> Option<Instead> {
        let mut all = self.0.lock().unwrap();
        let (instead, left) = all.get_mut(&operation).filter(|(_, left)| *left > 0)?;
        *left -= 1;
        Some(instead.clone())
    }
}

impl Transport for Way {
    fn send(&self, request: PlatformRequest) -> SendFuture<'_> {
        let lost = |kind| TransportError {
            kind,
            what: "the network lost it".into(),
            status: None,
            retry_after: None,
        };
        match self.sick.instead(request.operation) {
            None => self.http.send(request),
            Some(Instead::Answer(status, body)) => {
                let response = PlatformResponse { status, body: body.into(), ..PlatformResponse::default() };
                Box::pin(async move { Ok(response) })
            }
            Some(Instead::Cut) => Box::pin(async move { Err(lost(FailureKind::Cut)) }),
            Some(Instead::NoConnection) => Box::pin(async move { Err(lost(FailureKind::Unsent)) }),
        }
    }
}

/// Answers of a probe that prove nothing about the key.
pub const NOT_KNOWN: [Instead; 11] = [
    Instead::Answer(500, r#"{"Message":"Something went wrong."}"#),
    Instead::Answer(404, ""),
    Instead::Answer(429, ""),
    Instead::Answer(400, ""),
    Instead::Answer(302, ""),
    Instead::Answer(204, ""),
    Instead::Answer(200, "<html></html>"),
    Instead::Answer(200, "[]"),
    Instead::Answer(200, "{}"),
    Instead::Cut,
    Instead::NoConnection,
];

/// Returns stock levels of different SKUs, with their quantities.
pub async fn levels(dock: &Dock, count: usize) -> Vec<(String, i64, i64)> {
    let mut stock = dock.sandbox.stock_levels().await.unwrap();
    stock.dedup_by(|a, b| a.sku == b.sku);
    stock.into_iter().take(count).map(|row| (row.sku, row.warehouse_id, row.quantity)).collect()
}

pub async fn adjust(dock: &Dock, key: &str, (sku, warehouse, _): &(String, i64, i64)) {
    dock.change(key, "quantity.adjust", json!({"sku": sku, "warehouse_id": warehouse, "delta": 1})).await;
}

/// Returns the number of calls of an operation, including those that the transport answered.
pub async fn sent(dock: &Dock, operation: Operation) -> i64 {
    dock.number(&format!("SELECT count(*) FROM exchange WHERE operation = '{}'", operation.as_str())).await
}

#[tokio::test]
async fn a_400_that_nobody_can_judge_refuses_no_change_and_is_not_repeated() {
    for instead in &NOT_KNOWN {
        let (dock, sick) = Sick::dock().await;
        let levels = levels(&dock, 28).await;
        sick.answers(Operation::UpdateQuantityOnHand, &LAPSED);
        sick.answers(Operation::WorkQueue, instead);
        for (n, level) in levels.iter().enumerate() {
            adjust(&dock, &format!("a{n}"), level).await;
        }
        for _ in 0..5 {
            dock.push().await;
        }
        let burnt = sent(&dock, Operation::UpdateQuantityOnHand).await;
        assert!(burnt <= 2, "{instead:?}: {burnt} calls were answered 400");
        let probes = sent(&dock, Operation::WorkQueue).await;
        assert!(probes <= 2, "{instead:?}: {probes} probes at once");
        let waits = dock.number("SELECT count(*) FROM outbox WHERE state = 'pending'").await;
        assert_eq!(waits, 28, "{instead:?}");
        let answer = dock.number("SELECT count(*) FROM outbox WHERE reason = 'not_sent'").await;
        assert!(answer > 0, "{instead:?}: the changes of the call say what they wait for");
        dock.later(LONG);
        dock.push().await;
        assert_eq!(sent(&dock, Operation::UpdateQuantityOnHand).await, burnt, "{instead:?}");
        assert_eq!(sent(&dock, Operation::WorkQueue).await, probes + 1, "{instead:?}: it is asked again");
        sick.is_well();
        dock.later(LONG);
        dock.push().await;
        for (n, (sku, warehouse, quantity)) in levels.iter().enumerate() {
            let key = format!("a{n}");
            assert_eq!(dock.state(&key).await, "applied", "{instead:?}: {:?}", dock.fate(&key).await);
            assert_eq!(dock.level(sku, *warehouse).await, quantity + 1, "{instead:?}");
        }
    }
}

#[tokio::test]
async fn a_key_that_comes_back_between_the_refusal_and_the_probe_refuses_no_change() {
    let (dock, sick) = Sick::dock().await;
    let level = levels(&dock, 1).await.remove(0);
    sick.times(Operation::UpdateQuantityOnHand, &LAPSED, 1);
    adjust(&dock, "a", &level).await;
    dock.push().await;
    assert_eq!(dock.state("a").await, "applied", "{:?}", dock.fate("a").await);
    assert_eq!(dock.level(&level.0, level.1).await, level.2 + 1);
}

#[tokio::test]
async fn a_change_refused_alone_between_two_proofs_of_the_key_is_refused_for_good() {
    let (dock, sick) = Sick::dock().await;
    let levels = levels(&dock, 2).await;
    sick.answers(Operation::UpdateQuantityOnHand, &LAPSED);
    adjust(&dock, "a", &levels[0]).await;
    dock.push().await;
    assert_eq!(dock.fate("a").await.1, "service_refused");
    assert_eq!(sent(&dock, Operation::UpdateQuantityOnHand).await, 2, "the second is the proof");
    adjust(&dock, "b", &levels[1]).await;
    dock.push().await;
    assert_eq!(dock.fate("b").await.1, "service_refused");
    assert_eq!(sent(&dock, Operation::UpdateQuantityOnHand).await, 3, "the key was proved a moment ago");
}

#[tokio::test]
async fn a_create_refused_while_nobody_can_judge_the_key_waits() {
    let (dock, sick) = Sick::dock().await;
    let shop = super::creates::storefront(&dock).await;
    sick.answers(Operation::WorkQueue, &NOT_KNOWN[0]);
    sick.answers(Operation::CreateProduct, &Instead::Answer(400, r#"{"Message":"not now"}"#));
    sick.answers(Operation::CreateListingTemplate, &Instead::Answer(403, r#"{"Message":"not now"}"#));
    dock.change("p", "product.create", json!({"Sku": "NEW-1", "Name": "n"})).await;
    dock.change("t", "listing_template.create", json!({"StorefrontId": shop, "Name": "n", "Body": "b"}))
        .await;
    dock.push().await;
    assert_eq!((dock.state("p").await, dock.state("t").await), ("pending".into(), "pending".into()));
    assert!(!dock.daemon().context().limiter.is_refused(), "nothing says that the key is refused");
    sick.is_well();
    dock.push().await;
    assert_eq!((dock.state("p").await, dock.state("t").await), ("applied".into(), "applied".into()));
    assert_eq!((dock.calls(PRODUCT), dock.calls(TEMPLATE)), (1, 1));
}

#[tokio::test]
async fn a_403_on_an_id_beside_a_probe_that_answers_nothing_blames_neither() {
    let (dock, sick) = Sick::dock().await;
    let (sku, _) = dock.two_skus().await;
    let (order, _) = dock.order(&[(&sku, 1)]).await;
    dock.change("s", "shipment.create", json!({"order_id": order})).await;
    dock.push().await;
    let shipment = dock.made("s").await;
    sick.answers(Operation::ShipmentLineItems, &Instead::Answer(403, r#"{"Message":"not valid"}"#));
    sick.answers(Operation::WorkQueue, &NOT_KNOWN[0]);
    dock.change("t", "tracking.submit", json!({"shipment_id": shipment, "tracking_number": "1Z"})).await;
    dock.push().await;
    assert_eq!(dock.state("t").await, "pending");
    assert!(!dock.daemon().context().limiter.is_refused(), "nothing says that the key is refused");
    sick.is_well();
    dock.later(LONG);
    dock.push().await;
    assert_eq!(dock.state("t").await, "applied");
}

#[tokio::test]
async fn a_refusal_is_lifted_by_a_well_formed_answer_alone() {
    let (dock, sick) = Sick::dock().await;
    dock.daemon().context().limiter.refuse_key();
    for instead in &NOT_KNOWN {
        sick.answers(Operation::WorkQueue, instead);
        assert!(!dock.daemon().probe_key().await.unwrap(), "{instead:?}");
        assert!(dock.daemon().context().limiter.is_refused(), "{instead:?}");
    }
    sick.is_well();
    assert!(dock.daemon().probe_key().await.unwrap());
    assert!(!dock.daemon().context().limiter.is_refused());
}

#[tokio::test]
async fn a_list_of_warehouses_that_is_empty_or_unreadable_is_no_other_company() {
    let (dock, sick) = Sick::dock().await;
    let context = dock.daemon().context();
    let known = context.store.warehouse_ids().await.unwrap().into_iter().collect();
    let mut write = context.store.begin_write(Durability::Normal).await.unwrap();
    let run =
        write.run_begin(context.session_id, JobKind::Warehouses, RunTrigger::Operator, context.now()).await;
    write.commit().await.unwrap();
    let run = run.unwrap();
    let unreadable = r#"{"status":"Success","messages":[],"pagination":null,"data":[{"Id":"many"}]}"#;
    for body in [NO_LINES, unreadable] {
        sick.answers(Operation::ListWarehouses, &Instead::Answer(200, body));
        let answer = sync::lists_any_warehouse(context, run, &known).await;
        assert!(answer.is_err(), "{body}: {answer:?}");
    }
    // A platform that knows no pages shows the same full page again, which is the end of the list.
    let records: Vec<Value> = (1..=200).map(|id| json!({"Id": 900_000 + id, "Name": "W"})).collect();
    let same = json!({"status": "Success", "messages": [], "pagination": null, "data": records}).to_string();
    sick.answers(Operation::ListWarehouses, &Instead::Answer(200, same.leak()));
    let calls = "SELECT count(*) FROM exchange WHERE operation = 'GET /api/Warehouses'";
    let before = dock.number(calls).await;
    assert!(!sync::lists_any_warehouse(context, run, &known).await.unwrap());
    assert_eq!(dock.number(calls).await - before, 2);
    sick.is_well();
    assert!(sync::lists_any_warehouse(context, run, &known).await.unwrap());
    assert!(
        !sync::lists_any_warehouse(context, run, &[WarehouseId(1)].into()).await.unwrap(),
        "that is another's"
    );
}
