//! The golden exchanges from the client's side: it sends exactly the stored requests and reads exactly the
//! answers.
//!
//! The HTTP transport sends the requests to a listener that keeps their bytes and answers as the exchange
//! does. So method, path, query, keys and body are compared as sent. golden_client/rows.rs has one row per
//! exchange, with the input of the request and the expected reading of its answer. Some requests the client
//! cannot build; their answers are judged and read all the same.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a helper of a test may end the test")]

mod rows;

use crate::client::{
    AccountKeys, CallReply, Client, HttpSettings, HttpTransport, PlatformRequest, PlatformResponse,
};
use crate::it::contract_support::{Exchange, Shop, exchanges, shop};
use crate::model::{Clock, Moment, Operation, Timestamp};
use rows::{Row, Writing, rows};
use secrecy::SecretString;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::thread::JoinHandle;

/// A parsed request.
struct Received {
    first_line: String,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

/// Starts a server that answers one request.
fn answering(exchange: &Exchange) -> (String, JoinHandle<Received>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let body = exchange.response.body.to_string();
    let wait = exchange.response.retry_after.as_ref().map(|wait| format!("Retry-After: {wait}\r\n"));
    let head = format!(
        "HTTP/1.1 {} It\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: {}\r\n{}\r\n",
        exchange.response.status,
        body.len(),
        wait.unwrap_or_default()
    );
    let served = std::thread::spawn(move || {
        let mut stream = BufReader::new(listener.accept().unwrap().0);
        let received = receive(&mut stream);
        stream.get_mut().write_all(format!("{head}{body}").as_bytes()).unwrap();
        received
    });
    (format!("http://{address}"), served)
}

fn receive(stream: &mut impl BufRead) -> Received {
    let mut line = || {
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    };
    let first_line = line();
    let lines = std::iter::from_fn(|| Some(line()).filter(|line| !line.is_empty()));
    let headers: BTreeMap<String, String> = lines
        .filter_map(|line| line.split_once(": ").map(|(name, value)| (name.into(), value.into())))
        .collect();
    let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    Received { first_line, headers, body }
}

struct Standing;

impl Clock for Standing {
    fn now(&self) -> Timestamp {
        Timestamp(0)
    }
    fn moment(&self) -> Moment {
        Moment(0)
    }
}

/// Sends a request as the exchange's caller, and checks its bytes.
async fn exchanged(exchange: &Exchange, shop: &Shop, request: PlatformRequest) -> CallReply {
    let (address, served) = answering(exchange);
    let expected = exchange.request.all_headers(shop);
    let key = |name: &str| SecretString::from(expected[name].clone());
    let keys =
        AccountKeys { integration: key("svc-subscription-key"), gateway: key("gateway-subscription-key") };
    let mut settings = HttpSettings::new(address);
    settings.application_id = expected.get("application-id").cloned();
    let transport = HttpTransport::new(&settings, &keys).unwrap();
    let reply = Client::new(Arc::new(transport), Arc::new(Standing)).send(request, None).await;
    let received = served.join().unwrap();
    let title = &exchange.title;
    let first_line = format!("{} {} HTTP/1.1", exchange.request.method, exchange.request.target());
    assert_eq!(received.first_line, first_line, "{title}");
    for name in ["svc-subscription-key", "gateway-subscription-key", "application-id", "content-type"] {
        assert_eq!(received.headers.get(name), expected.get(name), "{title}: {name}");
    }
    let body = (!received.body.is_empty()).then(|| serde_json::from_slice::<Value>(&received.body).unwrap());
    assert_eq!(body, exchange.request.body, "{title}");
    reply
}

/// Returns the judged answer of an exchange whose request the client does not build.
fn judged(exchange: &Exchange) -> CallReply {
    let response = PlatformResponse {
        status: exchange.response.status,
        retry_after: exchange.response.retry_after.clone(),
        body: exchange.response.body.to_string().into_bytes(),
    };
    CallReply::from_outcome(operation(exchange), Ok(response), Timestamp(0))
}

/// Returns the operation of an exchange, by its method and the segments of its path.
fn operation(exchange: &Exchange) -> Operation {
    let segments: Vec<_> = exchange.request.path.split('/').collect();
    let matches = |operation: &&Operation| {
        let pattern: Vec<_> = operation.path().split('/').collect();
        let same = |(listed, sent): (&&str, &&str)| listed == sent || listed.starts_with('{');
        operation.method() == exchange.request.method
            && pattern.len() == segments.len()
            && pattern.iter().zip(&segments).all(same)
    };
    *Operation::ALL.iter().find(matches).expect("the exchange names an operation")
}

#[tokio::test]
async fn the_client_writes_every_request_and_reads_every_answer_as_it_is_written_down() {
    let (shop, rows) = (shop(), rows());
    for exchange in exchanges() {
        let title = exchange.title.as_str();
        let Row { writing, verdict, read, .. } =
            rows.iter().find(|row| row.title == title).unwrap_or_else(|| panic!("no row for `{title}`"));
        let reply = match writing {
            Writing::Sends(build) => exchanged(&exchange, &shop, build(&exchange)).await,
            Writing::Cannot(_) => judged(&exchange),
        };
        assert_eq!(reply.verdict, *verdict, "{title}: {:?}", reply.message);
        assert_eq!(reply.operation, operation(&exchange), "{title}");
        assert_eq!(reply.status, Some(exchange.response.status), "{title}");
        read(&reply);
    }
}

#[test]
fn every_row_has_its_exchange_and_every_operation_is_written_once_at_least() {
    let (exchanges, rows) = (exchanges(), rows());
    let titles: BTreeSet<_> = exchanges.iter().map(|exchange| exchange.title.as_str()).collect();
    for row in &rows {
        assert!(titles.contains(row.title), "no exchange has the title `{}`", row.title);
    }
    assert_eq!(rows.len(), titles.len());
    let sent = |exchange: &&Exchange| {
        rows.iter().any(|row| row.title == exchange.title && matches!(row.writing, Writing::Sends(_)))
    };
    let written: BTreeSet<_> = exchanges.iter().filter(sent).map(operation).collect();
    assert_eq!(written, Operation::ALL.iter().copied().collect());
}
