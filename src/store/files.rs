//! The files beside each other in the state directory, and who may open them.
//!
//! Programs beside the daemon belong to its group, and SQLite gives the log and the index the mode of the database. So
//! what counts is the mode at the birth of the file, whatever the umask of whoever made it: a `sudo tallyd sku add`
//! before the first start must not leave a database that the daemon cannot write. The mode of a file that is there is
//! its owner's decision and stays.

use std::fmt;
use std::fs::{OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Read and written by owner and group, by nobody else.
const MODE: u32 = 0o660;

/// The file behind symbolic links, whether it is there yet or not. SQLite follows them too, and keeps its log beside the
/// file it comes to: lock, position and watch go by the same name, so that two paths to one database are one database.
pub(super) fn real(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    // As many links as Linux follows; a longer chain is opened by nobody.
    for _ in 0..40 {
        if let Ok(real) = path.canonicalize() {
            return real;
        }
        match std::fs::read_link(&path) {
            Ok(target) => path = path.parent().unwrap_or(Path::new("")).join(target),
            Err(_) => break,
        }
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match (folder.canonicalize(), path.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        (_, _) => path,
    }
}

/// Options with which a file of ours beside the database is opened. A symbolic link in its place is not followed: what
/// it names would be written over.
pub(super) fn not_following() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
    options
}

/// Makes an empty file for the group, unless it is there.
pub(super) fn create_for_group(path: &Path) -> io::Result<()> {
    match OpenOptions::new().write(true).create_new(true).mode(MODE).open(path) {
        Ok(file) => file.set_permissions(Permissions::from_mode(MODE)),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// A file itself, whatever its name: its device and its inode there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    /// The file that has this name now; none where no file has it.
    ///
    /// # Errors
    /// Fails where the folder cannot be looked at.
    pub fn of(path: &Path) -> io::Result<Option<Self>> {
        match std::fs::metadata(path) {
            Ok(found) => Ok(Some(Self { device: found.dev(), inode: found.ino() })),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// As it is noted in the lock file.
impl fmt::Display for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.device, self.inode)
    }
}
