//! `product.create`, with a preflight by SKU.

use super::{LookupProduct, ReadOrigin, TimedRead, read_products};
use crate::exec::JobError;
use crate::model::{Sku, json_integer};
use crate::outbox::ProductCreate;
use crate::reconcile::creates::FoundRecord;
use serde_json::Value;

/// Reads the products under the SKU. Products of the mirror with the same case key count too. The lookup may
/// be exact where the platform's rule for a new SKU is not.
///
/// The SKUs in `known` are known to exist. `None` if the answer lacks one of them and also the SKU.
pub(super) async fn preflight_product(
    change: &ProductCreate,
    known: &[Sku],
    origin: ReadOrigin<'_>,
) -> Result<TimedRead<Option<Vec<FoundRecord>>>, JobError> {
    let skus = [std::slice::from_ref(&change.sku), known].concat();
    let seen = read_products(origin, &skus).await?;
    let rest_came = known.iter().all(|sku| seen.records.iter().any(|product| product.sku == *sku));
    let is_there = seen.records.iter().any(|product| product.sku.case_key() == change.sku.case_key());
    let mut found: Vec<FoundRecord> =
        seen.records.iter().map(|product| compare_product(change, product)).collect();
    for (id, name) in origin.context.store.product_case_twins(&change.sku.case_key()).await? {
        if !found.iter().any(|found| found.id == id) {
            found.push(FoundRecord { id, name, equal: false });
        }
    }
    Ok(seen.with_records((rest_came || is_there).then_some(found)))
}

/// Compares a product with the change. They are equal if SKU, UPC and units agree. A kit's units are not
/// compared, because they follow from its components.
fn compare_product(change: &ProductCreate, product: &LookupProduct) -> FoundRecord {
    let upc = change.fields.get("Identifiers").and_then(|ids| ids.get("UPC")).and_then(Value::as_str);
    let wanted = upc.map(str::trim).filter(|upc| !upc.is_empty());
    let shown = product.upc.as_deref().map(str::trim).filter(|upc| !upc.is_empty());
    let is_kit = change.fields.get("Type").and_then(Value::as_str) == Some("Kit");
    let units_agree =
        is_kit || product.total_units.is_none_or(|units| units == wanted_units(change, product.is_linked));
    let equal = product.sku == change.sku && wanted == shown && units_agree;
    FoundRecord { id: product.id, name: product.sku.to_string(), equal }
}

/// Returns the units that the change gives the product. With links to warehouses it is the sum over the
/// links.
fn wanted_units(change: &ProductCreate, is_linked: bool) -> i64 {
    let whole = |value: Option<&Value>| value.and_then(Value::as_number).and_then(json_integer).unwrap_or(0);
    if !is_linked {
        return whole(change.fields.get("QuantityOnHand"));
    }
    let links = change.fields.get("Warehouses").and_then(Value::as_array);
    links.into_iter().flatten().map(|link| whole(link.get("QuantityOnHand"))).sum()
}
