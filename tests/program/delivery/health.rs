//! Health on real events.
//!
//! Ordinary trade has no findings; each wait, failure or unreadable record is named with its reason.

use super::support::{A_MOMENT, BALANCES, Dock, LONG, SHIP, UPDATE};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tallyd::client::{HttpTransport, PlatformRequest, SendFuture, Transport};
use tallyd::daemon::boot_id;
use tallyd::health;
use tallyd::health::{DaemonState, Finding, FindingCode, HealthInputs, HealthReport};
use tallyd::model::{JobKind, Operation};

const MINUTE: Duration = Duration::from_secs(60);

/// Creates a dock without schedules, so that no data becomes stale while a test advances the clock.
async fn quiet() -> Dock {
    let jobs = JobKind::ALL.iter().filter(|kind| **kind != JobKind::Push);
    Dock::open_with(&jobs.map(|kind| format!("[jobs.{kind}]\nenabled = false\n")).collect::<String>()).await
}

/// Inserts a change that adjusts a stock level with stock.
async fn moved(dock: &Dock, key: &str) {
    let stock = dock.sandbox.stock_levels().await.unwrap();
    let level = stock.iter().find(|row| row.quantity >= 10).unwrap();
    let body = json!({"sku": level.sku, "warehouse_id": level.warehouse_id, "delta": 1});
    dock.change(key, "quantity.adjust", body).await;
}

async fn health(dock: &Dock) -> HealthReport {
    let clock = dock.clock();
    let look = HealthInputs {
        daemon: DaemonState::Running,
        host: "here".into(),
        keys: Default::default(),
        metrics_file: None,
        is_metrics_old: false,
        at_once: false,
        call_timeout: Duration::from_secs(30),
        limits: dock.config().limits.clone(),
        boot_id: boot_id(&*clock),
        now: clock.now(),
        moment: clock.moment(),
    };
    health::check_health(&dock.daemon().context().store, &look).await.unwrap()
}

/// Returns the finding of a code; panics if there is none.
pub(super) async fn finding(dock: &Dock, code: FindingCode) -> Finding {
    let health = health(dock).await;
    let found = health.all_findings().find(|finding| finding.code == code);
    found.unwrap_or_else(|| panic!("no {code}: {:?}", health.findings)).clone()
}

async fn codes(dock: &Dock) -> Vec<&'static str> {
    health(dock).await.findings.iter().map(|finding| finding.code.as_str()).collect()
}

#[tokio::test]
async fn ordinary_trade_is_well_at_every_moment() {
    let dock = quiet().await;
    let (a, b) = dock.two_skus().await;
    for round in 0..3 {
        let (order, _) = dock.order(&[(&a, 1), (&b, 1)]).await;
        moved(&dock, &format!("a{round}")).await;
        dock.change(&format!("s{round}"), "shipment.create", json!({"order_id": order})).await;
        let tracking = json!({"shipment_key": format!("s{round}"), "tracking_number": format!("T{round}")});
        dock.change(&format!("t{round}"), "tracking.submit", tracking).await;
        assert_eq!(health(&dock).await.status_line(), "all is well", "inserted just now");
        for _ in 0..3 {
            dock.push().await;
            assert_eq!(health(&dock).await.status_line(), "all is well", "{:?}", codes(&dock).await);
            dock.later(A_MOMENT);
            dock.settle().await;
        }
    }
    assert_eq!(dock.number("SELECT count(*) FROM outbox WHERE state <> 'applied'").await, 0);
    dock.later(LONG);
    assert_eq!(health(&dock).await.status_line(), "all is well", "{:?}", codes(&dock).await);
}

#[tokio::test]
async fn a_tracking_number_whose_shipment_no_change_makes_is_named() {
    let dock = quiet().await;
    let body = json!({"shipment_key": "tpyo", "tracking_number": "T"});
    dock.change("t", "tracking.submit", body).await;
    dock.push().await;
    assert_eq!(dock.reason("t").await, "awaits_other");
    assert!(health(&dock).await.is_healthy(), "the shipment may be inserted next");
    dock.later(3 * MINUTE);
    let found = finding(&dock, FindingCode::Waiting).await;
    assert_eq!((found.count, &found.subjects[..]), (1, &["t".to_owned()][..]));
    assert!(found.text.contains("no change has the key `tpyo` yet"), "{}", found.text);
    assert_eq!(codes(&dock).await, ["waiting"]);
    dock.done(&["outbox", "cancel", "t"]).await;
    assert!(health(&dock).await.is_healthy());
}

