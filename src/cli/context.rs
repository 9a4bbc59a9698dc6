//! The context of a command: the configuration, its database, the clock.

use super::CommandFailure;
use crate::config::Config;
use crate::daemon::SystemClock;
use crate::model::Clock;
use crate::store::{DatabaseLock, LockError, Store};
use std::path::{Path, PathBuf};

/// The default configuration files, in the order of the search.
const DEFAULT_CONFIG_FILES: [&str; 2] = ["/etc/tallyd/tallyd.toml", "config/tallyd.toml"];

/// The context of a command.
pub(super) struct CliContext {
    config_path: Option<PathBuf>,
}

impl CliContext {
    pub(super) fn new(config: Option<PathBuf>) -> Self {
        Self { config_path: config }
    }

    pub(super) fn clock(&self) -> SystemClock {
        SystemClock
    }

    /// Returns the configuration file: the named one, or the first default that exists.
    pub(super) fn config_file(&self) -> Result<PathBuf, CommandFailure> {
        if let Some(file) = &self.config_path {
            return Ok(file.clone());
        }
        first_existing(&DEFAULT_CONFIG_FILES)
    }

    /// Reads the configuration.
    pub(super) fn config(&self) -> Result<Config, CommandFailure> {
        let file = self.config_file()?;
        Config::load(&file, std::env::vars()).map_err(|error| CommandFailure::multiline(error.to_string(), 2))
    }

    /// Opens the database beside the holder of its lock.
    pub(super) async fn open_store(&self) -> Result<Store, CommandFailure> {
        Ok(Store::open_beside(&self.config()?.database.path).await?)
    }

    /// Opens the database; creates or migrates it first if the lock is free.
    pub(super) async fn open_or_create_store(&self) -> Result<Store, CommandFailure> {
        let path = self.config()?.database.path;
        create_database(&path).await?;
        Ok(Store::open_beside(&path).await?)
    }

    /// Returns a new key of the time and the process id.
    pub(super) fn new_change_key(&self) -> String {
        format!("cli-{}-{}", self.clock().now().to_rfc3339(), std::process::id())
    }
}

/// Returns the first of these files that exists.
///
/// A file that this user may not access is an error. If it were skipped, another file would be taken for the
/// configuration in force.
fn first_existing(files: &[&str]) -> Result<PathBuf, CommandFailure> {
    for file in files {
        match Path::new(file).try_exists() {
            Ok(true) => return Ok(file.into()),
            Ok(false) => {}
            Err(why) => {
                return Err(CommandFailure::usage(format!(
                    "cannot look for the configuration {file}: {why}; it is for the group `tallyd`: \
                     sudo adduser $USER tallyd, then log in anew"
                )));
            }
        }
    }
    Err(CommandFailure::usage(format!(
        "there is no configuration: none of {} is there; name one with --config FILE",
        files.join(", ")
    )))
}

async fn create_database(path: &Path) -> Result<(), CommandFailure> {
    match DatabaseLock::acquire(path) {
        Ok(lock) => Ok(Store::open(path, &lock).await?.close().await?),
        Err(LockError::Held { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A path below a regular file cannot be checked, like a path in a directory without access.
    #[test]
    fn a_configuration_that_cannot_be_looked_at_is_not_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("there.toml");
        std::fs::write(&file, "").unwrap();
        let there = file.to_str().unwrap();
        let (nowhere, closed) = (format!("{there}-not"), format!("{there}/tallyd.toml"));
        assert_eq!(first_existing(&[&nowhere, there]).unwrap(), file);
        assert!(first_existing(&[&closed, there]).unwrap_err().message.contains("adduser $USER tallyd"));
        assert!(first_existing(&[&nowhere]).unwrap_err().message.contains("--config FILE"));
    }
}
