//! The lock beside the database: only its holder calls the service, migrates or checkpoints.
//!
//! A kernel lock on a file of its own, not a pid file: it ends with the process, however that ends. It is not taken
//! on the database file, because closing another descriptor of that file would drop SQLite's own locks.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

/// Held as long as it lives.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// Why the lock was not taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Somebody holds it.
    #[error(
        "another tallyd already works on this database (lock {path}): \
         stop it first, or use a command that works beside it"
    )]
    Held {
        /// The lock file.
        path: PathBuf,
    },
    /// The file cannot be made or opened.
    #[error(
        "cannot take the lock {path}: {source}; check that the folder exists and may be written (the first start of the \
         service makes it)"
    )]
    File {
        /// The lock file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

impl Lock {
    /// Takes the lock of a database, or says at once that somebody else has it.
    pub fn take(database: &Path) -> Result<Self, LockError> {
        let mut name = super::files::real(database).into_os_string();
        name.push(".lock");
        let path = PathBuf::from(name);
        let file = super::files::create_for_group(&path)
            .and_then(|()| OpenOptions::new().read(true).write(true).open(&path));
        let file = file.map_err(|source| LockError::File { path: path.clone(), source })?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) => Err(LockError::Held { path }),
            Err(TryLockError::Error(source)) => Err(LockError::File { path, source }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lock_has_one_holder_and_ends_with_it() {
        let dir = tempfile::tempdir().unwrap();
        let database = dir.path().join("t.db");
        let held = Lock::take(&database).unwrap();
        assert!(matches!(Lock::take(&database), Err(LockError::Held { .. })));
        drop(held);
        Lock::take(&database).unwrap();
    }

    #[test]
    fn every_path_to_a_database_has_the_same_lock() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        std::fs::create_dir(path("real")).unwrap();
        std::os::unix::fs::symlink("real", path("folder")).unwrap();
        std::os::unix::fs::symlink("real/t.db", path("link")).unwrap();
        std::os::unix::fs::symlink(path("link"), path("link-to-link")).unwrap();
        for is_there in [false, true] {
            if is_there {
                std::fs::write(path("real/t.db"), "").unwrap();
            }
            for name in ["real/t.db", "folder/t.db", "link", "link-to-link", "real/../real/t.db"] {
                let _held = Lock::take(&path(name)).unwrap();
                for other in ["real/t.db", "folder/t.db", "link", "link-to-link"] {
                    let second = Lock::take(&path(other));
                    assert!(matches!(second, Err(LockError::Held { .. })), "{name}, {other}, {is_there}");
                }
            }
        }
        std::os::unix::fs::symlink("circle", path("circle")).unwrap();
        assert!(Lock::take(&path("circle")).is_ok(), "a lock beside what nobody can open harms nobody");
    }
}
