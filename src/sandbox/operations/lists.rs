//! Lists of docs/interface.md: *List warehouses*, *List suppliers* and *List storefronts*.
//!
//! All are paged in the order of their ids, so that a list read by pages is complete while records are added.

use sqlx::SqliteConnection;

use crate::sandbox::http::answer::Refusal;
use crate::sandbox::http::paging::{Page, page_of};
use crate::sandbox::http::request::Call;

const WAREHOUSES: &str = page_of!("wire_warehouse" where "company_id = ?1" order by "id");
const SUPPLIERS: &str = page_of!("wire_supplier" where "company_id = ?1" order by "id");
/// Active storefronts only, as docs/interface.md states.
const STOREFRONTS: &str = page_of!("wire_storefront" where "company_id = ?1 AND is_active = 1" order by "id");

/// Answers *List warehouses*.
pub(super) async fn warehouses(call: &Call, db: &mut SqliteConnection) -> Result<String, Refusal> {
    list(call, db, WAREHOUSES).await
}

/// Answers *List suppliers*.
pub(super) async fn suppliers(call: &Call, db: &mut SqliteConnection) -> Result<String, Refusal> {
    list(call, db, SUPPLIERS).await
}

/// Answers *List storefronts*.
pub(super) async fn storefronts(call: &Call, db: &mut SqliteConnection) -> Result<String, Refusal> {
    list(call, db, STOREFRONTS).await
}

async fn list(call: &Call, db: &mut SqliteConnection, statement: &'static str) -> Result<String, Refusal> {
    let page = Page::from_query(&call.query()?)?;
    let (total, records): (i64, String) = sqlx::query_as(statement)
        .bind(call.company_id)
        .bind(page.size)
        .bind(page.offset())
        .fetch_one(db)
        .await?;
    Ok(page.envelope(total, &records))
}
