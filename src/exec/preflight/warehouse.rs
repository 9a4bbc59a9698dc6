//! `warehouse.create`, with a preflight by name among all warehouses.

use super::{Looker, Seen, warehouses};
use crate::client::wire::Warehouse;
use crate::exec::JobError;
use crate::outbox::WarehouseCreate;
use crate::reconcile::create::{Found, fold};
use serde_json::Value;

/// Type of a warehouse if the change names none.
const TYPE_UNSAID: &str = "Standard";
/// Text fields of a contact that have the same name in requests and answers.
const CONTACT_TEXTS: [&str; 6] =
    ["CompanyName", "FullName", "FirstName", "LastName", "EmailAddress", "FaxNumber"];
/// Text fields of an address.
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

/// Compares a warehouse with the change. They are equal if every field shown agrees with the change. A list
/// may leave out type, note and contact; an absent field is not compared.
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

/// Returns true if each text shown in a contact is in the change. Ids and telephone numbers are not compared:
/// ids are the platform's own, and telephone numbers have other names in answers.
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
