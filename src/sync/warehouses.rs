//! `warehouses`: the list of warehouses, all pages.

use crate::exec::pager;
use crate::exec::warehouse_list::WarehouseList;
use crate::exec::{JobContext, JobError, RunReport};
use crate::model::RunId;

pub(crate) async fn run(context: &JobContext, run: RunId) -> Result<RunReport, JobError> {
    Ok(pager::read_list(context, run, &WarehouseList).await?.run_report("warehouse(s)"))
}
