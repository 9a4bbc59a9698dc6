//! `product.create`, with a preflight by SKU.

use super::{FoundProduct, Looker, Seen, products};
use crate::exec::JobError;
use crate::model::{Sku, integral};
use crate::outbox::ProductCreate;
use crate::reconcile::create::Found;
use serde_json::Value;

/// Reads the products under the SKU. Products of the mirror with the same case key count too. The lookup may
/// be exact where the platform's rule for a new SKU is not.
///
/// The SKUs in `beside` are known to exist. `None` if the answer lacks one of them and also the SKU.
pub(super) async fn look(
    wish: &ProductCreate,
    beside: &[Sku],
    looker: Looker<'_>,
) -> Result<Seen<Option<Vec<Found>>>, JobError> {
    let skus = [std::slice::from_ref(&wish.sku), beside].concat();
    let seen = products(looker, &skus).await?;
    let rest_came = beside.iter().all(|sku| seen.what.iter().any(|product| product.sku == *sku));
    let is_there = seen.what.iter().any(|product| product.sku.fold() == wish.sku.fold());
    let mut found: Vec<Found> = seen.what.iter().map(|product| compared(wish, product)).collect();
    for (id, name) in looker.context.store.product_twins(&wish.sku.fold()).await? {
        if !found.iter().any(|known| known.id == id) {
            found.push(Found { id, name, equal: false });
        }
    }
    Ok(seen.with((rest_came || is_there).then_some(found)))
}

/// Compares a product with the change. They are equal if SKU, UPC and units agree. A kit's units are not
/// compared, because they follow from its components.
fn compared(wish: &ProductCreate, product: &FoundProduct) -> Found {
    let upc = wish.fields.get("Identifiers").and_then(|ids| ids.get("UPC")).and_then(Value::as_str);
    let wanted = upc.map(str::trim).filter(|upc| !upc.is_empty());
    let theirs = product.upc.as_deref().map(str::trim).filter(|upc| !upc.is_empty());
    let is_kit = wish.fields.get("Type").and_then(Value::as_str) == Some("Kit");
    let units_agree = is_kit || product.total.is_none_or(|theirs| theirs == units(wish, product.is_linked));
    let equal = product.sku == wish.sku && wanted == theirs && units_agree;
    Found { id: product.id, name: product.sku.to_string(), equal }
}

/// Returns the units that the change gives the product. With links to warehouses it is the sum over the
/// links.
fn units(wish: &ProductCreate, is_linked: bool) -> i64 {
    let whole = |value: Option<&Value>| value.and_then(Value::as_number).and_then(integral).unwrap_or(0);
    if !is_linked {
        return whole(wish.fields.get("QuantityOnHand"));
    }
    let links = wish.fields.get("Warehouses").and_then(Value::as_array);
    links.into_iter().flatten().map(|link| whole(link.get("QuantityOnHand"))).sum()
}
