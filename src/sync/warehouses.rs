//! `warehouses`: the list of warehouses, all pages.

use crate::exec::pager;
use crate::exec::warehouse_list::Warehouses;
use crate::exec::{Context, JobError, Report};
use crate::model::RunId;

pub(crate) async fn run(context: &Context, run: RunId) -> Result<Report, JobError> {
    Ok(pager::read(context, run, &Warehouses).await?.report("warehouse(s)"))
}
