//! `warehouse.create`, with a preflight by name among all warehouses.

use super::{ReadOrigin, TimedRead, read_warehouses};
use crate::client::wire::Warehouse;
use crate::exec::JobError;
use crate::outbox::WarehouseCreate;
use crate::reconcile::creates::FoundRecord;
use serde_json::Value;

/// Type of a warehouse if the change names none.
const DEFAULT_TYPE: &str = "Standard";
/// Text fields of a contact that have the same name in requests and answers.
const CONTACT_TEXTS: [&str; 6] =
    ["CompanyName", "FullName", "FirstName", "LastName", "EmailAddress", "FaxNumber"];
const ADDRESS_TEXTS: [&str; 8] =
    ["Street1", "Street2", "Street3", "City", "State", "Country", "ZipCode", "UrbanizationCode"];

pub(super) async fn preflight_warehouse(
    change: &WarehouseCreate,
    origin: ReadOrigin<'_>,
) -> Result<TimedRead<Vec<FoundRecord>>, JobError> {
    let seen = read_warehouses(origin).await?;
    Ok(seen.map(|found| found.iter().map(|warehouse| compare_warehouse(change, warehouse)).collect()))
}

/// Compares a warehouse with the change. They are equal if every field shown agrees with the change. A list
/// may leave out type, note and contact; an absent field is not compared.
fn compare_warehouse(change: &WarehouseCreate, there: &Warehouse) -> FoundRecord {
    let name = there.name.clone().unwrap_or_default();
    let wanted = |field: &str| change.fields.get(field).and_then(Value::as_str).unwrap_or_default().trim();
    let shown = |text: &Option<String>| text.as_deref().unwrap_or_default().trim().to_owned();
    let kind = if wanted("Type").is_empty() { DEFAULT_TYPE } else { wanted("Type") };
    let equal = name == change.name
        && shown(&there.account_number) == wanted("AccountNumber")
        && there.kind.as_deref().is_none_or(|shown| shown == kind)
        && there.note.as_deref().is_none_or(|shown| shown.trim() == wanted("Note"))
        && is_contact_covered(there.contact.as_deref(), change.fields.get("ContactInformation"));
    FoundRecord { id: there.id.0, name, equal }
}

/// Returns true if each text shown in a contact is in the change. Ids and telephone numbers are not compared:
/// ids are the platform's own, and telephone numbers have other names in answers.
fn is_contact_covered(shown: Option<&str>, wanted: Option<&Value>) -> bool {
    let shown: Value = shown.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let is_covered = |shown: Option<&Value>, wanted: Option<&Value>, names: &[&str]| {
        let text = |record: Option<&Value>, name: &str| {
            let value = record.and_then(|record| record.get(name)).and_then(Value::as_str);
            value.unwrap_or_default().trim().to_owned()
        };
        names.iter().all(|name| text(shown, name).is_empty() || text(shown, name) == text(wanted, name))
    };
    is_covered(Some(&shown), wanted, &CONTACT_TEXTS)
        && is_covered(shown.get("Address"), wanted.and_then(|wanted| wanted.get("Address")), &ADDRESS_TEXTS)
}
