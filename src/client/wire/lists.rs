//! Lists without parameters: *List suppliers*, and *List storefronts*, which lists the active ones.

use super::PageParams;
use super::codec::envelope::{DecodedAnswer, MalformedBody, decode_list};
use super::codec::lenient;
use crate::client::PlatformRequest;
use crate::model::{Operation, StorefrontId, SupplierId};
use serde::Deserialize;

/// A supplier (*Supplier*).
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Supplier {
    /// The supplier.
    #[serde(rename = "Id", deserialize_with = "lenient::req")]
    pub id: SupplierId,
    /// Its name.
    #[serde(rename = "Name", default, deserialize_with = "lenient::opt")]
    pub name: Option<String>,
    /// Its account number.
    #[serde(rename = "AccountNumber", default, deserialize_with = "lenient::opt")]
    pub account_number: Option<String>,
    /// True if the supplier is in use.
    #[serde(rename = "IsActive", default, deserialize_with = "lenient::opt")]
    pub is_active: Option<bool>,
    /// Web address.
    #[serde(rename = "SupplierUrl", default, deserialize_with = "lenient::opt")]
    pub url: Option<String>,
}

/// Requests a page of the suppliers (*List suppliers*).
pub fn list_suppliers(paging: PageParams) -> PlatformRequest {
    PlatformRequest::new(Operation::ListSuppliers).with_page(paging)
}

/// Reads the answer of *List suppliers*.
pub fn decode_suppliers(body: &[u8]) -> Result<DecodedAnswer<Supplier>, MalformedBody> {
    decode_list("the list of suppliers", body)
}

/// A storefront (*Storefront*).
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Storefront {
    /// The storefront.
    #[serde(rename = "Id", deserialize_with = "lenient::req")]
    pub id: StorefrontId,
    /// Its name.
    #[serde(rename = "Name", default, deserialize_with = "lenient::opt")]
    pub name: Option<String>,
    /// True if the storefront is in use.
    #[serde(rename = "IsActive", default, deserialize_with = "lenient::opt")]
    pub is_active: Option<bool>,
    /// The kind of channel.
    #[serde(rename = "Type", default, deserialize_with = "lenient::opt")]
    pub kind: Option<String>,
    /// Free-form properties, as received JSON.
    #[serde(rename = "StorefrontProperties", default, deserialize_with = "lenient::json")]
    pub properties: Option<String>,
}

/// Requests a page of the storefronts (*List storefronts*).
pub fn list_storefronts(paging: PageParams) -> PlatformRequest {
    PlatformRequest::new(Operation::ListStorefronts).with_page(paging)
}

/// Reads the answer of *List storefronts*.
pub fn decode_storefronts(body: &[u8]) -> Result<DecodedAnswer<Storefront>, MalformedBody> {
    decode_list("the list of storefronts", body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_supplier_needs_only_its_id() {
        let decoded = decode_suppliers(br#"{"data":[{"Id":3,"SupplierUrl":""},{"Id":null}]}"#).unwrap();
        assert_eq!((decoded.records[0].id, &decoded.records[0].url), (SupplierId(3), &None));
        assert_eq!(decoded.parked[0].index, 1);
    }

    #[test]
    fn free_form_properties_are_kept_as_they_came() {
        let body = br#"{"data":[{"Id":3,"StorefrontProperties":{"b":1.50,"a":[]}},{"Id":4,"StorefrontProperties":null}]}"#;
        let decoded = decode_storefronts(body).unwrap();
        assert_eq!(decoded.records[0].properties.as_deref(), Some(r#"{"b":1.50,"a":[]}"#));
        assert_eq!(decoded.records[1].properties, None);
    }
}
