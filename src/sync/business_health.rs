//! `business_health`: reads the figures of each month.
//!
//! All months are in one list, so one read serves all of them. It is made until two reads of each of the last
//! 24 months agree. This means the first two days of each month, and daily if the platform has no figures of
//! such a month.

use super::top_selling::open_months;
use crate::client::PlatformRequest;
use crate::client::wire::{self, DecodedAnswer, HealthMonth, MalformedBody, PageParams};
use crate::exec::call::AnsweredExchange;
use crate::exec::pager::{self, ListPageResult, PagedList};
use crate::exec::{JobContext, JobError, RunReport};
use crate::model::RunId;
use crate::projection;
use crate::store::{self, PlatformList, StoreError, WriteTransaction};

pub(crate) async fn run(context: &JobContext, run: RunId) -> Result<RunReport, JobError> {
    let open = open_months(context, store::MonthlyReport::BusinessHealth, context.now()).await?;
    if open.is_empty() {
        return Ok(RunReport::ok("no call: two reads of each of the last months agree"));
    }
    Ok(pager::read_list(context, run, &HealthMonthList).await?.run_report("month(s)"))
}

struct HealthMonthList;

impl PagedList for HealthMonthList {
    type Record = HealthMonth;

    fn list_name(&self) -> String {
        "the business health".into()
    }

    fn platform_list(&self) -> PlatformList {
        PlatformList::HealthMonths
    }

    fn page_request(&self, paging: PageParams) -> PlatformRequest {
        wire::business_health(None, paging)
    }

    fn decode_page(&self, body: &[u8]) -> Result<DecodedAnswer<HealthMonth>, MalformedBody> {
        wire::decode_business_health(body)
    }

    async fn record_page(
        &self,
        write: &mut WriteTransaction,
        answer: &AnsweredExchange,
        page: &DecodedAnswer<HealthMonth>,
    ) -> Result<ListPageResult, StoreError> {
        let changed = projection::project_business_health(write, answer.id, answer.sent_at, page).await?;
        let ids = page.records.iter().map(|month| month.year * 100 + month.month).collect();
        Ok(ListPageResult { ids, changed })
    }
}
