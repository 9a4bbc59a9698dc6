//! Projection of kits, and of products that other answers contain. Every such SKU becomes a discovered SKU.

use super::park_records;
use crate::client::wire::{DecodedAnswer, KitComponent, Product};
use crate::model::{ExchangeId, ProductId, Sku, Timestamp};
use crate::store::{ComponentFact, KitPage, ProductFact, StoreError, WriteTransaction};

/// Projects the components of a kit. Returns the number of new, changed or removed ones.
pub(crate) async fn project_kit_components(
    write: &mut WriteTransaction,
    exchange_id: ExchangeId,
    observed_at: Timestamp,
    kit: ProductId,
    decoded: &DecodedAnswer<KitComponent>,
) -> Result<u64, StoreError> {
    park_records(write, exchange_id, decoded).await?;
    let shown = decoded.records.iter().filter_map(|component| component.product.as_ref());
    let products: Vec<ProductFact> = shown.map(product_fact).collect();
    let skus: Vec<Sku> = products.iter().map(|product| product.sku.clone()).collect();
    write.discovered_sku_add(exchange_id, &skus).await?;
    write.mirror_products(&products).await?;
    let components: Vec<ComponentFact> = decoded.records.iter().map(component_fact).collect();
    let is_complete = decoded.is_complete();
    let page = KitPage { exchange_id, observed_at, kit, components: &components, is_complete };
    write.mirror_kit(&page).await
}

fn component_fact(component: &KitComponent) -> ComponentFact {
    let product = component.product.as_ref();
    ComponentFact {
        component_id: component.id,
        product_id: product.map(|product| product.id),
        sku: product.map(|product| product.sku.clone()),
        quantity: component.quantity_for_kit,
    }
}

pub(super) fn product_fact(product: &Product) -> ProductFact {
    ProductFact {
        sku: product.sku.clone(),
        product_id: Some(product.id),
        name: product.name.clone(),
        upc: product.identifiers.as_ref().and_then(|identifiers| identifiers.upc.clone()),
        kind: product.kind.clone(),
    }
}
