//! `warehouses`: the list of warehouses, all pages, compared with the total the service names.
//!
//! Only a list that was read to its end marks others as missing; an empty one where warehouses were known is a failure.

use super::{Context, JobError, Report, record};
use crate::client::wire::{self, Paging};
use crate::model::{Lane, RunId, WarehouseId};
use crate::store::Durability;

/// No account has so many pages of warehouses; a service that pages for ever is stopped here.
const PAGES_MAX: u32 = 500;

pub(super) async fn run(context: &Context, run: RunId) -> Result<Report, JobError> {
    let known = context.store.warehouse_ids().await?;
    let (mut listed, mut changed, mut total) = (Vec::<WarehouseId>::new(), 0, None);
    let mut paging = Paging::FIRST;
    while paging.number() <= PAGES_MAX {
        let answer = context.read(run, Lane::Poll, "the warehouses", &wire::list_warehouses(paging)).await?;
        let page = context.decoded(&answer, wire::decode_warehouses(&answer.reply.body)).await?;
        let mut write = context.store.begin(Durability::Normal).await?;
        context.exchange_end(&mut write, &answer).await?;
        let (ids, moved) = record::warehouses(&mut write, answer.id, &page).await?;
        listed.extend(&ids);
        changed += moved;
        total = page.page.and_then(|page| page.total_entries).or(total);
        let is_last = !page.has_more() || (ids.is_empty() && page.parked.is_empty());
        let is_whole = is_last && page.parked.is_empty() && total.is_none_or(|total| total == count(&listed));
        if is_whole && !listed.is_empty() {
            changed += write.mirror_warehouses_complete(&listed, answer.sent_at).await?;
        }
        write.commit().await?;
        if is_last {
            break;
        }
        paging = paging.next();
    }
    if listed.is_empty() && !known.is_empty() {
        let why =
            format!("the service lists no warehouse, but {} were known; nothing was changed", known.len());
        return Err(JobError::Implausible(why));
    }
    let summary = format!("{} warehouse(s) listed, {changed} new or changed", listed.len());
    match total {
        Some(total) if total != count(&listed) => Ok(Report::partial(format!(
            "{summary}; the service names {total}: the list moved while it was read"
        ))),
        _ => Ok(Report::ok(summary)),
    }
}

fn count(listed: &[WarehouseId]) -> i64 {
    i64::try_from(listed.len()).unwrap_or(i64::MAX)
}
