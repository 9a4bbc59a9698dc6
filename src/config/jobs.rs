//! `[jobs.*]`: the schedules. A job that is not configured has the default of its kind.

use super::JobConfig;
use super::reader::SectionReader;
use crate::model::JobKind;
use crate::schedule::{MissedPolicy, Schedule, ScheduleError};
use std::collections::BTreeMap;
use std::time::Duration;

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
        let jobs = JobKind::ALL.iter().filter_map(|kind| {
            let default = kind.default_schedule()?;
            let job = table.read_section(kind.as_str(), |one| {
                if *kind == JobKind::Balances {
                    skus_per_call = one.read_integer("skus_per_call", 200, 1..=10_000);
                }
                read_job(one, default)
            });
            Some((*kind, job))
        });
        let by_kind = jobs.collect();
        Self { by_kind, skus_per_call }
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
    use std::collections::BTreeSet;

    #[test]
    fn the_packaged_configuration_names_the_jobs_that_have_a_schedule() {
        let packaged = include_str!("../../config/tallyd.toml");
        let section = |line: &'static str| line.strip_prefix("[jobs.")?.strip_suffix(']');
        let named: BTreeSet<&str> = packaged.lines().filter_map(section).collect();
        let scheduled = JobKind::ALL.iter().filter(|kind| kind.default_schedule().is_some());
        assert_eq!(named, scheduled.map(|kind| kind.as_str()).collect());
    }
}
