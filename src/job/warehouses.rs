//! `warehouses`: the list of warehouses, all pages.

use super::call::Answer;
use super::pages::{self, Listing, Recorded};
use super::{Context, JobError, Report, record};
use crate::client::Request;
use crate::client::wire::{self, Decoded, Malformed, Paging, Warehouse};
use crate::model::{RunId, WarehouseId};
use crate::store::{ListOf, StoreError, Write};
use std::collections::BTreeSet;

pub(super) async fn run(context: &Context, run: RunId) -> Result<Report, JobError> {
    Ok(pages::read(context, run, &Warehouses).await?.report("warehouse(s)"))
}

/// Reads the list. Returns its warehouses if it came whole and every record is readable.
pub(super) async fn listed(context: &Context, run: RunId) -> Result<Option<BTreeSet<WarehouseId>>, JobError> {
    let listed = pages::read(context, run, &Warehouses).await?.whole();
    Ok(listed.map(|ids| ids.into_iter().map(WarehouseId).collect()))
}

struct Warehouses;

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
        let changed = record::warehouses(write, answer.id, page).await?;
        Ok(Recorded { ids: page.records.iter().map(|warehouse| warehouse.id.0).collect(), changed })
    }
}
