//! `product.create` and `product.update`: the platform's own bodies.
//!
//! The checks follow docs/interface.md, *Create product* and *Update product*. They cover the platform's
//! requirements and the fields that a full PUT would silently reset. Unlisted fields are sent unchanged,
//! unless they are a listed field in another case. More than twelve images are accepted, because the platform
//! attaches the first twelve without an error.

use super::Reason;
use super::Rejection;
use super::body_fields::{Fields, QUANTITIES, bad};
use crate::model::{ProductId, Quantity, Sku, WarehouseId};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

const FLAGS: [&str; 6] =
    ["IsAutoSyncEnabled", "IsDiscontinued", "IsDropshipped", "IsFireArm", "IsVariation", "IsParent"];

const OTHERS: [&str; 10] = [
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

/// Required fields of an update beside `Sku` and `Name`.
///
/// A PUT replaces the product, so that an absent field would be reset.
const COMPLETE: [&str; 12] = [
    "Id",
    "CompanyId",
    "Type",
    "Identifiers",
    "IsAutoSyncEnabled",
    "IsDiscontinued",
    "IsDropshipped",
    "IsFireArm",
    "IsVariation",
    "IsParent",
    "Images",
    "Warehouses",
];

/// A product to create.
#[derive(Clone, Debug, PartialEq)]
pub struct ProductCreate {
    /// SKU, by which the preflight and the check find the product (docs/rules.md 26).
    pub sku: Sku,
    /// Body to send, as inserted.
    pub fields: Map<String, Value>,
}

/// A product to replace with a full PUT.
#[derive(Clone, Debug, PartialEq)]
pub struct ProductUpdate {
    /// SKU whose stock levels the update reserves while it is in flight (docs/rules.md 13).
    pub sku: Sku,
    /// Product id.
    pub product_id: ProductId,
    /// Body as inserted, without the quantities that the send adds.
    pub fields: Map<String, Value>,
}

impl ProductCreate {
    pub(super) fn read(map: Map<String, Value>) -> Result<Self, Rejection> {
        let sku = product(&Fields::new(&map))?;
        Ok(Self { sku, fields: map })
    }
}

impl ProductUpdate {
    pub(super) fn read(map: Map<String, Value>) -> Result<Self, Rejection> {
        let fields = Fields::new(&map);
        let sku = product(&fields)?;
        complete(&fields)?;
        let product_id = fields.required("Id", fields.id("Id")?).map(ProductId)?;
        fields.required("CompanyId", fields.id("CompanyId")?)?;
        let identifiers = fields.required("Identifiers", fields.object("Identifiers")?)?;
        identifiers.required("ProductId", identifiers.id("ProductId")?)?;
        for list in ["Images", "Warehouses"] {
            for item in fields.list(list)?.unwrap_or_default() {
                item.required("Id", item.id("Id")?)?;
            }
        }
        Ok(Self { sku, product_id, fields: map })
    }

    /// Returns the body to send, with every quantity from the latest read.
    ///
    /// Quantities of the latest read keep the PUT from undoing a sale (docs/rules.md 13). `total` is the
    /// product's own quantity, for accounts without warehouses.
    ///
    /// # Errors
    /// [`Reason::QuantityInUpdate`] for another quantity in the body, [`Reason::UnknownWarehouse`] for a link
    /// unknown to the platform, [`Reason::BadBody`] for a known link that the body omits.
    pub fn with_quantities(
        &self,
        facts: &BTreeMap<WarehouseId, Quantity>,
        total: Quantity,
    ) -> Result<Map<String, Value>, Rejection> {
        let mut fields = self.fields.clone();
        fill(&mut fields, total, "the product")?;
        let mut missing: Vec<WarehouseId> = facts.keys().copied().collect();
        let links = fields.get_mut("Warehouses").and_then(Value::as_array_mut);
        for link in links.into_iter().flatten().filter_map(Value::as_object_mut) {
            let Some(warehouse) = Fields::new(link).id("WarehouseId")?.map(WarehouseId) else { continue };
            let fact = *facts.get(&warehouse).ok_or_else(|| unlinked(&self.sku, warehouse))?;
            fill(link, fact, &format!("warehouse {warehouse}"))?;
            missing.retain(|known| *known != warehouse);
        }
        match missing.first() {
            Some(left_out) => Err(bad(format!(
                "`Warehouses` leaves out warehouse {left_out}, which {} is linked to; add its entry with its `Id`",
                self.sku
            ))),
            None => Ok(fields),
        }
    }
}

fn unlinked(sku: &Sku, warehouse: WarehouseId) -> Rejection {
    let detail =
        format!("`Warehouses` names warehouse {warehouse}, which {sku} is not linked to; leave it out");
    Rejection { reason: Reason::UnknownWarehouse, detail }
}

/// Inserts the fact as `QuantityOnHand`.
///
/// # Errors
/// [`Reason::QuantityInUpdate`] if the body states another quantity.
fn fill(fields: &mut Map<String, Value>, fact: Quantity, of: &str) -> Result<(), Rejection> {
    match Fields::new(fields).whole("QuantityOnHand", i64::MIN..=i64::MAX)? {
        Some(wanted) if Quantity(wanted) != fact => Err(Rejection {
            reason: Reason::QuantityInUpdate,
            detail: format!(
                "`QuantityOnHand` of {of} is {wanted} and the service holds {fact}; leave it out and insert a `quantity.set`"
            ),
        }),
        Some(_) | None => {
            fields.insert("QuantityOnHand".into(), fact.0.into());
            Ok(())
        }
    }
}

/// Checks the fields that both calls need and returns the SKU.
fn product(fields: &Fields<'_>) -> Result<Sku, Rejection> {
    fields.spelled(&[&OTHERS[..], &FLAGS[..]].concat())?;
    let sku = fields.sku("Sku")?;
    fields.required("Name", fields.text("Name")?)?;
    fields.word("Type", &["Product", "Kit", "Built"])?;
    fields.whole("QuantityOnHand", QUANTITIES)?;
    for flag in FLAGS.into_iter().chain(["IsActive"]) {
        fields.flag(flag)?;
    }
    given(fields, "Id")?;
    given(fields, "CompanyId")?;
    if fields.flag("IsVariation")? == Some(true) && fields.flag("IsParent")? == Some(true) {
        return Err(bad(
            "`IsVariation` and `IsParent` are both true; a product is at most one of them".into()
        ));
    }
    details(fields)?;
    links(fields)?;
    Ok(sku)
}

/// Checks an id of the platform: an integer, if the field is present.
fn given(fields: &Fields<'_>, name: &str) -> Result<(), Rejection> {
    fields.whole(name, i64::MIN..=i64::MAX).map(drop)
}

/// Checks the nested objects that docs/interface.md defines.
fn details(fields: &Fields<'_>) -> Result<(), Rejection> {
    if let Some(identifiers) = fields.object("Identifiers")? {
        identifiers.texts(&["UPC", "EAN", "ISBN", "GTIN"])?;
        given(&identifiers, "ProductId")?;
    }
    if let Some(attributes) = fields.object("GlobalListingAttributes")? {
        attributes.texts(&["SoldAsName", "ShortDescription", "LongDescription"])?;
        attributes.number("Price")?;
        attributes.word("Condition", &["New", "Used"])?;
    }
    if let Some(supplier) = fields.object("SupplierInformation")? {
        supplier.id("SupplierId")?;
        supplier.texts(&["Sku"])?;
        supplier.number("Price")?;
        supplier.flag("IsOutOfStock")?;
        supplier.flag("IsOrderedByCase")?;
    }
    for image in fields.list("Images")?.unwrap_or_default() {
        image.texts(&["MIMEType", "Url"])?;
        image.whole("DisplayOrder", i64::MIN..=i64::MAX)?;
        given(&image, "Id")?;
    }
    Ok(())
}

/// Checks that each warehouse link has an id and no id occurs twice.
fn links(fields: &Fields<'_>) -> Result<(), Rejection> {
    let mut warehouses = Vec::new();
    for link in fields.list("Warehouses")?.unwrap_or_default() {
        warehouses.push(link.warehouse("WarehouseId")?);
        link.whole("QuantityOnHand", QUANTITIES)?;
        link.texts(&["Aisle", "Bin", "SKU"])?;
        link.flag("IsActive")?;
    }
    fields.unique("Warehouses", &warehouses)
}

/// Rejects an incomplete update with all absent fields in one message.
fn complete(fields: &Fields<'_>) -> Result<(), Rejection> {
    let missing: Vec<&str> = COMPLETE.into_iter().filter(|name| fields.get(name).is_none()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(bad(format!(
        "the product is incomplete: {} missing; an update replaces the whole product, so send all of it",
        missing.join(", ")
    )))
}

#[cfg(test)]
mod tests;
