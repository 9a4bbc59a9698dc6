//! The network between daemon and platform: it takes time, applies faults, and shows the auditor every call.
//!
//! Each call is a task of its own, which goes on when the caller times out or is killed, as a request on a
//! network does.

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
use tallyd::client::{FailureKind, PlatformRequest, PlatformResponse, SendFuture, Transport, TransportError};
use tallyd::model::{CallEffect, Clock, Operation, Timestamp};
use tallyd::sandbox::{SandboxAnswer, SandboxCore};

/// Time-out of a call; the daemon is configured with the same value.
pub const TIMEOUT: Duration = Duration::from_secs(30);
/// Network latency in each direction, ms.
const WAY_MS: (i64, i64) = (20, 200);
/// The platform's processing time before the effect and after it, ms.
const WORK_MS: (i64, i64) = (5, 50);
/// Delay of a late call after the time-out, ms: up to the end of the quiet time that settle keeps.
const LATE_MS: (i64, i64) = (0, 29_000);

/// The transport of a world; clones are handles of one host to one transport.
#[derive(Clone)]
pub struct Wire {
    inner: Arc<Inner>,
    /// Clock of the host.
    clock: SimClock,
    /// Calls of the host that wait for their answers.
    waiting: Arc<AtomicUsize>,
}

/// Counts a call until it is dropped.
struct WaitingCall(Arc<AtomicUsize>);

impl WaitingCall {
    fn new(waiting: &Arc<AtomicUsize>) -> Self {
        waiting.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(waiting))
    }
}

impl Drop for WaitingCall {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

struct Inner {
    core: Arc<SandboxCore>,
    clock: SimClock,
    random: Mutex<Random>,
    weather: Mutex<Weather>,
    odd: Mutex<Odd>,
    /// Arrival times of the calls that failed for an entry or because the platform failed.
    failed: Mutex<Vec<i64>>,
    /// Random numbers for odd answers.
    twists: Mutex<Random>,
    audit: Arc<Mutex<Audit>>,
    /// Requests inside the platform at this instant.
    inside: AtomicUsize,
}

/// State of the network and the platform.
#[derive(Clone, Copy, Debug, Default)]
pub struct Weather {
    pub storm: Storm,
    /// The only fault that a storm applies to calls; `None`: all of them.
    pub only: Option<Mishap>,
    /// Delay of the replica that balances are read from, ms.
    pub lag_ms: i64,
    /// True if the platform does not know the daemon's key.
    pub is_wrong_key: bool,
    /// Processing time of each call beside the usual one.
    pub slowness: Duration,
    /// Failure of the platform while the key lapses; no call takes effect.
    pub lapse: Option<(Way, Lapse)>,
}

/// Form in which a failing platform answers.
#[derive(Clone, Copy, Debug)]
pub enum Way {
    ServerError,
    NotFound,
    Html,
    EmptyList,
    Dropped,
}

/// Calls that are answered as docs/interface.md describes for a company without an active account.
///
/// All other calls fail as the platform does.
#[derive(Clone, Copy, Debug)]
pub enum Lapse {
    Updates,
    EveryThird,
}

/// The course of one call.
struct Journey {
    /// Number of the call among all calls sent.
    call: usize,
    weather: Weather,
    there: Duration,
    before: Duration,
    after: Duration,
    back: Duration,
    /// Delay of a late call after the time-out.
    late: Duration,
    mishap: Option<Mishap>,
    /// Failure of the call at the platform.
    trouble: Option<How>,
    /// Clock of the host that sent it.
    host: SimClock,
    /// Calendar time at the send.
    asked_at: Timestamp,
}

impl Wire {
    pub fn new(core: Arc<SandboxCore>, clock: SimClock, seed: u64, audit: Arc<Mutex<Audit>>) -> Self {
        let random = Mutex::new(Random::new(seed, "network"));
        let twists = Mutex::new(Random::new(seed, "twists"));
        let (weather, odd, failed) = (Mutex::default(), Mutex::default(), Mutex::default());
        let (inside, host) = (AtomicUsize::new(0), clock.clone());
        let inner = Arc::new(Inner { core, clock, random, weather, odd, failed, twists, audit, inside });
        Self { inner, clock: host, waiting: Arc::default() }
    }

    /// Returns the handle of another host.
    pub fn of_host(&self, clock: SimClock) -> Self {
        Self { inner: Arc::clone(&self.inner), clock, waiting: Arc::default() }
    }

