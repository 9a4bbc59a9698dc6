//! The way between daemon and service: takes its time, loses what the storm says, and shows the auditor every call.
//!
//! Each call is a journey of its own that goes on when the caller gives up or dies, as a request on a network does.

use super::audit::Audit;
use super::clock::SimClock;
use super::odd::{How, Odd, Poison};
use super::random::Random;
use super::storm::{Mishap, Storm};
use axum::body::Bytes;
use axum::http::{self, header};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tallyd::client::{FailureKind, Request, Response, Sending, Sent, Transport, TransportError};
use tallyd::model::{Clock, Effect, Operation, Timestamp};
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
    weather: Mutex<Weather>,
    odd: Mutex<Odd>,
    /// The times at which calls arrived that failed for what they held, or because the service was sick.
    failed: Mutex<Vec<i64>>,
    /// Chance of what answers become.
    twists: Mutex<Random>,
    audit: Arc<Mutex<Audit>>,
    /// Requests inside the service at this instant.
    inside: AtomicUsize,
}

/// What is the matter with the way and with the service at the moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Weather {
    pub storm: Storm,
    /// What befalls every call that changes something, in a storm.
    pub only: Option<Mishap>,
    /// Balances are read from a replica that is so far behind, ms.
    pub lag_ms: i64,
    /// The daemon has a key that nobody knows.
    pub is_wrong_key: bool,
    /// What the service takes for each call beside its usual work.
    pub slowness: Duration,
    /// The service is not well, and the key lapses; nothing is carried out.
    pub lapse: Option<(Way, Lapse)>,
}

/// How a service that is not well answers.
#[derive(Clone, Copy, Debug)]
pub enum Way {
    ServerError,
    NotFound,
    Html,
    EmptyList,
    Dropped,
}

/// Which calls are answered as the interface says for a company without an active account; the others as the service is.
#[derive(Clone, Copy, Debug)]
pub enum Lapse {
    Updates,
    EveryThird,
}

/// How one call will go.
struct Journey {
    /// Its number among all calls that set out.
    call: usize,
    weather: Weather,
    there: Duration,
    before: Duration,
    after: Duration,
    back: Duration,
    /// How much later than the time-out a late call is done.
    late: Duration,
    mishap: Option<Mishap>,
    /// The service fails it like this.
    trouble: Option<How>,
    /// The calendar when it set out.
    asked_at: Timestamp,
}

impl Wire {
    pub fn new(core: Arc<Core>, clock: SimClock, seed: u64, audit: Arc<Mutex<Audit>>) -> Self {
        let random = Mutex::new(Random::new(seed, "network"));
        let twists = Mutex::new(Random::new(seed, "twists"));
        let (weather, odd, failed) = (Mutex::default(), Mutex::default(), Mutex::default());
        let inside = AtomicUsize::new(0);
        Self(Arc::new(Inner { core, clock, random, weather, odd, failed, twists, audit, inside }))
    }

    /// Changes what is odd about the service, or looks at it.
    pub fn odd<T>(&self, change: impl FnOnce(&mut Odd) -> T) -> T {
        change(&mut self.0.odd.lock().unwrap())
    }

    /// Every call that names one of these fails from now on.
    pub fn poison(&self, poisons: Vec<Poison>) {
        self.odd(|odd| odd.poisons = poisons);
        self.0.failed.lock().unwrap().clear();
    }

    /// The times at which calls arrived that failed.
    pub fn poisoned(&self) -> Vec<i64> {
        self.0.failed.lock().unwrap().clone()
    }

    /// The state of the way and the service at the moment.
    pub fn weather(&self) -> Weather {
        *self.0.weather.lock().unwrap()
    }

    /// Lets things go wrong from now on.
    pub fn storm(&self, storm: Storm) {
        self.change(|weather| weather.storm = storm);
    }

    /// Something is the matter from now on, or no longer.
    pub fn change(&self, change: impl FnOnce(&mut Weather)) {
        change(&mut self.0.weather.lock().unwrap());
    }

