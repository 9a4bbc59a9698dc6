//! The sections of the file except `[jobs]`, each with its defaults, units and ranges.
//!
//! A section is read into the settings of the room that uses it, if that room has such a type.
//! `config/tallyd.toml` explains the keys to the operator.

use super::address::{check_header_name, parse_proxy, text_if};
use super::keys::{KeyContext, KeyError, KeySource, PasswordSource};
use super::reader::SectionReader;
use crate::client::{HeaderNames, parse_base_url};
use crate::exec::{JournalRetention, QuantitySettings};
use crate::limiter::LimiterSettings;
use crate::model::WarehouseId;
use crate::notify::SecretUrl;
use crate::reconcile::CountPolicy;
use crate::reconcile::brake::BrakeSettings;
use crate::reconcile::in_doubt::quiet_quantity;
use crate::store::{DatabaseLocation, PostgresDatabase, url_has_password};
use crate::telemetry::LogFormat;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

#[derive(Clone, Debug, PartialEq)]
pub struct ServiceConfig {
    /// The base address, without a trailing slash (docs/interface.md, *Conventions*).
    pub base_url: String,
    pub keys: KeySource,
    /// The application's id, for a key of a marketplace application (docs/interface.md, *Authentication*).
    pub application_id: Option<String>,
    pub timeout: Duration,
    pub ca_file: Option<PathBuf>,
    pub(crate) proxy: Option<SecretUrl>,
    pub(crate) headers: HeaderNames,
}

impl ServiceConfig {
    pub(super) fn from_table(table: &mut SectionReader<'_>, key_context: &KeyContext) -> Self {
        let why =
            "this file must not contain a key; write the key to its own file and name it in `…_key_file`";
        ["integration_key", "gateway_key"].iter().for_each(|key| table.refuse_key(key, why));
        let base_url = table.read_parsed("base_url", "", |text| {
            parse_base_url(text).map(|_| text.trim_end_matches('/').to_owned())
        });
        let integration = table.read_optional("integration_key_file", parse_path);
        let gateway = table.read_optional("gateway_key_file", parse_path);
        Self {
            base_url,
            keys: KeySource::new(integration, gateway, key_context),
            application_id: table.read_optional("application_id", check_header_value),
            timeout: table.read_duration("timeout", "30s", "100ms", "10m"),
            ca_file: table.read_optional("ca_file", parse_path),
            proxy: table.read_optional("proxy", parse_proxy),
            headers: table.read_section("headers", read_header_names),
        }
    }
}

/// Reads `[service.headers]`: names in lower case, for a gateway that names the headers differently.
fn read_header_names(table: &mut SectionReader<'_>) -> HeaderNames {
    let HeaderNames { integration_key, gateway_key, application_id } = HeaderNames::default();
    let mut read = |key, default: &str| table.read_parsed(key, default, check_header_name);
    let headers = HeaderNames {
        integration_key: read("integration_key", &integration_key),
        gateway_key: read("gateway_key", &gateway_key),
        application_id: read("application_id", &application_id),
    };
    let names = [&headers.integration_key, &headers.gateway_key, &headers.application_id];
    if names.iter().all(|name| !name.is_empty()) && BTreeSet::from(names).len() < names.len() {
        table.add_problem("integration_key", &headers.integration_key, "the three names must differ".into());
    }
    headers
}

const CALLS_PER_CHANGE: u32 = 2;

/// Reads `[limits]`: the account's limits (docs/interface.md, *Limits*) and the part of them for tallyd.
pub(super) fn read_limits(table: &mut SectionReader<'_>, timeout: Duration) -> LimiterSettings {
    let default = LimiterSettings::default();
    let limits = LimiterSettings {
        calls_per_minute: table.read_integer("calls_per_minute", default.calls_per_minute, 1..=1_000_000),
        share: table.read_fraction("share", default.share, 0.001..=1.0),
        concurrent_calls_per_operation: table.read_integer(
            "concurrent_calls_per_operation",
            default.concurrent_calls_per_operation,
            1..=100,
        ),
        bad_requests_per_day: table.read_integer(
            "bad_requests_per_day",
            default.bad_requests_per_day,
            1..=1_000_000,
        ),
        reserved_calls: table.read_integer("reserved_calls", default.reserved_calls, 0..=1_000_000),
        quiet_time: quiet_quantity(timeout),
    };
    let own = limits.own_limit();
    if own < CALLS_PER_CHANGE {
        let why = "leaves tallyd 1 call a minute, and one change of stock takes two: a read and a write";
        table.add_problem("share", limits.share, why.into());
    } else if limits.reserved_calls > own - CALLS_PER_CHANGE {
        let why = format!(
            "must leave two of tallyd's {own} calls a minute, because a change of stock takes a read and a write"
        );
        table.add_problem("reserved_calls", limits.reserved_calls, why);
    }
    limits
}

#[derive(Clone, Debug, PartialEq)]
pub struct DatabaseConfig {
    /// The path of the database. With a server, only the lock and the position file of this host are there.
    pub path: PathBuf,
    pub server: Option<PostgresDatabase>,
    pub schema: String,
    pub(crate) password: PasswordSource,
    /// True if the disk moves between machines; another machine is then no sign of a restored copy.
    pub moves_between_hosts: bool,
    pub takeover_after: Duration,
}

