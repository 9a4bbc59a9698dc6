//! The HTTP transport against raw bytes: a listener of its own answers with scripted bytes and keeps the
//! requests.
//!
//! A real server would not cut a body, state a wrong length or count connections. Listeners block on threads
//! of their own; nothing sleeps. The time-outs that end two of the tests are the ones under test.

#![allow(clippy::unwrap_used, reason = "what a test sets up must be there, or the test fails")]

use super::support::refusing_socket;
use crate::client::wire::{self, PageParams};
use crate::client::{
    AccountKeys, CallReply, Client, FailureKind, HttpSettings, HttpTransport, PlatformRequest,
    PlatformResponse, SendCheck, ThrottleKind, Transport, TransportError, Verdict,
};
use crate::model::{Clock, Moment, OrderId, Quantity, Sku, StorefrontId, Timestamp, WarehouseId};
use secrecy::SecretString;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A server that answers each connection with the next script, then closes it.
struct Listener {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Listener {
    fn answering(scripts: Vec<Vec<u8>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&requests);
        std::thread::spawn(move || {
            let mut scripts = scripts.into_iter();
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                kept.lock().unwrap().push(read_request(&mut stream));
                // A connection beyond the scripts is noted and dropped, so that a retry is detected.
                stream.write_all(&scripts.next().unwrap_or_default()).ok();
            }
        });
        Self { address, requests }
    }

    fn once(script: impl Into<Vec<u8>>) -> Self {
        Self::answering(vec![script.into()])
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    fn settings(&self) -> HttpSettings {
        HttpSettings::new(format!("http://{}", self.address))
    }
}

fn read_request(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let read = stream.read(&mut buffer).unwrap_or(0);
        bytes.extend_from_slice(&buffer[..read]);
        let text = String::from_utf8_lossy(&bytes);
        let whole = text.split_once("\r\n\r\n").is_some_and(|(head, body)| {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            body.len() >= length.map_or(0, |length| length.parse().unwrap())
        });
        if whole || read == 0 || text.starts_with('\u{16}') {
            return text.into_owned();
        }
    }
}

fn answer(status: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}")
        .into_bytes()
}

fn keys(integration: &str, gateway: &str) -> AccountKeys {
    AccountKeys { integration: SecretString::from(integration), gateway: SecretString::from(gateway) }
}

fn transport(settings: &HttpSettings) -> HttpTransport {
    HttpTransport::new(settings, &keys("K-1", "G-1")).unwrap()
}

async fn sent(settings: &HttpSettings, request: PlatformRequest) -> Result<PlatformResponse, TransportError> {
    transport(settings).send(request).await
}

struct Standing;
impl Clock for Standing {
    fn now(&self) -> Timestamp {
        Timestamp(784_111_777_000) // Sun, 06 Nov 1994 08:49:37 GMT
    }
    fn moment(&self) -> Moment {
        Moment(0)
    }
}

async fn judged(settings: &HttpSettings, request: PlatformRequest) -> CallReply {
    Client::new(Arc::new(transport(settings)), Arc::new(Standing)).send(request, None).await
}

fn write_request() -> PlatformRequest {
    let sku = Sku::new("A").unwrap();
    let update = wire::QuantityUpdate { sku, quantity: Quantity(1), warehouse_id: WarehouseId(7) };
    wire::update_quantity_on_hand(&[update])
}

const BALANCES: &str = r#"[{"Sku":"A","Warehouses":[{"WarehouseId":7,"QuantityOnHand":3}]}]"#;

