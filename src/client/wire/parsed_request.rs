//! Content of a stored request, as far as recording its answer needs it.
//!
//! A replay knows only the exchange. Most answers do not name their subject (an order's lines without lines,
//! a page of balances that lacks a SKU). The request is therefore parsed as it was sent. Ids are read from
//! the path's placeholders.

use super::QuantityUpdate;
use super::codec::envelope::Malformed;
use super::codec::lenient;
use crate::model::{LineItemId, Month, Operation, OrderId, ProductId, ShipmentId, Sku, StorefrontId};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Parsed content of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// *Get product balances* of these SKUs.
    Balances(Vec<Sku>),
    /// *Get products by SKU or UPC*; a product that was not found is no fact.
    Products,
    /// *Get line items of a sales order*.
    OrderLines(OrderId),
    /// *Get warehouse allocation of an order line item*.
    Allocation(OrderId, LineItemId),
    /// *Get shipment line items*.
    ShipmentItems(ShipmentId),
    /// *Get kit components*.
    KitComponents(ProductId),
    /// *List listing templates*.
    Templates(StorefrontId),
    /// *List warehouses*.
    Warehouses,
    /// *List suppliers*.
    Suppliers,
    /// *List storefronts*.
    Storefronts,
    /// *Get top-selling products by month*.
    TopSelling(Month),
    /// *Business health*.
    BusinessHealth,
    /// *Work queue*.
    WorkQueue,
    /// *Update quantity on hand*.
    Quantities(Vec<QuantityUpdate>),
    /// *Create shipments* for these orders.
    Shipments(Vec<OrderId>),
    /// *Submit tracking info*; the next read updates the mirror.
    Tracking,
    /// *Create product*.
    NewProduct,
    /// *Update product*, which writes all stock levels of the SKU.
    Product(ProductId, Sku),
    /// *Create warehouse*.
    NewWarehouse,
    /// *Create listing template*; the storefront's list updates the mirror.
    NewTemplate,
}

#[derive(Deserialize)]
struct Skus {
    skus: Vec<Sku>,
}

#[derive(Deserialize)]
struct OfOrder {
    #[serde(rename = "OrderId")]
    id: OrderId,
}

#[derive(Deserialize)]
struct OfProduct {
    #[serde(rename = "Id", deserialize_with = "lenient::req")]
    id: ProductId,
    #[serde(rename = "Sku", deserialize_with = "lenient::req")]
    sku: Sku,
}

impl Asked {
    /// Parses a request from its operation, its path and query, and its body.
    pub fn read(operation: Operation, target: &str, body: &[u8]) -> Result<Self, Malformed> {
        let ids = Ids::of(operation, target);
        Ok(match operation {
            Operation::GetProductBalances => Asked::Balances(json::<Skus>(body)?.skus),
            Operation::GetProducts => Asked::Products,
            Operation::GetOrderLineItems => Asked::OrderLines(json::<OfOrder>(body)?.id),
            Operation::WarehouseAllocation => Asked::Allocation(ids.at(0)?, ids.at(1)?),
            Operation::ShipmentLineItems => Asked::ShipmentItems(ids.at(0)?),
            Operation::KitComponents => Asked::KitComponents(ids.at(0)?),
            Operation::ListListingTemplates => Asked::Templates(ids.at(0)?),
            Operation::ListWarehouses => Asked::Warehouses,
            Operation::ListSuppliers => Asked::Suppliers,
            Operation::ListStorefronts => Asked::Storefronts,
            Operation::TopSelling => Asked::TopSelling(month(target)?),
            Operation::BusinessHealth => Asked::BusinessHealth,
            Operation::WorkQueue => Asked::WorkQueue,
            Operation::UpdateQuantityOnHand => Asked::Quantities(json(body)?),
            Operation::CreateShipments => {
                let orders: Vec<OfOrder> = json(body)?;
                Asked::Shipments(orders.into_iter().map(|order| order.id).collect())
            }
            Operation::SubmitTracking => Asked::Tracking,
            Operation::CreateProduct => Asked::NewProduct,
            Operation::UpdateProduct => {
                let OfProduct { id, sku } = json(body)?;
                Asked::Product(id, sku)
            }
            Operation::CreateWarehouse => Asked::NewWarehouse,
            Operation::CreateListingTemplate => Asked::NewTemplate,
        })
    }
}

