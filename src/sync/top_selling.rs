//! `top_selling`: the ten best sellers of each of the last 24 months, over all storefronts.
//!
//! A month is read until two reads after its end agree, because sales are booked and corrected late. The
//! first two runs make 24 calls each; from then on each new month makes two.

use super::entry_reads::{EntryResult, JobEntry, read_each};
use crate::client::wire;
use crate::exec::{JobContext, JobError, RunReport};
use crate::model::{Lane, Month, Operation, RunId, Timestamp};
use crate::projection;
use crate::store;

/// Months for which reports are read.
pub(super) const REPORT_MONTHS: usize = 24;

pub(crate) async fn run(context: &JobContext, run: RunId) -> Result<RunReport, JobError> {
    let months = open_months(context, store::MonthlyReport::TopSelling, context.now()).await?;
    Ok(read_each(context, run, months).await?.run_report("month(s)", "of them"))
}

/// Returns the last months that are over and not agreed yet, the newest first.
pub(super) async fn open_months(
    context: &JobContext,
    report: store::MonthlyReport,
    now: Timestamp,
) -> Result<Vec<Month>, JobError> {
    let mut months: Vec<Month> = Month::from_timestamp(now)
        .into_iter()
        .flat_map(|now| now.earlier_months().take(REPORT_MONTHS))
        .collect();
    let agreed = context.store.report_agreed(report, &months).await?;
    months.retain(|month| !agreed.contains(month));
    Ok(months)
}

impl JobEntry for Month {
    const OPERATION: Operation = Operation::TopSelling;
    const NOUN: &'static str = "month";

    async fn read(self, context: &JobContext, run: RunId, attempts: usize) -> Result<EntryResult, JobError> {
        let (request, what) = (wire::top_selling(None, self), format!("the top sellers of {self}"));
        let (answer, sellers) = context
            .read_decoded(attempts, run, Lane::Poll, &what, &request, wire::decode_top_selling)
            .await?;
        let mut write = context.begin_recording(&answer).await?;
        let changed =
            projection::project_top_selling(&mut write, answer.id, answer.sent_at, self, &sellers).await?;
        write.commit().await?;
        Ok(changed.into())
    }
}
