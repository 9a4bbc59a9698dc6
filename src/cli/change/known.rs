//! Names in a change that tallyd does not know: probably a slip of the keyboard.
//!
//! An unknown name is refused with the nearest known one. It may also be one that no job has read yet, so an option
//! queues the change all the same. Where nothing of a sort is known, as before the first read, nothing is refused. The
//! SKU of a product's update is not checked, because the platform's id names the product and the SKU may be its new one.

use crate::cli::CommandFailure;
use crate::cli::context::CliContext;
use crate::explain::{NearestName, nearest_skus};
use crate::model::{OrderId, Sku, StockLevel, case_key, look_alike_key};
use crate::outbox::ChangeBody;
use crate::store::{Store, StoreError};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Number of unknown names from which on one sentence stands for all. No nearest one is searched for more SKUs, because
/// each search passes all SKUs.
const MANY_NAMES: usize = 10;

fn shown((id, name): &(i64, String)) -> String {
    format!("{id} ({name})")
}

pub(in crate::cli) struct WarehouseNames(Vec<(i64, String)>);

impl WarehouseNames {
    /// Reads the warehouses; none if there is no database yet.
    pub(in crate::cli) async fn load(context: &CliContext) -> Result<Self, CommandFailure> {
        match Store::open_beside(context.readable_config()?.database.location()?).await {
            Err(StoreError::Missing { .. }) => Ok(Self(Vec::new())),
            store => Ok(Self::read(&store?).await?),
        }
    }

    pub(in crate::cli) async fn read(store: &Store) -> Result<Self, StoreError> {
        Ok(Self(store.warehouse_names().await?))
    }

    /// Returns the id of a warehouse that is named by its number or by its name, in any case.
    pub(in crate::cli) fn id_of(&self, text: &str) -> Result<i64, String> {
        let text = text.trim();
        if let Some(id) = text.strip_prefix("id:").and_then(|id| id.parse().ok()) {
            return Ok(id);
        }
        let (key, number) = (case_key(text), text.parse().ok());
        let is_meant = |(id, name): &&(i64, String)| Some(*id) == number || case_key(name) == key;
        let found: Vec<&(i64, String)> = self.0.iter().filter(is_meant).collect();
        match (found.as_slice(), number) {
            ([(id, _)], _) => Ok(*id),
            ([], Some(id)) => Ok(id),
            ([], None) if self.0.is_empty() => Err(format!(
                "no warehouse is known here by its name `{text}`, because none was read yet; run `tallyd job run \
                 warehouses`, or write its number"
            )),
            ([], None) => Err(unknown_text("warehouse", text, &self.hint(text))),
            (several, _) => {
                let all = |form: fn(&(i64, String)) -> String, between: &str| {
                    several.iter().map(|row| form(row)).collect::<Vec<_>>().join(between)
                };
                Err(format!(
                    "`{text}` is the number or the name of several warehouses: {}; write {}",
                    all(shown, ", "),
                    all(|(id, _)| format!("id:{id}"), " or ")
                ))
            }
        }
    }

    fn problem_of(&self, id: i64) -> Option<String> {
        let is_known = self.0.is_empty() || self.0.iter().any(|(known, _)| *known == id);
        let text = id.to_string();
        (!is_known).then(|| unknown_text("warehouse", &text, &self.hint(&text)))
    }

    /// Returns the warehouse whose number or name is nearest, as the end of a sentence.
    fn hint(&self, text: &str) -> String {
        let mut search = NearestName::new(text);
        for row in &self.0 {
            search.compare(&row.0.to_string(), &shown(row));
            search.compare(&look_alike_key(&row.1), &shown(row));
        }
        search.hint()
    }
}

fn unknown_text(sort: &str, name: &str, hint: &str) -> String {
    format!("no {sort} `{name}` is known here{hint}")
}

/// Returns one sentence for many lines: the names of a first file are not wrong, but not known yet.
pub(super) fn join_many(lines: Vec<String>) -> Vec<String> {
    let first = match lines.first() {
        Some(first) if lines.len() >= MANY_NAMES => first,
        _ => return lines,
    };
    vec![format!(
        "{} lines name what is not known here; {first}. For SKUs that the platform has: tallyd sku import FILE, and \
         import this file once tallyd has read them",
        lines.len()
    )]
}

/// Returns a sentence for each unknown name, with the index of its change.
pub(super) async fn unknown_names(
    store: &Store,
    changes: &[ChangeBody],
) -> Result<Vec<(usize, String)>, StoreError> {
    let warehouses = WarehouseNames::read(store).await?;
    let skus = unknown_skus(store, changes).await?;
    let of_level = |StockLevel { sku, warehouse_id }: &StockLevel| {
        let unknown = skus.get(sku).map(|hint| unknown_text("SKU", sku.as_str(), hint));
        [unknown, warehouses.problem_of(warehouse_id.0)]
    };
    let mut problems = Vec::new();
    for (index, change) in changes.iter().enumerate() {
        let of_order = match change {
            ChangeBody::ShipmentCreate(shipment) => unknown_order(store, shipment.order_id).await?,
            _ => None,
        };
        let found = change.stock_level().map(of_level).into_iter().flatten().flatten().chain(of_order);
        problems.extend(found.map(|problem| (index, problem)));
    }
    Ok(problems)
}

