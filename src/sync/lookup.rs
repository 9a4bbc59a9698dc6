//! Reads on request of an operator or the start: products, the components of a kit, the account.
//!
//! Answers about products are recorded like any other. A SKU without a product is only reported, because the
//! request may be misspelled. A SKU counts as missing only if it is tracked and absent from balances.

use crate::client::wire::{self, ProductKey};
use crate::exec::kits::read_kit;
use crate::exec::reads::{READ_ATTEMPTS, ReadOrigin};
use crate::exec::{JobContext, JobError, balances, lists};
use crate::model::{Lane, ProductId, RunId, WarehouseId};
use std::collections::BTreeSet;

/// Looks up products and records them. Returns the SKUs found, in the platform's spelling.
pub(crate) async fn find_products(
    context: &JobContext,
    run: RunId,
    by: ProductKey,
    ids: &[String],
) -> Result<Vec<String>, JobError> {
    let mut found = Vec::new();
    for page in ids.chunks(context.settings().skus_per_call) {
        let request = wire::get_products(by, page);
        let origin = ReadOrigin { context, run, lane: Lane::Operator };
        let answer = origin.read_within(READ_ATTEMPTS, "the products", &request).await?;
        let products = balances::record_products(context, &answer).await?;
        found.extend(products.into_iter().map(String::from));
    }
    Ok(found)
}

/// Reads the components of a product and returns its id. Fails if the product is no kit.
pub(crate) async fn read_components(
    context: &JobContext,
    run: RunId,
    sku: &str,
) -> Result<ProductId, JobError> {
    let mut product = context.store.product_id_by_sku(sku).await?;
    if product.is_none() {
        let found = find_products(context, run, ProductKey::Sku, &[sku.to_owned()]).await?;
        // The exact spelling wins. Among several other spellings none is chosen.
        let one = found.iter().find(|spelled| *spelled == sku).or(match found.as_slice() {
            [only] => Some(only),
            _ => None,
        });
        if let Some(spelled) = one {
            product = context.store.product_id_by_sku(spelled).await?;
        }
    }
    let product = product.ok_or_else(|| {
        JobError::Implausible(format!("the platform has no product with the SKU `{sku}`; check its spelling"))
    })?;
    read_kit(ReadOrigin { context, run, lane: Lane::Operator }, READ_ATTEMPTS, product).await?;
    Ok(product)
}

/// Returns true if the platform's list has one of these warehouses, so that its account is the mirror's. The
/// list may be another account's, so it is read as a probe and recorded as not applied.
///
/// # Errors
/// Fails if no known warehouse was found and the list is empty, cut or partly unreadable.
pub async fn lists_any_warehouse(
    context: &JobContext,
    run: RunId,
    known: &BTreeSet<WarehouseId>,
) -> Result<bool, JobError> {
    let origin = ReadOrigin { context, run, lane: Lane::Probe };
    let (_, progress) = lists::warehouses().read_pages(origin, READ_ATTEMPTS, false).await?;
    if known.iter().any(|warehouse| progress.listed.contains(&warehouse.0)) {
        return Ok(true);
    }
    if progress.is_whole() && !progress.listed.is_empty() {
        return Ok(false);
    }
    Err(JobError::Implausible("its list of warehouses is empty, cut or partly unreadable".into()))
}
