//! `shipments`: the items of known shipments that are not yet wholly shipped and confirmed.
//!
//! The platform does not list shipments. Only those that tallyd created or an operator adopted are known.
//! Others show only as a smaller remainder of the order's lines.

use super::entry_reads::{self, Asks, Came};
use crate::client::Request;
use crate::client::wire::{self, Decoded, Malformed, Paging, ShipmentItem};
use crate::exec::call::Answer;
use crate::exec::pager::{self, Listing, Recorded};
use crate::exec::{Context, JobError, Report};
use crate::model::{Operation, RunId, ShipmentId};
use crate::projection;
use crate::store::{ListOf, StoreError, Write};

pub(crate) async fn run(context: &Context, run: RunId) -> Result<Report, JobError> {
    let due = context.store.shipment_due(context.now()).await?;
    let tally = entry_reads::each(context, Shipments { context, run }, due).await?;
    Ok(tally.report("shipment(s)", "item(s)"))
}

/// *Get shipment line items*.
struct Shipments<'a> {
    context: &'a Context,
    run: RunId,
}

impl Asks for Shipments<'_> {
    type Entry = ShipmentId;
    const OPERATION: Operation = Operation::ShipmentLineItems;

    async fn ask(&self, shipment: ShipmentId, attempts: usize) -> Result<Came, JobError> {
        Ok(pager::read_within(attempts, self.context, self.run, &Items { shipment }).await?.into())
    }
}

/// The items of one shipment.
struct Items {
    shipment: ShipmentId,
}

impl Listing for Items {
    type Record = ShipmentItem;

    fn name(&self) -> String {
        format!("the items of shipment {}", self.shipment)
    }

    fn list(&self) -> ListOf {
        ListOf::ShipmentItems(self.shipment)
    }

    fn request(&self, paging: Paging) -> Request {
        wire::shipment_line_items(self.shipment, paging)
    }

    fn decode(&self, body: &[u8]) -> Result<Decoded<ShipmentItem>, Malformed> {
        wire::decode_shipment_line_items(body)
    }

    async fn record(
        &self,
        write: &mut Write,
        answer: &Answer,
        page: &Decoded<ShipmentItem>,
    ) -> Result<Recorded, StoreError> {
        let changed =
            projection::shipment_items(write, answer.id, answer.sent_at, self.shipment, page).await?;
        Ok(Recorded { ids: page.records.iter().map(|item| item.id.0).collect(), changed })
    }
}
