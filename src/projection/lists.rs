//! Projection of pages of lists: warehouses, suppliers, storefronts, listing templates.
//!
//! Each function returns the number of new or changed records. The pager of `exec` decides which records
//! a whole list no longer has.

use super::park_records;
use crate::client::wire::{DecodedAnswer, ListingTemplate, Storefront, Supplier, Warehouse};
use crate::model::{ExchangeId, StorefrontId};
use crate::store::{StoreError, StorefrontFact, SupplierFact, TemplateFact, WarehouseFact, WriteTransaction};

pub(crate) async fn project_warehouses(
    write: &mut WriteTransaction,
    exchange: ExchangeId,
    page: &DecodedAnswer<Warehouse>,
) -> Result<u64, StoreError> {
    park_records(write, exchange, page).await?;
    let facts: Vec<WarehouseFact> = page.records.iter().map(warehouse_fact).collect();
    write.mirror_warehouses(exchange, &facts).await
}

pub(super) fn warehouse_fact(warehouse: &Warehouse) -> WarehouseFact {
    WarehouseFact {
        id: warehouse.id,
        name: warehouse.name.clone().unwrap_or_default(),
        is_active: warehouse.is_active,
        account_number: warehouse.account_number.clone(),
        is_system_generated: warehouse.is_system_generated,
        kind: warehouse.kind.clone(),
        contact: warehouse.contact.clone(),
    }
}

pub(crate) async fn project_suppliers(
    write: &mut WriteTransaction,
    exchange: ExchangeId,
    page: &DecodedAnswer<Supplier>,
) -> Result<u64, StoreError> {
    park_records(write, exchange, page).await?;
    let facts = page.records.iter().map(|supplier| SupplierFact {
        id: supplier.id,
        name: supplier.name.clone(),
        account_number: supplier.account_number.clone(),
        is_active: supplier.is_active,
        url: supplier.url.clone(),
    });
    write.mirror_suppliers(exchange, &facts.collect::<Vec<_>>()).await
}

pub(crate) async fn project_storefronts(
    write: &mut WriteTransaction,
    exchange: ExchangeId,
    page: &DecodedAnswer<Storefront>,
) -> Result<u64, StoreError> {
    park_records(write, exchange, page).await?;
    let facts = page.records.iter().map(|storefront| StorefrontFact {
        id: storefront.id,
        name: storefront.name.clone(),
        is_active: storefront.is_active,
        kind: storefront.kind.clone(),
        properties: storefront.properties.clone(),
    });
    write.mirror_storefronts(exchange, &facts.collect::<Vec<_>>()).await
}

pub(crate) async fn project_listing_templates(
    write: &mut WriteTransaction,
    exchange: ExchangeId,
    storefront: StorefrontId,
    page: &DecodedAnswer<ListingTemplate>,
) -> Result<u64, StoreError> {
    park_records(write, exchange, page).await?;
    let facts = page.records.iter().map(|template| TemplateFact {
        id: template.id,
        name: template.name.clone(),
        body: template.body.clone(),
    });
    write.mirror_templates(exchange, storefront, &facts.collect::<Vec<_>>()).await
}
