//! Proxy before a PostgreSQL server: the way of a host to it.
//!
//! It observes each transaction, cuts a connection before or after a COMMIT, and loses everything while the way is
//! cut.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use tallyd::store::{DatabaseLocation, PostgresDatabase};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Fate of a COMMIT and of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitFate {
    /// The server receives it, and the client its reply.
    Passes,
    /// The server does not receive it, and the proxy cuts all connections for good.
    Lost,
    /// The server commits, and the connection is cut before the reply.
    ReplyLost,
}

/// Stage of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionStage {
    /// The client sent a statement.
    Runs,
    /// The client sent COMMIT.
    Commits,
    /// The server committed; the client has no reply yet.
    Made,
}

/// Statements of a transaction so far, with their values.
#[derive(Clone, Default)]
pub struct SeenTransaction(Vec<Vec<u8>>);

impl SeenTransaction {
    /// Returns true if a statement or a value contains a text.
    pub fn mentions(&self, text: &str) -> bool {
        let text = text.as_bytes();
        self.0.iter().any(|seen| seen.windows(text.len()).any(|part| part == text))
    }
}

type OnStage = dyn Fn(TransactionStage, &SeenTransaction) -> CommitFate + Send + Sync;

/// Running proxy; dropping it cuts all connections.
pub struct Proxy {
    /// The database through the proxy.
    pub location: DatabaseLocation,
    dead: CancellationToken,
    is_cut: watch::Sender<bool>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.dead.cancel();
    }
}

impl Proxy {
    /// Starts a proxy before the server of a location, whose address names the folder of its socket.
    pub async fn start(
        direct: &DatabaseLocation,
        on_commit: impl Fn() -> CommitFate + Send + Sync + 'static,
    ) -> Self {
        let on_stage = move |stage, _: &SeenTransaction| match stage {
            TransactionStage::Commits => on_commit(),
            TransactionStage::Runs | TransactionStage::Made => CommitFate::Passes,
        };
        Self::observe(direct, on_stage).await
    }

    /// Starts a proxy that shows each stage of each transaction, before it goes on. The fate counts at
    /// [`TransactionStage::Commits`].
    pub async fn observe(
        direct: &DatabaseLocation,
        on_stage: impl Fn(TransactionStage, &SeenTransaction) -> CommitFate + Send + Sync + 'static,
    ) -> Self {
        let server = direct.server().unwrap();
        let folder = server.url().split_once("host=").unwrap().1;
        let socket = PathBuf::from(folder).join(".s.PGSQL.5432");
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let url = format!("postgres://tallyd@{address}/postgres?sslmode=disable");
        let database = PostgresDatabase::new(&url, server.schema()).unwrap();
        let proxy = Self {
            location: DatabaseLocation::on_server(database, direct.path()),
            dead: CancellationToken::new(),
            is_cut: watch::Sender::new(false),
        };
        let (dead, is_cut) = (proxy.dead.clone(), proxy.is_cut.subscribe());
        let on_stage: Arc<OnStage> = Arc::new(on_stage);
        tokio::spawn(dead.clone().run_until_cancelled_owned(async move {
            while let Ok((client, _)) = listener.accept().await {
                // A server that is away refuses the client.
                let Ok(server) = UnixStream::connect(&socket).await else { continue };
                let way = Way { on_stage: Arc::clone(&on_stage), dead: dead.clone(), is_cut: is_cut.clone() };
                tokio::spawn(dead.clone().run_until_cancelled_owned(relay(client, server, way)));
            }
        }));
        proxy
    }

    /// Cuts the way or mends it. While it is cut, nothing passes and no side is told.
    pub fn set_cut(&self, is_cut: bool) {
        self.is_cut.send_replace(is_cut);
    }
}

struct Way {
    on_stage: Arc<OnStage>,
    dead: CancellationToken,
    is_cut: watch::Receiver<bool>,
}

impl Way {
    async fn wait_until_mended(&self) {
        // The sender lives as long as the proxy.
        let _ = self.is_cut.clone().wait_for(|is_cut| !is_cut).await;
    }
}

