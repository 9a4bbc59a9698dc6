//! Kits: their components, and their creation.
//!
//! Implements docs/interface.md, *Get kit components*. The interface has no operation that creates a kit. A
//! kit has no stock of its own; its quantity follows from its components (view `cell` in wire.sql). Kits of
//! kits are refused, because the interface has components only.

use serde::Deserialize;
use serde_json::json;
use sqlx::SqliteConnection;

use super::{product_body, products};
use crate::sandbox::http::answer::{HandlerResult, SandboxRefusal, list_envelope};
use crate::sandbox::http::request::{OperationCall, WholeNumber};
use crate::sandbox::platform::sales::SaleLine;
use crate::sandbox::store::values;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct KitBody {
    pub(crate) sku: String,
    pub(crate) name: String,
    pub(crate) components: Vec<SaleLine>,
}

/// Answers *Get kit components*. An id that is no kit of the company is answered 403.
pub(crate) async fn kit_components(call: &OperationCall, db: &mut SqliteConnection) -> HandlerResult {
    let components = "SELECT (SELECT '[' || coalesce(group_concat(k.body, ',' ORDER BY k.id), '') || ']'
                                FROM wire_kit_component k WHERE k.kit_id = p.id)
                        FROM product p WHERE p.company_id = ?1 AND p.id = ?2 AND p.type = 'Kit'";
    let found = call.own_text(db, components, call.path_id(0)).await?;
    let found =
        found.ok_or_else(|| SandboxRefusal::forbidden("Invalid ProductId: it is no kit of the company."))?;
    Ok(list_envelope(&found))
}

pub(crate) async fn create_kit(
    db: &mut SqliteConnection,
    company_id: i64,
    kit: &KitBody,
) -> Result<i64, SandboxRefusal> {
    if kit.sku.trim().is_empty() || kit.name.trim().is_empty() || kit.components.is_empty() {
        return Err(SandboxRefusal::bad_request("A kit needs a Sku, a Name and at least one component."));
    }
    if let Some(issue) = product_body::duplicate_issue(db, company_id, &kit.sku, None).await? {
        return Err(SandboxRefusal::conflict(issue));
    }
    let product = json!({ "Sku": kit.sku, "Name": kit.name, "Type": "Kit" });
    let kit_id = products::insert_linked_product(db, company_id, &product).await?;
    for component in &kit.components {
        add_component(db, company_id, kit_id, component).await?;
    }
    let price = "UPDATE product SET price = (SELECT round(sum(k.quantity * c.price), 2)
                                               FROM kit_component k JOIN product c ON c.id = k.component_id
                                              WHERE k.kit_id = ?1)
                  WHERE id = ?1";
    sqlx::query(price).bind(kit_id).execute(db).await?;
    Ok(kit_id)
}

async fn add_component(
    db: &mut SqliteConnection,
    company_id: i64,
    kit_id: i64,
    component: &SaleLine,
) -> Result<(), SandboxRefusal> {
    let SaleLine { sku, quantity: WholeNumber(quantity) } = component;
    if !(1..=1_000).contains(quantity) {
        return Err(format!("The Quantity {quantity} of '{sku}' is not between 1 and 1000.").into());
    }
    let insert = "INSERT INTO kit_component (kit_id, component_id, quantity)
                  SELECT ?1, id, ?4 FROM product WHERE company_id = ?2 AND sku = ?3 AND type <> 'Kit'
                  ON CONFLICT DO NOTHING";
    let added = sqlx::query_with(insert, values!(kit_id, company_id, sku, quantity)).execute(db).await?;
    if added.rows_affected() == 0 {
        let message = "is no product of the company, is a kit itself or is named twice.";
        return Err(format!("The component '{sku}' {message}").into());
    }
    Ok(())
}
