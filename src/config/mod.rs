//! The configuration: a TOML file, read into plain values. `config/tallyd.toml` is the packaged file.
//!
//! There are two layers: the file, and over it the environment (`TALLYD_SECTION__KEY`), which the caller
//! passes in. Every problem is reported at once. Only `daemon` and `cli` see a [`Config`]; other modules take
//! plain values, so that they do not depend on the file's format.
//!
//! The account's keys are not values of the configuration. A [`KeySource`] reads them when they are needed,
//! and again after they were refused.

mod address;
mod jobs;
mod keys;
mod layers;
mod problem;
mod reader;
mod sections;
mod units;

pub use address::ProxyUrl;
pub use jobs::Jobs;
pub use keys::{KeyError, KeySource, Keys};
pub use problem::{ConfigError, Problem};
pub use sections::{
    Backup, Database, Headers, Journal, Limits, Log, LogFormat, Metrics, Policy, Quantities, Service,
};

use crate::schedule::Schedule;
use keys::Surroundings;
use reader::{Reader, Report};
use std::path::{Path, PathBuf};

/// The whole configuration. [`Debug`](std::fmt::Debug) omits keys and passwords.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// `[service]`: the platform's address and the HTTP settings.
    pub service: Service,
    /// `[limits]`: the account's limits.
    pub limits: Limits,
    /// `[database]`: the database file.
    pub database: Database,
    /// `[quantities]`: the rules for merging and braking stock.
    pub quantities: Quantities,
    /// `[jobs.*]`: the schedules.
    pub jobs: Jobs,
    /// `[journal]`: the retention of bodies.
    pub journal: Journal,
    /// `[backup]`: the backups.
    pub backup: Backup,
    /// `[metrics]`: the metrics file for a collector.
    pub metrics: Metrics,
    /// `[log]`: the level and format of the log.
    pub log: Log,
}

/// A job of the configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// True if the job runs at all.
    pub enabled: bool,
    /// The schedule of the runs.
    pub schedule: Schedule,
}

impl Config {
    /// Reads `file`, and over it those variables of `environment` that name a key.
    ///
    /// # Errors
    /// Fails if the file cannot be read or parsed; otherwise reports all problems with its values at once.
    pub fn load(
        file: &Path,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(file).map_err(|error| {
            let why = format!("it cannot be read ({error}); name another with --config");
            ConfigError::whole(Some(file.into()), why)
        })?;
        Self::read(&text, environment, Some(file.into()))
    }

    /// Reads a configuration from text, without an environment.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn from_toml(text: &str) -> Result<Self, ConfigError> {
        Self::read(text, [], None)
    }

    /// Returns the defaults with `base_url`, the only value without a default.
    ///
    /// # Errors
    /// Fails if `base_url` is not an address the keys may be sent to.
    pub fn default_for(base_url: &str) -> Result<Self, ConfigError> {
        Self::from_toml(&format!("[service]\nbase_url = {base_url:?}\n"))
    }

    /// Returns all known keys, dotted and sorted; `NNN` stands for a warehouse's id.
    pub fn known_keys() -> Vec<String> {
        let (around, _) = Surroundings::set_apart(Vec::new(), None);
        let mut report = Report::default();
        Reader::root(layers::Table::new(), &mut report, |root| Self::sections(root, &around));
        report.known.insert("quantities.warehouse.NNN.policy".into());
        report.known.into_iter().collect()
    }

    fn read(
        text: &str,
        environment: impl IntoIterator<Item = (String, String)>,
        file: Option<PathBuf>,
    ) -> Result<Self, ConfigError> {
        let environment: Vec<_> = environment.into_iter().collect();
        let (around, overrides) = Surroundings::set_apart(environment, file.as_deref());
        let tree = layers::merge(text, &overrides).map_err(|why| ConfigError::whole(file.clone(), why))?;
        let mut report = Report::default();
        let config = Reader::root(tree, &mut report, |root| Self::sections(root, &around));
        match config {
            Some(config) if report.problems.is_empty() => Ok(config),
            _ => Err(ConfigError { file, problems: report.problems }),
        }
    }

    /// Reads every section, in the order of the packaged file. `None` comes with a problem.
    fn sections(root: &mut Reader<'_>, around: &Surroundings) -> Option<Self> {
        let service = root.section("service", |table| Service::read(table, around));
        let limits = root.section("limits", Limits::read);
        let database = root.section("database", Database::read);
        let quantities = root.section("quantities", Quantities::read);
        let jobs = root.section("jobs", Jobs::read);
        let journal = root.section("journal", Journal::read);
        let backup = root.section("backup", Backup::read);
        let metrics = root.section("metrics", Metrics::read);
        let log = root.section("log", Log::read);
        Some(Self { service, limits, database, quantities, jobs: jobs?, journal, backup, metrics, log })
    }
}
