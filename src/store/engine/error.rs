//! Errors of the database, with advice for the operator.

use super::location::DatabaseLocation;
use sqlx::migrate::MigrateError;
use sqlx::postgres::PgDatabaseError;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A statement or a commit failed.
    #[error("cannot {action}: {}{}", error_message(source), error_advice(source))]
    Sql {
        action: &'static str,
        #[source]
        source: sqlx::Error,
    },
    /// The database cannot be opened or prepared.
    #[error(
        "cannot open the database {database}: {}{}",
        error_message(source),
        opening_advice(database, source)
    )]
    Open {
        database: DatabaseLocation,
        #[source]
        source: sqlx::Error,
    },
    /// The schema cannot be migrated, or is newer than this program.
    #[error(
        "cannot bring the database {database} up to date: {source}{}",
        match source {
            MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => error_advice(error),
            _ => "; if it was written by a newer tallyd, install that version again",
        }
    )]
    Migrate {
        database: DatabaseLocation,
        #[source]
        source: MigrateError,
    },
    #[error(
        "there is no database at {database}: check `{}`, or start `tallyd run` once, which creates it",
        database.setting()
    )]
    Missing { database: DatabaseLocation },
    /// The file at the path is no longer the open database.
    #[error(
        "the file {path} was {file_change} while tallyd used it. tallyd stops, because later writes would be lost, or \
         another tallyd could work beside it; restart it to use the file that is at this path now"
    )]
    FileReplaced {
        path: PathBuf,
        /// Change of the file, to follow "was".
        file_change: &'static str,
    },
    /// The lock is held or cannot be taken.
    #[error(transparent)]
    Lock(#[from] super::lock::LockError),
    /// A daemon leads, on this host or another, and the operation must not run beside it.
    #[error(
        "the tallyd on {host} leads the database {database}, and only one process may work on it: stop that daemon \
         (`sudo systemctl stop tallyd`), or use a command that works beside it"
    )]
    Led { database: DatabaseLocation, host: String },
    /// A stored value of this kind is not one that this program writes.
    #[error("the database holds {0} that this version does not know: {1}")]
    UnknownValue(&'static str, String),
    /// The key of an inserted change belongs to another change.
    #[error(
        "the key `{0}` already names another change, and a key is never reused. Nothing was inserted. See \
         `tallyd outbox show {0}`, and insert this change with a new key"
    )]
    KeyTaken(String),
    /// A stored body cannot be read.
    #[error(transparent)]
    Body(#[from] crate::journal::BodyError),
    /// The disk has less free space than a claim requires (docs/rules.md 20).
    #[error(
        "only {free_mib} MiB are free on the disk of {path}. Below {floor_mib} MiB no change is sent, because its \
         answer could not be stored. Free space; work continues by itself"
    )]
    LowDiskSpace { path: PathBuf, free_mib: u64, floor_mib: u64 },
    /// The database moved to another place.
    #[error("{sentence}")]
    Moved {
        /// The database that it moved to.
        to: String,
        /// The mark, as a sentence for the operator.
        sentence: String,
    },
    /// An action on a database, as a copy, a move or a replay, is not possible.
    #[error("cannot {action}: {reason}")]
    Refused { action: String, reason: String },
    /// A file operation beside the database failed.
    #[error("cannot {action} {path}: {source}")]
    File {
        action: &'static str,
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
}

/// Result of an operation on the database.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;

impl StoreError {
    /// Returns the refusal of an action, to follow "cannot".
    pub(in crate::store) fn refused(action: String, reason: impl Into<String>) -> Self {
        Self::Refused { action, reason: reason.into() }
    }

    /// Returns the refusal to work with a database.
    pub(super) fn unusable(database: &DatabaseLocation, reason: impl Into<String>) -> Self {
        Self::refused(format!("use the database {database}"), reason)
    }

    /// Returns a function that names the failed action and the file in an error.
    pub(super) fn of_file(action: &'static str, path: &Path) -> impl Fn(std::io::Error) -> Self {
        move |source| Self::File { action, path: path.to_owned(), source }
    }

    /// Returns a function that names the database that cannot be opened.
    pub(super) fn of_opening(database: &DatabaseLocation) -> impl Fn(sqlx::Error) -> Self {
        move |source| Self::Open { database: database.clone(), source }
    }

