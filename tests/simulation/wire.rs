//! The way between daemon and service: takes its time, loses what the storm says, and shows the auditor every call.
//!
//! Each call is a journey of its own that goes on when the caller gives up or dies, as a request on a network does.

use super::audit::Audit;
use super::clock::SimClock;
use super::random::Random;
use super::storm::{Mishap, Storm};
use axum::body::Bytes;
use axum::http::{self, header};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tallyd::client::{FailureKind, Request, Response, Sending, Sent, Transport, TransportError};
use tallyd::model::Clock;
use tallyd::sandbox::{Answer, Core};

/// The longest a call may take; the daemon is configured with the same.
pub const TIMEOUT: Duration = Duration::from_secs(30);
/// One way through the network, ms.
const WAY_MS: (i64, i64) = (20, 200);
/// The service's work before the deed and after it, ms.
const WORK_MS: (i64, i64) = (5, 50);
/// How much later than the time-out a late call is done, ms: up to the end of the quiet time that settle keeps.
const LATE_MS: (i64, i64) = (0, 29_000);

/// The transport of a world; clones are handles to the same one.
#[derive(Clone)]
pub struct Wire(Arc<Inner>);

struct Inner {
    core: Arc<Core>,
    clock: SimClock,
    random: Mutex<Random>,
    storm: Mutex<Storm>,
    /// What the service takes for each call beside its usual work.
    slowness: Mutex<Duration>,
    audit: Arc<Mutex<Audit>>,
    /// Requests inside the service at this instant.
    inside: AtomicUsize,
}

/// How one call will go.
struct Journey {
    there: Duration,
    before: Duration,
    after: Duration,
    back: Duration,
    /// How much later than the time-out a late call is done.
    late: Duration,
    mishap: Option<Mishap>,
}

impl Wire {
    pub fn new(core: Arc<Core>, clock: SimClock, random: Random, audit: Arc<Mutex<Audit>>) -> Self {
        let (random, storm, slowness) = (Mutex::new(random), Mutex::default(), Mutex::default());
        let inside = AtomicUsize::new(0);
        Self(Arc::new(Inner { core, clock, random, storm, slowness, audit, inside }))
    }

    /// Lets things go wrong from now on.
    pub fn storm(&self, storm: Storm) {
        *self.0.storm.lock().unwrap() = storm;
    }

    /// Lets the service take so much longer for each call from now on.
    pub fn slow(&self, slowness: Duration) {
        *self.0.slowness.lock().unwrap() = slowness;
    }

    /// Whether the service is not working on anything at this instant.
    pub fn is_at_rest(&self) -> bool {
        self.0.inside.load(Ordering::SeqCst) == 0
    }
}

impl Transport for Wire {
    fn send(&self, request: Request) -> Sending<'_> {
        let journey = self.0.journey(&request);
        let travelling = tokio::spawn(Arc::clone(&self.0).travel(request, journey));
        Box::pin(async move {
            tokio::select! {
                biased;
                answer = travelling => answer.expect("a journey has no bugs"),
                () = self.0.clock.sleep(TIMEOUT) => Err(lost(FailureKind::Timeout, Sent::Maybe)),
            }
        })
    }
}

impl Inner {
    fn journey(&self, request: &Request) -> Journey {
        let mut random = self.random.lock().unwrap();
        let mut ms = |(from, to)| Duration::from_millis(random.between(from, to).unsigned_abs());
        let (there, before, after, back) = (ms(WAY_MS), ms(WORK_MS), ms(WORK_MS), ms(WAY_MS));
        let before = before + *self.slowness.lock().unwrap();
        let late = TIMEOUT + ms(LATE_MS);
        let mishap = self.storm.lock().unwrap().draw(request.operation, &mut random);
        self.audit.lock().unwrap().befell(request.operation, mishap);
        Journey { there, before, after, back, late, mishap }
    }

    async fn travel(self: Arc<Self>, request: Request, journey: Journey) -> Result<Response, TransportError> {
        self.clock.sleep(journey.there).await;
        match journey.mishap {
            Some(Mishap::NoConnection) => return Err(lost(FailureKind::Connect, Sent::No)),
            Some(Mishap::LostBefore) => return Err(lost(FailureKind::Cut, Sent::Maybe)),
            Some(Mishap::Swallowed) => {
                self.clock.sleep(TIMEOUT * 2).await;
                return Err(lost(FailureKind::Timeout, Sent::Maybe));
            }
            Some(Mishap::Late) => self.clock.sleep(journey.late).await,
            _ => {}
        }
        let call = self.audit.lock().unwrap().arrived(request.operation, self.clock.now_ms());
        self.clock.sleep(journey.before).await;
        let answer = match journey.mishap {
            Some(mishap @ (Mishap::NoSlot | Mishap::NoPlace)) => Ok(throttled(mishap)),
            _ => self.deed(&request).await,
        };
        self.clock.sleep(journey.after).await;
        self.audit.lock().unwrap().left(call, self.clock.now_ms());
        self.clock.sleep(journey.back).await;
        match journey.mishap {
            Some(Mishap::LostAfter) => Err(lost(FailureKind::Cut, Sent::Maybe)),
            Some(Mishap::Cut) => {
                Err(TransportError { status: Some(200), ..lost(FailureKind::Cut, Sent::Maybe) })
            }
            Some(Mishap::FailsAfter) => {
                Ok(instead(500, "application/json", r#"{"Message":"Something went wrong."}"#))
            }
            Some(Mishap::Html) => Ok(instead(200, "text/html", "<html><body>Please wait</body></html>")),
            _ => answer,
        }
    }

    /// The service does it, and the auditor sees what it did.
    async fn deed(&self, request: &Request) -> Result<Response, TransportError> {
        self.inside.fetch_add(1, Ordering::SeqCst);
        let answer = self.core.handle(self.http(request)).await;
        self.inside.fetch_sub(1, Ordering::SeqCst);
        let Answer::Full(response) = answer else { return Err(lost(FailureKind::Cut, Sent::Maybe)) };
        let text = |name| response.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
        let response = Response {
            status: response.status().as_u16(),
            retry_after: text(header::RETRY_AFTER),
            content_type: text(header::CONTENT_TYPE),
            body: response.body().to_vec(),
        };
        self.audit.lock().unwrap().done(request, &response);
        Ok(response)
    }

    fn http(&self, request: &Request) -> http::Request<Bytes> {
        let query: Vec<String> =
            request.query.iter().map(|(name, value)| format!("{name}={value}")).collect();
        http::Request::builder()
            .method(request.operation.method())
            .uri(format!("{}?{}", request.path, query.join("&")))
            .header("svc-subscription-key", self.core.integration_key())
            .header("gateway-subscription-key", self.core.gateway_key())
            .header(header::CONTENT_TYPE, "application/json")
            .body(Bytes::from(request.body.clone().unwrap_or_default()))
            .unwrap()
    }
}

fn throttled(mishap: Mishap) -> Response {
    let answer = instead(429, "application/json", r#"{"Message":"Too many calls."}"#);
    let retry_after = (mishap == Mishap::NoPlace).then(|| "3".to_owned());
    Response { retry_after, ..answer }
}

fn instead(status: u16, content_type: &str, body: &str) -> Response {
    Response { status, retry_after: None, content_type: Some(content_type.into()), body: body.into() }
}

fn lost(kind: FailureKind, sent: Sent) -> TransportError {
    TransportError { sent, kind, what: "the network lost it".into(), status: None, retry_after: None }
}