#[tokio::test]
async fn pushes_that_fail_again_and_again_are_named_with_the_services_words() {
    let dock = quiet().await;
    dock.faults(json!([{"Operation": UPDATE, "Status": 404, "Times": 4}])).await;
    moved(&dock, "a").await;
    dock.push().await;
    assert!(health(&dock).await.is_healthy(), "one failure is none: {:?}", codes(&dock).await);
    for _ in 0..4 {
        dock.later(MINUTE);
        dock.push().await;
    }
    let found = finding(&dock, FindingCode::PushFails).await;
    assert!(found.text.contains(UPDATE) && found.text.contains("404"), "{}", found.text);
    assert!(found.count >= 3 && found.since.is_some(), "{found:?}");
    let waits = finding(&dock, FindingCode::Waiting).await;
    assert!(waits.text.contains("`a` for 4 min"), "{}", waits.text);
    // After four failures without a success of others, the retry waits two minutes.
    dock.later(2 * MINUTE);
    dock.push().await;
    assert_eq!(dock.state("a").await, "applied");
    assert!(health(&dock).await.is_healthy(), "{:?}", codes(&dock).await);
}

#[tokio::test]
async fn a_change_that_waits_is_late_only_beyond_the_holds_in_force() {
    let dock = quiet().await;
    let hold = json!({"Operation": BALANCES, "Status": 429, "RetryAfter": 600, "Times": 1});
    dock.faults(json!([hold])).await;
    moved(&dock, "a").await;
    // The push waits for the hold, and the test for two seconds.
    let push = tokio::time::timeout(Duration::from_secs(2), dock.push()).await;
    assert!(push.is_err(), "the account is on hold: {push:?}");
    let late = async || codes(&dock).await.contains(&"waiting");
    for (after, is_late) in [(9, false), (2, false), (2, true)] {
        dock.later(after * MINUTE);
        assert_eq!(late().await, is_late, "after {after} min more: {:?}", health(&dock).await.findings);
    }
}

#[tokio::test]
async fn a_change_whose_calls_are_never_answered_waits_since_it_was_inserted() {
    let dock = quiet().await;
    moved(&dock, "w").await;
    for _ in 0..3 {
        dock.fault(UPDATE, json!({"Drop": "before"})).await;
        dock.push().await;
        assert_eq!(dock.state("w").await, "in_doubt", "{:?}", dock.fate("w").await);
        dock.settle_after(LONG).await;
        assert_eq!(dock.state("w").await, "pending", "it had no effect");
    }
    let waiting = finding(&dock, FindingCode::Waiting).await;
    assert!(waiting.text.contains("`w` for 33 min"), "{}", waiting.text);
}

#[tokio::test]
async fn a_shipment_that_somebody_may_have_made_is_in_doubt_and_not_held() {
    let dock = quiet().await;
    let (a, _) = dock.two_skus().await;
    let (order, _) = dock.order(&[(&a, 5)]).await;
    dock.fault(SHIP, json!({"Drop": "after"})).await;
    dock.change("s", "shipment.create", json!({"order_id": order})).await;
    dock.push().await;
    dock.settle_after(LONG).await;
    assert_eq!(dock.reason("s").await, "landed_or_another");
    let found = finding(&dock, FindingCode::InDoubt).await;
    assert_eq!((found.count, health(&dock).await.count_of(FindingCode::Held)), (1, 0));
}

/// A transport that makes the balances record of one SKU unreadable.
struct Garbled {
    http: HttpTransport,
    sku: Arc<Mutex<String>>,
    is_at_work: Arc<AtomicBool>,
}

