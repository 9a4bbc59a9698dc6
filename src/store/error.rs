//! What went wrong with the database, and what an operator does about it.

use sqlx::migrate::MigrateError;
use std::path::PathBuf;

/// A failure of the database.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A statement or a commit failed.
    #[error("cannot {doing}: {}{}", told(source), advice(source))]
    Sql {
        /// What was being done, as in "cannot …".
        doing: &'static str,
        /// Why it failed.
        #[source]
        source: sqlx::Error,
    },
    /// The database file cannot be opened or made ready.
    #[error("cannot open the database {path}: {source}{}", advice(source))]
    Open {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: sqlx::Error,
    },
    /// The schema cannot be brought up to date, or is newer than this program.
    #[error(
        "cannot bring the database {path} up to date: {source}; \
         if it was written by a newer tallyd, install that version again"
    )]
    Migrate {
        /// The file.
        path: PathBuf,
        /// Why.
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
        /// The file.
        path: PathBuf,
        /// The first migration that differs.
        version: i64,
    },
    /// There is no database yet.
    #[error(
        "there is no database at {path}: check `database.path`, or start `tallyd run` once, which creates it"
    )]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// The open database is not the file at its path any more.
    #[error(
        "the database {path} was {how} while tallyd worked on it: what it would write now is lost, so it ends; \
         started again it works on what is at that path then"
    )]
    Elsewhere {
        /// The path.
        path: PathBuf,
        /// The change of the file, as in "was …".
        how: &'static str,
    },
    /// The lock is held or cannot be taken.
    #[error(transparent)]
    Lock(#[from] super::LockError),
    /// A stored value is outside what this program ever writes.
    #[error("the database holds {what} which this version does not know: {value}")]
    Foreign {
        /// What kind of value.
        what: &'static str,
        /// The value.
        value: String,
    },
    /// A wish is inserted with the key of another one.
    #[error(
        "the key `{key}` already names another wish, and a key is for ever: nothing was inserted. See \
         `tallyd outbox show {key}`, and insert this wish with a key of its own"
    )]
    KeyTaken {
        /// The key.
        key: String,
    },
    /// The journal before a position is gone.
    #[error(
        "the journal before position {first} was pruned, so there is nothing to fold up to position {asked}: \
         name a later time, or restore a backup of that time"
    )]
    Pruned {
        /// Up to where it was asked for.
        asked: crate::model::Position,
        /// The first position that can be had.
        first: crate::model::Position,
    },
    /// The journal before a position was recorded by another version of the fold.
    #[error(
        "at position {first} another version of tallyd began to fold the journal, and this one reads what stands \
         before it otherwise, so there is nothing to fold up to position {asked}: name a later time, or take the \
         tallyd and a backup of that time"
    )]
    OtherFold {
        /// Up to where it was asked for.
        asked: crate::model::Position,
        /// The first position that can be had.
        first: crate::model::Position,
    },
    /// A stored body cannot be read.
    #[error(transparent)]
    Body(#[from] crate::journal::BodyError),
    /// The disk has less room than a claim is made with (rules.md 35).
    #[error(
        "only {free_mib} MiB are free on the disk of {path}, and no wish is sent below {floor_mib} MiB, so that its \
         answer can be written down; free space, work goes on by itself"
    )]
    NoRoom {
        /// The database.
        path: PathBuf,
        /// What is free.
        free_mib: u64,
        /// What must be.
        floor_mib: u64,
    },
    /// A copy of the database was not made.
    #[error("cannot copy the database to {path}: {why}")]
    Copy {
        /// The copy.
        path: PathBuf,
        /// Why, and what to do.
        why: String,
    },
    /// A file operation beside the database failed.
    #[error("cannot {doing} {path}: {source}")]
    File {
        /// What was being done.
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

impl StoreError {
    /// Whether the same may succeed later without anybody touching the database: a foreign lock, a full disk, a disk
    /// that stumbled or was mounted read-only. Damage and what a constraint refuses stay as they are.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Sql { source, .. } => matches!(primary_code(source), Some(5..=8 | 10 | 13 | 14)),
            Self::NoRoom { .. } => true,
            Self::Open { .. }
            | Self::Migrate { .. }
            | Self::OtherSchema { .. }
            | Self::Missing { .. }
            | Self::Elsewhere { .. }
            | Self::Lock(_)
            | Self::Foreign { .. }
            | Self::KeyTaken { .. }
            | Self::Body(_)
            | Self::Copy { .. }
            | Self::Pruned { .. }
            | Self::OtherFold { .. }
            | Self::File { .. } => false,
        }
    }
}

impl StoreError {
    /// True where somebody else has to finish or to make room first: a foreign lock, a full disk. The same error at the
    /// opening of the database counts too.
    pub fn waits_for_others(&self) -> bool {
        let source = match self {
            Self::Sql { source, .. } | Self::Open { source, .. } => source,
            Self::Migrate { source: MigrateError::Execute(source), .. }
            | Self::Migrate { source: MigrateError::ExecuteMigration(source, _), .. } => source,
            _ => return false,
        };
        matches!(primary_code(source), Some(5 | 6 | 13))
    }
}

/// SQLite's primary result code.
fn primary_code(error: &sqlx::Error) -> Option<u32> {
    let code = error.as_database_error().and_then(|e| e.code());
    code.as_deref().and_then(|c| c.parse::<u32>().ok()).map(|c| c & 0xff)
}

/// The failure in words. What a trigger of the schema says is a sentence already, without the library's words for it.
fn told(error: &sqlx::Error) -> String {
    const TRIGGER: &str = "1811";
    match error.as_database_error() {
        Some(refusal) if refusal.code().as_deref() == Some(TRIGGER) => refusal.message().to_owned(),
        _ => error.to_string(),
    }
}

/// SQLite's result codes that a person can do something about.
fn advice(error: &sqlx::Error) -> &'static str {
    const FOLDER: &str = "; check that the folder exists and that the user tallyd may write to it";
    match primary_code(error) {
        Some(5 | 6) => "; another program holds a write transaction open: end it, nothing is lost",
        Some(8) => "; the file or its folder is read-only: give the user tallyd write permission",
        Some(10) => "; the disk reports an error: check the host's disk before anything else",
        Some(11 | 26) => "; the file is damaged or no database: stop tallyd and restore a backup",
        Some(13) => "; the disk is full: free space, work goes on by itself",
        Some(14) => FOLDER,
        None if matches!(error, sqlx::Error::Io(_)) => FOLDER,
        _ => "",
    }
}

/// Says what was being done when a statement failed.
pub(super) trait Doing<T> {
    /// Completes "cannot …".
    fn doing(self, doing: &'static str) -> Result<T, StoreError>;
}

impl<T> Doing<T> for Result<T, sqlx::Error> {
    fn doing(self, doing: &'static str) -> Result<T, StoreError> {
        self.map_err(|source| StoreError::Sql { doing, source })
    }
}
