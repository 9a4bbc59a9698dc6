//! List of warehouses, for the poll and the push.

use super::call::AnsweredExchange;
use super::pager::{self, ListPageResult, PagedList};
use super::{JobContext, JobError};
use crate::client::PlatformRequest;
use crate::client::wire::{self, DecodedAnswer, MalformedBody, PageParams, Warehouse};
use crate::model::{RunId, WarehouseId};
use crate::projection;
use crate::store::{PlatformList, StoreError, WriteTransaction};
use std::collections::BTreeSet;

/// Reads the list. Returns its warehouses if it came whole and every record is readable.
pub(crate) async fn read_warehouse_ids(
    context: &JobContext,
    run: RunId,
) -> Result<Option<BTreeSet<WarehouseId>>, JobError> {
    let listed = pager::read_list(context, run, &WarehouseList).await?.into_whole_ids();
    Ok(listed.map(|ids| ids.into_iter().map(WarehouseId).collect()))
}

/// *List warehouses*.
pub(crate) struct WarehouseList;

impl PagedList for WarehouseList {
    type Record = Warehouse;

    fn list_name(&self) -> String {
        "the warehouses".into()
    }

    fn platform_list(&self) -> PlatformList {
        PlatformList::Warehouses
    }

    fn page_request(&self, paging: PageParams) -> PlatformRequest {
        wire::list_warehouses(paging)
    }

    fn decode_page(&self, body: &[u8]) -> Result<DecodedAnswer<Warehouse>, MalformedBody> {
        wire::decode_warehouses(body)
    }

    async fn record_page(
        &self,
        write: &mut WriteTransaction,
        answer: &AnsweredExchange,
        page: &DecodedAnswer<Warehouse>,
    ) -> Result<ListPageResult, StoreError> {
        let changed = projection::project_warehouses(write, answer.id, page).await?;
        Ok(ListPageResult { ids: page.records.iter().map(|warehouse| warehouse.id.0).collect(), changed })
    }
}
