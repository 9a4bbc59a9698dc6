//! `suppliers`: the list of suppliers, all pages.

use crate::client::Request;
use crate::client::wire::{self, Decoded, Malformed, Paging, Supplier};
use crate::exec::call::Answer;
use crate::exec::pager::{self, Listing, Recorded};
use crate::exec::{Context, JobError, Report};
use crate::model::RunId;
use crate::projection;
use crate::store::{ListOf, StoreError, Write};

pub(crate) async fn run(context: &Context, run: RunId) -> Result<Report, JobError> {
    Ok(pager::read(context, run, &Suppliers).await?.report("supplier(s)"))
}

struct Suppliers;

impl Listing for Suppliers {
    type Record = Supplier;

    fn name(&self) -> String {
        "the suppliers".into()
    }

    fn list(&self) -> ListOf {
        ListOf::Suppliers
    }

    fn request(&self, paging: Paging) -> Request {
        wire::list_suppliers(paging)
    }

    fn decode(&self, body: &[u8]) -> Result<Decoded<Supplier>, Malformed> {
        wire::decode_suppliers(body)
    }

    async fn record(
        &self,
        write: &mut Write,
        answer: &Answer,
        page: &Decoded<Supplier>,
    ) -> Result<Recorded, StoreError> {
        let changed = projection::suppliers(write, answer.id, page).await?;
        Ok(Recorded { ids: page.records.iter().map(|supplier| supplier.id.0).collect(), changed })
    }
}
