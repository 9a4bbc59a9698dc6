//! The configuration (design: one TOML file, `config/tallyd.toml` is the packaged one), read into plain values.
//!
//! Two layers: the file, and over it the environment (`TALLYD_SECTION__KEY`), which the caller hands in; nothing
//! here reads the process's environment. Every problem is reported at once. Only `daemon` and `cli` see a
//! [`Config`]: the rooms below take plain values, so that none of them depends on how a file is spelt.
//!
//! The account's keys are no values of the configuration but have a [`KeySource`], which is read when they are
//! needed, and again after they were refused.

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

/// All that can be configured. [`Debug`](std::fmt::Debug) shows it without keys and passwords.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// `[service]`: where the service is and how it is spoken to.
    pub service: Service,
    /// `[limits]`: what the account allows.
    pub limits: Limits,
    /// `[database]`: where the mirror is kept.
    pub database: Database,
    /// `[quantities]`: how stock is merged and braked.
    pub quantities: Quantities,
    /// `[jobs.*]`: what runs when.
    pub jobs: Jobs,
    /// `[journal]`: how long bodies are kept.
    pub journal: Journal,
    /// `[backup]`: where copies go.
    pub backup: Backup,
    /// `[metrics]`: a file for a collector.
    pub metrics: Metrics,
    /// `[log]`: how much is logged, and in which shape.
    pub log: Log,
}

/// A job of the configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Whether it runs at all.
    pub enabled: bool,
    /// When.
    pub schedule: Schedule,
}

impl Config {
    /// Reads `file`, and over it those variables of `environment` that name a key.
    ///
    /// # Errors
    /// When the file cannot be read or parsed; else all problems with its values at once.
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

    /// Reads a configuration that is not in a file, without an environment.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn from_toml(text: &str) -> Result<Self, ConfigError> {
        Self::read(text, [], None)
    }

    /// The defaults for the service at `base_url`, which is the one value that has none.
    ///
    /// # Errors
    /// When `base_url` is no address the keys may be sent to.
    pub fn default_for(base_url: &str) -> Result<Self, ConfigError> {
        Self::from_toml(&format!("[service]\nbase_url = {base_url:?}\n"))
    }

    /// Every key there is, dotted, in order; `NNN` stands for a warehouse's id.
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
