//! The position beside the database: a file of one line that notices when the database goes back in time (rules.md 20).
//!
//! It is written after a commit that outlives a power cut, and not synced. So it may lag behind the database, after a
//! crash for instance, and never runs ahead of it: a database *behind* the file was put back, by a restore or by
//! somebody's `cp`. Written before the commit it would raise a false alarm after every kill in between.
//!
//! A database in use without the file came here without it: another tool copied or restored it. So the file is there, and
//! its name on the disk, before the first session is.
//!
//! What it is not for: a host that was put back as a whole, file and all, is not noticed.

use super::files::not_following;
use crate::model::Position;
use crate::telemetry::event;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Debug)]
pub(super) struct PositionFile {
    path: PathBuf,
    file: OnceLock<File>,
    complained: AtomicBool,
}

impl PositionFile {
    pub(super) fn beside(database: &Path) -> Self {
        let mut name = database.as_os_str().to_owned();
        name.push(".position");
        Self { path: PathBuf::from(name), file: OnceLock::new(), complained: AtomicBool::new(false) }
    }

    /// The last position that was noted. A file that is not there or makes no sense says nothing: a power cut may
    /// leave half a line, and that must not look like lost time.
    pub(super) fn read(&self) -> Option<Position> {
        let mut text = String::new();
        not_following().read(true).open(&self.path).ok()?.read_to_string(&mut text).ok()?;
        let (first, second) = text.trim_end().split_once(' ')?;
        let position = first.parse().ok()?;
        (first == second).then_some(Position(position))
    }

    /// True if there is no such file; one that cannot be read is there.
    pub(super) fn is_missing(&self) -> bool {
        matches!(self.path.try_exists(), Ok(false))
    }

    /// Its path, for people.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the file before the first session, and has its name synced: a power cut right after must not look like a copy.
    pub(super) fn begin(&self, position: Position) {
        self.note(position);
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        // Without the sync the alarm may be raised once too often; nothing is lost by it.
        if let Ok(folder) = File::open(folder.unwrap_or(Path::new("."))) {
            drop(folder.sync_all());
        }
    }

    /// Notes a position that was committed. A failure leaves the file behind, which is allowed; it is said once.
    pub(super) fn note(&self, position: Position) {
        let line = format!("{0:020} {0:020}\n", position.0);
        let written = self.open().and_then(|file| file.write_all_at(line.as_bytes(), 0));
        if let Err(error) = written
            && !self.complained.swap(true, Ordering::Relaxed)
        {
            let path = self.path.display();
            tracing::warn!(
                event = event::DAEMON_WARNING,
                "cannot write {path}: {error}; until it can be written, a database put back in time may go unnoticed"
            );
        }
    }

    fn open(&self) -> std::io::Result<&File> {
        if let Some(file) = self.file.get() {
            return Ok(file);
        }
        if std::fs::symlink_metadata(&self.path).is_ok_and(|there| there.is_symlink()) {
            std::fs::remove_file(&self.path)?;
        }
        let file = not_following().create(true).truncate(false).write(true).mode(0o640).open(&self.path)?;
        Ok(self.file.get_or_init(|| file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_line_says_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let file = PositionFile::beside(&dir.path().join("t.db"));
        assert_eq!(file.read(), None);
        file.note(Position(4711));
        assert_eq!(file.read(), Some(Position(4711)));
        for cut in 0..41 {
            let line = std::fs::read(&file.path).unwrap();
            let torn = dir.path().join("torn.db");
            let torn_file = PositionFile::beside(&torn);
            std::fs::write(&torn_file.path, &line[..cut]).unwrap();
            assert_eq!(torn_file.read(), None, "{cut} bytes");
        }
    }

    #[test]
    fn a_link_in_its_place_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let file = PositionFile::beside(&dir.path().join("t.db"));
        let other = dir.path().join("other");
        let line = format!("{0:020} {0:020}\n", 9);
        std::fs::write(&other, &line).unwrap();
        std::os::unix::fs::symlink(&other, &file.path).unwrap();
        assert_eq!(file.read(), None, "what it names is not ours");
        file.note(Position(4711));
        assert_eq!(std::fs::read_to_string(&other).unwrap(), line);
        assert_eq!(file.read(), Some(Position(4711)));
        assert!(!file.path.is_symlink());
    }
}
