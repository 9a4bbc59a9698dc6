//! Conversion of the configuration into the plain values that other modules take.

use crate::client::{HeaderNames, HttpSettings};
use crate::config::{self, Config};
use crate::exec::{BackupSettings, JobSettings, JournalRetention, QuantitySettings};
use crate::limiter;
use crate::model::{JobKind, Timestamp};
use crate::reconcile::{CountPolicy, brake};
use crate::schedule::Schedule;
use crate::store::JobSchedule;

/// The free disk space below which no change is claimed (docs/rules.md 35).
///
/// It suffices for the answers of all calls in flight and for the log.
const FREE_FLOOR_BYTES: u64 = 32 * 1024 * 1024;

/// Returns the HTTP settings for the platform.
pub(super) fn http_settings(config: &Config) -> HttpSettings {
    let service = &config.service;
    HttpSettings {
        timeout: service.timeout,
        ca_file: service.ca_file.clone(),
        proxy: service.proxy.as_ref().map(|proxy| proxy.as_str().to_owned()),
        headers: HeaderNames {
            integration_key: service.headers.integration_key.clone(),
            gateway_key: service.headers.gateway_key.clone(),
            application_id: service.headers.application_id.clone(),
        },
        application_id: service.application_id.clone(),
        ..HttpSettings::new(&service.base_url)
    }
}

/// Returns the changed keys that need a restart.
///
/// Address, database and log format are set up once. Everything else is applied while running.
pub(super) fn restart_for(old: &Config, new: &Config) -> Vec<&'static str> {
    let (was, is) = (&old.service, &new.service);
    let changed = [
        ("service.base_url", was.base_url != is.base_url),
        ("service.application_id", was.application_id != is.application_id),
        ("service.timeout", was.timeout != is.timeout),
        ("service.ca_file", was.ca_file != is.ca_file),
        ("service.proxy", was.proxy != is.proxy),
        ("service.headers", was.headers != is.headers),
        ("database.path", old.database.path != new.database.path),
        ("log.format", old.log.format != new.log.format),
    ];
    changed.into_iter().filter(|(_, changed)| *changed).map(|(key, _)| key).collect()
}

/// Returns the part of a new configuration that can be applied before a restart.
///
/// The old time-out stays, also for quiet times, because a quiet time must outlast the calls that are really
/// made.
pub(super) fn until_restart(old: &Config, new: Config) -> Config {
    let service = config::ServiceConfig { keys: new.service.keys, ..old.service.clone() };
    let log = config::LogConfig { format: old.log.format, ..new.log };
    Config { service, log, database: old.database.clone(), ..new }
}

/// Returns the account's limits.
pub fn limiter_settings(config: &Config) -> limiter::LimiterSettings {
    let limits = &config.limits;
    limiter::LimiterSettings {
        calls_per_minute: limits.calls_per_minute,
        share: limits.share,
        concurrent_calls_per_operation: limits.concurrent_calls_per_operation,
        bad_requests_per_day: limits.bad_requests_per_day,
        reserved_calls: limits.reserved_calls,
    }
}

/// Returns the settings of the jobs.
pub(super) fn job_settings(config: &Config) -> JobSettings {
    let quantities = &config.quantities;
    let by_warehouse =
        quantities.by_warehouse.iter().map(|(warehouse, rule)| (*warehouse, count_policy(*rule)));
    JobSettings {
        skus_per_call: usize::try_from(config.jobs.skus_per_call).unwrap_or(usize::MAX).max(1),
        quantities: QuantitySettings {
            policy: count_policy(quantities.policy),
            by_warehouse: by_warehouse.collect(),
            max_fact_age: quantities.max_fact_age,
            brakes: brake::BrakeSettings {
                max_zeroing_fraction: quantities.max_zeroing_fraction,
                max_quantity_jump: quantities.max_quantity_jump.map_or(0, u64::from),
            },
            max_base_age: quantities.max_base_age,
        },
        retention: journal_retention(config),
        calls_in_flight: usize::try_from(config.limits.concurrent_calls_per_operation).unwrap_or(1),
        timeout: config.service.timeout,
        free_floor_bytes: FREE_FLOOR_BYTES,
        backup: BackupSettings {
            directory: config
                .backup
                .directory
                .clone()
                .unwrap_or_else(|| config.database.path.with_file_name("backup")),
            keep: usize::try_from(config.backup.keep).unwrap_or(usize::MAX),
        },
    }
}

/// Returns the limits of age and size of the journal.
pub(super) fn journal_retention(config: &Config) -> JournalRetention {
    JournalRetention { keep_bodies: config.journal.keep_bodies, max_size: config.journal.max_size }
}

fn count_policy(policy: config::QuantityPolicy) -> CountPolicy {
    match policy {
        config::QuantityPolicy::Merge => CountPolicy::Merge,
        config::QuantityPolicy::Local => CountPolicy::Local,
        config::QuantityPolicy::Remote => CountPolicy::Remote,
        config::QuantityPolicy::Ask => CountPolicy::Ask,
    }
}

/// Returns the policies by warehouse id, for the `stock` view; 0 stands for all others.
pub(super) fn policy_codes(config: &Config) -> Vec<(i64, &'static str)> {
    let quantities = &config.quantities;
    let single = quantities.by_warehouse.iter().map(|(warehouse, policy)| (warehouse.0, policy.as_str()));
    std::iter::once((0, quantities.policy.as_str())).chain(single).collect()
}

/// Returns the enabled schedules.
pub(super) fn enabled_schedules(config: &Config) -> Vec<(JobKind, Schedule)> {
    config.jobs.enabled_schedules()
}

/// Returns the schedule data of every job for `job_health`. Push has no schedule and is not included.
pub(super) fn job_plans(config: &Config, now: Timestamp) -> Vec<JobSchedule> {
    let armed = enabled_schedules(config);
    let plan = |kind: &JobKind| {
        let schedule = armed.iter().find(|(armed, _)| armed == kind).map(|(_, schedule)| schedule);
        JobSchedule {
            job: *kind,
            enabled: schedule.is_some(),
            interval_ms: schedule.map(|s| crate::model::time::whole_millis(s.interval_hint()).max(1)),
            next_due: schedule.and_then(|s| s.next_start(*kind, now)),
        }
    };
    JobKind::ALL.iter().filter(|kind| **kind != JobKind::Push).map(plan).collect()
}
