//! Files in the state directory and their permissions.
//!
//! Programs beside the daemon belong to its group, and SQLite gives the log and the index the database's
//! mode. The mode at the file's creation is therefore decisive, and it must not depend on the creator's
//! umask. After a `sudo tallyd sku add` before the first start the daemon must still be able to write. The
//! mode of an existing file is its owner's decision and stays.

use std::fmt;
use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

pub(super) const GROUP_MODE: u32 = 0o660;

/// Resolves symbolic links of a path, also if the file does not exist yet. SQLite follows links too. Lock,
/// position file and watch use this path, so two paths to one database have the same ones.
pub(super) fn resolve_path(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    // Linux follows at most 40 links; a longer chain cannot be opened.
    for _ in 0..40 {
        if let Ok(real) = path.canonicalize() {
            return real;
        }
        match std::fs::read_link(&path) {
            Ok(target) => path = path.parent().unwrap_or(Path::new("")).join(target),
            Err(_) => break,
        }
    }
    match (parent_folder(&path).canonicalize(), path.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        (_, _) => path,
    }
}

/// Returns the path with a suffix to the file's name, such as that of the file's lock.
pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Removes a database file with its log and index, if present. What cannot be removed fails the next creation.
pub(crate) fn remove_database(path: &Path) {
    for suffix in ["", "-wal", "-shm"] {
        drop(std::fs::remove_file(with_suffix(path, suffix)));
    }
}

/// Returns the folder of a file; for a bare name the working directory.
pub(super) fn parent_folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Syncs the directory entry of a file to the disk.
pub(super) fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(parent_folder(path))?.sync_all()
}

/// Returns options for opening a file beside the database without following a symbolic link. A followed link
/// would overwrite the file that it names.
pub(super) fn no_follow_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
    options
}

/// Creates an empty file with the group's permissions, unless it exists.
pub(super) fn create_for_group(path: &Path) -> io::Result<()> {
    match OpenOptions::new().write(true).create_new(true).mode(GROUP_MODE).open(path) {
        Ok(file) => file.set_permissions(Permissions::from_mode(GROUP_MODE)),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// Identity of a file, independent of its name: device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    pub(super) fn from_metadata(found: &Metadata) -> Self {
        Self { device: found.dev(), inode: found.ino() }
    }

    /// Returns the identity of the file with this name; `None`: there is none.
    pub(crate) fn from_path(path: &Path) -> io::Result<Option<Self>> {
        match std::fs::metadata(path) {
            Ok(found) => Ok(Some(Self::from_metadata(&found))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl fmt::Display for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.device, self.inode)
    }
}
