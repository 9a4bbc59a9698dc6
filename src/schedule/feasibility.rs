//! A comparison of the schedules' demand with the quota. Pure.
//!
//! Each running job makes one call after the other and alternates with the other polls. A job that needs
//! little gets all of it; jobs that need much share the rest evenly, so the job with the largest demand loses
//! calls first. A fact is oldest just before it is read again: one interval after its last read (two if a run
//! may hold it back), plus the time the run takes to reach it.

use crate::model::JobKind;
use std::time::Duration;

/// The demand of a job.
#[derive(Clone, Copy, Debug)]
pub struct Demand {
    /// The job.
    pub kind: JobKind,
    /// The number of calls of one run.
    pub calls: f64,
    /// The longest time between two runs.
    pub interval: Duration,
    /// True if a run may leave a fact to the next run; never two runs in a row.
    pub may_hold_back: bool,
}

/// The calls that a job gets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// The job.
    pub kind: JobKind,
    /// The number of calls of one run.
    pub calls: f64,
    /// The calls a minute that the schedule asks for.
    pub asked: f64,
    /// The calls a minute that the job gets.
    pub given: f64,
    /// The maximum age of its facts.
    pub oldest: Duration,
}

/// The schedules' demand beside the quota.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// The jobs, in the given order.
    pub rows: Vec<Row>,
    /// The sum of all demands, in calls a minute.
    pub asked: f64,
    /// The calls a minute left over; negative if the demand exceeds the quota.
    pub headroom: f64,
    /// The job that loses calls first if the demand exceeds the quota.
    pub gives_way: Option<JobKind>,
}

/// Compares the demands with `limit` calls a minute.
pub fn fit(demands: &[Demand], limit: f64) -> Fit {
    let asked: Vec<f64> = demands.iter().map(per_minute).collect();
    let level = level(&asked, limit);
    let rows = demands.iter().zip(&asked).map(|(demand, asked)| {
        let given = asked.min(level);
        let run_s = demand.calls * 60.0 / limit.max(1.0);
        let turn_s = if given > 0.0 { demand.calls * 60.0 / given } else { 0.0 };
        let interval_s = demand.interval.as_secs_f64() * if demand.may_hold_back { 2.0 } else { 1.0 };
        let oldest = Duration::from_secs_f64(interval_s.max(turn_s) + run_s);
        Row { kind: demand.kind, calls: demand.calls, asked: *asked, given, oldest }
    });
    let rows: Vec<Row> = rows.collect();
    let sum: f64 = asked.iter().sum();
    let most = rows.iter().max_by(|one, two| one.asked.total_cmp(&two.asked));
    let gives_way = most.filter(|_| sum > limit).map(|row| row.kind);
    Fit { rows, asked: sum, headroom: limit - sum, gives_way }
}

fn per_minute(demand: &Demand) -> f64 {
    demand.calls * 60.0 / demand.interval.as_secs_f64().max(1.0)
}

/// Returns the cap per job that keeps the sum within the limit; demands below it are met in full.
fn level(asked: &[f64], limit: f64) -> f64 {
    let mut sorted: Vec<f64> = asked.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (mut left, mut jobs) = (limit, sorted.len());
    for asked in sorted {
        #[expect(clippy::cast_precision_loss, reason = "a handful of jobs")]
        let even = left / jobs as f64;
        if asked > even {
            return even;
        }
        left -= asked;
        jobs -= 1;
    }
    f64::INFINITY
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demand(kind: JobKind, calls: f64, minutes: u64) -> Demand {
        Demand { kind, calls, interval: Duration::from_secs(minutes * 60), may_hold_back: false }
    }

    #[test]
    fn a_table_that_fits_leaves_headroom_and_facts_age_an_interval_and_a_run() {
        let demands = [demand(JobKind::Balances, 50.0, 5), demand(JobKind::WorkQueue, 1.0, 1)];
        let fit = fit(&demands, 100.0);
        assert_eq!((fit.asked, fit.headroom, fit.gives_way), (11.0, 89.0, None));
        let oldest: Vec<_> = fit.rows.iter().map(|row| row.oldest.as_secs()).collect();
        assert_eq!(oldest, [330, 60], "five minutes and the half a minute that 50 calls take");
    }

    #[test]
    fn where_it_cannot_fit_the_largest_gives_way_and_the_small_ones_keep_their_pace() {
        let demands = [
            demand(JobKind::OrderLines, 400.0, 2),
            demand(JobKind::Balances, 100.0, 1),
            demand(JobKind::WorkQueue, 1.0, 1),
        ];
        let fit = fit(&demands, 101.0);
        assert_eq!(fit.gives_way, Some(JobKind::OrderLines));
        let given: Vec<_> = fit.rows.iter().map(|row| row.given).collect();
        assert_eq!(given, [50.0, 50.0, 1.0]);
        assert_eq!(fit.headroom, -200.0);
        assert!(fit.rows[0].oldest >= Duration::from_secs(8 * 60), "{:?}", fit.rows[0]);
        assert_eq!(fit.rows[2].oldest.as_secs(), 60);
    }

    #[test]
    fn what_a_run_may_hold_back_is_two_intervals_old_at_most_and_asks_for_no_less() {
        let orders = Demand { may_hold_back: true, ..demand(JobKind::OrderLines, 10.0, 2) };
        let fit = fit(&[orders], 100.0);
        assert_eq!((fit.asked, fit.rows[0].oldest.as_secs()), (5.0, 246));
    }

    #[test]
    fn nothing_to_read_costs_nothing() {
        let fit = fit(&[demand(JobKind::Shipments, 0.0, 10)], 118.0);
        assert_eq!((fit.asked, fit.gives_way, fit.rows[0].oldest.as_secs()), (0.0, None, 600));
    }
}