/// Returns a sentence for each change of a kit's quantity, with its index. The platform refuses them.
pub(super) async fn kits(store: &Store, changes: &[ChangeBody]) -> Result<Vec<(usize, String)>, StoreError> {
    let skus: Vec<&Sku> = changes.iter().filter_map(|change| Some(&change.stock_level()?.sku)).collect();
    let kits = store.kit_keys(&skus).await?;
    let of_kit = |(index, change): (usize, &ChangeBody)| {
        let sku = &change.stock_level().filter(|level| kits.contains(&level.sku.case_key()))?.sku;
        Some((index, format!("{sku} is a kit: count its components instead (`tallyd product components`)")))
    };
    Ok(changes.iter().enumerate().filter_map(of_kit).collect())
}

/// Returns a warning for each warehouse that is named in a change and switched off at the platform.
pub(super) async fn inactive_warehouses(
    store: &Store,
    changes: &[ChangeBody],
) -> Result<Vec<String>, StoreError> {
    let named: BTreeSet<i64> =
        changes.iter().filter_map(|change| Some(change.stock_level()?.warehouse_id.0)).collect();
    let off = store.warehouse_list().await?.into_iter().filter(|row| row["is_active"] == false);
    let named = off.filter(|row| row["id"].as_i64().is_some_and(|id| named.contains(&id)));
    let warning = |row: Value| {
        let (id, name) = (&row["id"], row["name"].as_str().unwrap_or_default());
        format!("warning: warehouse {id} ({name}) is switched off at the platform")
    };
    Ok(named.map(warning).collect())
}

/// Returns the unknown SKUs, each with its hint.
async fn unknown_skus(store: &Store, changes: &[ChangeBody]) -> Result<BTreeMap<Sku, String>, StoreError> {
    let named: BTreeSet<&Sku> =
        changes.iter().filter_map(|change| Some(&change.stock_level()?.sku)).collect();
    let mut skus: Vec<&Sku> = named.into_iter().collect();
    let Some(mut known) = store.known_sku_keys(&skus).await? else { return Ok(BTreeMap::new()) };
    // A SKU that a change creates is on its way.
    let creates = store.outbox_open_product_creates().await?;
    known.extend(creates.iter().filter_map(|row| Some(row.content.body.as_ref().ok()?.sku()?.case_key())));
    skus.retain(|sku| !known.contains(&sku.case_key()));
    if skus.is_empty() {
        return Ok(BTreeMap::new());
    }
    let searched = skus.iter().take(MANY_NAMES).map(|sku| sku.as_str());
    let hints = nearest_skus(store, searched).await?.into_iter().chain(std::iter::repeat(String::new()));
    Ok(skus.into_iter().cloned().zip(hints).collect())
}

async fn unknown_order(store: &Store, order: OrderId) -> Result<Option<String>, StoreError> {
    let known = store.known_orders().await?;
    if known.is_empty() || known.contains(&order) {
        return Ok(None);
    }
    let text = order.to_string();
    let mut search = NearestName::new(&text);
    known.iter().map(OrderId::to_string).for_each(|known| search.compare(&known, &known));
    Ok(Some(unknown_text("order", &text, &search.hint())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> WarehouseNames {
        let names = [(5201, "Main"), (5202, "Straße"), (5203, "Attic"), (5204, "ATTIC")];
        WarehouseNames(names.map(|(id, name)| (id, name.to_owned())).to_vec())
    }

    #[test]
    fn a_warehouse_has_a_number_and_a_name_in_any_case() {
        for (text, id) in [("5203", 5203), ("9", 9), ("main", 5201), (" MAIN ", 5201), ("STRASSE", 5202)] {
            assert_eq!(names().id_of(text), Ok(id), "{text}");
        }
        let several = names().id_of("attic").unwrap_err();
        assert!(
            several.ends_with("warehouses: 5203 (Attic), 5204 (ATTIC); write id:5203 or id:5204"),
            "{several}"
        );
        let unknown = names().id_of("Mian").unwrap_err();
        assert_eq!(unknown, "no warehouse `Mian` is known here; the nearest is `5201 (Main)`");
        assert_eq!(names().id_of("Roof").unwrap_err(), "no warehouse `Roof` is known here");
        let WarehouseNames(mut rows) = names();
        rows.extend([(5205, "5201".to_owned()), (5206, "77".to_owned())]);
        let numbered = WarehouseNames(rows);
        let both = numbered.id_of("5201").unwrap_err();
        assert!(both.ends_with(": 5201 (Main), 5205 (5201); write id:5201 or id:5205"), "{both}");
        for (text, id) in [("id:5201", 5201), ("id:5205", 5205), ("5205", 5205), ("77", 5206), ("78", 78)] {
            assert_eq!(numbered.id_of(text), Ok(id), "{text}");
        }
        assert!(WarehouseNames(Vec::new()).id_of("Main").unwrap_err().contains("job run warehouses"));
    }

    #[test]
    fn an_unknown_number_names_the_nearest() {
        assert_eq!(names().problem_of(5202), None);
        let problem = names().problem_of(5302).unwrap();
        assert_eq!(problem, "no warehouse `5302` is known here; the nearest is `5202 (Straße)`");
        assert_eq!(WarehouseNames(Vec::new()).problem_of(5302), None, "nothing was read yet");
    }
}
