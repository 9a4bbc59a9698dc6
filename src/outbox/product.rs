//! `product.create` and `product.update`: the platform's own bodies.
//!
//! The checks follow docs/interface.md, *Create product* and *Update product*. They cover the platform's
//! requirements and the fields that a full PUT would silently reset. Unlisted fields are sent unchanged,
//! unless they are a listed field in another case. More than twelve images are accepted, because the platform
//! attaches the first twelve without an error.

use super::body_fields::{BodyFields, QUANTITY_RANGE, bad_body};
use super::{ChangeRejection, CreateBody, CreatedThing, Reason};
use crate::model::{ProductId, Quantity, Sku, WarehouseId};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Flags of a product that an update must name.
const FLAG_FIELDS: [&str; 6] =
    ["IsAutoSyncEnabled", "IsDiscontinued", "IsDropshipped", "IsFireArm", "IsVariation", "IsParent"];

const OTHER_FIELDS: [&str; 10] = [
    "Sku",
    "Name",
    "Type",
    "QuantityOnHand",
    "Identifiers",
    "GlobalListingAttributes",
    "Images",
    "Warehouses",
    "SupplierInformation",
    "IsActive",
];

/// Required fields of an update beside `Sku`, `Name` and the flags.
///
/// A PUT replaces the product, so that an absent field would be reset.
const REQUIRED_IN_UPDATE: [&str; 6] = ["Id", "CompanyId", "Type", "Identifiers", "Images", "Warehouses"];

/// A product to replace with a full PUT.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ProductUpdate {
    /// SKU whose stock levels the update reserves while it is in flight (docs/rules.md 9).
    pub sku: Sku,
    pub product_id: ProductId,
    /// Body as inserted, without the quantities that the send adds.
    pub fields: Map<String, Value>,
}

pub(super) fn parse_create(map: Map<String, Value>) -> Result<CreateBody, ChangeRejection> {
    let sku = check_product(&BodyFields::new(&map))?;
    Ok(CreateBody { thing: CreatedThing::Product(sku), fields: map })
}

impl ProductUpdate {
    pub(super) fn from_map(map: Map<String, Value>) -> Result<Self, ChangeRejection> {
        let fields = BodyFields::new(&map);
        let sku = check_product(&fields)?;
        check_complete(&fields)?;
        let product_id = fields.required_id("Id").map(ProductId)?;
        fields.required_id("CompanyId")?;
        let identifiers = fields.require_value("Identifiers", fields.nested_object("Identifiers")?)?;
        identifiers.required_id("ProductId")?;
        for list in ["Images", "Warehouses"] {
            for item in fields.nested_objects(list)?.unwrap_or_default() {
                item.required_id("Id")?;
            }
        }
        Ok(Self { sku, product_id, fields: map })
    }

    /// Returns the body to send, with every quantity from the latest read.
    ///
    /// Quantities of the latest read keep the PUT from undoing a sale (docs/rules.md 9). `total` is the
    /// product's own quantity, for accounts without warehouses.
    ///
    /// Fails with [`Reason::NotShown`] for a link unknown to the platform, [`Reason::BadBody`] for another quantity
    /// in the body or for a known link that the body omits.
    pub(crate) fn with_quantities(
        &self,
        facts: &BTreeMap<WarehouseId, Quantity>,
        total: Quantity,
    ) -> Result<Map<String, Value>, ChangeRejection> {
        let mut fields = self.fields.clone();
        insert_quantity(&mut fields, total, "the product")?;
        let mut missing: Vec<WarehouseId> = facts.keys().copied().collect();
        let links = fields.get_mut("Warehouses").and_then(Value::as_array_mut);
        for link in links.into_iter().flatten().filter_map(Value::as_object_mut) {
            let Some(warehouse) = BodyFields::new(link).optional_id("WarehouseId")?.map(WarehouseId) else {
                continue;
            };
            let fact = *facts.get(&warehouse).ok_or_else(|| ChangeRejection {
                reason: Reason::NotShown,
                detail: format!(
                    "`Warehouses` names warehouse {warehouse}, which {} is not linked to; leave it out",
                    self.sku
                ),
            })?;
            insert_quantity(link, fact, &format!("warehouse {warehouse}"))?;
            missing.retain(|known| *known != warehouse);
        }
        match missing.first() {
            Some(left_out) => Err(bad_body(format!(
                "`Warehouses` leaves out warehouse {left_out}, which {} is linked to; add its entry with its `Id`",
                self.sku
            ))),
            None => Ok(fields),
        }
    }
}

