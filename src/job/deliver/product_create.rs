//! `product.create`, looked for by its SKU.

use super::look::{FoundProduct, Looker, Seen, products};
use crate::job::JobError;
use crate::outbox::ProductCreate;
use crate::reconcile::create::Found;

/// What the service has under the SKU. Twins in spelling that only the mirror knows count too: the lookup may be exact
/// where the service's own rule for a new SKU is not.
pub(super) async fn look(wish: &ProductCreate, looker: Looker<'_>) -> Result<Seen<Vec<Found>>, JobError> {
    let seen = products(looker, std::slice::from_ref(&wish.sku)).await?;
    let mut found: Vec<Found> = seen.what.iter().map(|product| compared(wish, product)).collect();
    for (id, name) in looker.context.store.product_twins(&wish.sku.fold()).await? {
        if !found.iter().any(|known| known.id == id) {
            found.push(Found { id, name, equal: false });
        }
    }
    Ok(seen.with(found))
}

/// The lookup shows of a product its SKU and its UPC.
fn compared(wish: &ProductCreate, product: &FoundProduct) -> Found {
    let upc = wish.fields.get("Identifiers").and_then(|ids| ids.get("UPC")).and_then(|upc| upc.as_str());
    let wanted = upc.filter(|upc| !upc.is_empty());
    let equal = product.sku == wish.sku && wanted.is_none_or(|wanted| product.upc.as_deref() == Some(wanted));
    Found { id: product.id, name: product.sku.to_string(), equal }
}
