//! `warehouse.create`, with a preflight by name among all warehouses.

use super::{ReadOrigin, TimedRead, read_warehouses};
use crate::client::wire::Warehouse;
use crate::exec::JobError;
use crate::model::case_key;
use crate::outbox::WarehouseCreate;
use crate::reconcile::creates::FoundRecord;
use serde_json::Value;

/// Type of a warehouse if the change names none.
const DEFAULT_TYPE: &str = "Standard";
/// Text fields of a contact that have the same name in requests and answers.
const CONTACT_TEXTS: [&str; 6] =
    ["CompanyName", "FullName", "FirstName", "LastName", "EmailAddress", "FaxNumber"];
/// Text fields of an address.
const ADDRESS_TEXTS: [&str; 8] =
    ["Street1", "Street2", "Street3", "City", "State", "Country", "ZipCode", "UrbanizationCode"];

pub(super) fn warehouse_key(change: &WarehouseCreate) -> String {
    format!("warehouse {}", case_key(&change.name))
}

pub(super) async fn preflight_warehouse(
    change: &WarehouseCreate,
    origin: ReadOrigin<'_>,
) -> Result<TimedRead<Vec<FoundRecord>>, JobError> {
    let seen = read_warehouses(origin).await?;
    let found = seen.records.iter().map(|warehouse| compare_warehouse(change, warehouse)).collect();
    Ok(seen.with_records(found))
}

/// Compares a warehouse with the change. They are equal if every field shown agrees with the change. A list
/// may leave out type, note and contact; an absent field is not compared.
fn compare_warehouse(change: &WarehouseCreate, there: &Warehouse) -> FoundRecord {
    let name = there.name.clone().unwrap_or_default();
    let ours = |field: &str| change.fields.get(field).and_then(Value::as_str).unwrap_or_default().trim();
    let theirs = |text: &Option<String>| text.as_deref().unwrap_or_default().trim().to_owned();
    let kind = if ours("Type").is_empty() { DEFAULT_TYPE } else { ours("Type") };
    let equal = name == change.name
        && theirs(&there.account_number) == ours("AccountNumber")
        && there.kind.as_deref().is_none_or(|theirs| theirs == kind)
        && there.note.as_deref().is_none_or(|theirs| theirs.trim() == ours("Note"))
        && is_contact_covered(there.contact.as_deref(), change.fields.get("ContactInformation"));
    FoundRecord { id: there.id.0, name, equal }
}

/// Returns true if each text shown in a contact is in the change. Ids and telephone numbers are not compared:
/// ids are the platform's own, and telephone numbers have other names in answers.
fn is_contact_covered(theirs: Option<&str>, ours: Option<&Value>) -> bool {
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
