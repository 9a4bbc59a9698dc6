//! `storefronts`: the list of storefronts, all pages. The platform lists the active ones.

use crate::client::Request;
use crate::client::wire::{self, Decoded, Malformed, Paging, Storefront};
use crate::exec::call::Answer;
use crate::exec::pager::{self, Listing, Recorded};
use crate::exec::{Context, JobError, Report};
use crate::model::RunId;
use crate::projection;
use crate::store::{ListOf, StoreError, Write};

pub(crate) async fn run(context: &Context, run: RunId) -> Result<Report, JobError> {
    Ok(pager::read(context, run, &Storefronts).await?.report("storefront(s)"))
}

struct Storefronts;

impl Listing for Storefronts {
    type Record = Storefront;

    fn name(&self) -> String {
        "the storefronts".into()
    }

    fn list(&self) -> ListOf {
        ListOf::Storefronts
    }

    fn request(&self, paging: Paging) -> Request {
        wire::list_storefronts(paging)
    }

    fn decode(&self, body: &[u8]) -> Result<Decoded<Storefront>, Malformed> {
        wire::decode_storefronts(body)
    }

    async fn record(
        &self,
        write: &mut Write,
        answer: &Answer,
        page: &Decoded<Storefront>,
    ) -> Result<Recorded, StoreError> {
        let changed = projection::storefronts(write, answer.id, page).await?;
        Ok(Recorded { ids: page.records.iter().map(|storefront| storefront.id.0).collect(), changed })
    }
}
