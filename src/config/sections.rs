//! The sections of the file except `[jobs]`: a struct of plain values and its reading each.
//!
//! Defaults, units and ranges are here only; `config/tallyd.toml` explains them to the operator.

use super::address::{self, ProxyUrl};
use super::keys::{KeyContext, KeySource};
use super::reader::SectionReader;
use crate::model::WarehouseId;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// `[service]`: the platform's address and the HTTP settings.
#[derive(Clone, Debug, PartialEq)]
pub struct ServiceConfig {
    /// The base address, without a trailing slash (docs/interface.md, *Conventions*).
    pub base_url: String,
    /// The source of the two keys.
    pub keys: KeySource,
    /// The application's id, for a key of a marketplace application (docs/interface.md, *Authentication*).
    pub application_id: Option<String>,
    /// The time limit of a call, from its first byte to the last byte of its answer.
    pub timeout: Duration,
    /// A PEM file added to the system's root certificates.
    pub ca_file: Option<PathBuf>,
    /// The proxy for all calls.
    pub proxy: Option<ProxyUrl>,
    /// `[service.headers]`.
    pub headers: HeaderConfig,
}

/// The names of the headers in lower case, for a gateway that names them differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderConfig {
    /// The header of the integration key.
    pub integration_key: String,
    /// The header of the gateway key.
    pub gateway_key: String,
    /// The header of the application's id.
    pub application_id: String,
}

impl ServiceConfig {
    pub(super) fn from_table(table: &mut SectionReader<'_>, around: &KeyContext) -> Self {
        for key in ["integration_key", "gateway_key"] {
            table.refuse_key(
                key,
                "a key does not stand in this file; write it to a file of its own, named in `…_key_file`",
            );
        }
        let base_url = table.read_parsed("base_url", "", address::parse_base_url);
        let integration = table.read_optional("integration_key_file", parse_path);
        let gateway = table.read_optional("gateway_key_file", parse_path);
        Self {
            base_url,
            keys: KeySource::new(integration, gateway, around),
            application_id: table.read_optional("application_id", check_header_value),
            timeout: table.read_duration("timeout", "30s", Duration::from_millis(100)..=SECOND * 600),
            ca_file: table.read_optional("ca_file", parse_path),
            proxy: table.read_optional("proxy", ProxyUrl::parse),
            headers: table.read_section("headers", HeaderConfig::from_table),
        }
    }
}

impl HeaderConfig {
    fn from_table(table: &mut SectionReader<'_>) -> Self {
        let headers = Self {
            integration_key: table.read_parsed(
                "integration_key",
                "svc-subscription-key",
                address::check_header_name,
            ),
            gateway_key: table.read_parsed(
                "gateway_key",
                "gateway-subscription-key",
                address::check_header_name,
            ),
            application_id: table.read_parsed("application_id", "application-id", address::check_header_name),
        };
        let names = [&headers.integration_key, &headers.gateway_key, &headers.application_id];
        if names.iter().all(|name| !name.is_empty()) && BTreeSet::from(names).len() < names.len() {
            table.add_problem(
                "integration_key",
                &headers.integration_key,
                "the three names must differ".into(),
            );
        }
        headers
    }
}

/// `[limits]`: the account's limits (docs/interface.md, *Limits*) and the part of them for tallyd.
#[derive(Clone, Debug, PartialEq)]
pub struct LimitsConfig {
    /// The calls that the account allows in any 60 s.
    pub calls_per_minute: u32,
    /// The fraction of these calls that tallyd may use, above 0, at most 1.
    pub share: f64,
    /// The maximum number of concurrent calls of one operation.
    pub concurrent_calls_per_operation: u32,
    /// The number of 400 answers in any 24 h at which the platform locks the account out.
    pub bad_requests_per_day: u32,
    /// The reservations of the window that only an operator's change may take.
    pub reserved_calls: u32,
}

/// The calls of one change of stock: a read and a write.
const CALLS_PER_CHANGE: u32 = 2;

impl LimitsConfig {
    pub(super) fn from_table(table: &mut SectionReader<'_>) -> Self {
        let limits = Self {
            calls_per_minute: table.read_integer("calls_per_minute", 120, 1..=1_000_000),
            share: table.read_fraction("share", 1.0, 0.001..=1.0),
            concurrent_calls_per_operation: table.read_integer("concurrent_calls_per_operation", 3, 1..=100),
            bad_requests_per_day: table.read_integer("bad_requests_per_day", 500, 1..=1_000_000),
            reserved_calls: table.read_integer("reserved_calls", 2, 0..=1_000_000),
        };
        let ours = limits.own_calls_per_minute();
        if ours < CALLS_PER_CHANGE {
            let why = format!(
                "leaves {ours} call(s) a minute, and a change of stock takes two: a read and a write"
            );
            table.add_problem("share", limits.share, why);
        } else if limits.reserved_calls > ours - CALLS_PER_CHANGE {
            let why = format!(
                "must leave two of the {ours} calls a minute that are ours, because a change of stock takes a read and \
                 a write"
            );
            table.add_problem("reserved_calls", limits.reserved_calls, why);
        }
        limits
    }

    /// Returns the calls in any 60 s for tallyd: `calls_per_minute × share`, rounded down.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and calls_per_minute"
    )]
    pub fn own_calls_per_minute(&self) -> u32 {
        // 0.7 is stored as slightly less than seven tenths, and 0.7 of 10 must be 7.
        (f64::from(self.calls_per_minute) * self.share + 1e-9).floor() as u32
    }
}

