//! Errors of the database, with advice for the operator.

use sqlx::migrate::MigrateError;
use sqlx::postgres::PgDatabaseError;
use std::path::{Path, PathBuf};

/// Error of the database.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A statement or a commit failed.
    #[error("cannot {action}: {}{}", error_message(source), error_advice(source))]
    Sql {
        /// Failed action, to follow "cannot".
        action: &'static str,
        /// Cause.
        #[source]
        source: sqlx::Error,
    },
    /// The database file cannot be opened or prepared.
    #[error("cannot open the database {path}: {source}{}", error_advice(source))]
    Open {
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        #[source]
        source: sqlx::Error,
    },
    /// The schema cannot be migrated, or is newer than this program.
    #[error(
        "cannot bring the database {path} up to date: {source}; \
         if it was written by a newer tallyd, install that version again"
    )]
    Migrate {
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        #[source]
        source: MigrateError,
    },
    /// The database was made by other migrations than those of this program.
    #[error(
        "cannot open the database {path}: another version of tallyd created it with another schema \
         (migration {version} differs), and this version does not convert it; nothing was changed. Keep the \
         file and set `database.path` to a new one, or run the version of tallyd that wrote it"
    )]
    OtherSchema {
        /// Path of the database file.
        path: PathBuf,
        /// The first migration that differs.
        version: i64,
    },
    /// The database does not exist.
    #[error(
        "there is no database at {path}: check `database.path`, or start `tallyd run` once, which creates it"
    )]
    Missing {
        /// Path of the file.
        path: PathBuf,
    },
    /// The file at the path is no longer the open database.
    #[error(
        "the database {path} was {file_change} while tallyd used it. tallyd stops, because later writes would be \
         lost; restart it to use the file that is at this path now"
    )]
    FileReplaced {
        /// Path of the file.
        path: PathBuf,
        /// Change of the file, to follow "was".
        file_change: &'static str,
    },
    /// The lock is held or cannot be taken.
    #[error(transparent)]
    Lock(#[from] super::lock::LockError),
    /// A stored value of this kind is not one that this program writes.
    #[error("the database holds {0} that this version does not know: {1}")]
    UnknownValue(&'static str, String),
    /// The key of an inserted change belongs to another change.
    #[error(
        "the key `{0}` already names another change, and a key is never reused. Nothing was inserted. See \
         `tallyd outbox show {0}`, and insert this change with a new key"
    )]
    KeyTaken(String),
    /// The journal before a position was pruned.
    #[error(
        "the journal before position {first} was pruned, so a replay up to position {requested} is not possible: \
         name a later time, or restore a backup of that time"
    )]
    JournalPruned {
        /// Requested last position.
        requested: crate::model::Position,
        /// First available position.
        first: crate::model::Position,
    },
    /// The journal before a position was recorded with another projection version.
    #[error(
        "the journal before position {first} has another projection version, so a replay up to position {requested} \
         is not possible: name a later time, or use a backup and the tallyd of that time"
    )]
    OtherProjection {
        /// Requested last position.
        requested: crate::model::Position,
        /// First available position.
        first: crate::model::Position,
    },
    /// A stored body cannot be read.
    #[error(transparent)]
    Body(#[from] crate::journal::BodyError),
    /// The disk has less free space than a claim requires (docs/rules.md 35).
    #[error(
        "only {free_mib} MiB are free on the disk of {path}. Below {floor_mib} MiB no change is sent, because its \
         answer could not be stored. Free space; work continues by itself"
    )]
    LowDiskSpace {
        /// Path of the database.
        path: PathBuf,
        /// Free space in MiB.
        free_mib: u64,
        /// Required space in MiB.
        floor_mib: u64,
    },
    /// A copy of the database was not made.
    #[error("cannot copy the database to {path}: {reason}")]
    Copy {
        /// Path of the copy.
        path: PathBuf,
        /// Cause and advice.
        reason: String,
    },
    /// A file operation beside the database failed.
    #[error("cannot {action} {path}: {source}")]
    File {
        /// Failed action, to follow "cannot".
        action: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        #[source]
        source: std::io::Error,
    },
}