    /// Returns true if a call of the host waits for its answer.
    pub fn has_waiting(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) > 0
    }

    /// Reads or changes the oddities in force.
    pub fn odd<T>(&self, change: impl FnOnce(&mut Odd) -> T) -> T {
        change(&mut self.inner.odd.lock().unwrap())
    }

    /// Makes every call fail that names one of these, from now on.
    pub fn poison(&self, poisons: Vec<Poison>) {
        self.odd(|odd| odd.poisons = poisons);
        self.inner.failed.lock().unwrap().clear();
    }

    /// Returns the arrival times of the calls that failed.
    pub fn poisoned(&self) -> Vec<i64> {
        self.inner.failed.lock().unwrap().clone()
    }

    /// Returns the state of the network and the platform.
    pub fn weather(&self) -> Weather {
        *self.inner.weather.lock().unwrap()
    }

    /// Sets the rates of faults.
    pub fn storm(&self, storm: Storm) {
        self.change(|weather| weather.storm = storm);
    }

    /// Changes the state of the network and the platform.
    pub fn change(&self, change: impl FnOnce(&mut Weather)) {
        change(&mut self.inner.weather.lock().unwrap());
    }

    /// Sets the processing time of each call beside the usual one.
    pub fn slow(&self, slowness: Duration) {
        self.change(|weather| weather.slowness = slowness);
    }

    /// Returns true if no request is inside the platform.
    pub fn is_at_rest(&self) -> bool {
        self.inner.inside.load(Ordering::SeqCst) == 0
    }
}

impl Transport for Wire {
    fn send(&self, request: PlatformRequest) -> SendFuture<'_> {
        let journey = self.inner.journey(&request, &self.clock);
        let travelling = tokio::spawn(Arc::clone(&self.inner).travel(request, journey));
        let waiting = WaitingCall::new(&self.waiting);
        Box::pin(async move {
            let _waiting = waiting;
            tokio::select! {
                biased;
                answer = travelling => {
                    if self.clock.is_suspended() {
                        // The answer stays in the host's socket until the host resumes.
                        self.clock.sleep(Duration::ZERO).await;
                    }
                    answer.expect("a journey has no bugs")
                }
                () = self.clock.sleep(TIMEOUT) => Err(lost(FailureKind::Timeout)),
            }
        })
    }
}

impl Inner {
    fn journey(&self, request: &PlatformRequest, host: &SimClock) -> Journey {
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
        let (host, asked_at) = (host.clone(), host.now());
        Journey { call, weather, there, before, after, back, late, mishap, trouble, host, asked_at }
    }

