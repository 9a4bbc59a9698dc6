//! `suppliers`: the list of suppliers, all pages.

use crate::client::PlatformRequest;
use crate::client::wire::{self, DecodedAnswer, MalformedBody, PageParams, Supplier};
use crate::exec::call::AnsweredExchange;
use crate::exec::pager::{self, ListPageResult, PagedList};
use crate::exec::{JobContext, JobError, RunReport};
use crate::model::RunId;
use crate::projection;
use crate::store::{PlatformList, StoreError, WriteTransaction};

pub(crate) async fn run(context: &JobContext, run: RunId) -> Result<RunReport, JobError> {
    Ok(pager::read_list(context, run, &SupplierList).await?.run_report("supplier(s)"))
}

struct SupplierList;

impl PagedList for SupplierList {
    type Record = Supplier;

    fn list_name(&self) -> String {
        "the suppliers".into()
    }

    fn platform_list(&self) -> PlatformList {
        PlatformList::Suppliers
    }

    fn page_request(&self, paging: PageParams) -> PlatformRequest {
        wire::list_suppliers(paging)
    }

    fn decode_page(&self, body: &[u8]) -> Result<DecodedAnswer<Supplier>, MalformedBody> {
        wire::decode_suppliers(body)
    }

    async fn record_page(
        &self,
        write: &mut WriteTransaction,
        answer: &AnsweredExchange,
        page: &DecodedAnswer<Supplier>,
    ) -> Result<ListPageResult, StoreError> {
        let changed = projection::project_suppliers(write, answer.id, page).await?;
        Ok(ListPageResult { ids: page.records.iter().map(|supplier| supplier.id.0).collect(), changed })
    }
}