#[tokio::test]
async fn keys_names_and_body_are_sent_as_configured() {
    let listener = Listener::once(answer("200 OK", "", BALANCES));
    let mut settings = listener.settings();
    settings.base_url += "/gateway/v1/";
    settings.headers.integration_key = "X-Company-Key".into();
    settings.application_id = Some("app-9".into());
    let request = wire::get_product_balances(&[Sku::new("A").unwrap()]);
    let reply = judged(&settings, request).await;
    assert_eq!(reply.verdict, Verdict::Accepted);
    assert_eq!(reply.body, BALANCES.as_bytes());

    let requests = listener.requests();
    let (head, body) = requests[0].split_once("\r\n\r\n").unwrap();
    assert_eq!(head.lines().next(), Some("POST /gateway/v1/api/product/getProductBalances HTTP/1.1"));
    assert_eq!(body, r#"{"skus":["A"]}"#);
    let lines = [
        "x-company-key: K-1",
        "gateway-subscription-key: G-1",
        "application-id: app-9",
        "content-type: application/json",
        "accept: application/json",
        "accept-encoding: gzip",
        concat!("user-agent: tallyd/", env!("CARGO_PKG_VERSION")),
    ];
    for line in lines {
        assert!(head.lines().any(|sent| sent == line), "{line} is not in {head}");
    }
    assert!(!head.contains("svc-subscription-key"));
}

#[tokio::test]
async fn keys_are_replaced_between_two_calls() {
    let listener = Listener::answering(vec![answer("403 Forbidden", "", "{}"), answer("200 OK", "", "{}")]);
    let transport = transport(&listener.settings());
    transport.send(wire::work_queue()).await.unwrap();
    let other = transport.with_keys(&keys("K-2", "G-2")).unwrap();
    assert!(!transport.has_keys_of(&other));
    transport.use_keys(&other);
    assert!(transport.has_keys_of(&other));
    assert!(transport.with_keys(&keys("K\n3", "G-3")).is_err());
    transport.send(wire::work_queue()).await.unwrap();
    let requests = listener.requests();
    assert!(requests[0].contains("svc-subscription-key: K-1\r\n"));
    assert!(requests[1].contains("svc-subscription-key: K-2\r\ngateway-subscription-key: G-2\r\n"));
    assert!(requests[0].starts_with("GET /api/Company/WorkQueue HTTP/1.1\r\n"));
    assert!(!requests[0].contains("content-type"));
}

#[tokio::test]
async fn queries_are_percent_encoded() {
    let listener = Listener::once(answer("200 OK", "", r#"{"data":[]}"#));
    let request = wire::list_listing_templates(StorefrontId(5), Some("a&b=c%/ü +#"), PageParams::FIRST);
    sent(&listener.settings(), request).await.unwrap();
    let expected = "GET /api/storefronts/5/listingTemplates\
                    ?name=a%26b%3Dc%25%2F%C3%BC+%2B%23&pageNumber=1&resultsPerPage=200 HTTP/1.1";
    assert_eq!(listener.requests()[0].lines().next(), Some(expected));
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    for status in ["301 Moved", "302 Found", "307 Temporary", "308 Permanent"] {
        let elsewhere = Listener::once(answer("200 OK", "", BALANCES));
        let location = format!("Location: http://{}/\r\n", elsewhere.address);
        let listener = Listener::once(answer(status, &location, ""));
        let reply = judged(&listener.settings(), write_request()).await;
        assert_eq!(reply.verdict, Verdict::InDoubt, "{status}");
        assert!(reply.message.unwrap().contains("redirects are not followed"));
        assert_eq!((listener.requests().len(), elsewhere.requests().len()), (1, 0), "{status}");
    }
}

#[tokio::test]
async fn nothing_is_sent_twice_whatever_comes_back() {
    let scripts = [
        answer("500 Oops", "", ""),
        answer("503 Busy", "Retry-After: 0\r\n", ""),
        answer("429 Slow", "Retry-After: 0\r\n", ""),
        answer("408 Late", "", ""),
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{".to_vec(),
        b"garbage\r\n\r\n".to_vec(),
        Vec::new(),
    ];
    for script in scripts {
        for request in [write_request(), wire::get_order_line_items(OrderId(5))] {
            let listener = Listener::once(script.clone());
            let reply = judged(&listener.settings(), request).await;
            assert_ne!(reply.verdict, Verdict::Accepted);
            assert_eq!(listener.requests().len(), 1, "{}", String::from_utf8_lossy(&script));
        }
    }
}

#[tokio::test]
async fn a_cut_answer_keeps_its_head_and_may_have_been_carried_out() {
    let cut = "HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n[{\"Sku\":";
    let failure = sent(&Listener::once(cut).settings(), write_request()).await.unwrap_err();
    assert_eq!((failure.kind, failure.status), (FailureKind::Cut, Some(200)));
    assert!(failure.what.starts_with("the answer ended early after 8 bytes"), "{}", failure.what);

    let headless = sent(&Listener::once(Vec::new()).settings(), write_request()).await.unwrap_err();
    assert_eq!((headless.kind, headless.status), (FailureKind::Cut, None));

    let refused = "HTTP/1.1 429 Slow\r\nRetry-After: 9\r\nContent-Length: 900\r\n\r\n{";
    let reply = judged(&Listener::once(refused).settings(), write_request()).await;
    let wait = Duration::from_secs(9);
    assert_eq!((reply.verdict, reply.status), (Verdict::Throttled(ThrottleKind::Rate { wait }), Some(429)));
}

#[tokio::test]
async fn an_answer_that_does_not_come_in_time_is_in_doubt() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut settings = HttpSettings::new(format!("http://{}", silent.local_addr().unwrap()));
    settings.timeout = Duration::from_millis(200);
    let failure = sent(&settings, write_request()).await.unwrap_err();
    assert_eq!((failure.kind, failure.status), (FailureKind::Timeout, None));
    assert_eq!(judged(&settings, write_request()).await.verdict, Verdict::InDoubt);
    assert_eq!(judged(&settings, wire::work_queue()).await.verdict, Verdict::Transient);
}

#[tokio::test]
async fn a_body_that_stops_is_given_up_in_time() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut settings = HttpSettings::new(format!("http://{}", listener.local_addr().unwrap()));
    settings.timeout = Duration::from_millis(200);
    let held = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        read_request(&mut stream);
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n[").unwrap();
        stream
    });
    let failure = sent(&settings, wire::work_queue()).await.unwrap_err();
    assert_eq!((failure.kind, failure.status), (FailureKind::Timeout, Some(200)));
    drop(held.join().unwrap());
}

#[tokio::test]
async fn an_answer_beyond_the_limit_is_not_taken() {
    let body = "x".repeat(5000);
    let chunked = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1388\r\n{body}\r\n0\r\n\r\n");
    for script in [answer("200 OK", "", &body), chunked.into_bytes()] {
        let listener = Listener::answering(vec![script.clone(), script]);
        let mut settings = listener.settings();
        settings.answer_limit_bytes = 4999;
        let failure = sent(&settings, wire::work_queue()).await.unwrap_err();
        assert_eq!((failure.kind, failure.status), (FailureKind::TooLarge, Some(200)));
        settings.answer_limit_bytes = 5000;
        assert_eq!(sent(&settings, wire::work_queue()).await.unwrap().body.len(), 5000);
    }
}

#[tokio::test]
async fn a_packed_answer_is_measured_unpacked() {
    // 5000 times `x`, compressed by gzip into 40 bytes.
    let packed: [u8; 40] = [
        31, 139, 8, 0, 0, 0, 0, 0, 2, 3, 237, 193, 49, 1, 0, 0, 0, 194, 160, 218, 139, 111, 10, 63, 160, 0,
        0, 0, 0, 128, 183, 1, 38, 240, 219, 0, 136, 19, 0, 0,
    ];
    let head =
        format!("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n", packed.len());
    let script = [head.as_bytes(), &packed].concat();
    let listener = Listener::answering(vec![script.clone(), script]);
    let mut settings = listener.settings();
    assert_eq!(sent(&settings, wire::work_queue()).await.unwrap().body.len(), 5000);
    settings.answer_limit_bytes = 1000;
    let failure = sent(&settings, wire::work_queue()).await.unwrap_err();
    assert_eq!((failure.kind, failure.status), (FailureKind::TooLarge, Some(200)));
}

#[tokio::test]
async fn a_page_of_html_is_no_answer() {
    let html = answer("200 OK", "Content-Type: text/html\r\n", "<html>We will be back</html>");
    let listener = Listener::answering(vec![html.clone(), html]);
    let read = judged(&listener.settings(), wire::list_warehouses(PageParams::FIRST)).await;
    assert_eq!((read.verdict, read.status), (Verdict::Transient, Some(200)));
    assert!(read.message.unwrap().contains("HTML"));
    assert_eq!(judged(&listener.settings(), write_request()).await.verdict, Verdict::InDoubt);
}

#[tokio::test]
async fn a_retry_after_is_read_in_seconds_and_as_a_date() {
    let rate = |seconds| Verdict::Throttled(ThrottleKind::Rate { wait: Duration::from_secs(seconds) });
    let bad = |seconds| Verdict::Throttled(ThrottleKind::BadRequests { wait: Duration::from_secs(seconds) });
    let cases = [
        ("429 Slow", "Retry-After: 17\r\n", rate(17)),
        ("429 Slow", "retry-after: Sun, 06 Nov 1994 08:50:07 GMT\r\n", rate(30)),
        ("429 Slow", "Retry-After: later\r\n", rate(60)),
        ("429 Slow", "", Verdict::Throttled(ThrottleKind::Concurrency)),
        ("403 No", "Retry-After: 17\r\n", bad(17)),
        ("403 No", "", Verdict::Rejected { status: 403 }),
    ];
    for (status, header, verdict) in cases {
        let reply = judged(&Listener::once(answer(status, header, "")).settings(), write_request()).await;
        assert_eq!(reply.verdict, verdict, "{status} {header}");
    }
}

#[tokio::test]
async fn a_request_is_checked_once_more_when_its_connection_takes_it() {
    let listener = Listener::answering(vec![answer("200 OK", "", BALANCES); 3]);
    let transport = transport(&listener.settings());
    let checks = Arc::new(AtomicUsize::new(0));
    let passes = |times: usize| -> SendCheck {
        let checks = Arc::clone(&checks);
        checks.store(0, Ordering::SeqCst);
        Arc::new(move || match checks.fetch_add(1, Ordering::SeqCst) < times {
            true => Ok(()),
            false => Err("another host leads".into()),
        })
    };
    for times in [0, 1] {
        let failed = transport.send_checked(write_request(), passes(times)).await.unwrap_err();
        assert_eq!(
            (failed.kind, failed.what.as_str()),
            (FailureKind::Unsent, "another host leads"),
            "{times}"
        );
        assert_eq!(checks.load(Ordering::SeqCst), times + 1);
    }
    transport.send_checked(write_request(), passes(2)).await.unwrap();
    transport.send(write_request()).await.unwrap();
    let requests = listener.requests();
    let [unsent, checked, unchecked] = requests.as_slice() else { panic!("{requests:?}") };
    assert_eq!(unsent, "", "a connection was opened, and no byte sent");
    assert_eq!(checked, unchecked);
    assert!(checked.contains("content-length: "), "{checked}");
}

#[tokio::test]
async fn a_refused_connection_sends_nothing() {
    let closed = refusing_socket();
    let settings = HttpSettings::new(format!("http://{}", closed.local_addr().unwrap()));
    let failure = sent(&settings, write_request()).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Unsent);
    assert!(failure.what.to_lowercase().contains("refused"), "{}", failure.what);
    assert_eq!(judged(&settings, write_request()).await.verdict, Verdict::NotSent);
}

