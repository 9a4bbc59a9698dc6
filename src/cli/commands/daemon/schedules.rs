//! The schedules in `check`: each with its next three starts in its zone.
//!
//! An operator can see if an expression such as `0 0 8-17 * * MON-FRI` has the intended meaning.

use crate::config::Config;
use crate::model::{JobKind, Timestamp};
use crate::schedule::Schedule;

pub(super) fn describe_schedules(config: &Config, now: Timestamp) -> String {
    let jobs = config.jobs.by_kind.iter();
    jobs.map(|(kind, job)| describe_schedule(*kind, job.enabled, &job.schedule, now)).collect()
}

fn describe_schedule(kind: JobKind, enabled: bool, schedule: &Schedule, now: Timestamp) -> String {
    let name = kind.as_str();
    if !enabled {
        return format!("{name:<19}disabled: runs on demand only\n");
    }
    let starts = std::iter::successors(schedule.next_start(kind, now), |at| schedule.next_start(kind, *at));
    let starts: Vec<String> = starts.take(3).map(|at| schedule.format_local(at)).collect();
    format!(
        "{name:<19}{}\n{:19}{}\n{:19}next {}\n",
        schedule.expression(),
        "",
        schedule.check_description(),
        "",
        starts.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_is_shown_with_three_starts_in_its_own_zone() {
        let toml = "[service]\nbase_url = \"https://service.example\"\n\
                    [jobs.balances]\nschedule = \"0 30 2 * * *\"\ntimezone = \"Europe/Berlin\"\n\
                    [jobs.suppliers]\nenabled = false\n";
        let config = Config::from_toml(toml).unwrap();
        let text = describe_schedules(&config, Timestamp::parse("2026-10-24T12:00:00Z").unwrap());
        let balances =
            "next 2026-10-25 02:30:00 +02:00, 2026-10-26 02:30:00 +01:00, 2026-10-27 02:30:00 +01:00";
        assert!(text.contains(balances), "{text}");
        assert!(text.contains("Europe/Berlin; after downtime it runs once"), "{text}");
        assert!(text.contains("suppliers          disabled: runs on demand only\n"), "{text}");
    }
}