    async fn travel(
        self: Arc<Self>,
        request: PlatformRequest,
        journey: Journey,
    ) -> Result<PlatformResponse, TransportError> {
        self.clock.elsewhere(journey.there).await;
        match journey.mishap {
            Some(Mishap::NoConnection) => return Err(lost(FailureKind::Unsent)),
            Some(Mishap::LostBefore) => return Err(lost(FailureKind::Cut)),
            Some(Mishap::Swallowed) => {
                self.clock.elsewhere(TIMEOUT * 2).await;
                return Err(lost(FailureKind::Timeout));
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
            // The platform has finished the call; its answer never arrives.
            self.clock.elsewhere(TIMEOUT * 2).await;
        }
        match journey.mishap {
            Some(Mishap::LostAfter) => Err(lost(FailureKind::Cut)),
            Some(Mishap::Cut) => Err(TransportError { status: Some(200), ..lost(FailureKind::Cut) }),
            Some(Mishap::FailsAfter) => Ok(instead(500, r#"{"Message":"Something went wrong."}"#)),
            Some(Mishap::Html) => Ok(page()),
            _ => {
                if let Ok(answer) = &answer {
                    // The calendar may be set back meanwhile, so an observation is at least as late as its
                    // request.
                    let at = journey.host.now().max(journey.asked_at).0;
                    self.audit.lock().unwrap().told(&request, answer, at);
                }
                answer
            }
        }
    }

    /// Returns the failure of a call that has no effect.
    fn trouble(
        &self,
        request: &PlatformRequest,
        journey: &Journey,
        how: How,
    ) -> Result<PlatformResponse, TransportError> {
        self.failed.lock().unwrap().push(self.clock.now_ms());
        let is_told = journey.mishap.is_none();
        self.audit.lock().unwrap().failed(request.operation, how, is_told, journey.call);
        match how {
            How::Status(status) => Ok(instead(status, r#"{"Message":"It failed."}"#)),
            How::Html => Ok(page()),
            How::Cut => Err(TransportError { status: Some(200), ..lost(FailureKind::Cut) }),
            How::Dropped => Err(lost(FailureKind::Cut)),
            How::Silent => Err(lost(FailureKind::Timeout)),
            // An empty list in answer to a write reports no entry as done.
            How::Empty
                if request.operation == Operation::GetProductBalances
                    || request.operation.effect() == CallEffect::Write =>
            {
                Ok(instead(200, "[]"))
            }
            How::Empty => {
                let nothing = r#"{"status":"Success","messages":[],"pagination":null,"data":[]}"#;
                Ok(instead(200, nothing))
            }
        }
    }

    /// Carries out the call at the platform and shows the auditor its effects.
    async fn deed(
        &self,
        request: &PlatformRequest,
        journey: &Journey,
    ) -> Result<PlatformResponse, TransportError> {
        self.inside.fetch_add(1, Ordering::SeqCst);
        let answer = self.core.handle_request(self.http(request, journey.weather.is_wrong_key)).await;
        self.inside.fetch_sub(1, Ordering::SeqCst);
        let SandboxAnswer::Full(response) = answer else {
            return Err(lost(FailureKind::Cut));
        };
        let text = |name| response.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
        let mut response = PlatformResponse {
            status: response.status().as_u16(),
            retry_after: text(header::RETRY_AFTER),
            body: response.body().to_vec(),
        };
        let mut audit = self.audit.lock().unwrap();
        let now = self.clock.now_ms();
        audit.done(request, &response, journey.call, now);
        if request.operation == Operation::UpdateQuantityOnHand {
            // If its answer is lost, a read may prove the write, on a host whose calendar is behind. The fact is dated
            // by the write.
            audit.told(request, &response, journey.asked_at.0);
        }
        if journey.weather.lag_ms > 0 && request.operation == Operation::GetProductBalances {
            audit.as_of(now - journey.weather.lag_ms, &mut response);
        }
        let (mut odd, mut twists) = (self.odd.lock().unwrap(), self.twists.lock().unwrap());
        let befell = odd.rewrite(request, &mut response, &mut twists);
        audit.twisted(request.operation, befell, now);
        audit.showed_order(request, &response, now);
        Ok(response)
    }

    fn http(&self, request: &PlatformRequest, is_wrong_key: bool) -> http::Request<Bytes> {
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

/// Returns a value percent-encoded for a query.
fn encoded(value: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    value.bytes().map(byte).collect()
}

/// Returns the answer to a call while the platform fails and the key lapses.
fn unwell(
    (way, lapse): (Way, Lapse),
    operation: Operation,
    call: usize,
) -> Result<PlatformResponse, TransportError> {
    let is_update = operation == Operation::UpdateQuantityOnHand;
    let is_lapsed = match lapse {
        Lapse::Updates => is_update,
        Lapse::EveryThird => call.is_multiple_of(3),
    };
    let json = |status, body| Ok(instead(status, body));
    match way {
        _ if is_lapsed && is_update => json(400, r#"{"Message":"no active account","StackTrace":null}"#),
        _ if is_lapsed => json(403, r#"{"Message":"The subscription key is not valid."}"#),
        Way::ServerError => json(500, r#"{"Message":"Something went wrong."}"#),
        Way::NotFound => json(404, ""),
        Way::Html => Ok(instead(200, "<html><body>Please wait</body></html>")),
        Way::EmptyList => json(200, "[]"),
        Way::Dropped => Err(lost(FailureKind::Cut)),
    }
}

fn throttled(mishap: Mishap) -> PlatformResponse {
    let answer = instead(429, r#"{"Message":"Too many calls."}"#);
    let retry_after = (mishap == Mishap::NoPlace).then(|| "3".to_owned());
    PlatformResponse { retry_after, ..answer }
}

fn page() -> PlatformResponse {
    instead(200, "<html><body>Please wait</body></html>")
}

fn instead(status: u16, body: &str) -> PlatformResponse {
    PlatformResponse { status, retry_after: None, body: body.into() }
}

fn lost(kind: FailureKind) -> TransportError {
    TransportError { kind, what: "the network lost it".into(), status: None, retry_after: None }
}
