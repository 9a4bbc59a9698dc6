//! Content of a stored request, as far as recording its answer needs it.
//!
//! A replay knows only the exchange. Most answers do not name their subject (an order's lines without lines,
//! a page of balances that lacks a SKU). The request is therefore parsed as it was sent. Ids are read from
//! the path's placeholders.

use super::codec::lenient;
use super::{MalformedBody, QuantityUpdate};
use crate::model::{LineItemId, Month, Operation, OrderId, ProductId, ShipmentId, Sku, StorefrontId};
use serde::Deserialize;
use serde::de::DeserializeOwned;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ParsedRequest {
    /// *Get product balances* of these SKUs.
    Balances(Vec<Sku>),
    /// *Get products by SKU or UPC*; a product that was not found is no fact.
    Products,
    /// *Get line items of a sales order*.
    OrderLines(OrderId),
    /// *Get warehouse allocation of an order line item*.
    Allocation(OrderId, LineItemId),
    ShipmentItems(ShipmentId),
    KitComponents(ProductId),
    Templates(StorefrontId),
    Warehouses,
    Suppliers,
    Storefronts,
    TopSelling(Month),
    BusinessHealth,
    WorkQueue,
    Quantities(Vec<QuantityUpdate>),
    Shipments(Vec<OrderId>),
    /// *Submit tracking info*; the next read updates the mirror.
    Tracking,
    NewProduct,
    /// *Update product*, which writes all stock levels of the SKU.
    Product(ProductId, Sku),
    NewWarehouse,
    /// *Create listing template*; the storefront's list updates the mirror.
    NewTemplate,
}

#[derive(Deserialize)]
struct SkusBody {
    skus: Vec<Sku>,
}

#[derive(Deserialize)]
struct OrderIdBody {
    #[serde(rename = "OrderId")]
    id: OrderId,
}

#[derive(Deserialize)]
struct ProductIdBody {
    #[serde(rename = "Id", deserialize_with = "lenient::req")]
    id: ProductId,
    #[serde(rename = "Sku", deserialize_with = "lenient::req")]
    sku: Sku,
}

impl ParsedRequest {
    /// Parses a request from its operation, its path and query, and its body.
    pub(crate) fn parse_request(
        operation: Operation,
        target: &str,
        body: &[u8],
    ) -> Result<Self, MalformedBody> {
        Ok(match operation {
            Operation::GetProductBalances => ParsedRequest::Balances(parse_json::<SkusBody>(body)?.skus),
            Operation::GetProducts => ParsedRequest::Products,
            Operation::GetOrderLineItems => ParsedRequest::OrderLines(parse_json::<OrderIdBody>(body)?.id),
            Operation::WarehouseAllocation => {
                ParsedRequest::Allocation(path_id(operation, target, 0)?, path_id(operation, target, 1)?)
            }
            Operation::ShipmentLineItems => ParsedRequest::ShipmentItems(path_id(operation, target, 0)?),
            Operation::KitComponents => ParsedRequest::KitComponents(path_id(operation, target, 0)?),
            Operation::ListListingTemplates => ParsedRequest::Templates(path_id(operation, target, 0)?),
            Operation::ListWarehouses => ParsedRequest::Warehouses,
            Operation::ListSuppliers => ParsedRequest::Suppliers,
            Operation::ListStorefronts => ParsedRequest::Storefronts,
            Operation::TopSelling => ParsedRequest::TopSelling(parse_month(target)?),
            Operation::BusinessHealth => ParsedRequest::BusinessHealth,
            Operation::WorkQueue => ParsedRequest::WorkQueue,
            Operation::UpdateQuantityOnHand => ParsedRequest::Quantities(parse_json(body)?),
            Operation::CreateShipments => {
                let orders: Vec<OrderIdBody> = parse_json(body)?;
                ParsedRequest::Shipments(orders.into_iter().map(|order| order.id).collect())
            }
            Operation::SubmitTracking => ParsedRequest::Tracking,
            Operation::CreateProduct => ParsedRequest::NewProduct,
            Operation::UpdateProduct => {
                let ProductIdBody { id, sku } = parse_json(body)?;
                ParsedRequest::Product(id, sku)
            }
            Operation::CreateWarehouse => ParsedRequest::NewWarehouse,
            Operation::CreateListingTemplate => ParsedRequest::NewTemplate,
        })
    }
}

