//! `business_health`: reads the figures of each month.
//!
//! All months are in one list, so one read serves all of them. It is made until two reads of each of the last
//! 24 months agree. This means the first two days of each month, and daily if the platform has no figures of
//! such a month.

use super::lists;
use super::top_selling::open_months;
use crate::exec::{JobContext, JobError, RunReport};
use crate::model::RunId;
use crate::store::{MonthlyReport, PlatformList};

pub(crate) async fn run(context: &JobContext, run: RunId) -> Result<RunReport, JobError> {
    if open_months(context, MonthlyReport::BusinessHealth, context.now()).await?.is_empty() {
        return Ok(RunReport::ok("no call: two reads of each of the last months agree"));
    }
    lists::run(context, run, PlatformList::HealthMonths, "month(s)").await
}