    /// Returns true if the operation may succeed later without a repair of the database.
    ///
    /// That holds for another program's lock, a full or read-only disk, an I/O error, missing memory, a file
    /// that cannot be opened and a server that is away. It does not hold for damage, for constraint violations,
    /// for a commit of which the reply was lost and for a daemon that was replaced.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Sql { source, .. } => failure(source).is_some_and(|failure| {
                !matches!(failure, Failure::Damaged | Failure::CommitUnknown | Failure::Fenced)
            }),
            Self::LowDiskSpace { .. } => true,
            _ => false,
        }
    }

    /// Returns true if the reply to a commit was lost, so that the commit may have been made.
    pub fn is_commit_unknown(&self) -> bool {
        self.failure() == Some(Failure::CommitUnknown)
    }

    /// Returns true if the database refuses the rows of a statement, as a constraint or another program's trigger
    /// does. Other rows may be written.
    pub(crate) fn is_refusal(&self) -> bool {
        let is_of_database =
            |source: &sqlx::Error| source.as_database_error().is_some() && failure(source).is_none();
        matches!(self, Self::Sql { source, .. } if is_of_database(source))
    }

    /// Returns true if another daemon leads by now, or the server went back in time: this process must end.
    pub fn is_fenced(&self) -> bool {
        self.failure() == Some(Failure::Fenced)
    }

    /// Returns true if a start should wait: for another program, for free space, or for the server.
    pub fn delays_start(&self) -> bool {
        matches!(self.failure(), Some(Failure::Busy | Failure::Full | Failure::Lost))
    }

    /// Returns true if another program holds a lock.
    pub(super) fn is_busy(&self) -> bool {
        self.failure() == Some(Failure::Busy)
    }

    fn failure(&self) -> Option<Failure> {
        let source = match self {
            // An I/O error of a file's folder does not pass by itself.
            Self::Open { database, source: sqlx::Error::Io(_) } if database.server().is_none() => {
                return None;
            }
            Self::Open { database, source } if is_missing_file(database, source) => return None,
            Self::Sql { source, .. } | Self::Open { source, .. } => source,
            Self::Migrate {
                source: MigrateError::Execute(source) | MigrateError::ExecuteMigration(source, _),
                ..
            } => source,
            _ => return None,
        };
        failure(source)
    }
}

/// Failures of a database that are not the statement's fault, in one vocabulary for both engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    Busy,
    /// The connection to the server is gone, or the server stops or starts.
    Lost,
    /// The server shows no certificate that verifies.
    Untrusted,
    /// The connection was lost between a commit and its reply.
    CommitUnknown,
    /// Another daemon leads, or the server went back in time.
    Fenced,
    Full,
    NoMemory,
    ReadOnly,
    Disk,
    CannotOpen,
    /// The data is damaged, or the file is no database.
    Damaged,
}

/// Loss of the connection between a commit and its reply.
#[derive(Debug, thiserror::Error)]
#[error("the connection was lost at the commit, and the server may have made it: {0}")]
struct CommitUnknown(sqlx::Error);

/// Refusal of a write by a daemon that no longer leads.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Fenced(String);

/// Returns the refusal of a write by a daemon that no longer leads.
pub(super) fn fenced(reason: String) -> sqlx::Error {
    sqlx::Error::AnyDriverError(Box::new(Fenced(reason)))
}

/// Marks the error of a commit whose reply was lost.
pub(super) fn commit_unknown(error: sqlx::Error) -> sqlx::Error {
    sqlx::Error::AnyDriverError(Box::new(CommitUnknown(error)))
}

/// Returns true if the connection can serve no other statement.
pub(super) fn is_connection_lost(error: &sqlx::Error) -> bool {
    matches!(failure(error), Some(Failure::Lost | Failure::Untrusted))
}

/// Returns true if the server ran nothing of the message that failed: the message was not sent in full, or it came
/// after the end of a session that was idle in a transaction.
pub(super) fn was_never_run(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(error) => error.kind() == ErrorKind::BrokenPipe,
        sqlx::Error::Database(refusal) => refusal.code().is_some_and(|code| code == "25P03"),
        _ => false,
    }
}

/// Returns true if the server takes no writes.
pub(super) fn is_read_only(error: &sqlx::Error) -> bool {
    failure(error) == Some(Failure::ReadOnly)
}

fn failure(error: &sqlx::Error) -> Option<Failure> {
    let refusal = match error {
        sqlx::Error::Database(refusal) => refusal,
        sqlx::Error::AnyDriverError(error) if error.is::<CommitUnknown>() => {
            return Some(Failure::CommitUnknown);
        }
        sqlx::Error::AnyDriverError(error) if error.is::<Fenced>() => return Some(Failure::Fenced),
        sqlx::Error::Tls(_) => return Some(Failure::Untrusted),
        sqlx::Error::Io(error) if error.kind() == ErrorKind::InvalidData => return Some(Failure::Untrusted),
        sqlx::Error::Io(_) | sqlx::Error::Protocol(_) => return Some(Failure::Lost),
        _ => return None,
    };
    let code = refusal.code()?;
    if refusal.try_downcast_ref::<PgDatabaseError>().is_some() {
        return Some(match code.as_ref() {
            "55P03" | "40001" | "40P01" => Failure::Busy,
            "53100" => Failure::Full,
            "53200" => Failure::NoMemory,
            "25006" => Failure::ReadOnly,
            "58030" => Failure::Disk,
            "XX001" | "XX002" => Failure::Damaged,
            "25P03" | "53300" | "57P01" | "57P02" | "57P03" => Failure::Lost,
            other if other.starts_with("08") => Failure::Lost,
            _ => return None,
        });
    }
    Some(match code.parse::<u32>().ok()? & 0xff {
        5 | 6 => Failure::Busy,
        7 => Failure::NoMemory,
        8 => Failure::ReadOnly,
        10 => Failure::Disk,
        11 | 26 => Failure::Damaged,
        13 => Failure::Full,
        14 => Failure::CannotOpen,
        _ => return None,
    })
}

