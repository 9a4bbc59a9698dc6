//! `[jobs.*]`: the schedules. A job that is not configured has its default.
//!
//! Default seconds and minutes are spread, so that jobs of one account do not call in the same second. Daily
//! jobs may use any hour, because the default zone is UTC, which has no clock changes.

use super::JobConfig;
use super::reader::SectionReader;
use crate::model::JobKind;
use crate::schedule::{MissedPolicy, Schedule, ScheduleError};
use std::collections::BTreeMap;
use std::time::Duration;

/// The kinds that have a schedule, each with its default. `push` has none, because queued changes wake it.
const DEFAULT_SCHEDULES: [(JobKind, &str); 14] = [
    (JobKind::Balances, "0 */5 * * * *"),
    (JobKind::OrderLines, "30 */2 * * * *"),
    (JobKind::Shipments, "15 */10 * * * *"),
    (JobKind::Warehouses, "0 7 * * * *"),
    (JobKind::Suppliers, "0 11 2 * * *"),
    (JobKind::Storefronts, "0 23 * * * *"),
    (JobKind::ListingTemplates, "0 17 2 * * *"),
    (JobKind::KitComponents, "0 31 2 * * *"),
    (JobKind::TopSelling, "0 41 4 * * *"),
    (JobKind::BusinessHealth, "0 47 4 * * *"),
    (JobKind::WorkQueue, "45 * * * * *"),
    (JobKind::Settle, "10 * * * * *"),
    (JobKind::Prune, "0 13 3 * * *"),
    (JobKind::Backup, "0 43 3 * * *"),
];

#[derive(Clone, Debug, PartialEq)]
pub struct JobsConfig {
    pub by_kind: BTreeMap<JobKind, JobConfig>,
    pub skus_per_call: u32,
}

impl JobsConfig {
    pub fn enabled_schedules(&self) -> Vec<(JobKind, Schedule)> {
        let enabled = self.by_kind.iter().filter(|(_, job)| job.enabled);
        enabled.map(|(kind, job)| (*kind, job.schedule.clone())).collect()
    }

    /// A server's database is copied by the server's own tools.
    pub(super) fn disable_backup(&mut self) {
        if let Some(backup) = self.by_kind.get_mut(&JobKind::Backup) {
            backup.enabled = false;
        }
    }

    pub(super) fn from_table(table: &mut SectionReader<'_>) -> Self {
        table.refuse_key(JobKind::Push.as_str(), "`push` has no schedule: new changes start it");
        let mut skus_per_call = 0;
        let jobs = DEFAULT_SCHEDULES.map(|(kind, default)| {
            let job = table.read_section(kind.as_str(), |one| {
                if kind == JobKind::Balances {
                    skus_per_call = one.read_integer("skus_per_call", 200, 1..=10_000);
                }
                read_job(one, default)
            });
            (kind, job)
        });
        Self { by_kind: jobs.into_iter().collect(), skus_per_call }
    }
}

fn read_job(table: &mut SectionReader<'_>, default: &str) -> JobConfig {
    let expression = table.read_text("schedule", default);
    let timezone = table.read_text("timezone", "UTC");
    let jitter = table.read_duration("jitter", "0s", "0s", "1d");
    let missed = table.read_code("missed", MissedPolicy::RunOnce, MissedPolicy::ALL);
    let enabled = table.read_flag("enabled", true);
    let schedule = Schedule::parse(&expression, &timezone, jitter, missed);
    let schedule = schedule.map_err(|error| match &error {
        ScheduleError::Timezone(name) => {
            let zones = chrono_tz::TZ_VARIANTS.iter().map(|zone| zone.name());
            table.add_problem("timezone", format!("{name:?}"), error.to_string());
            table.suggest_key(name, zones);
        }
        ScheduleError::Jitter(_) => {
            table.add_problem("jitter", format!("{jitter:?}"), error.to_string());
        }
        ScheduleError::Expression(_) => {
            table.add_problem("schedule", format!("{expression:?}"), error.to_string());
        }
    });
    let default = || Schedule::parse(default, "UTC", Duration::ZERO, MissedPolicy::RunOnce);
    let schedule = schedule.or_else(|()| default()).expect("each default is a schedule");
    JobConfig { enabled, schedule }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_but_push_has_a_default_schedule() {
        let kinds: Vec<_> = DEFAULT_SCHEDULES.iter().map(|(kind, _)| *kind).collect();
        let expected: Vec<_> = JobKind::ALL.iter().copied().filter(|kind| *kind != JobKind::Push).collect();
        assert_eq!(kinds, expected);
    }
}
