//! The way of one host to the server: a relay before the server's socket, which can be cut or held at a commit.
//!
//! A host whose processes stand still takes no reply and sends no statement. At rest, none of its statements is under
//! way. Only a hold shows the moments between: a COMMIT that the server did not receive yet, or a reply to it that the
//! host did not receive yet.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tallyd::store::{DatabaseLocation, PostgresDatabase};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;

/// Name of the socket in a server's folder.
const SOCKET: &str = ".s.PGSQL.5432";
/// Code of a client's request for TLS, which comes before its first message.
const TLS_REQUEST: [u8; 4] = 80_877_103_u32.to_be_bytes();

/// Commit at which a way may be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HeldCommit {
    /// The claim of changes, not committed; committed, and nothing sent yet.
    BeforeClaim,
    AfterClaim,
    /// The record of an answer, not committed; committed, and the reply outstanding.
    BeforeConclusion,
    AfterConclusion,
}

/// State of the way, which its connections follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Passage {
    Open,
    /// The server ends the sessions that are held in a transaction.
    Ending,
    /// No connection exists, and none can be made.
    Cut,
}

struct Inner {
    server: PathBuf,
    trap: Mutex<Option<HeldCommit>>,
    is_held: AtomicBool,
    /// Raised with each release.
    released: watch::Sender<u64>,
    passage: watch::Sender<Passage>,
    connections: AtomicUsize,
    closed: tokio::sync::Notify,
}

/// A way; clones are handles to one way.
#[derive(Clone)]
pub struct Way(Arc<Inner>);

impl Way {
    /// Opens a way in a folder of its own, and returns the location of the database by it.
    pub fn open(direct: &DatabaseLocation, folder: &Path) -> (Self, DatabaseLocation) {
        let server = direct.server().unwrap();
        let (address, behind) = server.url().split_once("host=").unwrap();
        std::fs::create_dir_all(folder).unwrap();
        let listener = UnixListener::bind(folder.join(SOCKET)).unwrap();
        let way = Self(Arc::new(Inner {
            server: Path::new(behind).join(SOCKET),
            trap: Mutex::default(),
            is_held: AtomicBool::new(false),
            released: watch::Sender::new(0),
            passage: watch::Sender::new(Passage::Open),
            connections: AtomicUsize::new(0),
            closed: tokio::sync::Notify::new(),
        }));
        let url = format!("{address}host={}", folder.display());
        let database = PostgresDatabase::new(&url, server.schema()).unwrap();
        let inner = Arc::clone(&way.0);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if *inner.passage.borrow() == Passage::Open {
                    inner.connections.fetch_add(1, Ordering::SeqCst);
                    tokio::spawn(relay(client, Arc::clone(&inner)));
                }
            }
        });
        (way, DatabaseLocation::on_server(database, folder.join("tallyd.db")))
    }

    /// Sets the commit at which the way is held next; `None`: it is not.
    pub fn set_trap(&self, at: Option<HeldCommit>) {
        *self.0.trap.lock().unwrap() = at;
    }

    /// Returns true if a commit is held.
    pub fn is_held(&self) -> bool {
        self.0.is_held.load(Ordering::SeqCst)
    }

    pub fn is_cut(&self) -> bool {
        *self.0.passage.borrow() == Passage::Cut
    }

    /// Lets a held commit or reply pass.
    pub fn release(&self) {
        self.0.is_held.store(false, Ordering::SeqCst);
        self.0.released.send_modify(|number| *number += 1);
    }

    /// Ends the session of a commit that is held before the server received it, as the server does with one that is
    /// idle in a transaction.
    pub async fn end_idle(&self) {
        self.0.passage.send_replace(Passage::Ending);
        self.wait_for_end().await;
        self.0.passage.send_replace(Passage::Open);
    }

    /// Ends all connections, and returns when the server ended their transactions; new ones are refused.
    pub async fn cut(&self) {
        self.0.passage.send_replace(Passage::Cut);
        self.wait_for_end().await;
        self.release();
    }

    /// Ends a cut.
    pub fn mend(&self) {
        self.0.passage.send_replace(Passage::Open);
    }

    /// Waits until the server has no session by this way.
    async fn wait_for_end(&self) {
        loop {
            let closed = self.0.closed.notified();
            if self.0.connections.load(Ordering::SeqCst) == 0 {
                return;
            }
            closed.await;
        }
    }
}

/// Passes bytes both ways until one side ends the connection or the way ends it.
async fn relay(client: UnixStream, way: Arc<Inner>) {
    let server = UnixStream::connect(&way.server).await.unwrap();
    let ((mut from_client, mut to_client), (mut from_server, mut to_server)) =
        (client.into_split(), server.into_split());
    let mut passage = way.passage.subscribe();
    let holds_reply = AtomicBool::new(false);
    let ended = tokio::select! {
        biased;
        _ = passage.wait_for(|passage| *passage != Passage::Open) => true,
        () = pass_requests(&way, &mut from_client, &mut to_server, &holds_reply) => false,
        () = pass_replies(&way, &mut from_server, &mut to_client, &holds_reply) => false,
    };
    let is_idle_timeout = ended && *passage.borrow() == Passage::Ending;
    let mut released = way.released.subscribe();
    let before = *released.borrow_and_update();
    // The server closes its side after it ended the transaction of the session.
    drop(to_server.shutdown().await);
    let mut rest = Vec::new();
    drop(from_server.read_to_end(&mut rest).await);
    way.connections.fetch_sub(1, Ordering::SeqCst);
    way.closed.notify_waiters();
    if is_idle_timeout {
        drop(released.wait_for(|number| *number > before).await);
        drop(to_client.write_all(&idle_timeout()).await);
    }
}