/// Inserts the fact as `QuantityOnHand`; another quantity in the body is an error.
fn insert_quantity(fields: &mut Map<String, Value>, fact: Quantity, of: &str) -> Result<(), ChangeRejection> {
    match BodyFields::new(fields).optional_integer("QuantityOnHand", i64::MIN..=i64::MAX)? {
        Some(wanted) if Quantity(wanted) != fact => Err(bad_body(format!(
            "`QuantityOnHand` of {of} is {wanted} and the platform has {fact}; leave it out and insert a `quantity.set`"
        ))),
        Some(_) | None => {
            fields.insert("QuantityOnHand".into(), fact.0.into());
            Ok(())
        }
    }
}

/// Checks the fields that both calls need and returns the SKU.
fn check_product(fields: &BodyFields<'_>) -> Result<Sku, ChangeRejection> {
    fields.reject_miscased(&[&OTHER_FIELDS[..], &FLAG_FIELDS[..]].concat())?;
    let sku = fields.required_sku("Sku")?;
    fields.required_text("Name")?;
    fields.listed_code("Type", &["Product", "Kit", "Built"])?;
    fields.optional_integer("QuantityOnHand", QUANTITY_RANGE)?;
    FLAG_FIELDS.into_iter().chain(["IsActive"]).try_for_each(|flag| fields.optional_flag(flag).map(drop))?;
    check_id(fields, "Id")?;
    check_id(fields, "CompanyId")?;
    if fields.optional_flag("IsVariation")? == Some(true) && fields.optional_flag("IsParent")? == Some(true) {
        return Err(bad_body(
            "`IsVariation` and `IsParent` are both true; a product is at most one of them".into(),
        ));
    }
    check_details(fields)?;
    check_links(fields)?;
    Ok(sku)
}

/// Checks an id of the platform: an integer, if the field is present.
fn check_id(fields: &BodyFields<'_>, name: &str) -> Result<(), ChangeRejection> {
    fields.optional_integer(name, i64::MIN..=i64::MAX).map(drop)
}

/// Checks the nested objects that docs/interface.md defines.
fn check_details(fields: &BodyFields<'_>) -> Result<(), ChangeRejection> {
    if let Some(identifiers) = fields.nested_object("Identifiers")? {
        identifiers.check_texts(&["UPC", "EAN", "ISBN", "GTIN"])?;
        check_id(&identifiers, "ProductId")?;
    }
    if let Some(attributes) = fields.nested_object("GlobalListingAttributes")? {
        attributes.check_texts(&["SoldAsName", "ShortDescription", "LongDescription"])?;
        attributes.check_number("Price")?;
        attributes.listed_code("Condition", &["New", "Used"])?;
    }
    if let Some(supplier) = fields.nested_object("SupplierInformation")? {
        supplier.optional_id("SupplierId")?;
        supplier.check_texts(&["Sku"])?;
        supplier.check_number("Price")?;
        supplier.optional_flag("IsOutOfStock")?;
        supplier.optional_flag("IsOrderedByCase")?;
    }
    for image in fields.nested_objects("Images")?.unwrap_or_default() {
        image.check_texts(&["MIMEType", "Url"])?;
        image.optional_integer("DisplayOrder", i64::MIN..=i64::MAX)?;
        check_id(&image, "Id")?;
    }
    Ok(())
}

/// Checks that each warehouse link has an id and no id occurs twice.
fn check_links(fields: &BodyFields<'_>) -> Result<(), ChangeRejection> {
    let mut warehouses = Vec::new();
    for link in fields.nested_objects("Warehouses")?.unwrap_or_default() {
        warehouses.push(link.required_warehouse("WarehouseId")?);
        link.optional_integer("QuantityOnHand", QUANTITY_RANGE)?;
        link.check_texts(&["Aisle", "Bin", "SKU"])?;
        link.optional_flag("IsActive")?;
    }
    fields.reject_duplicates("Warehouses", &warehouses)
}

/// Rejects an incomplete update with all absent fields in one message.
fn check_complete(fields: &BodyFields<'_>) -> Result<(), ChangeRejection> {
    let required = REQUIRED_IN_UPDATE.into_iter().chain(FLAG_FIELDS);
    let missing: Vec<&str> = required.filter(|name| fields.get(name).is_none()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(bad_body(format!(
        "the product is incomplete: {} missing; an update replaces the whole product, so send all of it",
        missing.join(", ")
    )))
}

#[cfg(test)]
mod tests;
