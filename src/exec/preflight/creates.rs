//! The creates with a preflight by name: their preflights, and the comparison of what the preflight finds.
//!
//! The platform's filter of templates is a *contains*. It only shortens the list; names are compared as a
//! whole.

use super::{LookupProduct, read_products, read_templates, read_warehouses, unidentified};
use crate::client::PlatformRequest;
use crate::client::wire::{self, ListingTemplate, PageParams, Warehouse};
use crate::exec::JobError;
use crate::exec::reads::{ReadOrigin, TimedRead};
use crate::model::{Sku, StorefrontId, case_key, json_integer};
use crate::outbox::{CreateBody, CreatedThing};
use crate::reconcile::creates::FoundRecord;
use crate::reconcile::product_update::UPC_FIELD;
use crate::store::Store;
use serde_json::Value;

/// Type of a warehouse if the change names none.
const DEFAULT_TYPE: &str = "Standard";
/// Text fields of a contact that have the same name in requests and answers.
const CONTACT_TEXTS: [&str; 6] =
    ["CompanyName", "FullName", "FirstName", "LastName", "EmailAddress", "FaxNumber"];
const ADDRESS_TEXTS: [&str; 8] =
    ["Street1", "Street2", "Street3", "City", "State", "Country", "ZipCode", "UrbanizationCode"];

impl CreateBody {
    /// Reads the things with the same or a similar name, each compared with the change.
    pub(crate) async fn preflight_named(
        &self,
        origin: ReadOrigin<'_>,
    ) -> Result<TimedRead<Vec<FoundRecord>>, JobError> {
        Ok(self.read_found(origin, self.name(), &[]).await?.map(Option::unwrap_or_default))
    }

    /// Reads them together with known things, as proof of an empty result. `None` if the answer has nothing
    /// under the name and lacks some of the known things.
    pub(crate) async fn preflight_with_known(
        &self,
        origin: ReadOrigin<'_>,
    ) -> Result<TimedRead<Option<Vec<FoundRecord>>>, JobError> {
        let store = &origin.context.store;
        let (beside, known) = match &self.thing {
            CreatedThing::Product(sku) => (store.witness_skus(sku).await?, Vec::new()),
            CreatedThing::Warehouse(_) | CreatedThing::Template(..) => {
                (Vec::new(), self.known_records(store).await?)
            }
        };
        let is_ours = |found: &FoundRecord| case_key(&found.name) == case_key(self.name());
        let proved = |found: Vec<FoundRecord>| {
            let is_listed = |known: &FoundRecord| found.iter().any(|found| found.id == known.id);
            (known.iter().all(is_listed) || found.iter().any(is_ours)).then_some(found)
        };
        Ok(self.read_found(origin, "", &beside).await?.map(|found| found.and_then(proved)))
    }

    /// Reads the things, each compared with the change: of the listing templates those whose name contains `filter`,
    /// of the products those with the SKU or one of `beside`. `None` if the answer lacks one of these and the SKU.
    async fn read_found(
        &self,
        origin: ReadOrigin<'_>,
        filter: &str,
        beside: &[Sku],
    ) -> Result<TimedRead<Option<Vec<FoundRecord>>>, JobError> {
        match &self.thing {
            CreatedThing::Product(sku) => preflight_product(self, sku, beside, origin).await,
            CreatedThing::Warehouse(_) => Ok(preflight_warehouse(self, origin).await?.map(Some)),
            CreatedThing::Template(storefront, _) => {
                Ok(preflight_templates(self, *storefront, filter, origin).await?.map(Some))
            }
        }
    }

    /// Returns the first request of [`CreateBody::preflight_named`].
    pub(crate) fn first_preflight(&self) -> PlatformRequest {
        match &self.thing {
            CreatedThing::Product(sku) => super::products_request(std::slice::from_ref(sku)),
            CreatedThing::Warehouse(_) => wire::list_warehouses(PageParams::FIRST),
            CreatedThing::Template(storefront, name) => {
                wire::list_listing_templates(*storefront, Some(name.trim()), PageParams::FIRST)
            }
        }
    }

    /// Returns the mirror's things that may have the name.
    pub(crate) async fn known_records(&self, store: &Store) -> Result<Vec<FoundRecord>, JobError> {
        let found =
            |id, name: Option<String>| FoundRecord { id, name: name.unwrap_or_default(), equal: false };
        Ok(match &self.thing {
            CreatedThing::Product(sku) => {
                let miscased_skus = store.product_case_twins(&sku.case_key()).await?;
                miscased_skus.into_iter().map(|(id, sku)| found(id, Some(sku))).collect()
            }
            CreatedThing::Warehouse(_) => {
                let listed = store.warehouse_names().await?;
                listed.into_iter().map(|(id, name)| found(id, Some(name))).collect()
            }
            CreatedThing::Template(storefront, _) => {
                let listed = store.template_names(*storefront).await?;
                listed.into_iter().map(|(id, name)| found(id, name)).collect()
            }
        })
    }
}