#[tokio::test]
async fn a_failed_handshake_sends_nothing() {
    let listener = Listener::once("HTTP/1.1 400 Plain http on a TLS port\r\n\r\n");
    let ca = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(ca.path(), format!("\u{feff}{CA_PEM}")).unwrap();
    let mut settings = HttpSettings::new(format!("https://{}", listener.address));
    settings.ca_file = Some(ca.path().to_owned());
    let failure = sent(&settings, write_request()).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Unsent, "{}", failure.what);
    assert!(!listener.requests()[0].contains("K-1"));
}

#[test]
fn settings_that_cannot_work_are_refused_with_their_key() {
    type Change = fn(&mut HttpSettings);
    let with = |change: Change| {
        let mut settings = HttpSettings::new("http://localhost:1");
        change(&mut settings);
        HttpTransport::new(&settings, &keys("K", "G")).err().map(|error| error.to_string())
    };
    assert_eq!(with(|_| ()), None);
    assert_eq!(with(|settings| settings.base_url = "http://[::1]:80/prefix".into()), None);
    let cases: [(Change, &str); 7] = [
        (|settings| settings.base_url = "shop.example".into(), "service.base_url"),
        (|settings| settings.base_url = "http://shop.example".into(), "write https"),
        (|settings| settings.base_url = "ftp://localhost".into(), "https://"),
        (|settings| settings.base_url = "http://user@localhost".into(), "no spaces, user names"),
        (|settings| settings.headers.gateway_key = "a b".into(), "service.headers.gateway_key"),
        (|settings| settings.application_id = Some("a\nb".into()), "service.application_id"),
        (
            |settings| {
                settings.base_url = "https://localhost".into();
                settings.ca_file = Some("/nonexistent/ca.pem".into());
            },
            "service.ca_file /nonexistent/ca.pem",
        ),
    ];
    for (change, expected) in cases {
        let error = with(change).unwrap_or_default();
        assert!(error.contains(expected), "`{error}` does not say `{expected}`");
    }
}

