//! Lists of docs/interface.md: *List warehouses*, *List suppliers* and *List storefronts*.
//!
//! All are paged in the order of their ids, so that a list read by pages is complete while records are added.

use sqlx::SqliteConnection;

use crate::sandbox::http::answer::SandboxRefusal;
use crate::sandbox::http::paging::{SandboxPage, page_of};
use crate::sandbox::http::request::OperationCall;

const WAREHOUSES: &str = page_of!("wire_warehouse" where "company_id = ?1" order by "id");
const SUPPLIERS: &str = page_of!("wire_supplier" where "company_id = ?1" order by "id");
/// Active storefronts only, as docs/interface.md states.
const STOREFRONTS: &str = page_of!("wire_storefront" where "company_id = ?1 AND is_active = 1" order by "id");

/// Answers *List warehouses*.
pub(super) async fn list_warehouses(
    call: &OperationCall,
    db: &mut SqliteConnection,
) -> Result<String, SandboxRefusal> {
    list_page(call, db, WAREHOUSES).await
}

/// Answers *List suppliers*.
pub(super) async fn list_suppliers(
    call: &OperationCall,
    db: &mut SqliteConnection,
) -> Result<String, SandboxRefusal> {
    list_page(call, db, SUPPLIERS).await
}

/// Answers *List storefronts*.
pub(super) async fn list_storefronts(
    call: &OperationCall,
    db: &mut SqliteConnection,
) -> Result<String, SandboxRefusal> {
    list_page(call, db, STOREFRONTS).await
}

async fn list_page(
    call: &OperationCall,
    db: &mut SqliteConnection,
    statement: &'static str,
) -> Result<String, SandboxRefusal> {
    let page = SandboxPage::from_query(&call.query_parameters()?)?;
    let (total, records): (i64, String) = sqlx::query_as(statement)
        .bind(call.company_id)
        .bind(page.size)
        .bind(page.row_offset())
        .fetch_one(db)
        .await?;
    Ok(page.page_envelope(total, &records))
}
