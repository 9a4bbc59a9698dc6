//! The sections of the file but `[jobs]`, each a struct of plain values and the reading of it. Defaults, units and
//! ranges stand here, once; `config/tallyd.toml` gives the reasons to the operator.

use super::address::{self, ProxyUrl};
use super::keys::{KeySource, Surroundings};
use super::reader::Reader;
use crate::model::WarehouseId;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// `[service]`: where the service is and how it is spoken to.
#[derive(Clone, Debug, PartialEq)]
pub struct Service {
    /// The base address, without a trailing slash (service-interface.md, *Conventions*).
    pub base_url: String,
    /// Where the two keys come from.
    pub keys: KeySource,
    /// The application's id, for a key of a marketplace application (service-interface.md, *Authentication*).
    pub application_id: Option<String>,
    /// How long a call may take from its first byte to its answer's last.
    pub timeout: Duration,
    /// A PEM file added to the system's roots.
    pub ca_file: Option<PathBuf>,
    /// The proxy calls go through.
    pub proxy: Option<ProxyUrl>,
    /// `[service.headers]`.
    pub headers: Headers,
}

/// The names of the headers, lower case, where an account's gateway spells them otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Headers {
    /// Carries the integration key.
    pub integration_key: String,
    /// Carries the gateway key.
    pub gateway_key: String,
    /// Carries the application's id.
    pub application_id: String,
}

impl Service {
    pub(super) fn read(table: &mut Reader<'_>, around: &Surroundings) -> Self {
        for key in ["integration_key", "gateway_key"] {
            table.refuse(
                key,
                "a key does not stand in this file; write it to a file of its own, named in `…_key_file`",
            );
        }
        let base_url = table.parsed("base_url", "", address::base_url);
        let integration = table.optional("integration_key_file", path);
        let gateway = table.optional("gateway_key_file", path);
        Self {
            base_url,
            keys: KeySource::new(integration, gateway, around),
            application_id: table.optional("application_id", header_value),
            timeout: table.duration("timeout", "30s", Duration::from_millis(100)..=SECOND * 600),
            ca_file: table.optional("ca_file", path),
            proxy: table.optional("proxy", ProxyUrl::parse),
            headers: table.section("headers", Headers::read),
        }
    }
}

impl Headers {
    fn read(table: &mut Reader<'_>) -> Self {
        let headers = Self {
            integration_key: table.parsed("integration_key", "svc-subscription-key", address::header_name),
            gateway_key: table.parsed("gateway_key", "gateway-subscription-key", address::header_name),
            application_id: table.parsed("application_id", "application-id", address::header_name),
        };
        let names = [&headers.integration_key, &headers.gateway_key, &headers.application_id];
        if names.iter().all(|name| !name.is_empty()) && BTreeSet::from(names).len() < names.len() {
            table.object("integration_key", &headers.integration_key, "the three names must differ".into());
        }
        headers
    }
}

/// `[limits]`: what the account allows (service-interface.md, *Limits*) and how much of it is ours.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// Calls the account allows in any 60 s.
    pub calls_per_minute: u32,
    /// The part of them that is ours, above 0, at most 1.
    pub share: f64,
    /// Calls of one operation at once.
    pub concurrent_calls_per_operation: u32,
    /// Answers of 400 in any 24 h at which the service would shut us out.
    pub bad_requests_per_day: u32,
    /// Places of our window that only an operator's wish may take.
    pub reserved_calls: u32,
}

/// The calls that a change of stock takes: one reads the level, one writes it.
const CALLS_OF_A_CHANGE: u32 = 2;

impl Limits {
    pub(super) fn read(table: &mut Reader<'_>) -> Self {
        let limits = Self {
            calls_per_minute: table.integer("calls_per_minute", 120, 1..=1_000_000),
            share: table.fraction("share", 1.0, f64::MIN_POSITIVE..=1.0),
            concurrent_calls_per_operation: table.integer("concurrent_calls_per_operation", 3, 1..=100),
            bad_requests_per_day: table.integer("bad_requests_per_day", 500, 1..=1_000_000),
            reserved_calls: table.integer("reserved_calls", 2, 0..=1_000_000),
        };
        let ours = limits.ours_per_minute();
        if ours < CALLS_OF_A_CHANGE {
            let why = format!(
                "leaves {ours} call(s) a minute, and a change of stock takes two: a read and a write"
            );
            table.object("share", limits.share, why);
        } else if limits.reserved_calls > ours - CALLS_OF_A_CHANGE {
            let why = format!(
                "must leave two of the {ours} calls a minute that are ours, because a change of stock takes a read and \
                 a write"
            );
            table.object("reserved_calls", limits.reserved_calls, why);
        }
        limits
    }

    /// Calls in any 60 s that are ours: `calls_per_minute × share`, rounded down.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and calls_per_minute"
    )]
    pub fn ours_per_minute(&self) -> u32 {
        // 0.7 is stored as a little less than seven tenths, and 0.7 of 10 is to be 7 all the same.
        (f64::from(self.calls_per_minute) * self.share + 1e-9).floor() as u32
    }
}

/// `[database]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Database {
    /// The database file; its lock and write-ahead log stand beside it.
    pub path: PathBuf,
    /// The disk itself moves between machines, so that another machine is no sign of a restored copy.
    pub moves_between_hosts: bool,
}