const WHAT: &str = "a request in the journal";

fn json<T: DeserializeOwned>(body: &[u8]) -> Result<T, Malformed> {
    serde_json::from_slice(body).map_err(|error| Malformed::new(WHAT, error))
}

/// Ids of a path, in the order of the operation's placeholders.
struct Ids<'a>(Vec<&'a str>);

impl<'a> Ids<'a> {
    fn of(operation: Operation, target: &'a str) -> Self {
        let path = target.split('?').next().unwrap_or_default();
        let pairs = operation.path().split('/').zip(path.split('/'));
        Self(pairs.filter(|(place, _)| place.starts_with('{')).map(|(_, id)| id).collect())
    }

    fn at<T: From<i64>>(&self, place: usize) -> Result<T, Malformed> {
        let id = self.0.get(place).and_then(|id| id.parse::<i64>().ok());
        id.map(T::from).ok_or_else(|| Malformed::new(WHAT, "its path lacks an id"))
    }
}

fn month(target: &str) -> Result<Month, Malformed> {
    let query = target.split_once('?').map_or("", |(_, query)| query);
    let value = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
    let year = value("year").and_then(|year| year.parse().ok());
    let number = value("month").and_then(|month| month.parse().ok());
    let month = year.zip(number).and_then(|(year, number)| Month::new(year, number));
    month.ok_or_else(|| Malformed::new(WHAT, "its query names no month"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Request;
    use crate::client::wire;
    use crate::model::{Quantity, WarehouseId};

    fn again(request: &Request) -> Asked {
        let query: Vec<String> =
            request.query.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let target = format!("{}?{}", request.path, query.join("&"));
        Asked::read(request.operation, &target, request.body.as_deref().unwrap_or_default()).unwrap()
    }

    #[test]
    fn what_was_asked_is_read_back_from_what_was_sent() {
        let sku = |text: &str| Sku::new(text).unwrap();
        let skus = vec![sku("A \"1\""), sku("ä/2")];
        assert_eq!(again(&wire::get_product_balances(&skus).unwrap()), Asked::Balances(skus));
        assert_eq!(again(&wire::get_order_line_items(OrderId(5))), Asked::OrderLines(OrderId(5)));
        let allocation = wire::warehouse_allocation(OrderId(5), LineItemId(6));
        assert_eq!(again(&allocation), Asked::Allocation(OrderId(5), LineItemId(6)));
        let items = wire::shipment_line_items(ShipmentId(7), wire::Paging::FIRST.next());
        assert_eq!(again(&items), Asked::ShipmentItems(ShipmentId(7)));
        assert_eq!(again(&wire::kit_components(ProductId(8))), Asked::KitComponents(ProductId(8)));
        let templates = wire::list_listing_templates(StorefrontId(9), Some("a?b=1"), wire::Paging::FIRST);
        assert_eq!(again(&templates), Asked::Templates(StorefrontId(9)));
        let month = Month::new(2031, 5).unwrap();
        assert_eq!(again(&wire::top_selling(Some(StorefrontId(1)), month)), Asked::TopSelling(month));
        let entry = QuantityUpdate { sku: sku("A"), quantity: Quantity(3), warehouse_id: WarehouseId(2) };
        let update = wire::update_quantity_on_hand(std::slice::from_ref(&entry)).unwrap();
        assert_eq!(again(&update), Asked::Quantities(vec![entry]));
        let line = wire::ShipmentLine { line_item_id: LineItemId(1), quantity: 1 };
        let order = wire::ShipmentOrder { order_id: OrderId(4), lines: vec![line] };
        assert_eq!(again(&wire::create_shipments(&[order]).unwrap()), Asked::Shipments(vec![OrderId(4)]));
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
            assert!(Asked::read(operation, target, body.as_bytes()).is_err(), "{operation}");
        }
    }
}
