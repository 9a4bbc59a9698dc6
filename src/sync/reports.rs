//! `top_selling` and `business_health`: the reports of the last 24 months; `work_queue`: the account's counts.
//!
//! A month is read until two reads after its end agree, because sales are booked and corrected late. The ten
//! best sellers of a month, over all storefronts, are one call. The first two runs make 24 calls each; from
//! then on each new month makes two. The figures of all months are in one list, so one read serves all. It is
//! made on the first two days of each month, and daily if the platform has no figures of an open month.
//!
//! The counts are read each minute: a time series and a hint of changed orders. If a count of sales orders
//! changed, the orders are read at once instead of at their next turn. If none changed, the next run of
//! [`super::order_lines`] need not read them again.

use super::entry_reads::{EntryResult, JobEntry, read_each};
use super::lists;
use crate::client::wire;
use crate::exec::reads::{READ_ATTEMPTS, ReadOrigin};
use crate::exec::{JobContext, JobError, RunReport};
use crate::model::{JobKind, Lane, Month, Operation, RunId};
use crate::projection;
use crate::store::PlatformList;

const REPORT_MONTHS: usize = 24;

pub(crate) async fn run_top_selling(context: &JobContext, run: RunId) -> Result<RunReport, JobError> {
    let months = open_months(context, JobKind::TopSelling).await?;
    Ok(read_each(context, run, months).await?.run_report("month", "month"))
}

pub(crate) async fn run_business_health(context: &JobContext, run: RunId) -> Result<RunReport, JobError> {
    if open_months(context, JobKind::BusinessHealth).await?.is_empty() {
        return Ok(RunReport::ok("no call: two reads of each of the last months agree"));
    }
    lists::run(context, run, PlatformList::HealthMonths, "month").await
}

/// Returns the last months that are over and not agreed yet, the newest first.
async fn open_months(context: &JobContext, report: JobKind) -> Result<Vec<Month>, JobError> {
    let now = Month::from_timestamp(context.now()).into_iter();
    let mut months: Vec<Month> = now.flat_map(|now| now.earlier_months().take(REPORT_MONTHS)).collect();
    let agreed = context.store.report_agreed(report).await?;
    months.retain(|month| !agreed.contains(month));
    Ok(months)
}

impl JobEntry for Month {
    const OPERATION: Operation = Operation::TopSelling;
    const NOUN: &'static str = "month";

    async fn read(self, origin: ReadOrigin<'_>, attempts: usize) -> Result<EntryResult, JobError> {
        let (request, what) = (wire::top_selling(None, self), format!("the top sellers of {self}"));
        let decode = |body: &_| wire::decode_top_selling(body, self);
        let (answer, sellers) = origin.read_decoded(attempts, &what, &request, decode).await?;
        let mut write = origin.context.begin_recording(&answer).await?;
        let changed =
            projection::project_top_selling(&mut write, answer.id, answer.sent_at, self, &sellers).await?;
        write.commit().await?;
        Ok(changed.into())
    }
}

pub(crate) async fn run_work_queue(context: &JobContext, run: RunId) -> Result<RunReport, JobError> {
    let (request, decode) = (wire::work_queue(), wire::decode_work_queue);
    let origin = ReadOrigin { context, run, lane: Lane::Poll };
    let (answer, queue) = origin.read_decoded(READ_ATTEMPTS, "the work queue", &request, decode).await?;
    let mut write = context.begin_recording(&answer).await?;
    let (any_differs, orders_differ) = write.mirror_work_queue(answer.id, answer.sent_at, &queue).await?;
    write.commit().await?;
    let summary = if any_differs { "the counts changed" } else { "no count changed" };
    let mut report = RunReport::ok(summary).with_effect(any_differs);
    report.wakes = orders_differ.then_some(JobKind::OrderLines);
    Ok(report)
}
