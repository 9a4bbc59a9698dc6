//! What a person asks the service for, now: products by SKU or UPC, and what a kit is made of.
//!
//! What comes is recorded as every fact is. What was asked for in vain is only reported: people mistype, and a SKU is
//! missing only if it is tracked and absent from balances.

use super::kit_components::read_kit;
use super::{Context, JobError, call, record};
use crate::client::wire::{self, ProductKey};
use crate::model::{Lane, ProductId, RunId};

/// Looks products up (*Get products by SKU or UPC*) and records them; the SKUs found are returned, in the service's
/// spelling.
pub async fn find_products(
    context: &Context,
    run: RunId,
    by: ProductKey,
    ids: &[String],
) -> Result<Vec<String>, JobError> {
    let mut found = Vec::new();
    for page in ids.chunks(context.settings().skus_per_call) {
        let request = wire::get_products(by, page).map_err(|why| JobError::Implausible(why.to_string()))?;
        let answer = context.read(run, Lane::Operator, "the products", &request).await?;
        let products = record::products_page(context, &answer).await?;
        found.extend(products.into_iter().map(String::from));
    }
    Ok(found)
}

/// Reads the components of a product (*Get kit components*), which fails where it is no kit; its id is returned.
pub async fn read_components(context: &Context, run: RunId, sku: &str) -> Result<ProductId, JobError> {
    let mut product = context.store.product_id_of(sku).await?;
    if product.is_none() {
        let found = find_products(context, run, ProductKey::Sku, &[sku.to_owned()]).await?;
        // The exact spelling goes first; several others would be a guess.
        let one = found.iter().find(|spelled| *spelled == sku).or(match found.as_slice() {
            [only] => Some(only),
            _ => None,
        });
        if let Some(spelled) = one {
            product = context.store.product_id_of(spelled).await?;
        }
    }
    let product = product.ok_or_else(|| {
        JobError::Implausible(format!(
            "the service knows no product with the SKU `{sku}`; check its spelling"
        ))
    })?;
    read_kit(call::ATTEMPTS, context, run, Lane::Operator, product).await?;
    Ok(product)
}
