//! Server-sent events: a commit is reported, closed streams free their places.

use super::Visit;
use crate::support::World;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::{Duration, Instant, timeout};

/// An open stream of events.
struct Events(BufReader<TcpStream>);

impl Events {
    /// Opens a stream and returns it with the status.
    async fn open(visit: &Visit) -> (u16, Self) {
        let mut stream = TcpStream::connect(visit.address).await.unwrap();
        let head =
            format!("GET /events HTTP/1.1\r\nHost: {}\r\nCookie: {}\r\n\r\n", visit.address, visit.cookie);
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut events = Self(BufReader::new(stream));
        let status = events.line(Duration::from_secs(30)).await.unwrap();
        (status.split(' ').nth(1).unwrap().parse().unwrap(), events)
    }

    /// Returns the next line; `None` if none came in time, and at the end of the stream.
    async fn line(&mut self, patience: Duration) -> Option<String> {
        let mut line = String::new();
        let read = timeout(patience, self.0.read_line(&mut line)).await.ok()?.unwrap();
        (read > 0).then_some(line)
    }

    /// Returns the data of the next event.
    async fn data(&mut self, patience: Duration) -> Option<String> {
        let begun = Instant::now();
        while let Some(line) = self.line(patience.saturating_sub(begun.elapsed())).await {
            if let Some(data) = line.strip_prefix("data: ") {
                return Some(data.trim().to_owned());
            }
        }
        None
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_is_reported_within_a_second() {
    let world = World::new().await;
    world.track_all().await;
    world.once().await;
    let visit = Visit::start(&world).await;
    let (status, mut events) = Events::open(&visit).await;
    assert_eq!(status, 200);
    let begin = events.data(Duration::from_secs(30)).await.unwrap();
    let page = visit.get("/").await.body;
    assert!(page.contains(&format!("data-mark=\"{begin}\"")), "the page has the mark {begin}");
    for number in 0..3 {
        // A pause, so that the report is that of a commit after quiet time.
        assert_eq!(events.data(Duration::from_millis(1500)).await, None, "nothing happened");
        let committed = Instant::now();
        world.change(&format!("change-{number}"), "quantity.adjust", "{}").await;
        let mark = events.data(Duration::from_secs(30)).await.unwrap();
        let elapsed = committed.elapsed();
        assert!(mark != begin && elapsed < Duration::from_secs(1), "{mark} after {elapsed:?}");
    }
    visit.stop().await;
    assert_eq!(events.data(Duration::from_secs(30)).await, None, "the stream ends with the page");
}

#[tokio::test(flavor = "multi_thread")]
async fn thirty_two_streams_are_served_and_a_closed_one_frees_its_place() {
    let world = World::new().await;
    world.make().await;
    let visit = Visit::start(&world).await;
    let mut open = Vec::new();
    for number in 0..32 {
        let (status, mut events) = Events::open(&visit).await;
        assert_eq!(status, 200, "stream {number}");
        assert!(events.data(Duration::from_secs(30)).await.is_some());
        open.push(events);
    }
    assert_eq!(Events::open(&visit).await.0, 503);
    assert_eq!(visit.get("/").await.status, 200);
    drop(open.pop());
    world.until("a place is free", async |_| Events::open(&visit).await.0 == 200).await;
}
