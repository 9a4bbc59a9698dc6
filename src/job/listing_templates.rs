//! `listing_templates`: the templates of each storefront the service lists, all pages.

use super::call::Answer;
use super::pages::{self, Listing, Recorded};
use super::tally::Tally;
use super::{Context, JobError, Report, record};
use crate::client::Request;
use crate::client::wire::{self, Decoded, ListingTemplate, Malformed, Paging};
use crate::model::{RunId, StorefrontId};
use crate::store::{ListOf, StoreError, Write};

pub(super) async fn run(context: &Context, run: RunId) -> Result<Report, JobError> {
    let mut tally = Tally::default();
    for storefront in context.store.storefront_ids().await? {
        let read = pages::read(context, run, &Templates { storefront }).await;
        if let Some(oddity) = read.as_ref().ok().and_then(pages::Progress::oddity) {
            tally.note(format!("storefront {storefront}: {oddity}"));
        }
        tally.count(format_args!("storefront {storefront}"), read.map(|progress| progress.changed))?;
    }
    Ok(tally.report("storefront(s)", "template(s)"))
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
        let changed = record::listing_templates(write, answer.id, self.storefront, page).await?;
        Ok(Recorded { ids: page.records.iter().map(|template| template.id).collect(), changed })
    }
}