/// Reads the products under the SKU. Products of the mirror with the same case key count too. The lookup may
/// be exact where the platform's rule for a new SKU is not.
///
/// The SKUs in `known` are known to exist. `None` if the answer lacks one of them and also the SKU.
async fn preflight_product(
    change: &CreateBody,
    sku: &Sku,
    known: &[Sku],
    origin: ReadOrigin<'_>,
) -> Result<TimedRead<Option<Vec<FoundRecord>>>, JobError> {
    let skus = [std::slice::from_ref(sku), known].concat();
    let seen = read_products(origin, &skus).await?;
    let rest_came = known.iter().all(|sku| seen.records.iter().any(|product| product.sku == *sku));
    let is_there = seen.records.iter().any(|product| product.sku.case_key() == sku.case_key());
    let mut found: Vec<FoundRecord> =
        seen.records.iter().map(|product| compare_product(change, product)).collect();
    for (id, name) in origin.context.store.product_case_twins(&sku.case_key()).await? {
        if !found.iter().any(|found| found.id == id) {
            found.push(FoundRecord { id, name, equal: false });
        }
    }
    Ok(seen.with_records((rest_came || is_there).then_some(found)))
}

/// Compares a product with the change. They are equal if SKU, UPC and units agree. A kit's units are not
/// compared, because they follow from its components.
fn compare_product(change: &CreateBody, product: &LookupProduct) -> FoundRecord {
    let upc = change.fields.get("Identifiers").and_then(|ids| ids.get("UPC")).and_then(Value::as_str);
    let wanted = upc.map(str::trim).filter(|upc| !upc.is_empty());
    let shown = product.shown_fields.get(UPC_FIELD).map(String::as_str);
    let is_kit = change.fields.get("Type").and_then(Value::as_str) == Some("Kit");
    let units_agree =
        is_kit || product.total_units.is_none_or(|units| units == wanted_units(change, product.is_linked));
    let equal = product.sku.as_str() == change.name() && wanted == shown && units_agree;
    FoundRecord { id: product.id, name: product.sku.to_string(), equal }
}

/// Returns the units that the change gives the product. With links to warehouses it is the sum over the
/// links.
fn wanted_units(change: &CreateBody, is_linked: bool) -> i64 {
    let whole = |value: Option<&Value>| value.and_then(Value::as_number).and_then(json_integer).unwrap_or(0);
    if !is_linked {
        return whole(change.fields.get("QuantityOnHand"));
    }
    let links = change.fields.get("Warehouses").and_then(Value::as_array);
    links.into_iter().flatten().map(|link| whole(link.get("QuantityOnHand"))).sum()
}

async fn preflight_warehouse(
    change: &CreateBody,
    origin: ReadOrigin<'_>,
) -> Result<TimedRead<Vec<FoundRecord>>, JobError> {
    let seen = read_warehouses(origin).await?;
    if let Some(nameless) = seen.records.iter().find(|warehouse| warehouse.name.is_none()) {
        return Err(unidentified(&format!("the warehouse {}", nameless.id), "name"));
    }
    Ok(seen.map(|found| found.iter().map(|warehouse| compare_warehouse(change, warehouse)).collect()))
}

/// Compares a warehouse with the change. They are equal if every field shown agrees with the change. A list
/// may leave out type, note and contact; an absent field is not compared.
fn compare_warehouse(change: &CreateBody, there: &Warehouse) -> FoundRecord {
    let name = there.name.clone().unwrap_or_default();
    let wanted = |field: &str| change.fields.get(field).and_then(Value::as_str).unwrap_or_default().trim();
    let shown = |text: &Option<String>| text.as_deref().unwrap_or_default().trim().to_owned();
    let kind = if wanted("Type").is_empty() { DEFAULT_TYPE } else { wanted("Type") };
    let equal = name == change.name()
        && shown(&there.account_number) == wanted("AccountNumber")
        && there.kind.as_deref().is_none_or(|shown| shown == kind)
        && there.note.as_deref().is_none_or(|shown| shown.trim() == wanted("Note"))
        && is_contact_covered(there.contact.as_deref(), change.fields.get("ContactInformation"));
    FoundRecord { id: there.id.0, name, equal }
}

/// Returns true if each text shown in a contact is in the change. Ids and telephone numbers are not compared:
/// ids are the platform's own, and telephone numbers have other names in answers.
fn is_contact_covered(shown: Option<&str>, wanted: Option<&Value>) -> bool {
    let shown: Value = shown.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let is_covered = |shown: Option<&Value>, wanted: Option<&Value>, names: &[&str]| {
        let text = |record: Option<&Value>, name: &str| {
            let value = record.and_then(|record| record.get(name)).and_then(Value::as_str);
            value.unwrap_or_default().trim().to_owned()
        };
        names.iter().all(|name| text(shown, name).is_empty() || text(shown, name) == text(wanted, name))
    };
    is_covered(Some(&shown), wanted, &CONTACT_TEXTS)
        && is_covered(shown.get("Address"), wanted.and_then(|wanted| wanted.get("Address")), &ADDRESS_TEXTS)
}

/// Reads the storefront's templates whose name contains `name`, and compares each with the change.
async fn preflight_templates(
    change: &CreateBody,
    storefront: StorefrontId,
    name: &str,
    origin: ReadOrigin<'_>,
) -> Result<TimedRead<Vec<FoundRecord>>, JobError> {
    let seen = read_templates(origin, storefront, name).await?;
    if let Some(nameless) = seen.records.iter().find(|template| template.name.is_none()) {
        return Err(unidentified(&format!("the listing template {}", nameless.id), "name"));
    }
    Ok(seen.map(|found| found.iter().map(|template| compare_template(change, template)).collect()))
}

fn compare_template(change: &CreateBody, there: &ListingTemplate) -> FoundRecord {
    let name = there.name.clone().unwrap_or_default();
    let body = change.fields.get("Body").and_then(|body| body.as_str());
    let equal = name == change.name() && there.body.as_deref() == body;
    FoundRecord { id: there.id, name, equal }
}
