//! `listing_templates`: the templates of each listed storefront, all pages.

use super::entry_reads::{self, EntryOperation, EntryResult};
use crate::client::PlatformRequest;
use crate::client::wire::{self, DecodedAnswer, ListingTemplate, MalformedBody, PageParams};
use crate::exec::call::AnsweredExchange;
use crate::exec::pager::{self, ListPageResult, PagedList};
use crate::exec::{JobContext, JobError, RunReport};
use crate::model::{Operation, RunId, StorefrontId};
use crate::projection;
use crate::store::{PlatformList, StoreError, WriteTransaction};

pub(crate) async fn run(context: &JobContext, run: RunId) -> Result<RunReport, JobError> {
    let storefronts = context.store.storefront_ids().await?;
    let summary = entry_reads::read_each(context, TemplateReads { context, run }, storefronts).await?;
    Ok(summary.run_report("storefront(s)", "template(s)"))
}

/// *List listing templates*.
struct TemplateReads<'a> {
    context: &'a JobContext,
    run: RunId,
}

impl EntryOperation for TemplateReads<'_> {
    type Entry = StorefrontId;
    const OPERATION: Operation = Operation::ListListingTemplates;

    async fn read_entry(&self, storefront: StorefrontId, attempts: usize) -> Result<EntryResult, JobError> {
        Ok(pager::read_list_within(attempts, self.context, self.run, &TemplateList { storefront })
            .await?
            .into())
    }
}

/// The templates of one storefront.
struct TemplateList {
    storefront: StorefrontId,
}

impl PagedList for TemplateList {
    type Record = ListingTemplate;

    fn list_name(&self) -> String {
        format!("the listing templates of storefront {}", self.storefront)
    }

    fn platform_list(&self) -> PlatformList {
        PlatformList::Templates(self.storefront)
    }

    fn page_request(&self, paging: PageParams) -> PlatformRequest {
        wire::list_listing_templates(self.storefront, None, paging)
    }

    fn decode_page(&self, body: &[u8]) -> Result<DecodedAnswer<ListingTemplate>, MalformedBody> {
        wire::decode_listing_templates(body)
    }

    async fn record_page(
        &self,
        write: &mut WriteTransaction,
        answer: &AnsweredExchange,
        page: &DecodedAnswer<ListingTemplate>,
    ) -> Result<ListPageResult, StoreError> {
        let changed = projection::project_listing_templates(write, answer.id, self.storefront, page).await?;
        Ok(ListPageResult { ids: page.records.iter().map(|template| template.id).collect(), changed })
    }
}
