//! Lists of docs/interface.md: *List warehouses*, *List suppliers* and *List storefronts*.
//!
//! All are paged in the order of their ids, so that a list read by pages is complete while records are added.

use sqlx::SqliteConnection;

use crate::sandbox::http::answer::HandlerResult;
use crate::sandbox::http::paging::{SandboxPage, page_of};
use crate::sandbox::http::request::OperationCall;

pub(super) const WAREHOUSES: &str = page_of!("wire_warehouse WHERE company_id = ?1" order by "id");
pub(super) const SUPPLIERS: &str = page_of!("wire_supplier WHERE company_id = ?1" order by "id");
/// Active storefronts only, as docs/interface.md states.
pub(super) const STOREFRONTS: &str =
    page_of!("wire_storefront WHERE company_id = ?1 AND is_active = 1" order by "id");

pub(super) async fn list_page(
    call: &OperationCall,
    db: &mut SqliteConnection,
    statement: &'static str,
) -> HandlerResult {
    let page = SandboxPage::from_query(&call.query_parameters()?)?;
    let (total, records) = page.records_of(statement, call.company_id).fetch_one(db).await?;
    Ok(page.page_envelope(&[], total, &records))
}
