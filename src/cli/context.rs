//! The context of a command: the configuration, its database, the clock.

use super::CommandFailure;
use super::decider::command_line_user;
use super::output::print_error;
use crate::config::Config;
use crate::daemon::SystemClock;
use crate::model::{Clock, Timestamp};
pub(super) use crate::present::write_and_commit;
use crate::store::{DatabaseLock, LockError, Store, StoreError};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

const DEFAULT_CONFIG_FILES: [&str; 2] = ["/etc/tallyd/tallyd.toml", "config/tallyd.toml"];

pub(super) struct CliContext {
    config_path: Option<PathBuf>,
    readable: OnceLock<Config>,
}

impl CliContext {
    pub(super) fn new(config_path: Option<PathBuf>) -> Self {
        Self { config_path, readable: OnceLock::new() }
    }

    pub(super) fn has_named_config(&self) -> bool {
        self.config_path.is_some()
    }

    pub(super) fn clock(&self) -> SystemClock {
        SystemClock
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock().now()
    }

    /// Returns the configuration file: the named one, or the first default that exists.
    pub(super) fn config_file(&self) -> Result<PathBuf, CommandFailure> {
        self.config_path.clone().map_or_else(|| first_existing(&DEFAULT_CONFIG_FILES), Ok)
    }

    /// Returns the file of a new configuration: the named one, or that of the packaged unit.
    pub(super) fn new_config_file(&self) -> &Path {
        self.config_path.as_deref().unwrap_or(Path::new(DEFAULT_CONFIG_FILES[0]))
    }

    pub(super) fn config(&self) -> Result<Config, CommandFailure> {
        let file = self.config_file()?;
        Ok(Config::load(&file, std::env::vars())?)
    }

    /// Returns the configuration for a command that needs the database alone. Of mistakes outside of `[database]` it
    /// warns, once: the daemon works on with the configuration that it has read before.
    pub(super) fn readable_config(&self) -> Result<&Config, CommandFailure> {
        if let Some(config) = self.readable.get() {
            return Ok(config);
        }
        let (config, mistake) = Config::load_for_database(&self.config_file()?, std::env::vars())?;
        if let Some(mistake) = mistake {
            print_error(&format!(
                "warning: {mistake}\nwarning: tallyd will not start with it; correct it, then: sudo tallyd check"
            ));
        }
        Ok(self.readable.get_or_init(|| config))
    }

    /// Opens the database beside the holder of its lock, for decisions of the operator.
    pub(super) async fn open_store(&self) -> Result<Store, CommandFailure> {
        let store = Store::open_beside(self.readable_config()?.database.location()?).await?;
        Ok(store.decided_by(&command_line_user()))
    }

    /// Opens the database; creates or migrates it first if no daemon works on it.
    pub(super) async fn open_or_create_store(&self) -> Result<Store, CommandFailure> {
        let location = self.readable_config()?.database.location()?;
        match DatabaseLock::acquire(location.path()) {
            Ok(lock) => match Store::open(&location, &lock).await {
                // The leader, on whichever host, has created it.
                Err(StoreError::Led { .. }) => {}
                opened => opened?.close().await?,
            },
            Err(LockError::Held { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        self.open_store().await
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
                    "cannot access the configuration {file}: {why}; members of the group `tallyd` can read it: \
                     sudo adduser $USER tallyd, then log in again"
                )));
            }
        }
    }
    Err(CommandFailure::usage(format!(
        "there is no configuration: none of {} exists; name a file with --config FILE",
        files.join(", ")
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A path below a regular file cannot be checked, like a path in a directory without access.
    #[test]
    fn a_configuration_without_access_is_not_passed_over() {
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
