//! Implements docs/interface.md, *Create warehouse*. The list is in lists.rs.
//!
//! With multi-warehousing every warehouse is linked to every product, so a new warehouse is linked to all
//! products with quantity 0. Two warehouses may have one name, because the interface has no rule against it.
//! A client's test can thus detect a create without a preflight.

use serde::Deserialize;
use sqlx::SqliteConnection;

use crate::sandbox::http::answer::{SandboxRefusal, list_envelope};
use crate::sandbox::http::request::{OperationCall, deserialize_object};
use crate::sandbox::platform::contact::ContactBody;

const NAME_CHARS_MAX: usize = 100;
const ACCOUNT_NUMBER_CHARS_MAX: usize = 255;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct WarehouseBody {
    name: String,
    account_number: Option<String>,
    #[serde(rename = "Type")]
    kind: Option<SentWarehouseType>,
    note: Option<String>,
    #[serde(default, deserialize_with = "deserialize_object")]
    contact_information: Option<ContactBody>,
}

#[derive(Clone, Copy, Deserialize)]
enum SentWarehouseType {
    Standard,
    Dropship,
    FulfillmentCenter,
}

impl SentWarehouseType {
    fn as_str(self) -> &'static str {
        match self {
            Self::Standard => "Standard",
            Self::Dropship => "Dropship",
            Self::FulfillmentCenter => "FulfillmentCenter",
        }
    }
}

pub(super) async fn create_warehouse(
    call: &OperationCall,
    db: &mut SqliteConnection,
) -> Result<String, SandboxRefusal> {
    let warehouse: WarehouseBody = call.object_body()?;
    check_warehouse(&warehouse)?;
    let contact_id = match &warehouse.contact_information {
        Some(contact) => Some(contact.insert_contact(db).await?),
        None => None,
    };
    let warehouse_id: i64 = sqlx::query_scalar(
        "INSERT INTO warehouse (company_id, name, account_number, type, note, contact_id)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6) RETURNING id",
    )
    .bind(call.company_id)
    .bind(&warehouse.name)
    .bind(warehouse.account_number.as_deref().unwrap_or_default())
    .bind(warehouse.kind.unwrap_or(SentWarehouseType::Standard).as_str())
    .bind(warehouse.note.as_deref().unwrap_or_default())
    .bind(contact_id)
    .fetch_one(&mut *db)
    .await?;
    if call.multi_warehousing {
        connect_to_all_products(db, call.company_id, warehouse_id).await?;
    }
    let created: String = sqlx::query_scalar("SELECT body FROM wire_warehouse WHERE id = ?1")
        .bind(warehouse_id)
        .fetch_one(db)
        .await?;
    Ok(list_envelope(&created, None))
}

async fn connect_to_all_products(
    db: &mut SqliteConnection,
    company_id: i64,
    warehouse_id: i64,
) -> Result<(), SandboxRefusal> {
    sqlx::query("INSERT INTO link (product_id, warehouse_id, sku) SELECT id, ?2, sku FROM product WHERE company_id = ?1")
        .bind(company_id)
        .bind(warehouse_id)
        .execute(db)
        .await?;
    Ok(())
}

fn check_warehouse(warehouse: &WarehouseBody) -> Result<(), SandboxRefusal> {
    if warehouse.name.trim().is_empty() || warehouse.name.chars().count() > NAME_CHARS_MAX {
        return Err(SandboxRefusal::bad_request(format!("Name must have 1 to {NAME_CHARS_MAX} characters.")));
    }
    let account_number = warehouse.account_number.as_deref().unwrap_or_default();
    if account_number.chars().count() > ACCOUNT_NUMBER_CHARS_MAX {
        return Err(SandboxRefusal::bad_request(format!(
            "AccountNumber must have at most {ACCOUNT_NUMBER_CHARS_MAX} characters."
        )));
    }
    Ok(())
}
