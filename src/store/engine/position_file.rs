//! Position file beside the database: one line that reveals a rolled-back database (docs/rules.md 13).
//!
//! It is written after a [`Durability::Full`](crate::store::Durability::Full) commit and not synced. It may
//! therefore lag behind the database, for instance after a crash, but is never ahead of it. A database behind
//! the file was rolled back, by a restore or by `cp`. If the file were written before the commit, every kill
//! in between would raise a false alarm.
//!
//! A database in use without the file was copied or restored by another tool. The file and its directory
//! entry must therefore be on the disk before the first session.
//!
//! A host that was restored as a whole, with this file, is not detected.

use super::files::{no_follow_options, sync_folder, with_suffix};
use crate::model::Position;
use crate::telemetry::event;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Once;

#[derive(Debug)]
pub(super) struct PositionFile {
    path: PathBuf,
    warning: Once,
}

impl PositionFile {
    pub(super) fn for_database(database: &Path) -> Self {
        Self { path: with_suffix(database, ".position"), warning: Once::new() }
    }

    /// Returns the last noted position; `None` where the file is missing or damaged. A power cut may leave
    /// half a line, and that must not look like a rolled-back database.
    pub(super) fn read_position(&self) -> Option<Position> {
        let mut text = String::new();
        no_follow_options().read(true).open(&self.path).ok()?.read_to_string(&mut text).ok()?;
        let (first, second) = text.trim_end().split_once(' ')?;
        let position = first.parse().ok()?;
        (first == second).then_some(Position(position))
    }

    /// Returns true if the file does not exist; an unreadable file exists.
    pub(super) fn is_missing(&self) -> bool {
        matches!(self.path.try_exists(), Ok(false))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns true if the file belongs to another user than the database, whose daemon then cannot write it. A command
    /// of root may have made it.
    pub(super) fn is_foreign(&self) -> bool {
        let owner = |path: &Path| std::fs::metadata(path).map(|file| file.uid());
        let database = owner(&self.path.with_extension(""));
        owner(&self.path).is_ok_and(|owner| database.is_ok_and(|database| owner != database))
    }

    /// Creates the file before the first session and syncs its directory entry. Without that sync a power cut
    /// right after would make the database look like a copy.
    pub(super) fn create_synced(&self, position: Position) {
        self.write_position(position);
        // A failed sync may raise a false alarm later; no data is lost.
        drop(sync_folder(&self.path));
    }

    /// Writes a committed position. A failure leaves an older position, which is allowed; it is logged once.
    pub(super) fn write_position(&self, position: Position) {
        let line = format!("{0:020} {0:020}\n", position.0);
        let written = self.open_file().and_then(|file| file.write_all_at(line.as_bytes(), 0));
        if let Err(error) = written {
            let path = self.path.display();
            self.warning.call_once(|| {
                tracing::warn!(
                    event = event::DAEMON_WARNING,
                    "cannot write {path}: {error}; until this is fixed, a restored older database may not be detected"
                );
            });
        }
    }

    fn open_file(&self) -> std::io::Result<File> {
        if std::fs::symlink_metadata(&self.path).is_ok_and(|there| there.is_symlink()) {
            std::fs::remove_file(&self.path)?;
        }
        no_follow_options().create(true).truncate(false).write(true).mode(0o640).open(&self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_line_is_no_position() {
        let dir = tempfile::tempdir().unwrap();
        let file = PositionFile::for_database(&dir.path().join("t.db"));
        assert_eq!(file.read_position(), None);
        file.write_position(Position(4711));
        assert_eq!(file.read_position(), Some(Position(4711)));
        for cut in 0..41 {
            let line = std::fs::read(&file.path).unwrap();
            let torn = dir.path().join("torn.db");
            let torn_file = PositionFile::for_database(&torn);
            std::fs::write(&torn_file.path, &line[..cut]).unwrap();
            assert_eq!(torn_file.read_position(), None, "{cut} bytes");
        }
    }

    #[test]
    fn a_link_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let file = PositionFile::for_database(&dir.path().join("t.db"));
        let other = dir.path().join("other");
        let line = format!("{0:020} {0:020}\n", 9);
        std::fs::write(&other, &line).unwrap();
        std::os::unix::fs::symlink(&other, &file.path).unwrap();
        assert_eq!(file.read_position(), None, "the target of the link is not read");
        file.write_position(Position(4711));
        assert_eq!(std::fs::read_to_string(&other).unwrap(), line);
        assert_eq!(file.read_position(), Some(Position(4711)));
        assert!(!file.path.is_symlink());
    }
}
