//! `warehouse.create`, looked for by its name among all warehouses.

use super::look::{Looker, Seen, warehouses};
use crate::client::wire::Warehouse;
use crate::job::JobError;
use crate::outbox::WarehouseCreate;
use crate::reconcile::create::{Found, fold};
use serde_json::Value;

/// The type of a warehouse of which the wish says none.
const TYPE_UNSAID: &str = "Standard";
/// The texts of a contact that requests and answers name alike.
const CONTACT_TEXTS: [&str; 6] =
    ["CompanyName", "FullName", "FirstName", "LastName", "EmailAddress", "FaxNumber"];
/// The texts of its address.
const ADDRESS_TEXTS: [&str; 8] =
    ["Street1", "Street2", "Street3", "City", "State", "Country", "ZipCode", "UrbanizationCode"];

pub(super) fn subject(wish: &WarehouseCreate) -> String {
    format!("warehouse {}", fold(&wish.name))
}

pub(super) async fn look(wish: &WarehouseCreate, looker: Looker<'_>) -> Result<Seen<Vec<Found>>, JobError> {
    let seen = warehouses(looker).await?;
    let found = seen.what.iter().map(|warehouse| compared(wish, warehouse)).collect();
    Ok(seen.with(found))
}

/// Equal is a warehouse that shows what the wish says, and nothing that the wish does not say. A list may leave out type,
/// note and contact: what it leaves out is not compared.
fn compared(wish: &WarehouseCreate, there: &Warehouse) -> Found {
    let name = there.name.clone().unwrap_or_default();
    let ours = |field: &str| wish.fields.get(field).and_then(Value::as_str).unwrap_or_default().trim();
    let theirs = |text: &Option<String>| text.as_deref().unwrap_or_default().trim().to_owned();
    let kind = if ours("Type").is_empty() { TYPE_UNSAID } else { ours("Type") };
    let equal = name == wish.name
        && theirs(&there.account_number) == ours("AccountNumber")
        && there.kind.as_deref().is_none_or(|theirs| theirs == kind)
        && there.note.as_deref().is_none_or(|theirs| theirs.trim() == ours("Note"))
        && says_no_more(there.contact.as_deref(), wish.fields.get("ContactInformation"));
    Found { id: there.id.0, name, equal }
}

/// True if each text of a contact is ours. Ids are the platform's own, and it tells telephone numbers by other names.
fn says_no_more(theirs: Option<&str>, ours: Option<&Value>) -> bool {
    let theirs: Value = theirs.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let is_ours = |theirs: &Value, ours: Option<&Value>, names: &[&str]| {
        let text =
            |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().trim().to_owned();
        names.iter().all(|name| {
            let shown = text(theirs.get(*name));
            shown.is_empty() || shown == text(ours.and_then(|ours| ours.get(*name)))
        })
    };
    let address = theirs.get("Address").cloned().unwrap_or_default();
    is_ours(&theirs, ours, &CONTACT_TEXTS)
        && is_ours(&address, ours.and_then(|ours| ours.get("Address")), &ADDRESS_TEXTS)
}
