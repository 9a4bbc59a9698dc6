//! A comparison of the schedules' demand with the quota. Pure.
//!
//! Each running job makes one call after the other and alternates with the other polls. A job that needs
//! little gets all of it; jobs that need much share the rest evenly, so the job with the largest demand loses
//! calls first. A fact is oldest just before it is read again: one interval after its last read, plus the time the
//! run takes to reach it.

use crate::model::JobKind;
use std::time::Duration;

#[derive(Clone, Copy, Debug)]
pub(crate) struct JobDemand {
    pub kind: JobKind,
    pub calls: f64,
    pub interval: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct JobAllotment {
    pub kind: JobKind,
    pub calls: f64,
    pub requested: f64,
    pub granted: f64,
    pub max_age: Duration,
}

/// Returns the part of `limit`, in calls a minute, that each job gets.
pub(crate) fn fit_schedules(demands: &[JobDemand], limit: f64) -> Vec<JobAllotment> {
    let per_minute = |demand: &JobDemand| demand.calls * 60.0 / demand.interval.as_secs_f64().max(1.0);
    let requested: Vec<f64> = demands.iter().map(per_minute).collect();
    let cap = fair_cap(&requested, limit);
    let rows = demands.iter().zip(&requested).map(|(demand, &requested)| {
        let &JobDemand { kind, calls, interval } = demand;
        let granted = requested.min(cap);
        let run_s = calls * 60.0 / limit.max(1.0);
        let turn_s = if granted > 0.0 { calls * 60.0 / granted } else { 0.0 };
        let max_age = Duration::from_secs_f64(interval.as_secs_f64().max(turn_s) + run_s);
        JobAllotment { kind, calls, requested, granted, max_age }
    });
    rows.collect()
}

/// Returns the cap per job that keeps the sum within the limit; demands below it are met in full.
fn fair_cap(requested: &[f64], limit: f64) -> f64 {
    let mut sorted: Vec<f64> = requested.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (mut left, mut jobs) = (limit, sorted.len());
    for requested in sorted {
        #[expect(clippy::cast_precision_loss, reason = "a handful of jobs")]
        let even = left / jobs as f64;
        if requested > even {
            return even;
        }
        left -= requested;
        jobs -= 1;
    }
    f64::INFINITY
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demand(kind: JobKind, calls: f64, minutes: u64) -> JobDemand {
        JobDemand { kind, calls, interval: Duration::from_secs(minutes * 60) }
    }

    #[test]
    fn a_table_that_fits_leaves_headroom_and_facts_age_an_interval_and_a_run() {
        let demands = [demand(JobKind::Balances, 50.0, 5), demand(JobKind::WorkQueue, 1.0, 1)];
        let rows = fit_schedules(&demands, 100.0);
        assert_eq!(rows.iter().map(|row| row.requested).sum::<f64>(), 11.0);
        assert!(rows.iter().all(|row| row.granted == row.requested));
        let oldest: Vec<_> = rows.iter().map(|row| row.max_age.as_secs()).collect();
        assert_eq!(oldest, [330, 60], "five minutes and the half a minute that 50 calls take");
    }

    #[test]
    fn where_it_cannot_fit_the_largest_gives_way_and_the_small_ones_keep_their_pace() {
        let demands = [
            demand(JobKind::OrderLines, 400.0, 2),
            demand(JobKind::Balances, 100.0, 1),
            demand(JobKind::WorkQueue, 1.0, 1),
        ];
        let rows = fit_schedules(&demands, 101.0);
        let given: Vec<_> = rows.iter().map(|row| row.granted).collect();
        assert_eq!(given, [50.0, 50.0, 1.0]);
        assert!(rows[0].max_age >= Duration::from_secs(8 * 60), "{:?}", rows[0]);
        assert_eq!(rows[2].max_age.as_secs(), 60);
    }

    #[test]
    fn nothing_to_read_costs_nothing() {
        let rows = fit_schedules(&[demand(JobKind::Shipments, 0.0, 10)], 118.0);
        assert_eq!((rows[0].requested, rows[0].max_age.as_secs()), (0.0, 600));
    }
}
