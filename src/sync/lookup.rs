//! Reads on request of an operator or the start: products, the components of a kit, the account.
//!
//! Answers about products are recorded like any other. A SKU without a product is only reported, because the
//! request may be misspelled. A SKU counts as missing only if it is tracked and absent from balances.

use crate::client::wire::{self, PageParams, ProductKey};
use crate::exec::call::READ_ATTEMPTS;
use crate::exec::kits::read_kit;
use crate::exec::pager::PAGES_MAX;
use crate::exec::{JobContext, JobError, balances};
use crate::model::{Lane, ProductId, RunId, WarehouseId};
use std::collections::BTreeSet;

/// Looks up products and records them. Returns the SKUs found, in the platform's spelling.
pub async fn find_products(
    context: &JobContext,
    run: RunId,
    by: ProductKey,
    ids: &[String],
) -> Result<Vec<String>, JobError> {
    let mut found = Vec::new();
    for page in ids.chunks(context.settings().skus_per_call) {
        let request = wire::get_products(by, page)?;
        let answer =
            context.read_within(READ_ATTEMPTS, run, Lane::Operator, "the products", &request).await?;
        let products = balances::record_products(context, &answer).await?;
        found.extend(products.into_iter().map(String::from));
    }
    Ok(found)
}

/// Reads the components of a product and returns its id. Fails if the product is no kit.
pub async fn read_components(context: &JobContext, run: RunId, sku: &str) -> Result<ProductId, JobError> {
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
    read_kit(READ_ATTEMPTS, context, run, Lane::Operator, product).await?;
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
    let (mut paging, mut listed, mut parked) = (PageParams::FIRST, BTreeSet::new(), 0);
    loop {
        let request = wire::list_warehouses(paging);
        let (lane, decode) = (Lane::Probe, wire::decode_warehouses);
        let (answer, page) =
            context.read_decoded(READ_ATTEMPTS, run, lane, "the warehouses", &request, decode).await?;
        context.exchange_end_ignored(&answer).await?;
        if page.records.iter().any(|warehouse| known.contains(&warehouse.id)) {
            return Ok(true);
        }
        let before = listed.len();
        listed.extend(page.records.iter().map(|warehouse| warehouse.id));
        parked += page.parked.len();
        // The same records again are the end of the list, as in every reader of pages.
        let goes_on = page.may_have_more() && listed.len() > before;
        if goes_on && paging.number() < PAGES_MAX {
            paging = paging.next_page();
            continue;
        }
        if listed.is_empty() || parked > 0 || goes_on {
            return Err(JobError::Implausible(format!(
                "its list of warehouses proves nothing: {} of its records are readable and {parked} are not",
                listed.len()
            )));
        }
        return Ok(false);
    }
}
