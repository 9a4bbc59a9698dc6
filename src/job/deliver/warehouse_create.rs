//! `warehouse.create`, looked for by its name among all warehouses.

use super::look::{Looker, Seen, warehouses};
use crate::client::wire::Warehouse;
use crate::job::JobError;
use crate::outbox::WarehouseCreate;
use crate::reconcile::create::{Found, fold};

pub(super) fn subject(wish: &WarehouseCreate) -> String {
    format!("warehouse {}", fold(&wish.name))
}

pub(super) async fn look(wish: &WarehouseCreate, looker: Looker<'_>) -> Result<Seen<Vec<Found>>, JobError> {
    let seen = warehouses(looker).await?;
    let found = seen.what.iter().map(|warehouse| compared(wish, warehouse)).collect();
    Ok(seen.with(found))
}

/// Equal are the name and what else of the wish every list shows.
fn compared(wish: &WarehouseCreate, there: &Warehouse) -> Found {
    let name = there.name.clone().unwrap_or_default();
    let same = |field: &str, theirs: Option<&str>| {
        let ours = wish.fields.get(field).and_then(|value| value.as_str()).unwrap_or_default();
        ours.is_empty() || theirs.is_none_or(|theirs| theirs == ours)
    };
    let equal = name == wish.name
        && same("AccountNumber", there.account_number.as_deref())
        && same("Type", there.kind.as_deref());
    Found { id: there.id.0, name, equal }
}
