//! Warehouses, suppliers and storefronts: their lists, and *Create warehouse*.
//!
//! *List storefronts* lists the active ones.

use super::codec::{decode_enveloped, decode_list, lenient};
use super::{DecodedAnswer, MalformedBody, PageParams, WriteAnswer};
use crate::client::PlatformRequest;
use crate::model::{Operation, StorefrontId, SupplierId, WarehouseId};
use serde::{Deserialize, Serialize};

/// A warehouse (*Warehouse*). The mirror stores it under the names of its fields.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub(crate) struct Warehouse {
    #[serde(rename(deserialize = "Id"), deserialize_with = "lenient::req")]
    pub id: WarehouseId,
    #[serde(rename(deserialize = "Name"), default, deserialize_with = "lenient::strict")]
    pub name: Option<String>,
    /// True if the warehouse is in use.
    #[serde(rename(deserialize = "IsActive"), default, deserialize_with = "lenient::opt")]
    pub is_active: Option<bool>,
    #[serde(rename(deserialize = "AccountNumber"), default, deserialize_with = "lenient::strict")]
    pub account_number: Option<String>,
    /// True if the platform created the warehouse.
    #[serde(rename(deserialize = "IsSystemGenerated"), default, deserialize_with = "lenient::opt")]
    pub is_system_generated: Option<bool>,
    /// `Standard`, `Dropship`, `FulfillmentCenter` or an undocumented code.
    #[serde(rename(serialize = "type", deserialize = "Type"), default, deserialize_with = "lenient::opt")]
    pub kind: Option<String>,
    #[serde(rename(deserialize = "Note"), default, deserialize_with = "lenient::opt")]
    pub note: Option<String>,
    /// The contact with its address, as received JSON, for display only.
    #[serde(rename(deserialize = "ContactInformation"), default, deserialize_with = "lenient::json")]
    pub contact: Option<String>,
}

/// A created warehouse comes without a flag of success.
impl From<Warehouse> for WriteAnswer<Warehouse> {
    fn from(warehouse: Warehouse) -> Self {
        Self { request: None, record: Some(warehouse), was_successful: Some(true), messages: Vec::new() }
    }
}

pub(crate) fn list_warehouses(paging: PageParams) -> PlatformRequest {
    PlatformRequest::new(Operation::ListWarehouses).with_page(paging)
}

pub(crate) fn decode_warehouses(body: &[u8]) -> Result<DecodedAnswer<Warehouse>, MalformedBody> {
    decode_list("the list of warehouses", body, |_| true)
}

/// Requests a new warehouse from the platform's own body (*Create warehouse*).
pub(crate) fn create_warehouse(body: &impl Serialize) -> PlatformRequest {
    PlatformRequest::new(Operation::CreateWarehouse).with_json(body)
}

pub(crate) fn decode_created_warehouse(body: &[u8]) -> Result<WriteAnswer<Warehouse>, MalformedBody> {
    decode_enveloped::<Warehouse, _>("the new warehouse", body)
}

/// A supplier (*Supplier*), stored like a warehouse.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub(crate) struct Supplier {
    #[serde(rename(deserialize = "Id"), deserialize_with = "lenient::req")]
    pub id: SupplierId,
    #[serde(rename(deserialize = "Name"), default, deserialize_with = "lenient::opt")]
    pub name: Option<String>,
    #[serde(rename(deserialize = "AccountNumber"), default, deserialize_with = "lenient::opt")]
    pub account_number: Option<String>,
    /// True if the supplier is in use.
    #[serde(rename(deserialize = "IsActive"), default, deserialize_with = "lenient::opt")]
    pub is_active: Option<bool>,
    #[serde(rename(deserialize = "SupplierUrl"), default, deserialize_with = "lenient::opt")]
    pub url: Option<String>,
}

pub(crate) fn list_suppliers(paging: PageParams) -> PlatformRequest {
    PlatformRequest::new(Operation::ListSuppliers).with_page(paging)
}

pub(crate) fn decode_suppliers(body: &[u8]) -> Result<DecodedAnswer<Supplier>, MalformedBody> {
    decode_list("the list of suppliers", body, |_| true)
}

/// A storefront (*Storefront*), stored like a warehouse.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub(crate) struct Storefront {
    #[serde(rename(deserialize = "Id"), deserialize_with = "lenient::req")]
    pub id: StorefrontId,
    #[serde(rename(deserialize = "Name"), default, deserialize_with = "lenient::opt")]
    pub name: Option<String>,
    /// True if the storefront is in use.
    #[serde(rename(deserialize = "IsActive"), default, deserialize_with = "lenient::opt")]
    pub is_active: Option<bool>,
    #[serde(rename(serialize = "type", deserialize = "Type"), default, deserialize_with = "lenient::opt")]
    pub kind: Option<String>,
    #[serde(rename(deserialize = "StorefrontProperties"), default, deserialize_with = "lenient::json")]
    pub properties: Option<String>,
}

pub(crate) fn list_storefronts(paging: PageParams) -> PlatformRequest {
    PlatformRequest::new(Operation::ListStorefronts).with_page(paging)
}

pub(crate) fn decode_storefronts(body: &[u8]) -> Result<DecodedAnswer<Storefront>, MalformedBody> {
    decode_list("the list of storefronts", body, |_| true)
}

#[cfg(test)]
mod tests {
    use super::super::WriteOutcome::{Done, Refused, Unclear};
    use super::*;

    #[test]
    fn a_page_is_asked_for_by_its_parameters() {
        let request = list_warehouses(PageParams::FIRST.next_page());
        assert_eq!(request.target(), "/api/Warehouses?pageNumber=2&resultsPerPage=200");
    }

    #[test]
    fn a_warehouse_is_read_with_what_it_has() {
        let body =
            br#"{"status":"Success","messages":[],"pagination":{"CurrentPage":1,"TotalNumberOfEntries":2,
            "TotalNumberOfPages":1},"data":[{"Id":7.0,"Name":"Main","IsActive":true,"Type":"Moon",
            "ContactInformation":{"Id":1}},{"Id":8},{"Name":"no id"}]}"#;
        let decoded = decode_warehouses(body).unwrap();
        assert_eq!(decoded.records[0].kind.as_deref(), Some("Moon"));
        assert_eq!(decoded.records[0].contact.as_deref(), Some(r#"{"Id":1}"#));
        assert_eq!((decoded.records[1].id, &decoded.records[1].name), (WarehouseId(8), &None));
        assert_eq!((decoded.parked.len(), decoded.has_more()), (1, false));
    }

    #[test]
    fn a_created_warehouse_is_done_only_with_its_id() {
        let cases = [
            (r#"{"status":"Success","messages":[],"data":{"Id":7,"Name":"Main"}}"#, Done),
            (r#"{"status":"Failure","messages":["exists"],"data":null}"#, Refused),
            (r#"{"status":"Success","data":{"Name":"Main"}}"#, Unclear),
            ("{}", Unclear),
        ];
        for (body, outcome) in cases {
            assert_eq!(decode_created_warehouse(body.as_bytes()).unwrap().outcome(), outcome, "{body}");
        }
    }

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
