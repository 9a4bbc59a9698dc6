//! Products: *Create product* and *Update product*, the record of their answers, and *Get kit components*.

use super::codec::{decode_enveloped, decode_list, lenient};
use super::{DecodedAnswer, MalformedBody, WriteAnswer};
use crate::client::PlatformRequest;
use crate::model::{Operation, ProductId, Sku, WarehouseId};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct Product {
    #[serde(rename = "Id", deserialize_with = "lenient::req")]
    pub id: ProductId,
    #[serde(rename = "Sku", deserialize_with = "lenient::req")]
    pub sku: Sku,
    #[serde(rename = "Name", default, deserialize_with = "lenient::opt")]
    pub name: Option<String>,
    /// `Product`, `Kit`, `Built` or an undocumented code.
    #[serde(rename = "Type", default, deserialize_with = "lenient::opt")]
    pub kind: Option<String>,
    #[serde(rename = "QuantityOnHand", default, deserialize_with = "lenient::strict")]
    pub quantity_on_hand: Option<i64>,
    #[serde(rename = "Identifiers", default, deserialize_with = "lenient::nested")]
    pub identifiers: Option<ProductIdentifiers>,
    #[serde(rename = "Warehouses", default, deserialize_with = "lenient::opt_list")]
    pub warehouses: Vec<ProductWarehouse>,
}

impl Product {
    pub(crate) fn upc(&self) -> Option<&str> {
        self.identifiers.as_ref()?.upc.as_deref()
    }
}

/// Standard numbers of a product (`Identifiers`).
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct ProductIdentifiers {
    #[serde(rename = "UPC", default, deserialize_with = "lenient::opt")]
    pub upc: Option<String>,
}

/// A product's link to a warehouse (*Product-warehouse item*).
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct ProductWarehouse {
    #[serde(rename = "WarehouseId", deserialize_with = "lenient::req")]
    pub warehouse_id: WarehouseId,
    /// Units: the fact of the stock level.
    #[serde(rename = "QuantityOnHand", default, deserialize_with = "lenient::strict")]
    pub quantity_on_hand: Option<i64>,
    #[serde(rename = "SKU", default, deserialize_with = "lenient::opt")]
    pub warehouse_sku: Option<String>,
    /// True if the warehouse is active for the product.
    #[serde(rename = "IsActive", default, deserialize_with = "lenient::opt")]
    pub is_active: Option<bool>,
    /// True if the quantity counts in the stock shown by storefronts.
    #[serde(rename = "IncludeInSyncBalance", default, deserialize_with = "lenient::opt")]
    pub include_in_sync: Option<bool>,
}

/// Requests a new product from the platform's own body (*Create product*).
pub(crate) fn create_product(body: &impl Serialize) -> PlatformRequest {
    PlatformRequest::new(Operation::CreateProduct).with_json(body)
}

/// Requests the replacement of a product by the platform's own body (*Update product*). The body is the whole
/// product, because omitted fields would be reset (docs/rules.md 9).
pub(crate) fn update_product(body: &impl Serialize) -> PlatformRequest {
    PlatformRequest::new(Operation::UpdateProduct).with_json(body)
}

pub(crate) fn decode_product_answer(body: &[u8]) -> Result<WriteAnswer<Product>, MalformedBody> {
    decode_enveloped::<WriteAnswer<Product>, _>("the product", body)
}

/// Reads the answer of *Update product* for this product. An answer about another product is unreadable.
pub(crate) fn decode_product_update(
    body: &[u8],
    asked: ProductId,
) -> Result<WriteAnswer<Product>, MalformedBody> {
    let answer = decode_product_answer(body)?;
    if answer.record.as_ref().is_some_and(|product| product.id != asked) {
        return Err(MalformedBody::new("the product", "it is another than the one asked for"));
    }
    Ok(answer)
}

/// A component of a kit (*Get kit components*).
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct KitComponent {
    #[serde(rename = "Id", deserialize_with = "lenient::req")]
    pub id: i64,
    /// Units of the component in one kit.
    #[serde(rename = "QuantityForKit", deserialize_with = "lenient::req")]
    pub quantity_for_kit: f64,
    /// The product of the component, if readable.
    #[serde(rename = "Product", default, deserialize_with = "lenient::nested")]
    pub product: Option<Product>,
}

pub(crate) fn kit_components(kit: ProductId) -> PlatformRequest {
    PlatformRequest::with_ids(Operation::KitComponents, &[kit.0])
}

pub(crate) fn decode_kit_components(body: &[u8]) -> Result<DecodedAnswer<KitComponent>, MalformedBody> {
    decode_list("the kit's components", body, |_| true)
}

#[cfg(test)]
mod tests;