/// `[database]`: the database file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseConfig {
    /// The path of the database; its lock and write-ahead log are beside it.
    pub path: PathBuf,
    /// True if the disk moves between machines; another machine is then no sign of a restored copy.
    pub moves_between_hosts: bool,
}

impl DatabaseConfig {
    pub(super) fn from_table(table: &mut SectionReader<'_>) -> Self {
        Self {
            path: table.read_parsed("path", "/var/lib/tallyd/tallyd.db", parse_path),
            moves_between_hosts: table.read_flag("moves_between_hosts", false),
        }
    }
}

/// The effect of a count on a stock level that others changed since (docs/rules.md 1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QuantityPolicy {
    /// The drift since the count is added to it, so that sales since then stay subtracted.
    #[default]
    Merge,
    /// The count wins.
    Local,
    /// The platform wins; the change is rejected.
    Remote,
    /// A person decides.
    Ask,
}

impl QuantityPolicy {
    const POLICY_CODES: [(&'static str, QuantityPolicy); 4] = [
        ("merge", QuantityPolicy::Merge),
        ("local", QuantityPolicy::Local),
        ("remote", QuantityPolicy::Remote),
        ("ask", QuantityPolicy::Ask),
    ];

    /// Returns the code used in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            QuantityPolicy::Merge => "merge",
            QuantityPolicy::Local => "local",
            QuantityPolicy::Remote => "remote",
            QuantityPolicy::Ask => "ask",
        }
    }
}

/// `[quantities]`: the rules for merging and braking stock.
#[derive(Clone, Debug, PartialEq)]
pub struct QuantitiesConfig {
    /// The policy of warehouses without their own.
    pub policy: QuantityPolicy,
    /// `[quantities.warehouse.NNN] policy`.
    pub by_warehouse: BTreeMap<WarehouseId, QuantityPolicy>,
    /// The age above which a stock level is read again before it is written.
    pub max_fact_age: Duration,
    /// The brake: the fraction of non-zero stock levels that may become zero, 0 to 1.
    pub max_zeroing_fraction: f64,
    /// The brake: the maximum change of a stock level by one write, in units; `None` if off.
    pub max_quantity_jump: Option<u32>,
    /// The maximum age of a fact as the base of a count (docs/rules.md 3).
    pub max_base_age: Duration,
}

impl QuantitiesConfig {
    pub(super) fn from_table(table: &mut SectionReader<'_>) -> Self {
        let policy = table.read_code("policy", QuantityPolicy::Merge, &QuantityPolicy::POLICY_CODES);
        Self {
            policy,
            by_warehouse: table.read_section("warehouse", |ids| read_policies(ids, policy)),
            max_fact_age: table.read_duration("max_fact_age", "10s", Duration::ZERO..=DAY),
            max_zeroing_fraction: table.read_fraction("max_zeroing_fraction", 0.2, 0.0..=1.0),
            max_quantity_jump: Some(table.read_integer("max_quantity_jump", 0, 0..=1_000_000_000))
                .filter(|most| *most > 0),
            max_base_age: table.read_duration("max_base_age", "15m", SECOND..=DAY * 7),
        }
    }
}

fn read_policies(
    table: &mut SectionReader<'_>,
    default: QuantityPolicy,
) -> BTreeMap<WarehouseId, QuantityPolicy> {
    let mut policies = BTreeMap::new();
    for id in table.present_keys() {
        match id.parse::<i64>() {
            Ok(number) if number > 0 => {
                let policy = table
                    .read_section(&id, |one| one.read_code("policy", default, &QuantityPolicy::POLICY_CODES));
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

/// `[journal]`: the retention of bodies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalConfig {
    /// The time for which bodies of exchanges are kept.
    pub keep_bodies: Duration,
    /// The size in bytes above which the oldest bodies are removed earlier.
    pub max_size: u64,
}

impl JournalConfig {
    pub(super) fn from_table(table: &mut SectionReader<'_>) -> Self {
        Self {
            keep_bodies: table.read_duration("keep_bodies", "14d", SECOND..=DAY * 3660),
            max_size: table.read_size("max_size", "1 GiB"),
        }
    }
}

/// `[backup]`: the backups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupConfig {
    /// The directory of backups; `None` stands for `backup` beside the database.
    pub directory: Option<PathBuf>,
    /// The number of backups kept.
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

/// `[metrics]`: the metrics file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricsConfig {
    /// The path of a file for node_exporter's textfile collector.
    pub textfile: Option<PathBuf>,
}

impl MetricsConfig {
    pub(super) fn from_table(table: &mut SectionReader<'_>) -> Self {
        Self { textfile: table.read_optional("textfile", parse_path) }
    }
}

/// The format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// A JSON object per line.
    Json,
    /// Text for people.
    Text,
}

/// `[log]`: the level and format of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// The format of the lines.
    pub format: LogFormat,
    /// The level: `error`, `warn`, `info`, `debug` or `trace`.
    pub level: &'static str,
}

impl LogConfig {
    pub(super) fn from_table(table: &mut SectionReader<'_>) -> Self {
        let levels = ["error", "warn", "info", "debug", "trace"].map(|level| (level, level));
        Self {
            format: table.read_code(
                "format",
                LogFormat::Json,
                &[("json", LogFormat::Json), ("text", LogFormat::Text)],
            ),
            level: table.read_code("level", "info", &levels),
        }
    }
}

fn parse_path(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() || text.contains('\0') { Err("write a path".into()) } else { Ok(text.into()) }
}

/// Checks that text can be a header's value.
fn check_header_value(text: &str) -> Result<String, String> {
    let sound = text.chars().all(|c| c.is_ascii_graphic());
    if sound { Ok(text.into()) } else { Err("holds a space or a character that no header can carry".into()) }
}