/// Passes messages both ways until one side ends the connection or a COMMIT meets its fate.
async fn relay(client: TcpStream, server: UnixStream, way: Way) {
    client.set_nodelay(true).unwrap();
    let ((mut from_client, mut to_client), (mut from_server, mut to_server)) =
        (client.into_split(), server.into_split());
    let loses_reply = AtomicBool::new(false);
    let committing = Mutex::new(None);
    let requests = async {
        let mut statements = Statements::default();
        let mut first = true;
        while let Ok(message) = Message::read(&mut from_client, std::mem::take(&mut first)).await {
            way.wait_until_mended().await;
            let fate = match statements.note(&message) {
                Some(TransactionStage::Commits) => {
                    let seen = std::mem::take(&mut statements.seen);
                    let fate = (way.on_stage)(TransactionStage::Commits, &seen);
                    *committing.lock().unwrap() = Some(seen);
                    fate
                }
                Some(stage) => {
                    (way.on_stage)(stage, &statements.seen);
                    CommitFate::Passes
                }
                None => CommitFate::Passes,
            };
            match fate {
                CommitFate::Passes => {}
                CommitFate::Lost => return way.dead.cancel(),
                CommitFate::ReplyLost => loses_reply.store(true, Ordering::SeqCst),
            }
            if to_server.write_all(&message.bytes).await.is_err() {
                return;
            }
        }
    };
    let replies = async {
        while let Ok(message) = Message::read(&mut from_server, false).await {
            way.wait_until_mended().await;
            if message.kind() == b'C' && message.body() == b"COMMIT\0" {
                if loses_reply.load(Ordering::SeqCst) {
                    return;
                }
                let made = committing.lock().unwrap().take();
                if let Some(seen) = made {
                    (way.on_stage)(TransactionStage::Made, &seen);
                }
            }
            if to_client.write_all(&message.bytes).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = requests => {}
        () = replies => {}
    }
}

/// Message of PostgreSQL's protocol: a type, a length and a body.
struct Message {
    bytes: Vec<u8>,
}

impl Message {
    /// Reads a message. The first one of a client has no type.
    async fn read(from: &mut (impl AsyncReadExt + Unpin), has_no_type: bool) -> std::io::Result<Self> {
        let mut bytes = Vec::new();
        if !has_no_type {
            bytes.push(from.read_u8().await?);
        }
        let length = from.read_u32().await?;
        bytes.extend(length.to_be_bytes());
        let head = bytes.len();
        bytes.resize(head + length as usize - 4, 0);
        from.read_exact(&mut bytes[head..]).await?;
        Ok(Self { bytes })
    }

    fn kind(&self) -> u8 {
        self.bytes[0]
    }

    fn body(&self) -> &[u8] {
        &self.bytes[5..]
    }
}

/// Prepared statements of a connection, and its transaction.
#[derive(Default)]
struct Statements {
    prepared: BTreeMap<Vec<u8>, Vec<u8>>,
    is_in_transaction: bool,
    seen: SeenTransaction,
}

impl Statements {
    /// Notes a message of the client, and returns the stage of the transaction in which it is sent.
    fn note(&mut self, message: &Message) -> Option<TransactionStage> {
        let mut texts = message.body().split(|byte| *byte == 0);
        match message.kind() {
            // A query, a statement to be prepared and a prepared statement with its values.
            b'Q' => {
                let text = texts.next()?;
                if text.starts_with(b"BEGIN") {
                    (self.is_in_transaction, self.seen) = (true, SeenTransaction::default());
                }
                self.note_statement(text, message)
            }
            b'P' => {
                let name = texts.next()?.to_vec();
                self.prepared.insert(name, texts.next()?.to_vec());
                None
            }
            b'B' => {
                let text = self.prepared.get(texts.nth(1)?)?.clone();
                self.note_statement(&text, message)
            }
            _ => None,
        }
    }

    fn note_statement(&mut self, text: &[u8], message: &Message) -> Option<TransactionStage> {
        if text.ends_with(b"COMMIT") {
            self.is_in_transaction = false;
            return Some(TransactionStage::Commits);
        }
        if !self.is_in_transaction {
            return None;
        }
        self.seen.0.extend([text.to_vec(), message.bytes.clone()]);
        Some(TransactionStage::Runs)
    }
}
