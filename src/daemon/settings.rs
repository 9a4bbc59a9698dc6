//! From the configuration to the plain values the rooms below take.

use crate::client::{HeaderNames, HttpSettings};
use crate::config::{self, Config};
use crate::job::{QuantitySettings, Settings, is_built};
use crate::limiter;
use crate::model::{JobKind, Timestamp};
use crate::reconcile::{Policy, brake};
use crate::schedule::Schedule;
use crate::store::JobPlan;

/// How to reach the service.
pub(super) fn http(config: &Config) -> HttpSettings {
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

/// What the account allows.
pub fn limits(config: &Config) -> limiter::Settings {
    let limits = &config.limits;
    limiter::Settings {
        calls_per_minute: limits.calls_per_minute,
        share: limits.share,
        concurrent_calls_per_operation: limits.concurrent_calls_per_operation,
        bad_requests_per_day: limits.bad_requests_per_day,
        reserved_calls: limits.reserved_calls,
    }
}

/// What the jobs need to know.
pub(super) fn jobs(config: &Config) -> Settings {
    let quantities = &config.quantities;
    let by_warehouse = quantities.by_warehouse.iter().map(|(warehouse, rule)| (*warehouse, policy(*rule)));
    Settings {
        skus_per_call: usize::try_from(config.jobs.skus_per_call).unwrap_or(usize::MAX).max(1),
        quantities: QuantitySettings {
            policy: policy(quantities.policy),
            by_warehouse: by_warehouse.collect(),
            max_fact_age: quantities.max_fact_age,
            brakes: brake::Settings {
                hold_zeroing_over: quantities.hold_zeroing_over,
                hold_jump_over: quantities.hold_jump_over.map_or(0, u64::from),
            },
            max_base_age: quantities.max_base_age,
        },
        calls_in_flight: usize::try_from(config.limits.concurrent_calls_per_operation).unwrap_or(1),
        timeout: config.service.timeout,
    }
}

fn policy(policy: config::Policy) -> Policy {
    match policy {
        config::Policy::Merge => Policy::Merge,
        config::Policy::Local => Policy::Local,
        config::Policy::Remote => Policy::Remote,
        config::Policy::Ask => Policy::Ask,
    }
}

/// The policies by warehouse id, for the `stock` view; 0 stands for all others.
pub(super) fn policies(config: &Config) -> Vec<(i64, &'static str)> {
    let quantities = &config.quantities;
    let single = quantities.by_warehouse.iter().map(|(warehouse, policy)| (warehouse.0, policy.as_str()));
    std::iter::once((0, quantities.policy.as_str())).chain(single).collect()
}

/// The schedules to arm: enabled, and of jobs this version does.
pub(super) fn schedules(config: &Config) -> Vec<(JobKind, Schedule)> {
    config.jobs.enabled().into_iter().filter(|(kind, _)| is_built(*kind)).collect()
}

/// What the tables say about every job, for `job_health`. The outbox's job has no schedule and is not listed.
pub(super) fn plans(config: &Config, now: Timestamp) -> Vec<JobPlan> {
    let armed = schedules(config);
    let plan = |kind: &JobKind| {
        let schedule = armed.iter().find(|(armed, _)| armed == kind).map(|(_, schedule)| schedule);
        JobPlan {
            job: *kind,
            enabled: schedule.is_some(),
            interval_ms: schedule.map(|s| crate::model::time::millis(s.interval_hint()).max(1)),
            next_due: schedule.and_then(|s| s.next_start(*kind, now)),
        }
    };
    JobKind::ALL.iter().filter(|kind| **kind != JobKind::Push).map(plan).collect()
}