/// Result of an operation on the database.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;

impl StoreError {
    /// Returns a function that names the failed action and the file in an error.
    pub(super) fn of_file(action: &'static str, path: &Path) -> impl Fn(std::io::Error) -> Self {
        move |source| Self::File { action, path: path.to_owned(), source }
    }

    /// Returns true if the operation may succeed later without a repair of the database.
    ///
    /// That holds for another program's lock, a full or read-only disk, an I/O error, missing memory and a
    /// file that cannot be opened. It does not hold for damage and for constraint violations.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Sql { source, .. } => failure(source).is_some_and(|failure| failure != Failure::Damaged),
            Self::LowDiskSpace { .. } => true,
            _ => false,
        }
    }

    /// Returns true if another program must finish or free space must be made first.
    ///
    /// That holds for a lock and a full disk, also while the database is opened or migrated.
    pub fn is_busy_or_full(&self) -> bool {
        let source = match self {
            Self::Sql { source, .. } | Self::Open { source, .. } => source,
            Self::Migrate {
                source: MigrateError::Execute(source) | MigrateError::ExecuteMigration(source, _),
                ..
            } => source,
            _ => return false,
        };
        matches!(failure(source), Some(Failure::Busy | Failure::Full))
    }
}

/// Failures of a database that are not the statement's fault, in one vocabulary for both engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    /// Another program holds a lock.
    Busy,
    /// The connection to the server is gone, or the server stops or starts.
    Lost,
    /// The disk is full.
    Full,
    NoMemory,
    ReadOnly,
    /// The disk reports an error.
    Disk,
    /// The file cannot be opened.
    CannotOpen,
    /// The data is damaged, or the file is no database.
    Damaged,
}

fn failure(error: &sqlx::Error) -> Option<Failure> {
    let refusal = match error {
        sqlx::Error::Database(refusal) => refusal,
        sqlx::Error::Io(_) | sqlx::Error::Tls(_) | sqlx::Error::Protocol(_) => return Some(Failure::Lost),
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
            "53300" | "57P01" | "57P02" | "57P03" => Failure::Lost,
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

/// Returns the message of an error; a trigger's message stands alone, without the library's prefix.
fn error_message(error: &sqlx::Error) -> String {
    const TRIGGERS: [&str; 2] = ["1811", "TLY01"];
    match error.as_database_error() {
        Some(refusal) if refusal.code().is_some_and(|code| TRIGGERS.contains(&code.as_ref())) => {
            refusal.message().to_owned()
        }
        _ => error.to_string(),
    }
}

/// Returns advice for the result codes that an operator can act on.
fn error_advice(error: &sqlx::Error) -> &'static str {
    const FOLDER: &str = "; check that the folder exists and that the user tallyd may write to it";
    match failure(error) {
        Some(Failure::Busy) => "; another program holds a write transaction open: end it; no data is lost",
        Some(Failure::ReadOnly) => {
            "; the file or its folder is read-only: give the user tallyd write permission"
        }
        Some(Failure::Disk) => "; the disk reports an error: check the host's disk before anything else",
        Some(Failure::Damaged) => "; the file is damaged or no database: stop tallyd and restore a backup",
        Some(Failure::Full) => "; the disk is full: free space; work continues by itself",
        Some(Failure::CannotOpen) => FOLDER,
        Some(Failure::Lost) if matches!(error, sqlx::Error::Io(_)) => FOLDER,
        Some(Failure::Lost | Failure::NoMemory) | None => "",
    }
}

/// Adds the failed action to an error of a statement.
pub(in crate::store) trait SqlContext<T> {
    fn context(self, action: &'static str) -> Result<T>;
    /// Names the database file that cannot be opened.
    fn opening(self, path: &Path) -> Result<T>;
}

impl<T> SqlContext<T> for Result<T, sqlx::Error> {
    fn context(self, action: &'static str) -> Result<T> {
        self.map_err(|source| StoreError::Sql { action, source })
    }

    fn opening(self, path: &Path) -> Result<T> {
        self.map_err(|source| StoreError::Open { path: path.to_owned(), source })
    }
}
