//! `listing_templates`: the templates of each listed storefront, all pages.

use super::entry_reads::{self, Asks, Came};
use crate::client::Request;
use crate::client::wire::{self, Decoded, ListingTemplate, Malformed, Paging};
use crate::exec::call::Answer;
use crate::exec::pager::{self, Listing, Recorded};
use crate::exec::{Context, JobError, Report};
use crate::model::{Operation, RunId, StorefrontId};
use crate::projection;
use crate::store::{ListOf, StoreError, Write};

pub(crate) async fn run(context: &Context, run: RunId) -> Result<Report, JobError> {
    let storefronts = context.store.storefront_ids().await?;
    let tally = entry_reads::each(context, Storefronts { context, run }, storefronts).await?;
    Ok(tally.report("storefront(s)", "template(s)"))
}

/// *List listing templates*.
struct Storefronts<'a> {
    context: &'a Context,
    run: RunId,
}

impl Asks for Storefronts<'_> {
    type Entry = StorefrontId;
    const OPERATION: Operation = Operation::ListListingTemplates;

    async fn ask(&self, storefront: StorefrontId, attempts: usize) -> Result<Came, JobError> {
        Ok(pager::read_within(attempts, self.context, self.run, &Templates { storefront }).await?.into())
    }
}

/// The templates of one storefront.
struct Templates {
    storefront: StorefrontId,
}

impl Listing for Templates {
    type Record = ListingTemplate;

    fn name(&self) -> String {
        format!("the listing templates of storefront {}", self.storefront)
    }

    fn list(&self) -> ListOf {
        ListOf::Templates(self.storefront)
    }

    fn request(&self, paging: Paging) -> Request {
        wire::list_listing_templates(self.storefront, None, paging)
    }

    fn decode(&self, body: &[u8]) -> Result<Decoded<ListingTemplate>, Malformed> {
        wire::decode_listing_templates(body)
    }

    async fn record(
        &self,
        write: &mut Write,
        answer: &Answer,
        page: &Decoded<ListingTemplate>,
    ) -> Result<Recorded, StoreError> {
        let changed = projection::listing_templates(write, answer.id, self.storefront, page).await?;
        Ok(Recorded { ids: page.records.iter().map(|template| template.id).collect(), changed })
    }
}
