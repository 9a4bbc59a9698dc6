//! List of warehouses, for the poll and the push.

use super::call::Answer;
use super::pager::{self, Listing, Recorded};
use super::{Context, JobError};
use crate::client::Request;
use crate::client::wire::{self, Decoded, Malformed, Paging, Warehouse};
use crate::model::{RunId, WarehouseId};
use crate::projection;
use crate::store::{ListOf, StoreError, Write};
use std::collections::BTreeSet;

/// Reads the list. Returns its warehouses if it came whole and every record is readable.
pub(crate) async fn listed(context: &Context, run: RunId) -> Result<Option<BTreeSet<WarehouseId>>, JobError> {
    let listed = pager::read(context, run, &Warehouses).await?.whole();
    Ok(listed.map(|ids| ids.into_iter().map(WarehouseId).collect()))
}

/// *List warehouses*.
pub(crate) struct Warehouses;

impl Listing for Warehouses {
    type Record = Warehouse;

    fn name(&self) -> String {
        "the warehouses".into()
    }

    fn list(&self) -> ListOf {
        ListOf::Warehouses
    }

    fn request(&self, paging: Paging) -> Request {
        wire::list_warehouses(paging)
    }

    fn decode(&self, body: &[u8]) -> Result<Decoded<Warehouse>, Malformed> {
        wire::decode_warehouses(body)
    }

    async fn record(
        &self,
        write: &mut Write,
        answer: &Answer,
        page: &Decoded<Warehouse>,
    ) -> Result<Recorded, StoreError> {
        let changed = projection::warehouses(write, answer.id, page).await?;
        Ok(Recorded { ids: page.records.iter().map(|warehouse| warehouse.id.0).collect(), changed })
    }
}