/// Returns the server's last message to a session that stayed idle in a transaction for too long.
fn idle_timeout() -> Vec<u8> {
    let fields = b"SFATAL\0VFATAL\0C25P03\0Mended a session that was idle in a transaction\0\0";
    let length = u32::try_from(fields.len() + 4).unwrap().to_be_bytes();
    [b"E".as_slice(), &length, fields].concat()
}

async fn pass_requests(
    way: &Inner,
    from: &mut OwnedReadHalf,
    to: &mut OwnedWriteHalf,
    holds_reply: &AtomicBool,
) {
    let (mut bytes, mut session) = (vec![0; 1 << 16], Session::default());
    while let Ok(size @ 1..) = from.read(&mut bytes).await {
        match session.commit_in(&bytes[..size]).and_then(|commit| way.spring(commit)) {
            Some(HeldCommit::BeforeClaim | HeldCommit::BeforeConclusion) => way.hold().await,
            Some(HeldCommit::AfterClaim | HeldCommit::AfterConclusion) => {
                holds_reply.store(true, Ordering::SeqCst)
            }
            None => {}
        }
        if to.write_all(&bytes[..size]).await.is_err() {
            return;
        }
    }
}

async fn pass_replies(
    way: &Inner,
    from: &mut OwnedReadHalf,
    to: &mut OwnedWriteHalf,
    holds_reply: &AtomicBool,
) {
    let mut bytes = vec![0; 1 << 16];
    while let Ok(size @ 1..) = from.read(&mut bytes).await {
        if holds_reply.swap(false, Ordering::SeqCst) {
            way.hold().await;
        }
        if to.write_all(&bytes[..size]).await.is_err() {
            return;
        }
    }
}

impl Inner {
    /// Returns the step at which the way is held, if the trap is set for this commit.
    fn spring(&self, commit: Commit) -> Option<HeldCommit> {
        let mut trap = self.trap.lock().unwrap();
        let is_it = match commit {
            Commit::Claim => matches!(*trap, Some(HeldCommit::BeforeClaim | HeldCommit::AfterClaim)),
            Commit::Conclusion => {
                matches!(*trap, Some(HeldCommit::BeforeConclusion | HeldCommit::AfterConclusion))
            }
        };
        if is_it { trap.take() } else { None }
    }

    async fn hold(&self) {
        let mut released = self.released.subscribe();
        let before = *released.borrow_and_update();
        self.is_held.store(true, Ordering::SeqCst);
        drop(released.wait_for(|number| *number > before).await);
    }
}

/// Commit of a transaction, by its statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Commit {
    Claim,
    Conclusion,
}

/// Statements of a connection.
#[derive(Default)]
struct Session {
    /// Bytes of a message that did not arrive whole.
    partial: Vec<u8>,
    has_begun: bool,
    /// Prepared statements of interest, by their names.
    prepared: BTreeMap<Vec<u8>, Prepared>,
    /// Last statement of interest in the open transaction.
    in_transaction: Option<Commit>,
}

#[derive(Clone, Copy)]
enum Prepared {
    Part(Commit),
    Commit,
}

impl Session {
    /// Returns the commit that these bytes of a client hold.
    fn commit_in(&mut self, bytes: &[u8]) -> Option<Commit> {
        self.partial.extend_from_slice(bytes);
        let (mut at, mut commit) = (0, None);
        while let Some(end) = self.end_of_message(at) {
            commit = self.message(at, end).or(commit);
            at = end;
        }
        self.partial.drain(..at);
        commit
    }

    /// Returns the end of a message that arrived whole. Those before the session begins have no type.
    fn end_of_message(&self, at: usize) -> Option<usize> {
        let head = at + usize::from(self.has_begun);
        let length = self.partial.get(head..head + 4)?.try_into().ok().map(u32::from_be_bytes)?;
        let end = head + usize::try_from(length).ok()?;
        (end <= self.partial.len()).then_some(end)
    }

    fn message(&mut self, at: usize, end: usize) -> Option<Commit> {
        if !self.has_begun {
            self.has_begun = self.partial[at + 4..end] != TLS_REQUEST;
            return None;
        }
        let kind = self.partial[at];
        let mut texts = self.partial[at + 5..end].split(|byte| *byte == 0);
        let found = match kind {
            b'Q' => {
                let text = texts.next()?;
                if text.starts_with(b"BEGIN") {
                    self.in_transaction = None;
                }
                text.ends_with(b"COMMIT").then_some(Prepared::Commit)
            }
            b'P' => {
                let (name, text) = (texts.next()?.to_vec(), String::from_utf8_lossy(texts.next()?));
                let of_interest = match &*text {
                    "COMMIT" => Some(Prepared::Commit),
                    text if text.contains("state = 'sending'") && text.starts_with("UPDATE outbox") => {
                        Some(Prepared::Part(Commit::Claim))
                    }
                    text if text.starts_with("UPDATE exchange SET ended") => {
                        Some(Prepared::Part(Commit::Conclusion))
                    }
                    _ => None,
                };
                of_interest.map(|of_interest| self.prepared.insert(name, of_interest));
                None
            }
            b'B' => self.prepared.get(texts.nth(1)?).copied(),
            _ => None,
        };
        match found? {
            Prepared::Part(part) => {
                self.in_transaction = Some(part);
                None
            }
            Prepared::Commit => self.in_transaction.take(),
        }
    }
}
