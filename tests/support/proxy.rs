//! Proxy before a PostgreSQL server that cuts a connection before or after a COMMIT.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tallyd::store::{DatabaseLocation, PostgresDatabase};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
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

type OnCommit = Arc<dyn Fn() -> CommitFate + Send + Sync>;

/// Running proxy; dropping it cuts all connections.
pub struct Proxy {
    /// The database through the proxy.
    pub location: DatabaseLocation,
    dead: CancellationToken,
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
        };
        let (dead, on_commit): (_, OnCommit) = (proxy.dead.clone(), Arc::new(on_commit));
        tokio::spawn(dead.clone().run_until_cancelled_owned(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = UnixStream::connect(&socket).await.unwrap();
                let relay = relay(client, server, Arc::clone(&on_commit), dead.clone());
                tokio::spawn(dead.clone().run_until_cancelled_owned(relay));
            }
        }));
        proxy
    }
}

/// Passes messages both ways until one side ends the connection or a COMMIT meets its fate.
async fn relay(client: TcpStream, server: UnixStream, on_commit: OnCommit, dead: CancellationToken) {
    client.set_nodelay(true).unwrap();
    let ((mut from_client, mut to_client), (mut from_server, mut to_server)) =
        (client.into_split(), server.into_split());
    let loses_reply = AtomicBool::new(false);
    let requests = async {
        let mut commits = Commits::default();
        let mut first = true;
        while let Ok(message) = Message::read(&mut from_client, std::mem::take(&mut first)).await {
            let fate = if commits.is_commit(&message) { on_commit() } else { CommitFate::Passes };
            match fate {
                CommitFate::Passes => {}
                CommitFate::Lost => return dead.cancel(),
                CommitFate::ReplyLost => loses_reply.store(true, Ordering::SeqCst),
            }
            if to_server.write_all(&message.bytes).await.is_err() {
                return;
            }
        }
    };
    let replies = async {
        while let Ok(message) = Message::read(&mut from_server, false).await {
            if loses_reply.load(Ordering::SeqCst) && message.kind() == b'C' && message.body() == b"COMMIT\0" {
                return;
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

/// Names of a connection's prepared statements that commit.
#[derive(Default)]
struct Commits(BTreeSet<Vec<u8>>);

impl Commits {
    /// Returns true if the server commits at this message.
    fn is_commit(&mut self, message: &Message) -> bool {
        let mut texts = message.body().split(|byte| *byte == 0);
        match message.kind() {
            // A query, a statement to be prepared and a prepared statement with its values.
            b'Q' => texts.next().is_some_and(|text| text.ends_with(b"COMMIT")),
            b'P' => {
                let name = texts.next().unwrap();
                if texts.next() == Some(b"COMMIT") {
                    self.0.insert(name.to_vec());
                }
                false
            }
            b'B' => texts.nth(1).is_some_and(|name| self.0.contains(name)),
            _ => false,
        }
    }
}