impl Transport for Garbled {
    fn send(&self, request: PlatformRequest) -> SendFuture<'_> {
        let is_balances = request.operation == Operation::GetProductBalances;
        Box::pin(async move {
            let mut response = self.http.send(request).await?;
            if is_balances && self.is_at_work.load(Ordering::SeqCst) {
                let mut products: Vec<Value> = serde_json::from_slice(&response.body).unwrap();
                for product in
                    products.iter_mut().filter(|product| product["Sku"] == *self.sku.lock().unwrap())
                {
                    product["Warehouses"][0]["QuantityOnHand"] = "many".into();
                }
                response.body = serde_json::to_vec(&products).unwrap();
            }
            Ok(response)
        })
    }
}

#[tokio::test]
async fn a_record_that_no_poll_can_read_is_named_until_one_can() {
    let (sku, is_at_work) = (Arc::<Mutex<String>>::default(), Arc::new(AtomicBool::new(true)));
    let (named, garbles) = (Arc::clone(&sku), Arc::clone(&is_at_work));
    let dock =
        Dock::open_over(|http| Some(Arc::new(Garbled { http, sku: named, is_at_work: garbles }))).await;
    let (bad, good) = dock.two_skus().await;
    sku.lock().unwrap().clone_from(&bad);
    for sku in [&bad, &good] {
        dock.done(&["sku", "add", sku]).await;
    }
    dock.run(JobKind::Balances).await;
    let unreadable = async || health(&dock).await.count_of(FindingCode::Unreadable);
    assert_eq!(unreadable().await, 0, "one answer may be broken");
    dock.later(A_MOMENT);
    dock.run(JobKind::Balances).await;
    let found = finding(&dock, FindingCode::Unreadable).await;
    assert_eq!(found.subjects, std::slice::from_ref(&bad), "{found:?}");
    assert!(found.text.contains("balances") && found.needs_operator(), "{}", found.text);
    is_at_work.store(false, Ordering::SeqCst);
    dock.later(A_MOMENT);
    dock.run(JobKind::Balances).await;
    assert_eq!(unreadable().await, 0, "{:?}", health(&dock).await.findings);
}

#[tokio::test]
async fn a_rejection_is_a_finding_until_a_person_acknowledges_it() {
    let dock = quiet().await;
    for key in ["x", "y", "z"] {
        dock.change(key, "no.such.kind", json!({})).await;
    }
    dock.push().await;
    let found = finding(&dock, FindingCode::Rejected).await;
    assert_eq!(found.count, 3);
    assert!(found.text.contains("`z` (bad_body"), "{}", found.text);
    assert!(found.what_to_do.contains("tallyd outbox acknowledge"), "{}", found.what_to_do);
    dock.done(&["outbox", "acknowledge", "x"]).await;
    assert_eq!(finding(&dock, FindingCode::Rejected).await.count, 2);
    let event = "SELECT count(*) FROM event WHERE kind = 'outbox.acknowledged' AND subject = 'x'";
    assert_eq!(dock.number(event).await, 1, "it stands in the journal");
    assert!(dock.done(&["outbox", "acknowledge", "x"]).await.contains("acknowledged"), "again is no mistake");
    assert_eq!(dock.number(event).await, 1);
    assert!(dock.done(&["outbox", "acknowledge", "--all"]).await.contains("2 rejected changes"));
    assert!(health(&dock).await.is_healthy());
    assert!(
        dock.refused(&["outbox", "acknowledge", "nobody"]).await.contains("there is no change with this key")
    );
    dock.change("p", "tracking.submit", json!({"shipment_key": "later", "tracking_number": "T"})).await;
    let said = dock.refused(&["outbox", "acknowledge", "p"]).await;
    assert!(said.contains("only a rejected change is acknowledged"), "{said}");
}

#[tokio::test]
async fn nobody_else_can_acknowledge() {
    let dock = quiet().await;
    let mut other = dock.outsider().await;
    for sql in [
        "INSERT INTO outbox (key, kind, body, acknowledged_ms) VALUES ('a', 'no.such.kind', '{}', 1)",
        "UPDATE outbox SET acknowledged_ms = 1",
    ] {
        if sql.starts_with("UPDATE") {
            dock.change("b", "no.such.kind", json!({})).await;
        }
        assert!(other.run(sql).await.is_err(), "{sql}");
    }
}
