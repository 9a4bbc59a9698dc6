//! `product.create`, looked for by its SKU.

use super::look::{FoundProduct, Looker, Seen, products};
use crate::job::JobError;
use crate::model::{Sku, integral};
use crate::outbox::ProductCreate;
use crate::reconcile::create::Found;
use serde_json::Value;

/// What the service has under the SKU. Twins in spelling that only the mirror knows count too: the lookup may be exact
/// where the service's own rule for a new SKU is not.
/// Those asked for `beside` it are known to be there: none where the answer lacks one of them, and the SKU too.
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

/// Equal is a product that shows what the wish says, and nothing that the wish does not say: its SKU, its UPC and its
/// units. A kit's units follow from its components.
fn compared(wish: &ProductCreate, product: &FoundProduct) -> Found {
    let upc = wish.fields.get("Identifiers").and_then(|ids| ids.get("UPC")).and_then(Value::as_str);
    let wanted = upc.map(str::trim).filter(|upc| !upc.is_empty());
    let theirs = product.upc.as_deref().map(str::trim).filter(|upc| !upc.is_empty());
    let is_kit = wish.fields.get("Type").and_then(Value::as_str) == Some("Kit");
    let units_agree = is_kit || product.total.is_none_or(|theirs| theirs == units(wish, product.is_linked));
    let equal = product.sku == wish.sku && wanted == theirs && units_agree;
    Found { id: product.id, name: product.sku.to_string(), equal }
}

/// The units that the wish gives the product. Where it is linked to warehouses, their sum overwrites the product's own.
fn units(wish: &ProductCreate, is_linked: bool) -> i64 {
    let whole = |value: Option<&Value>| value.and_then(Value::as_number).and_then(integral).unwrap_or(0);
    if !is_linked {
        return whole(wish.fields.get("QuantityOnHand"));
    }
    let links = wish.fields.get("Warehouses").and_then(Value::as_array);
    links.into_iter().flatten().map(|link| whole(link.get("QuantityOnHand"))).sum()
}
