//! The configuration: a TOML file, read into plain values. `config/tallyd.toml` is the packaged file.
//!
//! There are two layers: the file, and over it the environment (`TALLYD_SECTION__KEY`), which the caller
//! passes in. Every problem is reported at once. Only `daemon` and `cli` see a [`Config`]; other modules take
//! their own settings, so that they do not depend on the file's format.
//!
//! The account's keys are not values of the configuration. A [`KeySource`] reads them when they are needed,
//! and again after they were refused.

mod address;
mod edit;
mod jobs;
mod keys;
mod layers;
mod notify;
mod problem;
mod reader;
mod sections;
mod units;

pub(crate) use edit::{set_in_text, value_in_text};
pub(crate) use jobs::JobsConfig;
pub(crate) use keys::{KeyError, KeySource};
pub(crate) use problem::ConfigError;
#[cfg(test)]
pub(crate) use problem::ConfigProblem;
pub(crate) use sections::{BackupConfig, LogConfig};
pub(crate) use sections::{DatabaseConfig, ServiceConfig, WebConfig};
pub(crate) use units::parse_duration;

use crate::exec::{JournalRetention, QuantitySettings};
use crate::limiter::LimiterSettings;
use crate::notify::NotifierSettings;
use crate::schedule::Schedule;
use keys::KeyContext;
use reader::{ReaderReport, SectionReader};
use std::path::{Path, PathBuf};

/// The whole configuration. [`Debug`](std::fmt::Debug) omits keys and passwords.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub service: ServiceConfig,
    pub limits: LimiterSettings,
    pub database: DatabaseConfig,
    pub(crate) quantities: QuantitySettings,
    pub jobs: JobsConfig,
    pub journal: JournalRetention,
    pub(crate) backup: BackupConfig,
    pub metrics_file: Option<PathBuf>,
    pub web: WebConfig,
    pub notifiers: Vec<NotifierSettings>,
    pub(crate) log: LogConfig,
}

#[derive(Clone, Debug, PartialEq)]
pub struct JobConfig {
    pub enabled: bool,
    pub schedule: Schedule,
}

