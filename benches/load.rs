//! A small load generator for the sandbox: `cargo bench --bench load -- HOST:PORT METHOD PATH BODY
//! HEADER...`.
//!
//! It keeps sixteen connections open, one thread each, for four seconds after one of warm-up. It prints
//! requests a second and the median and 99th percentile of their times. It implements just enough HTTP/1.1
//! for answers with a length. A body of several lines is several bodies, sent in turn, because a single
//! repeated body would be served from the nearest cache. Run the sandbox with `--calls-per-minute 0
//! --concurrency 0`, otherwise it measures refusals; answers other than 200 are counted separately.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a bench prints times"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

const CONNECTIONS: usize = 16;
const WARMING: Duration = Duration::from_secs(1);
const MEASURED: Duration = Duration::from_secs(4);

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let [address, method, path, body, headers @ ..] = args.as_slice() else {
        println!("usage: cargo bench --bench load -- HOST:PORT METHOD PATH BODY HEADER...");
        return;
    };
    let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    let request = |body: &str| {
        let length = body.len();
        format!(
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n{headers}\
             Content-Length: {length}\r\n\r\n{body}"
        )
    };
    let requests: Vec<String> = body.split('\n').map(request).collect();
    let start = Instant::now();
    let results: Vec<(Vec<Duration>, usize)> = std::thread::scope(|scope| {
        let requests = &requests;
        let threads: Vec<_> = (0..CONNECTIONS)
            .map(|first| scope.spawn(move || connection(address, requests.iter().cycle().skip(first), start)))
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let others: usize = results.iter().map(|(_, others)| others).sum();
    let mut times: Vec<Duration> = results.into_iter().flat_map(|(times, _)| times).collect();
    times.sort_unstable();
    let at = |part: usize| times.get(times.len() * part / 100).copied().unwrap_or_default();
    let rate = times.len() as f64 / MEASURED.as_secs_f64();
    println!("{rate:.0} requests/s, p50 {:.2?}, p99 {:.2?}, {others} not answered 200", at(50), at(99));
}

fn connection<'a>(
    address: &str,
    mut requests: impl Iterator<Item = &'a String>,
    start: Instant,
) -> (Vec<Duration>, usize) {
    let mut stream = BufReader::new(TcpStream::connect(address).unwrap());
    stream.get_ref().set_nodelay(true).unwrap();
    let (mut times, mut others) = (Vec::new(), 0);
    while start.elapsed() < WARMING + MEASURED {
        let request = requests.next().unwrap();
        let sent = Instant::now();
        stream.get_mut().write_all(request.as_bytes()).unwrap();
        let is_good = answer(&mut stream);
        if start.elapsed() > WARMING {
            times.push(sent.elapsed());
            others += usize::from(!is_good);
        }
    }
    (times, others)
}

/// Reads an answer; returns true if it was a 200.
fn answer(stream: &mut BufReader<TcpStream>) -> bool {
    let (mut line, mut length, mut is_good) = (String::new(), 0, false);
    loop {
        line.clear();
        stream.read_line(&mut line).unwrap();
        if line.starts_with("HTTP/1.1 ") {
            is_good = line.starts_with("HTTP/1.1 200");
        } else if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        } else if line == "\r\n" {
            break;
        }
    }
    std::io::copy(&mut stream.take(length), &mut std::io::sink()).unwrap();
    is_good
}
