//! The creates with a preflight by name: their ordering keys and their preflights.

use super::{Looker, Seen, product, template, warehouse};
use crate::client::Request;
use crate::client::wire::{Invalid, Paging};
use crate::exec::JobError;
use crate::model::Sku;
use crate::outbox::{Body, Kind, ListingTemplateCreate, ProductCreate, WarehouseCreate};
use crate::reconcile::create::{Found, fold};
use crate::store::Store;

/// Thing to be created.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Create<'a> {
    Product(&'a ProductCreate),
    Warehouse(&'a WarehouseCreate),
    Template(&'a ListingTemplateCreate),
}

impl<'a> Create<'a> {
    /// Returns the create of a body; `None` for other kinds.
    pub(crate) fn of(body: &'a Body) -> Option<Self> {
        match body {
            Body::ProductCreate(product) => Some(Create::Product(product)),
            Body::WarehouseCreate(warehouse) => Some(Create::Warehouse(warehouse)),
            Body::ListingTemplateCreate(template) => Some(Create::Template(template)),
            Body::QuantitySet(_)
            | Body::QuantityAdjust(_)
            | Body::ShipmentCreate(_)
            | Body::TrackingSubmit(_)
            | Body::ProductUpdate(_) => None,
        }
    }

    pub(crate) fn kind(&self) -> Kind {
        match self {
            Create::Product(_) => Kind::ProductCreate,
            Create::Warehouse(_) => Kind::WarehouseCreate,
            Create::Template(_) => Kind::ListingTemplateCreate,
        }
    }

    /// Returns the name by which the preflight finds the thing.
    pub(crate) fn name(&self) -> &'a str {
        match self {
            Create::Product(wish) => wish.sku.as_str(),
            Create::Warehouse(wish) => &wish.name,
            Create::Template(wish) => &wish.name,
        }
    }

    pub(crate) fn subject(&self) -> String {
        match self {
            Create::Product(wish) => sku_subject(&wish.sku),
            Create::Warehouse(wish) => warehouse::subject(wish),
            Create::Template(wish) => template::subject(wish),
        }
    }

    /// Reads the things with the same or a similar name, each compared with the change.
    pub(crate) async fn look(&self, looker: Looker<'_>) -> Result<Seen<Vec<Found>>, JobError> {
        match self {
            Create::Product(wish) => {
                Ok(product::look(wish, &[], looker).await?.map(Option::unwrap_or_default))
            }
            Create::Warehouse(wish) => warehouse::look(wish, looker).await,
            Create::Template(wish) => template::look(wish, looker).await,
        }
    }

    /// Reads them together with known things, as proof of an empty result. `None` if the answer has nothing
    /// under the name and lacks some of the known things.
    pub(crate) async fn look_beside_others(
        &self,
        looker: Looker<'_>,
    ) -> Result<Seen<Option<Vec<Found>>>, JobError> {
        let store = &looker.context.store;
        let is_listed = |seen: &Seen<Vec<Found>>, id: i64| seen.what.iter().any(|found| found.id == id);
        match self {
            Create::Product(wish) => {
                let mut beside = store.witnesses(std::slice::from_ref(&wish.sku)).await?;
                if store.product_known(&beside).await?.0 == 0 {
                    beside.clear();
                }
                product::look(wish, &beside, looker).await
            }
            Create::Warehouse(wish) => {
                let known = store.warehouse_ids().await?;
                let seen = warehouse::look(wish, looker).await?;
                let rest_came = known.iter().all(|id| is_listed(&seen, id.0));
                Ok(seen.map(|found| self.vouched(found, rest_came)))
            }
            Create::Template(wish) => {
                let known = store.template_list(Some(wish.storefront_id)).await?;
                let seen = template::look_at_all(wish, looker).await?;
                let mut known = known.iter().filter(|row| row.missing_since.is_none());
                let rest_came = known.all(|row| is_listed(&seen, row.id));
                Ok(seen.map(|found| self.vouched(found, rest_came)))
            }
        }
    }

    /// Returns the records found. `None` if the answer is not complete (`rest_came`) and has no record under
    /// the name.
    fn vouched(&self, found: Vec<Found>, rest_came: bool) -> Option<Vec<Found>> {
        let is_there = found.iter().any(|found| fold(&found.name) == fold(self.name()));
        (rest_came || is_there).then_some(found)
    }

    /// Returns the first request of [`Create::look`].
    pub(crate) fn first_look(&self) -> Result<Request, Invalid> {
        match self {
            Create::Product(wish) => super::products_request(std::slice::from_ref(&wish.sku)),
            Create::Warehouse(_) => Ok(super::warehouses_request(Paging::FIRST)),
            Create::Template(wish) => {
                Ok(super::templates_request(wish.storefront_id, &wish.name, Paging::FIRST))
            }
        }
    }

    /// Returns the mirror's things that may have the name.
    pub(crate) async fn at_hand(&self, store: &Store) -> Result<Vec<Found>, JobError> {
        let found = |id, name: Option<String>| Found { id, name: name.unwrap_or_default(), equal: false };
        Ok(match self {
            Create::Product(wish) => {
                let twins = store.product_twins(&wish.sku.fold()).await?;
                twins.into_iter().map(|(id, sku)| found(id, Some(sku))).collect()
            }
            Create::Warehouse(_) => {
                let listed =
                    store.warehouse_list().await?.into_iter().filter(|row| row.missing_since.is_none());
                listed.map(|row| found(row.id, Some(row.name))).collect()
            }
            Create::Template(wish) => {
                let listed = store.template_list(Some(wish.storefront_id)).await?.into_iter();
                listed.filter(|row| row.missing_since.is_none()).map(|row| found(row.id, row.name)).collect()
            }
        })
    }
}

/// Returns the ordering key of a product. Spellings with the same case key have the same ordering key.
pub(crate) fn sku_subject(sku: &Sku) -> String {
    format!("sku {}", sku.fold())
}
