//! `business_health`: reads the figures of each month.
//!
//! All months are in one list, so one read serves all of them. It is made until two reads of each of the last
//! 24 months agree. This means the first two days of each month, and daily if the platform has no figures of
//! such a month.

use super::top_selling::open_months;
use crate::client::Request;
use crate::client::wire::{self, Decoded, HealthMonth, Malformed, Paging};
use crate::exec::call::Answer;
use crate::exec::pager::{self, Listing, Recorded};
use crate::exec::{Context, JobError, Report};
use crate::model::RunId;
use crate::projection;
use crate::store::{self, ListOf, StoreError, Write};

pub(crate) async fn run(context: &Context, run: RunId) -> Result<Report, JobError> {
    let open = open_months(context, store::Report::BusinessHealth, context.now()).await?;
    if open.is_empty() {
        return Ok(Report::ok("no call: two reads of each of the last months agree"));
    }
    Ok(pager::read(context, run, &Months).await?.report("month(s)"))
}

struct Months;

impl Listing for Months {
    type Record = HealthMonth;

    fn name(&self) -> String {
        "the business health".into()
    }

    fn list(&self) -> ListOf {
        ListOf::HealthMonths
    }

    fn request(&self, paging: Paging) -> Request {
        wire::business_health(None, paging)
    }

    fn decode(&self, body: &[u8]) -> Result<Decoded<HealthMonth>, Malformed> {
        wire::decode_business_health(body)
    }

    async fn record(
        &self,
        write: &mut Write,
        answer: &Answer,
        page: &Decoded<HealthMonth>,
    ) -> Result<Recorded, StoreError> {
        let changed = projection::business_health(write, answer.id, answer.sent_at, page).await?;
        let ids = page.records.iter().map(|month| month.year * 100 + month.month).collect();
        Ok(Recorded { ids, changed })
    }
}
