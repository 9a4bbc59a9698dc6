//! Creates with a preflight by name: of a product, a warehouse or a listing template (docs/rules.md 14).

use super::ChangeKind;
use crate::model::{Sku, StorefrontId, case_key};
use serde_json::{Map, Value};

/// A thing to create, with the platform's own body as it was inserted.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CreateBody {
    pub thing: CreatedThing,
    pub fields: Map<String, Value>,
}

/// A thing with the SKU or name by which the preflight and the check find it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum CreatedThing {
    Product(Sku),
    Warehouse(String),
    Template(StorefrontId, String),
}

impl CreateBody {
    pub(crate) fn kind(&self) -> ChangeKind {
        match self.thing {
            CreatedThing::Product(_) => ChangeKind::ProductCreate,
            CreatedThing::Warehouse(_) => ChangeKind::WarehouseCreate,
            CreatedThing::Template(..) => ChangeKind::ListingTemplateCreate,
        }
    }

    pub(crate) fn name(&self) -> &str {
        match &self.thing {
            CreatedThing::Product(sku) => sku.as_str(),
            CreatedThing::Warehouse(name) | CreatedThing::Template(_, name) => name,
        }
    }

    /// Returns the key of which at most one change may be in flight or in doubt.
    pub(crate) fn ordering_key(&self) -> String {
        match &self.thing {
            CreatedThing::Product(sku) => product_key(sku),
            CreatedThing::Warehouse(name) => format!("warehouse {}", case_key(name)),
            CreatedThing::Template(storefront, name) => format!("template {storefront} {}", case_key(name)),
        }
    }
}

/// Returns the ordering key of a product, which all spellings with one case key share.
pub(crate) fn product_key(sku: &Sku) -> String {
    format!("sku {}", sku.case_key())
}
