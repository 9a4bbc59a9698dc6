//! Products: *Create product* and *Update product*, the record of their answers, and *Get kit components*.

use super::codec::{RequestFields, decode_enveloped, decode_list, lenient};
use super::{DecodedAnswer, InvalidRequest, MalformedBody, WriteAnswer};
use crate::client::PlatformRequest;
use crate::model::{Operation, ProductId, Quantity, Sku, WarehouseId};
use serde::Deserialize;
use serde_json::Value;

const PRODUCT_TYPES: [&str; 3] = ["Product", "Kit", "Built"];
const CONDITIONS: [&str; 2] = ["New", "Used"];
const FLAG_FIELDS: [&str; 6] =
    ["IsAutoSyncEnabled", "IsDiscontinued", "IsDropshipped", "IsFireArm", "IsVariation", "IsParent"];

#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Product {
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

/// Standard numbers of a product (`Identifiers`).
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct ProductIdentifiers {
    #[serde(rename = "UPC", default, deserialize_with = "lenient::opt")]
    pub upc: Option<String>,
}

/// A product's link to a warehouse (*Product-warehouse item*).
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct ProductWarehouse {
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

/// Requests a new product from the platform's own body (*Create product*, rules 1 to 4). More than 12 images
/// are no error: the platform attaches the first 12.
pub fn create_product(body: &Value) -> Result<PlatformRequest, InvalidRequest> {
    let fields = RequestFields::from_body(Operation::CreateProduct, body)?;
    check_input(&fields)?;
    Ok(PlatformRequest::new(Operation::CreateProduct).with_json(body))
}

/// Requests the replacement of a product by the platform's own body (*Update product*). The body must be the
/// whole product with its ids, because omitted fields would be reset (docs/rules.md 9).
pub fn update_product(body: &Value) -> Result<PlatformRequest, InvalidRequest> {
    let fields = RequestFields::from_body(Operation::UpdateProduct, body)?;
    fields.required_id("Id")?;
    fields.required_id("CompanyId")?;
    let missing = |field| fields.invalid_field(field, "is missing; an update contains the whole product");
    let identifiers = fields.nested_object("Identifiers")?;
    identifiers.ok_or_else(|| missing("Identifiers"))?.required_id("ProductId")?;
    fields.get("Warehouses").ok_or_else(|| missing("Warehouses"))?;
    for warehouse in fields.nested_objects("Warehouses")? {
        warehouse.required_id("Id")?;
    }
    check_input(&fields)?;
    Ok(PlatformRequest::new(Operation::UpdateProduct).with_json(body))
}

pub fn decode_product_answer(body: &[u8]) -> Result<WriteAnswer<Product>, MalformedBody> {
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
pub struct KitComponent {
    #[serde(rename = "Id", deserialize_with = "lenient::req")]
    pub id: i64,
    /// Units of the component in one kit.
    #[serde(rename = "QuantityForKit", deserialize_with = "lenient::req")]
    pub quantity_for_kit: f64,
    /// The product of the component, if readable.
    #[serde(rename = "Product", default, deserialize_with = "lenient::nested")]
    pub product: Option<Product>,
}

pub fn kit_components(kit: ProductId) -> PlatformRequest {
    PlatformRequest::with_ids(Operation::KitComponents, &[kit.0])
}

pub fn decode_kit_components(body: &[u8]) -> Result<DecodedAnswer<KitComponent>, MalformedBody> {
    decode_list("the kit's components", body, |_| true)
}

fn check_input(fields: &RequestFields<'_>) -> Result<(), InvalidRequest> {
    let sku = fields.required_text("Sku", usize::MAX)?;
    Sku::new(sku).map_err(|error| fields.invalid_field("Sku", format!("`{sku}`: {error}")))?;
    fields.required_text("Name", usize::MAX)?;
    fields.check_code("Type", &PRODUCT_TYPES)?;
    fields.optional_integer("QuantityOnHand", 0, Quantity::MAX.0)?;
    for flag in FLAG_FIELDS {
        fields.optional_flag(flag)?;
    }
    if fields.optional_flag("IsVariation")? && fields.optional_flag("IsParent")? {
        return Err(fields.invalid_field("IsParent", "is true together with IsVariation; only one may be"));
    }
    fields.nested_object("Identifiers")?;
    fields.nested_objects("Images")?;
    for warehouse in fields.nested_objects("Warehouses")? {
        warehouse.required_id("WarehouseId")?;
        warehouse.optional_integer("QuantityOnHand", 0, Quantity::MAX.0)?;
    }
    if let Some(listing) = fields.nested_object("GlobalListingAttributes")? {
        listing.check_code("Condition", &CONDITIONS)?;
    }
    if let Some(supplier) = fields.nested_object("SupplierInformation")? {
        supplier.optional_integer("SupplierId", 1, i64::MAX)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
