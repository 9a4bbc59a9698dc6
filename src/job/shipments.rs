//! `shipments`: the items of known shipments that are not yet wholly shipped and confirmed.
//!
//! The service lists no shipments. Those that tallyd made or a person adopted are known; others are seen only in that
//! less is left of the order's lines.

use super::call::Answer;
use super::pages::{self, Listing, Recorded};
use super::tally::Tally;
use super::{Context, JobError, Report, record};
use crate::client::Request;
use crate::client::wire::{self, Decoded, Malformed, Paging, ShipmentItem};
use crate::model::{RunId, ShipmentId};
use crate::store::{ListOf, StoreError, Write};

pub(super) async fn run(context: &Context, run: RunId) -> Result<Report, JobError> {
    let mut tally = Tally::default();
    for shipment in context.store.shipment_due(context.now()).await? {
        let read = pages::read(context, run, &Items { shipment }).await;
        if let Some(oddity) = read.as_ref().ok().and_then(pages::Progress::oddity) {
            tally.note(format!("shipment {shipment}: {oddity}"));
        }
        tally.count(format_args!("shipment {shipment}"), read.map(|progress| progress.changed))?;
    }
    Ok(tally.report("shipment(s)", "item(s)"))
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
        let changed = record::shipment_items(write, answer.id, answer.sent_at, self.shipment, page).await?;
        Ok(Recorded { ids: page.records.iter().map(|item| item.id.0).collect(), changed })
    }
}
