//! `shipments`: the items of known shipments that are not yet wholly shipped and confirmed.
//!
//! The platform does not list shipments. Only those that tallyd created or an operator adopted are known.
//! Others show only as a smaller remainder of the order's lines.

use super::entry_reads::{self, EntryOperation, EntryResult};
use crate::client::PlatformRequest;
use crate::client::wire::{self, DecodedAnswer, MalformedBody, PageParams, ShipmentItem};
use crate::exec::call::AnsweredExchange;
use crate::exec::pager::{self, ListPageResult, PagedList};
use crate::exec::{JobContext, JobError, RunReport};
use crate::model::{Operation, RunId, ShipmentId};
use crate::projection;
use crate::store::{PlatformList, StoreError, WriteTransaction};

pub(crate) async fn run(context: &JobContext, run: RunId) -> Result<RunReport, JobError> {
    let due = context.store.shipment_due(context.now()).await?;
    let summary = entry_reads::read_each(context, ShipmentReads { context, run }, due).await?;
    Ok(summary.run_report("shipment(s)", "item(s)"))
}

/// *Get shipment line items*.
struct ShipmentReads<'a> {
    context: &'a JobContext,
    run: RunId,
}

impl EntryOperation for ShipmentReads<'_> {
    type Entry = ShipmentId;
    const OPERATION: Operation = Operation::ShipmentLineItems;

    async fn read_entry(&self, shipment: ShipmentId, attempts: usize) -> Result<EntryResult, JobError> {
        Ok(pager::read_list_within(attempts, self.context, self.run, &ShipmentItemList { shipment })
            .await?
            .into())
    }
}

/// The items of one shipment.
struct ShipmentItemList {
    shipment: ShipmentId,
}

impl PagedList for ShipmentItemList {
    type Record = ShipmentItem;

    fn list_name(&self) -> String {
        format!("the items of shipment {}", self.shipment)
    }

    fn platform_list(&self) -> PlatformList {
        PlatformList::ShipmentItems(self.shipment)
    }

    fn page_request(&self, paging: PageParams) -> PlatformRequest {
        wire::shipment_line_items(self.shipment, paging)
    }

    fn decode_page(&self, body: &[u8]) -> Result<DecodedAnswer<ShipmentItem>, MalformedBody> {
        wire::decode_shipment_line_items(body)
    }

    async fn record_page(
        &self,
        write: &mut WriteTransaction,
        answer: &AnsweredExchange,
        page: &DecodedAnswer<ShipmentItem>,
    ) -> Result<ListPageResult, StoreError> {
        let changed =
            projection::project_shipment_items(write, answer.id, answer.sent_at, self.shipment, page).await?;
        Ok(ListPageResult { ids: page.records.iter().map(|item| item.id.0).collect(), changed })
    }
}
