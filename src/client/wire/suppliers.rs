//! Suppliers: *List suppliers*.

use super::PageParams;
use super::codec::envelope::{DecodedAnswer, MalformedBody, decode_list};
use super::codec::lenient;
use crate::client::PlatformRequest;
use crate::model::{Operation, SupplierId};
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_supplier_needs_only_its_id() {
        let decoded = decode_suppliers(br#"{"data":[{"Id":3,"SupplierUrl":""},{"Id":null}]}"#).unwrap();
        assert_eq!((decoded.records[0].id, &decoded.records[0].url), (SupplierId(3), &None));
        assert_eq!(decoded.parked[0].index, 1);
    }
}