const WHAT: &str = "a request in the journal";

fn parse_json<T: DeserializeOwned>(body: &[u8]) -> Result<T, MalformedBody> {
    serde_json::from_slice(body).map_err(|error| MalformedBody::new(WHAT, error))
}

/// Returns the id in the path at the `index`-th placeholder of the operation.
fn path_id<T: From<i64>>(operation: Operation, target: &str, index: usize) -> Result<T, MalformedBody> {
    let path = target.split('?').next().unwrap_or_default();
    let segments = operation.path().split('/').zip(path.split('/'));
    let mut ids = segments.filter(|(name, _)| name.starts_with('{')).map(|(_, id)| id);
    let id = ids.nth(index).and_then(|id| id.parse::<i64>().ok());
    id.map(T::from).ok_or_else(|| MalformedBody::new(WHAT, "its path lacks an id"))
}

fn parse_month(target: &str) -> Result<Month, MalformedBody> {
    let query = target.split_once('?').map_or("", |(_, query)| query);
    let value = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
    let year = value("year").and_then(|year| year.parse().ok());
    let number = value("month").and_then(|month| month.parse().ok());
    let month = year.zip(number).and_then(|(year, number)| Month::new(year, number));
    month.ok_or_else(|| MalformedBody::new(WHAT, "its query names no month"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::wire;
    use crate::model::{Quantity, WarehouseId};

    #[test]
    fn what_was_asked_is_read_back_from_what_was_sent() {
        let sku = |text: &str| Sku::new(text).unwrap();
        let skus = vec![sku("A \"1\""), sku("ä/2")];
        let month = Month::new(2031, 5).unwrap();
        let entry = QuantityUpdate { sku: sku("A"), quantity: Quantity(3), warehouse_id: WarehouseId(2) };
        let line = wire::ShipmentOrderLine { line_item_id: LineItemId(1), quantity: 1 };
        let order = wire::ShipmentOrder { order_id: OrderId(4), lines: Some(vec![line]) };
        let second_page = wire::PageParams::FIRST.next_page();
        let cases = [
            (wire::get_product_balances(&skus), ParsedRequest::Balances(skus)),
            (wire::get_order_line_items(OrderId(5)), ParsedRequest::OrderLines(OrderId(5))),
            (
                wire::warehouse_allocation(OrderId(5), LineItemId(6)),
                ParsedRequest::Allocation(OrderId(5), LineItemId(6)),
            ),
            (
                wire::shipment_line_items(ShipmentId(7), second_page),
                ParsedRequest::ShipmentItems(ShipmentId(7)),
            ),
            (wire::kit_components(ProductId(8)), ParsedRequest::KitComponents(ProductId(8))),
            (
                wire::list_listing_templates(StorefrontId(9), Some("a?b=1"), second_page),
                ParsedRequest::Templates(StorefrontId(9)),
            ),
            (wire::top_selling(Some(StorefrontId(1)), month), ParsedRequest::TopSelling(month)),
            (
                wire::update_quantity_on_hand(std::slice::from_ref(&entry)),
                ParsedRequest::Quantities(vec![entry]),
            ),
            (wire::create_shipments(&[order]), ParsedRequest::Shipments(vec![OrderId(4)])),
        ];
        for (request, expected) in cases {
            let body = request.body.as_deref().unwrap_or_default();
            let parsed = ParsedRequest::parse_request(request.operation, &request.target(), body);
            assert_eq!(parsed, Ok(expected), "{request:?}");
        }
    }

    #[test]
    fn a_request_that_lacks_what_it_must_name_is_an_error_and_no_guess() {
        let broken = [
            (Operation::GetProductBalances, "/api/product/getProductBalances", "{}"),
            (Operation::ShipmentLineItems, "/api/Shipments/x/LineItems", ""),
            (Operation::TopSelling, "/api/Inventory/TopSelling?year=2031", ""),
            (Operation::UpdateProduct, "/api/Inventory", r#"{"Id":1}"#),
        ];
        for (operation, target, body) in broken {
            assert!(ParsedRequest::parse_request(operation, target, body.as_bytes()).is_err(), "{operation}");
        }
    }
}
