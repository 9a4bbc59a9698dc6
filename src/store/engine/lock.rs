//! Lock beside the database: only its holder calls the platform, migrates or runs checkpoints.
//!
//! It is a kernel lock on a file of its own, not a pid file, so it ends with the process in
//! every case. It is not taken on the database file, because closing another descriptor of that
//! file would drop SQLite's own locks.

use super::files::{create_for_group, no_follow_options, resolve_path, with_suffix};
use crate::store::FileId;
use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Begin of the line with the name of the lock.
const INSTANCE: &str = "instance ";

/// Lock of a database, released on drop.
#[derive(Debug)]
pub struct DatabaseLock {
    file: File,
    path: PathBuf,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockState {
    /// The lock is free: no daemon runs.
    Free,
    Held {
        /// Database file of the holder, as noted in the lock file.
        opened_file: Option<String>,
    },
}

#[derive(Debug, thiserror::Error)]
pub enum LockError {
    #[error(
        "another tallyd uses this database (lock {path}): \
         stop it first, or use a command that works beside the daemon"
    )]
    Held { path: PathBuf },
    /// The lock file cannot be created or opened.
    #[error(
        "cannot acquire the lock {path}: {source}; check that the folder exists and is writable (the first start of \
         the systemd unit creates it)"
    )]
    File {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
}

impl DatabaseLock {
    /// Takes the lock of a database, or fails at once if it is held.
    pub fn acquire(database: &Path) -> Result<Self, LockError> {
        let path = lock_path(database);
        let file = create_for_group(&path)
            .and_then(|()| no_follow_options().read(true).write(true).open(&path))
            .map_err(|source| LockError::File { path: path.clone(), source })?;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Self { file, path }),
                // [`DatabaseLock::inspect`] shares the lock for an instant, and that must not fail a start.
                Err(TryLockError::WouldBlock) if is_inspected(&file) => std::thread::yield_now(),
                Err(TryLockError::WouldBlock) => return Err(LockError::Held { path }),
                Err(TryLockError::Error(source)) => return Err(LockError::File { path, source }),
            }
        }
    }

    /// Returns the state of a database's lock without taking it.
    pub fn inspect(database: &Path) -> Result<LockState, LockError> {
        let path = lock_path(database);
        let file = match no_follow_options().read(true).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(LockState::Free),
            Err(source) => return Err(LockError::File { path, source }),
        };
        match file.try_lock_shared() {
            Ok(()) => Ok(LockState::Free),
            Err(TryLockError::WouldBlock) => {
                let noted = io::read_to_string(&file).unwrap_or_default();
                let opened_file = noted.lines().next().filter(|line| !line.starts_with(INSTANCE));
                Ok(LockState::Held { opened_file: opened_file.map(str::to_owned) })
            }
            Err(TryLockError::Error(source)) => Err(LockError::File { path, source }),
        }
    }

    /// Returns the random name of this lock, which it keeps. On a server it shows that a leader is this
    /// host's last daemon, and dead. Fails if the lock file cannot be read or written.
    pub(crate) fn instance_id(&self) -> io::Result<String> {
        if let Some(id) = noted_instance_id(&self.file)? {
            return Ok(id);
        }
        let id = std::fs::read_to_string("/proc/sys/kernel/random/uuid")?.trim().to_owned();
        self.file.set_len(0)?;
        self.file.write_all_at(format!("{INSTANCE}{id}\n").as_bytes(), 0)?;
        Ok(id)
    }

    /// Returns the random name of a database's lock without taking it; `None` if it has none yet.
    pub(super) fn read_instance_id(database: &Path) -> io::Result<Option<String>> {
        match no_follow_options().read(true).open(lock_path(database)) {
            Ok(file) => noted_instance_id(&file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the path of the lock file, and the identity of the held file, which keeps no other process away once
    /// it is not at its path.
    pub(super) fn opened_file(&self) -> io::Result<(PathBuf, FileId)> {
        Ok((self.path.clone(), FileId::from_metadata(&self.file.metadata()?)))
    }

    pub(super) fn write_file_id(&self, opened: FileId) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.write_all_at(format!("{opened}\n").as_bytes(), 0)
    }
}

fn noted_instance_id(file: &File) -> io::Result<Option<String>> {
    let mut noted = [0; 200];
    let length = file.read_at(&mut noted, 0)?;
    let noted = String::from_utf8_lossy(&noted[..length]);
    Ok(noted.lines().next().and_then(|line| line.strip_prefix(INSTANCE)).map(str::to_owned))
}

impl Drop for DatabaseLock {
    fn drop(&mut self) {
        // To close the file is not enough: a child process shares it between its fork and its exec.
        drop(self.file.unlock());
    }
}

fn lock_path(database: &Path) -> PathBuf {
    with_suffix(&resolve_path(database), ".lock")
}

fn is_inspected(file: &File) -> bool {
    file.try_lock_shared().is_ok() && file.unlock().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lock_has_one_holder_and_ends_with_it() {
        let dir = tempfile::tempdir().unwrap();
        let database = dir.path().join("t.db");
        let held = DatabaseLock::acquire(&database).unwrap();
        assert!(matches!(DatabaseLock::acquire(&database), Err(LockError::Held { .. })));
        let of_a_child_process = held.file.try_clone().unwrap();
        drop(held);
        DatabaseLock::acquire(&database).unwrap();
        drop(of_a_child_process);
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
                let _held = DatabaseLock::acquire(&path(name)).unwrap();
                for other in ["real/t.db", "folder/t.db", "link", "link-to-link"] {
                    let second = DatabaseLock::acquire(&path(other));
                    assert!(matches!(second, Err(LockError::Held { .. })), "{name}, {other}, {is_there}");
                }
            }
        }
        let (other, taken) = (path("other"), path("taken.db"));
        std::fs::write(&other, "kept").unwrap();
        std::os::unix::fs::symlink(&other, path("taken.db.lock")).unwrap();
        let refused = DatabaseLock::acquire(&taken);
        assert!(matches!(refused, Err(LockError::File { .. })), "the lock file is a link");
        assert_eq!(std::fs::read_to_string(&other).unwrap(), "kept");
        std::os::unix::fs::symlink("circle", path("circle")).unwrap();
        assert!(
            DatabaseLock::acquire(&path("circle")).is_ok(),
            "a path that cannot be opened has a lock too"
        );
    }

    #[test]
    fn an_inspection_returns_the_state_and_creates_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let database = dir.path().join("t.db");
        assert_eq!(DatabaseLock::inspect(&database).unwrap(), LockState::Free);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "no file is created");
        let held = DatabaseLock::acquire(&database).unwrap();
        assert_eq!(DatabaseLock::inspect(&database).unwrap(), LockState::Held { opened_file: None });
        held.write_file_id(FileId::from_path(dir.path()).unwrap().unwrap()).unwrap();
        let opened = FileId::from_path(dir.path()).unwrap().map(|id| id.to_string());
        assert_eq!(DatabaseLock::inspect(&database).unwrap(), LockState::Held { opened_file: opened });
        drop(held);
        assert_eq!(DatabaseLock::inspect(&database).unwrap(), LockState::Free);
    }

    #[test]
    fn inspections_keep_no_start_from_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let database = dir.path().join("t.db");
        drop(DatabaseLock::acquire(&database).unwrap());
        std::thread::scope(|scope| {
            let starts =
                scope.spawn(|| (0..2_000).for_each(|_| drop(DatabaseLock::acquire(&database).unwrap())));
            while !starts.is_finished() {
                DatabaseLock::inspect(&database).unwrap();
            }
        });
    }
}