impl Database {
    pub(super) fn read(table: &mut Reader<'_>) -> Self {
        Self {
            path: table.parsed("path", "/var/lib/tallyd/tallyd.db", path),
            moves_between_hosts: table.flag("moves_between_hosts", false),
        }
    }
}

/// What a count does when others moved the cell since (rules.md 1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// Sales since the count still count.
    #[default]
    Merge,
    /// The count wins.
    Local,
    /// The service wins; the wish is rejected.
    Remote,
    /// A person decides.
    Ask,
}

impl Policy {
    const WORDS: [(&'static str, Policy); 4] = [
        ("merge", Policy::Merge),
        ("local", Policy::Local),
        ("remote", Policy::Remote),
        ("ask", Policy::Ask),
    ];

    /// The word used in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Policy::Merge => "merge",
            Policy::Local => "local",
            Policy::Remote => "remote",
            Policy::Ask => "ask",
        }
    }
}

/// `[quantities]`: how stock is merged and braked.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantities {
    /// The policy where no warehouse has its own.
    pub policy: Policy,
    /// `[quantities.warehouse.NNN] policy`.
    pub by_warehouse: BTreeMap<WarehouseId, Policy>,
    /// A cell is read again before it is written when its fact is older.
    pub max_fact_age: Duration,
    /// The brake: the part of the non-zero cells that may go to zero, 0 to 1.
    pub hold_zeroing_over: f64,
    /// The brake: the most pieces one write may change a cell by; `None` where it is off.
    pub hold_jump_over: Option<u32>,
    /// How old a fact may be as the base of a count (rules.md 3).
    pub max_base_age: Duration,
}

impl Quantities {
    pub(super) fn read(table: &mut Reader<'_>) -> Self {
        let policy = table.word("policy", Policy::Merge, &Policy::WORDS);
        Self {
            policy,
            by_warehouse: table.section("warehouse", |ids| policies(ids, policy)),
            max_fact_age: table.duration("max_fact_age", "10s", Duration::ZERO..=DAY),
            hold_zeroing_over: table.fraction("hold_zeroing_over", 0.2, 0.0..=1.0),
            hold_jump_over: Some(table.integer("hold_jump_over", 0, 0..=1_000_000_000))
                .filter(|most| *most > 0),
            max_base_age: table.duration("max_base_age", "15m", SECOND..=DAY * 7),
        }
    }

    /// The policy in force for a warehouse.
    pub fn policy_for(&self, warehouse: WarehouseId) -> Policy {
        self.by_warehouse.get(&warehouse).copied().unwrap_or(self.policy)
    }
}

fn policies(table: &mut Reader<'_>, default: Policy) -> BTreeMap<WarehouseId, Policy> {
    let mut policies = BTreeMap::new();
    for id in table.keys() {
        match id.parse::<i64>() {
            Ok(number) if number > 0 => {
                let policy = table.section(&id, |one| one.word("policy", default, &Policy::WORDS));
                policies.insert(WarehouseId(number), policy);
            }
            _ => table.refuse(
                &id,
                "a warehouse is named by its id, a whole number; `tallyd warehouse list` shows them",
            ),
        }
    }
    policies
}

/// `[journal]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Journal {
    /// How long bodies of exchanges are kept.
    pub keep_bodies: Duration,
    /// The size, in bytes, above which the oldest bodies go earlier.
    pub max_size: u64,
}

impl Journal {
    pub(super) fn read(table: &mut Reader<'_>) -> Self {
        Self {
            keep_bodies: table.duration("keep_bodies", "14d", SECOND..=DAY * 3660),
            max_size: table.size("max_size", "1 GiB"),
        }
    }
}

/// `[backup]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    /// Where copies of the database are written; none: in `backup` beside it.
    pub directory: Option<PathBuf>,
    /// How many of them are kept.
    pub keep: u32,
}

impl Backup {
    pub(super) fn read(table: &mut Reader<'_>) -> Self {
        Self { directory: table.optional("directory", path), keep: table.integer("keep", 7, 1..=10_000) }
    }
}

/// `[metrics]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metrics {
    /// A file for node_exporter's textfile collector.
    pub textfile: Option<PathBuf>,
}

impl Metrics {
    pub(super) fn read(table: &mut Reader<'_>) -> Self {
        Self { textfile: table.optional("textfile", path) }
    }
}

/// The shape of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// One JSON object a line.
    Json,
    /// For people.
    Text,
}

/// `[log]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// The shape of the lines.
    pub format: LogFormat,
    /// `error`, `warn`, `info`, `debug` or `trace`.
    pub level: &'static str,
}

impl Log {
    pub(super) fn read(table: &mut Reader<'_>) -> Self {
        let levels = ["error", "warn", "info", "debug", "trace"].map(|level| (level, level));
        Self {
            format: table.word(
                "format",
                LogFormat::Json,
                &[("json", LogFormat::Json), ("text", LogFormat::Text)],
            ),
            level: table.word("level", "info", &levels),
        }
    }
}

fn path(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() || text.contains('\0') { Err("write a path".into()) } else { Ok(text.into()) }
}

/// Text that can stand in a header.
fn header_value(text: &str) -> Result<String, String> {
    let sound = text.chars().all(|c| c.is_ascii_graphic());
    if sound { Ok(text.into()) } else { Err("holds a space or a character that no header can carry".into()) }
}
