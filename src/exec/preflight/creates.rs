//! The creates with a preflight by name: their ordering keys and their preflights.

use super::{ReadOrigin, TimedRead, product, template, warehouse};
use crate::client::PlatformRequest;
use crate::client::wire::{self, InvalidRequest, PageParams};
use crate::exec::JobError;
use crate::model::{Sku, case_key};
use crate::outbox::{ChangeBody, ChangeKind, ListingTemplateCreate, ProductCreate, WarehouseCreate};
use crate::reconcile::creates::FoundRecord;
use crate::store::Store;

#[derive(Clone, Copy, Debug)]
pub(crate) enum CreateBody<'a> {
    Product(&'a ProductCreate),
    Warehouse(&'a WarehouseCreate),
    Template(&'a ListingTemplateCreate),
}

impl<'a> CreateBody<'a> {
    pub(crate) fn from_body(body: &'a ChangeBody) -> Option<Self> {
        match body {
            ChangeBody::ProductCreate(product) => Some(CreateBody::Product(product)),
            ChangeBody::WarehouseCreate(warehouse) => Some(CreateBody::Warehouse(warehouse)),
            ChangeBody::ListingTemplateCreate(template) => Some(CreateBody::Template(template)),
            ChangeBody::QuantitySet(_)
            | ChangeBody::QuantityAdjust(_)
            | ChangeBody::ShipmentCreate(_)
            | ChangeBody::TrackingSubmit(_)
            | ChangeBody::ProductUpdate(_) => None,
        }
    }

    pub(crate) fn kind(&self) -> ChangeKind {
        match self {
            CreateBody::Product(_) => ChangeKind::ProductCreate,
            CreateBody::Warehouse(_) => ChangeKind::WarehouseCreate,
            CreateBody::Template(_) => ChangeKind::ListingTemplateCreate,
        }
    }

    /// Returns the name by which the preflight finds the thing.
    pub(crate) fn name(&self) -> &'a str {
        match self {
            CreateBody::Product(change) => change.sku.as_str(),
            CreateBody::Warehouse(change) => &change.name,
            CreateBody::Template(change) => &change.name,
        }
    }

    pub(crate) fn ordering_key(&self) -> String {
        match self {
            CreateBody::Product(change) => product_key(&change.sku),
            CreateBody::Warehouse(change) => format!("warehouse {}", case_key(&change.name)),
            CreateBody::Template(change) => {
                format!("template {} {}", change.storefront_id, case_key(&change.name))
            }
        }
    }

    /// Reads the things with the same or a similar name, each compared with the change.
    pub(crate) async fn preflight_named(
        &self,
        origin: ReadOrigin<'_>,
    ) -> Result<TimedRead<Vec<FoundRecord>>, JobError> {
        match self {
            CreateBody::Product(change) => {
                Ok(product::preflight_product(change, &[], origin).await?.map(Option::unwrap_or_default))
            }
            CreateBody::Warehouse(change) => warehouse::preflight_warehouse(change, origin).await,
            CreateBody::Template(change) => template::preflight_templates(change, &change.name, origin).await,
        }
    }

    /// Reads them together with known things, as proof of an empty result. `None` if the answer has nothing
    /// under the name and lacks some of the known things.
    pub(crate) async fn preflight_with_known(
        &self,
        origin: ReadOrigin<'_>,
    ) -> Result<TimedRead<Option<Vec<FoundRecord>>>, JobError> {
        let store = &origin.context.store;
        let is_listed =
            |seen: &TimedRead<Vec<FoundRecord>>, id: i64| seen.records.iter().any(|found| found.id == id);
        match self {
            CreateBody::Product(change) => {
                let mut beside = store.witness_skus(std::slice::from_ref(&change.sku)).await?;
                if store.product_known_count(&beside).await?.0 == 0 {
                    beside.clear();
                }
                product::preflight_product(change, &beside, origin).await
            }
            CreateBody::Warehouse(change) => {
                let known = store.warehouse_ids().await?;
                let seen = warehouse::preflight_warehouse(change, origin).await?;
                let rest_came = known.iter().all(|id| is_listed(&seen, id.0));
                Ok(seen.map(|found| self.proved_records(found, rest_came)))
            }
            CreateBody::Template(change) => {
                let known = store.template_list(Some(change.storefront_id)).await?;
                let seen = template::preflight_templates(change, "", origin).await?;
                let mut known = known.iter().filter(|row| row.missing_since.is_none());
                let rest_came = known.all(|row| is_listed(&seen, row.id));
                Ok(seen.map(|found| self.proved_records(found, rest_came)))
            }
        }
    }

    /// Returns the records found. `None` if the answer is not complete (`rest_came`) and has no record under
    /// the name.
    fn proved_records(&self, found: Vec<FoundRecord>, rest_came: bool) -> Option<Vec<FoundRecord>> {
        let is_there = found.iter().any(|found| case_key(&found.name) == case_key(self.name()));
        (rest_came || is_there).then_some(found)
    }

    /// Returns the first request of [`CreateBody::preflight_named`].
    pub(crate) fn first_preflight(&self) -> Result<PlatformRequest, InvalidRequest> {
        match self {
            CreateBody::Product(change) => super::products_request(std::slice::from_ref(&change.sku)),
            CreateBody::Warehouse(_) => Ok(wire::list_warehouses(PageParams::FIRST)),
            CreateBody::Template(change) => {
                Ok(super::templates_request(change.storefront_id, &change.name, PageParams::FIRST))
            }
        }
    }

    /// Returns the mirror's things that may have the name.
    pub(crate) async fn known_records(&self, store: &Store) -> Result<Vec<FoundRecord>, JobError> {
        let found =
            |id, name: Option<String>| FoundRecord { id, name: name.unwrap_or_default(), equal: false };
        Ok(match self {
            CreateBody::Product(change) => {
                let miscased_skus = store.product_case_twins(&change.sku.case_key()).await?;
                miscased_skus.into_iter().map(|(id, sku)| found(id, Some(sku))).collect()
            }
            CreateBody::Warehouse(_) => {
                let listed =
                    store.warehouse_list().await?.into_iter().filter(|row| row.missing_since.is_none());
                listed.map(|row| found(row.id, Some(row.name))).collect()
            }
            CreateBody::Template(change) => {
                let listed = store.template_list(Some(change.storefront_id)).await?.into_iter();
                listed.filter(|row| row.missing_since.is_none()).map(|row| found(row.id, row.name)).collect()
            }
        })
    }
}

/// Returns the ordering key of a product. Spellings with the same case key have the same ordering key.
pub(crate) fn product_key(sku: &Sku) -> String {
    format!("sku {}", sku.case_key())
}
