//! Check that the platform's account is the account of the mirror.
//!
//! The check compares the list of warehouses. The list is read as a probe and recorded as not applied,
//! because it may be another account's.

use crate::client::wire::{self, PageParams};
use crate::exec::call::READ_ATTEMPTS;
use crate::exec::pager::PAGES_MAX;
use crate::exec::{JobContext, JobError};
use crate::model::{Lane, RunId, WarehouseId};
use std::collections::BTreeSet;

/// Returns true if the platform's list has one of these warehouses.
///
/// # Errors
/// Fails if no known warehouse was found and the list is empty, cut or partly unreadable.
pub async fn lists_any_warehouse(
    context: &JobContext,
    run: RunId,
    known: &BTreeSet<WarehouseId>,
) -> Result<bool, JobError> {
    let (mut paging, mut listed, mut parked) = (PageParams::FIRST, 0, 0);
    loop {
        let request = wire::list_warehouses(paging);
        let (lane, decode) = (Lane::Probe, wire::decode_warehouses);
        let (answer, page) =
            context.read_decoded(READ_ATTEMPTS, run, lane, "the warehouses", &request, decode).await?;
        context.exchange_end_ignored(&answer).await?;
        if page.records.iter().any(|warehouse| known.contains(&warehouse.id)) {
            return Ok(true);
        }
        (listed, parked) = (listed + page.records.len(), parked + page.parked.len());
        if !page.records.is_empty() && page.has_more() && paging.number() < PAGES_MAX {
            paging = paging.next_page();
            continue;
        }
        if listed == 0 || parked > 0 || page.has_more() {
            return Err(JobError::Implausible(format!(
                "its list of warehouses proves nothing: {listed} of its records are readable and {parked} are not"
            )));
        }
        return Ok(false);
    }
}