#[test]
fn neither_a_proxys_password_nor_a_key_is_told() {
    let mut settings = HttpSettings::new("https://shop.example");
    settings.proxy = Some("http://user:secret@[".into());
    let error = HttpTransport::new(&settings, &keys("K", "G")).err().unwrap();
    assert!(error.to_string().starts_with("service.proxy "), "{error}");
    assert!(!format!("{error} {error:?}").contains("secret"));
    assert!(!format!("{:?}", keys("K-9", "G-9")).contains("-9"));
}

/// A self-signed certificate without any use, so that an https client can be built on a host without root
/// certificates.
const CA_PEM: &str = "-----BEGIN CERTIFICATE-----
MIIBlzCCAT2gAwIBAgIUDjXZwLPXK0neynbKoerc4pvbI/4wCgYIKoZIzj0EAwIw
IDEeMBwGA1UEAwwVdGFsbHlkIHRlc3QgYXV0aG9yaXR5MCAXDTI2MTEyMTA5MDc0
OFoYDzIxMjYxMDI4MDkwNzQ4WjAgMR4wHAYDVQQDDBV0YWxseWQgdGVzdCBhdXRo
b3JpdHkwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAAQYY259dsE1gIsgvkjv2Dqy
7FTiVNJ/ZBOiycYypijnrKI1ONAeZ9oQx3BB6OKDwaGKi3R+Xz+PvXmNpBy9I8Zo
o1MwUTAdBgNVHQ4EFgQUlPh8cpCUX7t8iX+mkpa2NORYqbgwHwYDVR0jBBgwFoAU
lPh8cpCUX7t8iX+mkpa2NORYqbgwDwYDVR0TAQH/BAUwAwEB/zAKBggqhkjOPQQD
AgNIADBFAiBY+Qq1TGhO7zwLCaG0vV3arrkky/bWcDZ4s52IELw8tQIhANROMjIg
f0YHDQ17bYuYmObZ7u1JOvHukeVVWqMmpbeF
-----END CERTIFICATE-----
";
