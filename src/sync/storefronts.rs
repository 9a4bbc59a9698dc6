//! `storefronts`: the list of storefronts, all pages. The platform lists the active ones.

use crate::client::PlatformRequest;
use crate::client::wire::{self, DecodedAnswer, MalformedBody, PageParams, Storefront};
use crate::exec::call::AnsweredExchange;
use crate::exec::pager::{self, ListPageResult, PagedList};
use crate::exec::{JobContext, JobError, RunReport};
use crate::model::RunId;
use crate::projection;
use crate::store::{PlatformList, StoreError, WriteTransaction};

pub(crate) async fn run(context: &JobContext, run: RunId) -> Result<RunReport, JobError> {
    Ok(pager::read_list(context, run, &StorefrontList).await?.run_report("storefront(s)"))
}

struct StorefrontList;

impl PagedList for StorefrontList {
    type Record = Storefront;

    fn list_name(&self) -> String {
        "the storefronts".into()
    }

    fn platform_list(&self) -> PlatformList {
        PlatformList::Storefronts
    }

    fn page_request(&self, paging: PageParams) -> PlatformRequest {
        wire::list_storefronts(paging)
    }

    fn decode_page(&self, body: &[u8]) -> Result<DecodedAnswer<Storefront>, MalformedBody> {
        wire::decode_storefronts(body)
    }

    async fn record_page(
        &self,
        write: &mut WriteTransaction,
        answer: &AnsweredExchange,
        page: &DecodedAnswer<Storefront>,
    ) -> Result<ListPageResult, StoreError> {
        let changed = projection::project_storefronts(write, answer.id, page).await?;
        Ok(ListPageResult { ids: page.records.iter().map(|storefront| storefront.id.0).collect(), changed })
    }
}
