//! `top_selling`: the ten best sellers of each of the last 24 months, over all storefronts.
//!
//! A month is read until two reads after its end agree, because sales are booked and corrected late. The
//! first two runs make 24 calls each; from then on each new month makes two.

use super::entry_reads::{self, EntryOperation, EntryResult};
use crate::client::wire;
use crate::exec::{JobContext, JobError, RunReport};
use crate::model::{Lane, Month, Operation, RunId, Timestamp};
use crate::projection;
use crate::store::{self, Durability};

/// Months for which reports are read.
pub(super) const REPORT_MONTHS: usize = 24;

pub(crate) async fn run(context: &JobContext, run: RunId) -> Result<RunReport, JobError> {
    let months = open_months(context, store::MonthlyReport::TopSelling, context.now()).await?;
    let summary = entry_reads::read_each(context, MonthReads { context, run }, months).await?;
    Ok(summary.run_report("month(s)", "of them"))
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

/// *Get top-selling products by month*.
struct MonthReads<'a> {
    context: &'a JobContext,
    run: RunId,
}

impl EntryOperation for MonthReads<'_> {
    type Entry = Month;
    const OPERATION: Operation = Operation::TopSelling;

    async fn read_entry(&self, month: Month, attempts: usize) -> Result<EntryResult, JobError> {
        let (context, request) = (self.context, wire::top_selling(None, month));
        let what = format!("the top sellers of {month}");
        let answer = context.read_within(attempts, self.run, Lane::Poll, &what, &request).await?;
        let sellers = context.decode_or_ignore(&answer, wire::decode_top_selling(&answer.reply.body)).await?;
        let mut write = context.store.begin_write(Durability::Normal).await?;
        context.exchange_end(&mut write, &answer).await?;
        let changed =
            projection::project_top_selling(&mut write, answer.id, answer.sent_at, month, &sellers).await?;
        write.commit().await?;
        Ok(changed.into())
    }
}
