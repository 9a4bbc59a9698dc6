//! Whether the service's company is the one the mirror is of: the list of warehouses tells.
//!
//! A probe: what it reads is no fact, because it may be another company's.

use super::{Context, JobError};
use crate::client::wire::{self, Paging};
use crate::model::{Lane, RunId, WarehouseId};
use std::collections::BTreeSet;

/// Whether any of these warehouses is among those the service lists now.
pub async fn lists_any(
    context: &Context,
    run: RunId,
    known: &BTreeSet<WarehouseId>,
) -> Result<bool, JobError> {
    let mut paging = Paging::FIRST;
    loop {
        let request = wire::list_warehouses(paging);
        let answer = context.read(run, Lane::Probe, "the warehouses", &request).await?;
        let page = context.decoded(&answer, wire::decode_warehouses(&answer.reply.body)).await?;
        context.end_alone(&answer).await?;
        if page.records.iter().any(|warehouse| known.contains(&warehouse.id)) {
            return Ok(true);
        }
        if page.records.is_empty() || !page.has_more() {
            return Ok(false);
        }
        paging = paging.next();
    }
}