    /// Lets the service take so much longer for each call from now on.
    pub fn slow(&self, slowness: Duration) {
        self.change(|weather| weather.slowness = slowness);
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
                answer = travelling => {
                    if self.0.clock.is_suspended() {
                        // It lies in the host's socket until somebody can read it.
                        self.0.clock.sleep(Duration::ZERO).await;
                    }
                    answer.expect("a journey has no bugs")
                }
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
        let late = TIMEOUT + ms(LATE_MS);
        let weather = *self.weather.lock().unwrap();
        let before = before + weather.slowness;
        let mishap = weather.storm.draw(request.operation, &mut random);
        let mishap = mishap.map(|drawn| weather.only.unwrap_or(drawn));
        let mut audit = self.audit.lock().unwrap();
        audit.befell(request.operation, mishap);
        let trouble = self.odd.lock().unwrap().troubles(request);
        let is_lost = mishap.is_some() || trouble.is_some_and(|how| !how.is_refusal());
        let call = audit.sent(request, self.clock.now_ms(), is_lost);
        let asked_at = self.clock.now();
        Journey { call, weather, there, before, after, back, late, mishap, trouble, asked_at }
    }

    async fn travel(self: Arc<Self>, request: Request, journey: Journey) -> Result<Response, TransportError> {
        self.clock.elsewhere(journey.there).await;
        match journey.mishap {
            Some(Mishap::NoConnection) => return Err(lost(FailureKind::Connect, Sent::No)),
            Some(Mishap::LostBefore) => return Err(lost(FailureKind::Cut, Sent::Maybe)),
            Some(Mishap::Swallowed) => {
                self.clock.elsewhere(TIMEOUT * 2).await;
                return Err(lost(FailureKind::Timeout, Sent::Maybe));
            }
            Some(Mishap::Late) => self.clock.elsewhere(journey.late).await,
            _ => {}
        }
        let call = self.audit.lock().unwrap().arrived(request.operation, self.clock.now_ms());
        self.clock.elsewhere(journey.before).await;
        let answer = match journey.mishap {
            Some(mishap @ (Mishap::NoSlot | Mishap::NoPlace)) => Ok(throttled(mishap)),
            _ => match journey.trouble {
                Some(how) => self.trouble(&request, &journey, how),
                None => match journey.weather.lapse {
                    Some(lapse) => unwell(lapse, request.operation, journey.call),
                    None => self.deed(&request, &journey).await,
                },
            },
        };
        self.clock.elsewhere(journey.after).await;
        self.audit.lock().unwrap().left(request.operation, call, self.clock.now_ms());
        self.clock.elsewhere(journey.back).await;
        if journey.trouble == Some(How::Silent) {
            // The service is through with it, and its answer never comes.
            self.clock.elsewhere(TIMEOUT * 2).await;
        }
        match journey.mishap {
            Some(Mishap::LostAfter) => Err(lost(FailureKind::Cut, Sent::Maybe)),
            Some(Mishap::Cut) => {
                Err(TransportError { status: Some(200), ..lost(FailureKind::Cut, Sent::Maybe) })
            }
            Some(Mishap::FailsAfter) => {
                Ok(instead(500, "application/json", r#"{"Message":"Something went wrong."}"#))
            }
            Some(Mishap::Html) => Ok(page()),
            _ => {
                if let Ok(answer) = &answer {
                    // The calendar may be set back meanwhile: what is observed is as old as its request.
                    let at = self.clock.now().max(journey.asked_at).0;
                    self.audit.lock().unwrap().told(&request, answer, at);
                }
                answer
            }
        }
    }

    /// Nothing is done, and this is what the caller hears of it.
    fn trouble(&self, request: &Request, journey: &Journey, how: How) -> Result<Response, TransportError> {
        self.failed.lock().unwrap().push(self.clock.now_ms());
        let is_told = journey.mishap.is_none();
        self.audit.lock().unwrap().failed(request.operation, how, is_told, journey.call);
        match how {
            How::Status(status) => Ok(instead(status, "application/json", r#"{"Message":"It failed."}"#)),
            How::Html => Ok(page()),
            How::Cut => Err(TransportError { status: Some(200), ..lost(FailureKind::Cut, Sent::Maybe) }),
            How::Dropped => Err(lost(FailureKind::Cut, Sent::Maybe)),
            How::Silent => Err(lost(FailureKind::Timeout, Sent::Maybe)),
            // A call that changes something is not said to be done.
            How::Empty
                if request.operation == Operation::GetProductBalances
                    || request.operation.effect() == Effect::Write =>
            {
                Ok(instead(200, "application/json", "[]"))
            }
            How::Empty => {
                let nothing = r#"{"status":"Success","messages":[],"pagination":null,"data":[]}"#;
                Ok(instead(200, "application/json", nothing))
            }
        }
    }

    /// The service does it, and the auditor sees what it did.
    async fn deed(&self, request: &Request, journey: &Journey) -> Result<Response, TransportError> {
        self.inside.fetch_add(1, Ordering::SeqCst);
        let answer = self.core.handle(self.http(request, journey.weather.is_wrong_key)).await;
        self.inside.fetch_sub(1, Ordering::SeqCst);
        let Answer::Full(response) = answer else { return Err(lost(FailureKind::Cut, Sent::Maybe)) };
        let text = |name| response.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
        let mut response = Response {
            status: response.status().as_u16(),
            retry_after: text(header::RETRY_AFTER),
            content_type: text(header::CONTENT_TYPE),
            body: response.body().to_vec(),
        };
        let mut audit = self.audit.lock().unwrap();
        let now = self.clock.now_ms();
        audit.done(request, &response, journey.call, now);
        if journey.weather.lag_ms > 0 && request.operation == Operation::GetProductBalances {
            audit.as_of(now - journey.weather.lag_ms, &mut response);
        }
        let (odd, mut twists) = (self.odd.lock().unwrap(), self.twists.lock().unwrap());
        let befell = odd.rewrite(request, &mut response, &mut twists);
        audit.twisted(befell);
        audit.showed_order(request, &response, now);
        Ok(response)
    }

    fn http(&self, request: &Request, is_wrong_key: bool) -> http::Request<Bytes> {
        let query: Vec<String> =
            request.query.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
        let key = if is_wrong_key { "nobody's" } else { self.core.integration_key() };
        http::Request::builder()
            .method(request.operation.method())
            .uri(format!("{}?{}", request.path, query.join("&")))
            .header("svc-subscription-key", key)
            .header("gateway-subscription-key", self.core.gateway_key())
            .header(header::CONTENT_TYPE, "application/json")
            .body(Bytes::from(request.body.clone().unwrap_or_default()))
            .unwrap()
    }
}

/// A value as it stands in a query.
fn encoded(value: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    value.bytes().map(byte).collect()
}

/// The answer to a call while the service is not well and the key lapses.
fn unwell((way, lapse): (Way, Lapse), operation: Operation, call: usize) -> Result<Response, TransportError> {
    let is_update = operation == Operation::UpdateQuantityOnHand;
    let is_lapsed = match lapse {
        Lapse::Updates => is_update,
        Lapse::EveryThird => call.is_multiple_of(3),
    };
    let json = |status, body| Ok(instead(status, "application/json", body));
    match way {
        _ if is_lapsed && is_update => json(400, r#"{"Message":"no active account","StackTrace":null}"#),
        _ if is_lapsed => json(403, r#"{"Message":"The subscription key is not valid."}"#),
        Way::ServerError => json(500, r#"{"Message":"Something went wrong."}"#),
        Way::NotFound => json(404, ""),
        Way::Html => Ok(instead(200, "text/html", "<html><body>Please wait</body></html>")),
        Way::EmptyList => json(200, "[]"),
        Way::Dropped => Err(lost(FailureKind::Cut, Sent::Maybe)),
    }
}

fn throttled(mishap: Mishap) -> Response {
    let answer = instead(429, "application/json", r#"{"Message":"Too many calls."}"#);
    let retry_after = (mishap == Mishap::NoPlace).then(|| "3".to_owned());
    Response { retry_after, ..answer }
}

fn page() -> Response {
    instead(200, "text/html", "<html><body>Please wait</body></html>")
}

fn instead(status: u16, content_type: &str, body: &str) -> Response {
    Response { status, retry_after: None, content_type: Some(content_type.into()), body: body.into() }
}

fn lost(kind: FailureKind, sent: Sent) -> TransportError {
    TransportError { sent, kind, what: "the network lost it".into(), status: None, retry_after: None }
}
