//! Implements docs/interface.md, *Create warehouse*, and the lists of warehouses, suppliers and storefronts.
//!
//! The lists are paged in the order of their ids, so that a list read by pages is complete while records are
//! added.
//!
//! With multi-warehousing every warehouse is linked to every product, so a new warehouse is linked to all
//! products with quantity 0. Two warehouses may have one name, because the interface has no rule against it.
//! A client's test can thus detect a create without a preflight.

use serde::{Deserialize, Serialize};
use serde_json::json;
use sqlx::SqliteConnection;

use crate::sandbox::http::answer::{HandlerResult, list_envelope};
use crate::sandbox::http::paging::{SandboxPage, page_of};
use crate::sandbox::http::request::{OperationCall, StrictObject, text_of_id};
use crate::sandbox::platform::contact::{ContactBody, insert_contact};
use crate::sandbox::store::values;

pub(super) const WAREHOUSES: &str = page_of!("wire_warehouse WHERE company_id = ?1" order by "id");
pub(super) const SUPPLIERS: &str = page_of!("wire_supplier WHERE company_id = ?1" order by "id");
/// Active storefronts only, as docs/interface.md states.
pub(super) const STOREFRONTS: &str =
    page_of!("wire_storefront WHERE company_id = ?1 AND is_active = 1" order by "id");

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct WarehouseBody {
    name: String,
    account_number: Option<String>,
    #[serde(rename = "Type")]
    kind: Option<SentWarehouseType>,
    note: Option<String>,
    contact_information: Option<StrictObject<ContactBody>>,
}

#[derive(Deserialize, Serialize)]
enum SentWarehouseType {
    Standard,
    Dropship,
    FulfillmentCenter,
}

pub(super) async fn create_warehouse(call: &OperationCall, db: &mut SqliteConnection) -> HandlerResult {
    let warehouse: WarehouseBody = call.object_body()?;
    check_warehouse(&warehouse)?;
    let contact_id = match &warehouse.contact_information {
        Some(contact) => Some(insert_contact(db, &json!(contact)).await?),
        None => None,
    };
    let insert = "INSERT INTO warehouse (company_id, name, account_number, type, note, contact_id)
                  VALUES (?1, ?2, coalesce(?3, ''), coalesce(?4, 'Standard'), coalesce(?5, ''), ?6) RETURNING id";
    let WarehouseBody { name, account_number, kind, note, .. } = &warehouse;
    let warehouse = values!(call.company_id, name, account_number, json!(kind).as_str(), note, contact_id);
    let warehouse_id: i64 = sqlx::query_scalar_with(insert, warehouse).fetch_one(&mut *db).await?;
    if call.multi_warehousing {
        let connect = "INSERT INTO link (product_id, warehouse_id, sku)
                       SELECT id, ?2, sku FROM product WHERE company_id = ?1";
        sqlx::query(connect).bind(call.company_id).bind(warehouse_id).execute(&mut *db).await?;
    }
    Ok(list_envelope(&text_of_id(db, "SELECT body FROM wire_warehouse WHERE id = ?1", warehouse_id).await?))
}

pub(super) async fn list_page(
    call: &OperationCall,
    db: &mut SqliteConnection,
    statement: &'static str,
) -> HandlerResult {
    let page = SandboxPage::from_query(&call.query_parameters()?)?;
    let (total, records) = page.records_of(statement, call.company_id).fetch_one(db).await?;
    Ok(page.page_envelope(&[], total, &records))
}

/// Checks the lengths of docs/interface.md, *Limits*.
fn check_warehouse(warehouse: &WarehouseBody) -> Result<(), String> {
    if warehouse.name.trim().is_empty() || warehouse.name.chars().count() > 100 {
        return Err("Name must have 1 to 100 characters.".into());
    }
    if warehouse.account_number.as_ref().is_some_and(|number| number.chars().count() > 255) {
        return Err("AccountNumber must have at most 255 characters.".into());
    }
    Ok(())
}