impl Config {
    /// Reads `file`, and over it those variables of `environment` that name a key. Fails if the file cannot
    /// be read or parsed; otherwise reports all problems with its values at once.
    pub fn load(
        file: &Path,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, ConfigError> {
        Self::from_text(Some(file), &read_file(file)?, environment)
    }

    /// Reads `text` as the content of `file`, as [`Config::load`] does.
    pub(crate) fn from_text(
        file: Option<&Path>,
        text: &str,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, ConfigError> {
        let (config, mut report) = Self::read_layers(text, environment, file)?;
        if report.problems.is_empty() {
            return Ok(config);
        }
        report.problems.iter_mut().for_each(|problem| problem.locate(text));
        Err(ConfigError { file: file.map(Path::to_owned), problems: report.problems })
    }

    /// Reads the connection and the notifiers, whatever problems the file has elsewhere. A problem of a notifier leaves
    /// it out, or leaves a value at its default.
    pub(crate) fn load_notifiers(
        file: &Path,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<(ServiceConfig, Vec<NotifierSettings>), ConfigError> {
        let (config, _) = Self::read_layers(&read_file(file)?, environment, Some(file))?;
        Ok((config.service, config.notifiers))
    }

    /// Reads the configuration for a command that needs the database alone. A mistake outside of `[database]` is
    /// returned beside it, and the other sections have the defaults then. Fails if the file cannot be read, or
    /// names no database without a mistake.
    pub(crate) fn load_for_database(
        file: &Path,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<(Self, Option<ConfigError>), ConfigError> {
        let (text, mut environment) = (read_file(file)?, environment.into_iter().collect::<Vec<_>>());
        let mistake = match Self::from_text(Some(file), &text, environment.clone()) {
            Ok(config) => return Ok((config, None)),
            Err(mistake) => mistake,
        };
        environment.retain(|(name, _)| name.starts_with("TALLYD_DATABASE__") || !name.starts_with("TALLYD_"));
        let section = text.lines().map(str::trim).skip_while(|line| *line != "[database]").skip(1);
        let keys: Vec<&str> = section.take_while(|line| !line.starts_with('[')).collect();
        // The default is no guess at a database whose name a mistake hides.
        if !keys.iter().any(|key| key.starts_with("path") || key.starts_with("url")) {
            return Err(mistake);
        }
        let text =
            format!("[service]\nbase_url = \"https://service.example\"\n[database]\n{}", keys.join("\n"));
        match Self::from_text(Some(file), &text, environment) {
            Ok(config) => Ok((config, Some(mistake))),
            Err(_) => Err(mistake),
        }
    }

    pub fn from_toml(text: &str) -> Result<Self, ConfigError> {
        Self::from_text(None, text, [])
    }

    /// Returns the defaults with `base_url`, the only value without a default. Fails if `base_url` is not an
    /// address the keys may be sent to.
    pub fn default_for(base_url: &str) -> Result<Self, ConfigError> {
        Self::from_toml(&format!("[service]\nbase_url = {base_url:?}\n"))
    }

    /// Returns all known keys, dotted and sorted; `NNN` stands for a warehouse's id.
    #[cfg(test)]
    pub(crate) fn known_keys() -> Vec<String> {
        let (key_context, _) = KeyContext::split_variables(Vec::new(), None);
        let (_, mut report) = Self::read_tree(layers::TomlTable::new(), &key_context);
        report.known.insert("quantities.warehouse.NNN.policy".into());
        SectionReader::read_table(&mut report, "notify".into(), layers::TomlTable::new(), |table| {
            drop(notify::read_notifier(table, ""));
        });
        report.known.into_iter().collect()
    }

    /// Reads file and environment. A value with a problem is at its default.
    fn read_layers(
        text: &str,
        environment: impl IntoIterator<Item = (String, String)>,
        file: Option<&Path>,
    ) -> Result<(Self, ReaderReport), ConfigError> {
        let (key_context, overrides) = KeyContext::split_variables(environment.into_iter().collect(), file);
        let failed = |why| ConfigError::for_file(file.map(Path::to_owned), why);
        let tree = layers::merge_layers(text, &overrides).map_err(failed)?;
        Ok(Self::read_tree(tree, &key_context))
    }

    fn read_tree(tree: layers::TomlTable, key_context: &KeyContext) -> (Self, ReaderReport) {
        let mut report = ReaderReport::default();
        let config = SectionReader::read_table(&mut report, String::new(), tree, |root| {
            let service = root.read_section("service", |table| ServiceConfig::from_table(table, key_context));
            let mut config = Self {
                limits: root.read_section("limits", |table| sections::read_limits(table, service.timeout)),
                database: root
                    .read_section("database", |table| DatabaseConfig::from_table(table, key_context)),
                quantities: root.read_section("quantities", sections::read_quantities),
                jobs: root.read_section("jobs", JobsConfig::from_table),
                journal: root.read_section("journal", sections::read_retention),
                backup: root.read_section("backup", BackupConfig::from_table),
                metrics_file: root.read_section("metrics", sections::read_metrics_file),
                web: root.read_section("web", WebConfig::from_table),
                notifiers: notify::read_notifiers(root, &service.base_url),
                log: root.read_section("log", LogConfig::from_table),
                service,
            };
            if config.database.server.is_some() {
                config.jobs.disable_backup();
            }
            config
        });
        (config, report)
    }
}

fn read_file(file: &Path) -> Result<String, ConfigError> {
    std::fs::read_to_string(file).map_err(|error| {
        let why = format!("it cannot be read ({error}); name another with --config");
        ConfigError::for_file(Some(file.into()), why)
    })
}
