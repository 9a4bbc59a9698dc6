//! Conversion of the configuration into the plain values that other modules take.

use crate::client::HttpSettings;
use crate::config::{self, Config, JobConfig, ServiceConfig};
use crate::exec::{BackupSettings, JobSettings};
use crate::health::{DaemonState, FREE_FLOOR_BYTES, HealthInputs};
use crate::limiter::LimiterSettings;
use crate::model::{Clock, JobKind, Timestamp};
use crate::store::{JobSchedule, host_name};
use std::time::Duration;

/// Longest interval of heartbeats; at least three come within the shortest `database.takeover_after`.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(5);

pub(super) fn heartbeat_interval(takeover_after: Duration) -> Duration {
    HEARTBEAT_INTERVAL.min(takeover_after / 3)
}

/// Returns the longest time between the record of a call and its send. The record proves the lead when it is committed,
/// but the last heartbeat may be older by two intervals then, if one was lost.
pub(super) fn send_within(takeover_after: Duration) -> Duration {
    heartbeat_interval(takeover_after)
}

pub(crate) fn health_inputs(config: &Config, clock: &dyn Clock, daemon: DaemonState) -> HealthInputs {
    HealthInputs {
        daemon,
        host: host_name(),
        keys: config.service.keys.places(),
        metrics_file: config.metrics_file.clone(),
        is_metrics_old: false,
        at_once: false,
        call_timeout: config.service.timeout,
        limits: config.limits.clone(),
        boot_id: super::boot_id(clock),
        now: clock.now(),
        moment: clock.moment(),
    }
}

pub(super) fn http_settings(service: &ServiceConfig) -> HttpSettings {
    HttpSettings {
        timeout: service.timeout,
        ca_file: service.ca_file.clone(),
        proxy: service.proxy.as_ref().map(|proxy| proxy.0.clone()),
        headers: service.headers.clone(),
        application_id: service.application_id.clone(),
        ..HttpSettings::new(&service.base_url)
    }
}

/// Returns the changed config keys that need a restart, because the client, the database and the log format
/// are set up once.
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
        ("database.url", old.database.server != new.database.server),
        (
            "database.password_file",
            new.database.server.is_some() && old.database.password != new.database.password,
        ),
        ("log.format", old.log.format != new.log.format),
    ];
    changed.into_iter().filter(|(_, changed)| *changed).map(|(key, _)| key).collect()
}

/// Returns the part of a new configuration that can be applied before a restart. The old time-out stays, also
/// for quiet times, because a quiet time must outlast the calls that are really made.
pub(super) fn until_restart(old: &Config, new: Config) -> Config {
    let service = config::ServiceConfig { keys: new.service.keys, ..old.service.clone() };
    let limits = LimiterSettings { quiet_time: old.limits.quiet_time, ..new.limits };
    let log = config::LogConfig { format: old.log.format, ..new.log };
    Config { service, limits, log, database: old.database.clone(), ..new }
}

pub(super) fn job_settings(config: &Config) -> JobSettings {
    let backup = &config.backup;
    let beside_database = || config.database.path.with_file_name("backup");
    JobSettings {
        skus_per_call: usize::try_from(config.jobs.skus_per_call).unwrap_or(usize::MAX).max(1),
        quantities: config.quantities.clone(),
        retention: config.journal,
        calls_in_flight: usize::try_from(config.limits.concurrent_calls_per_operation).unwrap_or(1),
        timeout: config.service.timeout,
        send_within: send_within(config.database.takeover_after),
        free_floor_bytes: FREE_FLOOR_BYTES,
        backup: BackupSettings {
            directory: backup.directory.clone().unwrap_or_else(beside_database),
            keep: usize::try_from(backup.keep).unwrap_or(usize::MAX),
        },
    }
}

/// Returns the policies by warehouse id, for the `stock` view; 0 stands for all others.
pub(super) fn policy_codes(config: &Config) -> Vec<(i64, &'static str)> {
    let quantities = &config.quantities;
    let single = quantities.by_warehouse.iter().map(|(warehouse, policy)| (warehouse.0, policy.as_str()));
    std::iter::once((0, quantities.policy.as_str())).chain(single).collect()
}

/// Returns the schedule data of every job for `job_health`. Push has no schedule and is not included.
pub(super) fn job_plans(config: &Config, now: Timestamp) -> Vec<JobSchedule> {
    let plan = |(kind, job): (&JobKind, &JobConfig)| {
        let schedule = job.enabled.then_some(&job.schedule);
        JobSchedule {
            job: *kind,
            enabled: job.enabled,
            interval_ms: schedule.map(|s| crate::model::time::whole_millis(s.interval_hint()).max(1)),
            next_due: schedule.and_then(|s| s.next_start(*kind, now)),
        }
    };
    config.jobs.by_kind.iter().map(plan).collect()
}
