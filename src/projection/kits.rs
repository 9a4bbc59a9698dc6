//! Projection of kits, and of products that other answers contain. Every such SKU becomes a discovered SKU.

use super::park_records;
use crate::client::wire::{DecodedAnswer, KitComponent, Product};
use crate::model::{ExchangeId, ProductId, Sku, Timestamp};
use crate::store::{StoreError, WriteTransaction};
use serde_json::{Value, json};

/// Projects the components of a kit. Returns the number of new, changed or removed ones.
pub(crate) async fn project_kit_components(
    write: &mut WriteTransaction,
    exchange_id: ExchangeId,
    observed_at: Timestamp,
    kit: ProductId,
    decoded: &DecodedAnswer<KitComponent>,
) -> Result<u64, StoreError> {
    park_records(write, exchange_id, decoded).await?;
    let products: Vec<&Product> =
        decoded.records.iter().filter_map(|component| component.product.as_ref()).collect();
    let skus: Vec<Sku> = products.iter().map(|product| product.sku.clone()).collect();
    write.discovered_sku_add(exchange_id, &skus).await?;
    write.mirror_products(&products).await?;
    let components: Vec<Value> = decoded.records.iter().map(component_row).collect();
    write.mirror_kit((exchange_id, observed_at), kit, &components, decoded.is_complete()).await
}

/// Returns the columns of a kit's component.
fn component_row(component: &KitComponent) -> Value {
    let product = component.product.as_ref();
    json!({
        "component_id": component.id, "product_id": product.map(|product| product.id),
        "sku": product.map(|product| &product.sku), "quantity": component.quantity_for_kit,
    })
}