/// Returns the message of an error, without the library's prefix and the line of the server's own source.
fn error_message(error: &sqlx::Error) -> String {
    error.as_database_error().map_or_else(|| error.to_string(), |refusal| refusal.message().to_owned())
}

const FOLDER_ADVICE: &str = "; check that the folder exists and that the user tallyd may write to it";

/// Returns true if a file that a server's address names does not exist. A missing socket is a server that is away.
fn is_missing_file(database: &DatabaseLocation, error: &sqlx::Error) -> bool {
    let sqlx::Error::Io(error) = error else { return false };
    error.kind() == ErrorKind::NotFound && database.server().is_some_and(|server| !server.has_socket())
}

/// Returns advice for a refusal of a server.
fn server_advice(error: &sqlx::Error) -> Option<&'static str> {
    if failure(error) == Some(Failure::Untrusted) {
        return Some(
            "; the server must show a certificate that verifies: set `ssl = on` there, and name the file of a private \
             authority with `?sslrootcert=FILE` at the end of `database.url`",
        );
    }
    let refusal = error.as_database_error()?.try_downcast_ref::<PgDatabaseError>()?;
    Some(match refusal.code() {
        "25006" => "; the server takes no writes: let `database.url` name the primary",
        "28000" => {
            "; the server must know the role and let it in from this host: correct the role in `database.url`, or \
             `pg_hba.conf` of the server"
        }
        "28P01" => {
            "; write the password of the role to the file of `password_file`, or to the place that counts before it \
             (docs/postgresql.md)"
        }
        "3D000" => "; create it, or correct `database.url`",
        // The sentence of a guard with this state tells what to do.
        "3F000" | "42501" if refusal.routine() != Some("exec_stmt_raise") => {
            "; grant the role the right, or run the SQL of `tallyd schema` as a superuser of the server"
        }
        "53100" => "; the disk of the server is full: free space; work continues by itself",
        "53300" => "; end other connections or raise its limit; a daemon tries again by itself",
        "57P03" => "; the server starts or stops; a daemon tries again by itself",
        _ => return None,
    })
}

/// Returns advice for a database that cannot be opened.
fn opening_advice(database: &DatabaseLocation, error: &sqlx::Error) -> &'static str {
    match failure(error) {
        _ if is_missing_file(database, error) => {
            "; correct the file of `sslrootcert`, `sslcert` or `sslkey` in `database.url`"
        }
        Some(Failure::Lost) if database.server().is_none() => FOLDER_ADVICE,
        _ => error_advice(error),
    }
}

/// Returns advice for the result codes that an operator can act on.
fn error_advice(error: &sqlx::Error) -> &'static str {
    if let Some(advice) = server_advice(error) {
        return advice;
    }
    match failure(error) {
        Some(Failure::Busy) => "; another program holds a write transaction open: end it; no data is lost",
        Some(Failure::ReadOnly) => {
            "; the file or its folder is read-only: give the user tallyd write permission"
        }
        Some(Failure::Disk) => "; the disk reports an error: check the host's disk before anything else",
        Some(Failure::Damaged) => "; the file is damaged or no database: stop tallyd and restore a backup",
        Some(Failure::Full) => "; the disk is full: free space; work continues by itself",
        Some(Failure::CannotOpen) => FOLDER_ADVICE,
        Some(Failure::Lost) => {
            "; the server is away or ended the connection, and tallyd connects again by itself: check that the server runs \
             and that this host reaches it, or correct `database.url`"
        }
        Some(Failure::CommitUnknown) => {
            "; the next run, or the next start of tallyd, finds what was committed"
        }
        Some(Failure::Fenced) => "; this tallyd ends, and stands by after its next start",
        Some(Failure::NoMemory | Failure::Untrusted) | None => "",
    }
}

/// Adds the failed action to an error of a statement.
pub(in crate::store) trait SqlContext<T> {
    fn context(self, action: &'static str) -> Result<T>;
    /// Names the database that cannot be opened.
    fn opening(self, database: &DatabaseLocation) -> Result<T>;
}

impl<T> SqlContext<T> for Result<T, sqlx::Error> {
    fn context(self, action: &'static str) -> Result<T> {
        self.map_err(|source| StoreError::Sql { action, source })
    }

    fn opening(self, database: &DatabaseLocation) -> Result<T> {
        self.map_err(StoreError::of_opening(database))
    }
}
