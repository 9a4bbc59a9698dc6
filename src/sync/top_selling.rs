//! `top_selling`: the ten best sellers of each of the last 24 months, over all storefronts.
//!
//! A month is read until two reads after its end agree, because sales are booked and corrected late. The
//! first two runs make 24 calls each; from then on each new month makes two.

use super::entry_reads::{self, Asks, Came};
use crate::client::wire;
use crate::exec::{Context, JobError, Report};
use crate::model::{Lane, Month, Operation, RunId, Timestamp};
use crate::projection;
use crate::store::{self, Durability};

/// Months for which reports are read.
pub(super) const MONTHS: usize = 24;

pub(crate) async fn run(context: &Context, run: RunId) -> Result<Report, JobError> {
    let months = open_months(context, store::Report::TopSelling, context.now()).await?;
    let tally = entry_reads::each(context, Months { context, run }, months).await?;
    Ok(tally.report("month(s)", "of them"))
}

/// Returns the last months that are over and not agreed yet, the newest first.
pub(super) async fn open_months(
    context: &Context,
    report: store::Report,
    now: Timestamp,
) -> Result<Vec<Month>, JobError> {
    let mut months: Vec<Month> =
        Month::of(now).into_iter().flat_map(|now| now.before().take(MONTHS)).collect();
    let agreed = context.store.report_agreed(report, &months).await?;
    months.retain(|month| !agreed.contains(month));
    Ok(months)
}

/// *Get top-selling products by month*.
struct Months<'a> {
    context: &'a Context,
    run: RunId,
}

impl Asks for Months<'_> {
    type Entry = Month;
    const OPERATION: Operation = Operation::TopSelling;

    async fn ask(&self, month: Month, attempts: usize) -> Result<Came, JobError> {
        let (context, request) = (self.context, wire::top_selling(None, month));
        let what = format!("the top sellers of {month}");
        let answer = context.read_within(attempts, self.run, Lane::Poll, &what, &request).await?;
        let sellers = context.decoded(&answer, wire::decode_top_selling(&answer.reply.body)).await?;
        let mut write = context.store.begin(Durability::Normal).await?;
        context.exchange_end(&mut write, &answer).await?;
        let changed = projection::top_selling(&mut write, answer.id, answer.sent_at, month, &sellers).await?;
        write.commit().await?;
        Ok(changed.into())
    }
}