impl DatabaseConfig {
    pub(super) fn from_table(table: &mut SectionReader<'_>, key_context: &KeyContext) -> Self {
        let why =
            "this file must not contain a password; write it to its own file and name it in `password_file`";
        table.refuse_key("password", why);
        table.refuse_key_if("url", url_has_password, why);
        let path = table.read_parsed("path", "/var/lib/tallyd/tallyd.db", parse_path);
        let schema = table.read_parsed("schema", "tallyd", PostgresDatabase::check_schema);
        // A name that is refused is no problem of the address too.
        let name = if schema.is_empty() { "tallyd" } else { &schema };
        let server = table.read_optional("url", |url| PostgresDatabase::new(url, name));
        let password_file = table.read_optional("password_file", parse_path);
        Self {
            path,
            server,
            schema,
            password: PasswordSource::new(password_file, key_context),
            moves_between_hosts: table.read_flag("moves_between_hosts", false),
            takeover_after: table.read_duration("takeover_after", "15s", "5s", "10m"),
        }
    }

    /// Returns the location of the database without the password, for messages.
    pub(crate) fn to_text(&self) -> String {
        match &self.server {
            Some(server) => server.to_string(),
            None => self.path.display().to_string(),
        }
    }

    pub(crate) fn location(&self) -> Result<DatabaseLocation, KeyError> {
        match &self.server {
            Some(server) => self.on_server(server.clone()),
            None => Ok(self.path.clone().into()),
        }
    }

    pub(crate) fn password_warning(&self) -> Option<String> {
        self.server.as_ref().and_then(|_| self.password.permission_warning())
    }

    pub(crate) fn on_server(&self, server: PostgresDatabase) -> Result<DatabaseLocation, KeyError> {
        let server = server.with_password(self.password.read_password()?);
        Ok(DatabaseLocation::on_server(server, &self.path))
    }
}

pub(super) fn read_quantities(table: &mut SectionReader<'_>) -> QuantitySettings {
    let policy = table.read_code("policy", CountPolicy::Merge, CountPolicy::ALL);
    QuantitySettings {
        policy,
        by_warehouse: table.read_section("warehouse", |ids| read_policies(ids, policy)),
        max_fact_age: table.read_duration("max_fact_age", "10s", "0s", "1d"),
        brakes: BrakeSettings {
            max_zeroing_fraction: table.read_fraction("max_zeroing_fraction", 0.2, 0.0..=1.0),
            max_quantity_jump: table.read_integer("max_quantity_jump", 0, 0..=1_000_000_000).into(),
        },
        max_base_age: table.read_duration("max_base_age", "15m", "1s", "1w"),
    }
}

fn read_policies(table: &mut SectionReader<'_>, default: CountPolicy) -> BTreeMap<WarehouseId, CountPolicy> {
    let mut policies = BTreeMap::new();
    for id in table.present_keys() {
        match id.parse::<i64>() {
            Ok(number) if number > 0 => {
                let policy =
                    table.read_section(&id, |one| one.read_code("policy", default, CountPolicy::ALL));
                policies.insert(WarehouseId(number), policy);
            }
            _ => table.refuse_key(
                &id,
                "a warehouse is named by its id, a whole number; `tallyd warehouse list` shows them",
            ),
        }
    }
    policies
}

pub(super) fn read_retention(table: &mut SectionReader<'_>) -> JournalRetention {
    JournalRetention {
        keep_bodies: table.read_duration("keep_bodies", "14d", "1s", "3660d"),
        max_size: table.read_size("max_size", "1 GiB"),
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BackupConfig {
    /// The directory of backups; `None` stands for `backup` beside the database.
    pub directory: Option<PathBuf>,
    pub keep: u32,
}

impl BackupConfig {
    pub(super) fn from_table(table: &mut SectionReader<'_>) -> Self {
        Self {
            directory: table.read_optional("directory", parse_path),
            keep: table.read_integer("keep", 7, 1..=10_000),
        }
    }
}

pub(super) fn read_metrics_file(table: &mut SectionReader<'_>) -> Option<PathBuf> {
    table.read_optional("textfile", parse_path)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebConfig {
    /// The file of the token; `None` stands for a file beside the database.
    pub token_file: Option<PathBuf>,
    pub allow_hosts: Vec<String>,
    pub low: i64,
}

impl WebConfig {
    pub(super) fn from_table(table: &mut SectionReader<'_>) -> Self {
        Self {
            token_file: table.read_optional("token_file", parse_path),
            allow_hosts: table.read_texts("allow_hosts", check_host_name),
            low: table.read_integer("low", 5, 0..=1_000_000).into(),
        }
    }
}

fn check_host_name(text: &str) -> Result<String, String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
    let is_valid = !text.is_empty() && text.chars().all(is_name);
    let advice = "write a host name without scheme and port, such as stock.example";
    text_if(is_valid, &text.to_ascii_lowercase(), advice)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogConfig {
    pub format: LogFormat,
    pub level: &'static str,
}

impl LogConfig {
    pub(super) fn from_table(table: &mut SectionReader<'_>) -> Self {
        Self {
            format: table.read_code("format", LogFormat::Json, LogFormat::ALL),
            level: table.read_code("level", "info", &["error", "warn", "info", "debug", "trace"]),
        }
    }
}

pub(super) fn parse_path(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() || text.contains('\0') { Err("write a path".into()) } else { Ok(text.into()) }
}

fn check_header_value(text: &str) -> Result<String, String> {
    let is_valid = text.chars().all(|c| c.is_ascii_graphic());
    text_if(is_valid, text, "contains a space or a character that no header can contain")
}
