//! Subject of a stored request, as far as recording its answer needs it.
//!
//! A replay knows only the exchange. Most answers do not name their subject (an order's lines without lines,
//! a page of balances that lacks a SKU). The subject is therefore read from the request as it was sent: from its
//! body, or from the placeholders of its path.

use super::codec::lenient;
use super::{MalformedBody, QuantityUpdate};
use crate::model::{LineItemId, Month, Operation, OrderId, ProductId, Sku};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// A request as it was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoredRequest<'a> {
    pub(crate) operation: Operation,
    /// Path and query.
    pub(crate) target: &'a str,
    pub(crate) body: &'a [u8],
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

const WHAT: &str = "a request in the journal";

impl StoredRequest<'_> {
    /// Returns the SKUs of *Get product balances*.
    pub(crate) fn skus(self) -> Result<Vec<Sku>, MalformedBody> {
        self.json::<SkusBody>().map(|body| body.skus)
    }

    /// Returns the order of *Get line items of a sales order*.
    pub(crate) fn order(self) -> Result<OrderId, MalformedBody> {
        self.json::<OrderIdBody>().map(|body| body.id)
    }

    /// Returns the order and the line of *Get warehouse allocation of an order line item*.
    pub(crate) fn order_line(self) -> Result<(OrderId, LineItemId), MalformedBody> {
        Ok((self.path_id(0)?, self.path_id(1)?))
    }

    /// Returns the month of *Get top-selling products by month*.
    pub(crate) fn month(self) -> Result<Month, MalformedBody> {
        let query = self.target.split_once('?').map_or("", |(_, query)| query);
        let value = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
        let year = value("year").and_then(|year| year.parse().ok());
        let number = value("month").and_then(|month| month.parse().ok());
        let month = year.zip(number).and_then(|(year, number)| Month::new(year, number));
        month.ok_or_else(|| MalformedBody::new(WHAT, "its query names no month"))
    }

    /// Returns the entries of *Update quantity on hand*.
    pub(crate) fn quantities(self) -> Result<Vec<QuantityUpdate>, MalformedBody> {
        self.json()
    }

    /// Returns the orders of *Create shipments*.
    pub(crate) fn shipped_orders(self) -> Result<Vec<OrderId>, MalformedBody> {
        let orders: Vec<OrderIdBody> = self.json()?;
        Ok(orders.into_iter().map(|order| order.id).collect())
    }

    /// Returns the product of *Update product*, which writes all stock levels of the SKU.
    pub(crate) fn product(self) -> Result<(ProductId, Sku), MalformedBody> {
        self.json::<ProductIdBody>().map(|body| (body.id, body.sku))
    }

    /// Returns the id in the path at the `index`-th placeholder of the operation.
    pub(crate) fn path_id<T: From<i64>>(self, index: usize) -> Result<T, MalformedBody> {
        let path = self.target.split('?').next().unwrap_or_default();
        let segments = self.operation.path().split('/').zip(path.split('/'));
        let mut ids = segments.filter(|(name, _)| name.starts_with('{')).map(|(_, id)| id);
        let id = ids.nth(index).and_then(|id| id.parse::<i64>().ok());
        id.map(T::from).ok_or_else(|| MalformedBody::new(WHAT, "its path lacks an id"))
    }

    fn json<T: DeserializeOwned>(self) -> Result<T, MalformedBody> {
        serde_json::from_slice(self.body).map_err(|error| MalformedBody::new(WHAT, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::{PlatformRequest, wire};
    use crate::model::{Quantity, ShipmentId, StorefrontId, WarehouseId};

    /// Reads the subject of a request from what is stored of it.
    fn read<T>(
        request: &PlatformRequest,
        subject: impl FnOnce(StoredRequest<'_>) -> Result<T, MalformedBody>,
    ) -> T {
        let (target, body) = (request.target(), request.body.as_deref().unwrap_or_default());
        subject(StoredRequest { operation: request.operation, target: &target, body }).unwrap()
    }

    #[test]
    fn what_was_asked_is_read_back_from_what_was_sent() {
        let sku = |text: &str| Sku::new(text).unwrap();
        let skus = vec![sku("A \"1\""), sku("ä/2")];
        assert_eq!(read(&wire::get_product_balances(&skus), |request| request.skus()), skus);
        assert_eq!(read(&wire::get_order_line_items(OrderId(5)), |request| request.order()), OrderId(5));
        let allocation = wire::warehouse_allocation(OrderId(5), LineItemId(6));
        assert_eq!(read(&allocation, |request| request.order_line()), (OrderId(5), LineItemId(6)));
        let second_page = wire::PageParams::FIRST.next_page();
        let of_shipment = wire::shipment_line_items(ShipmentId(7), second_page);
        assert_eq!(read(&of_shipment, |request| request.path_id::<ShipmentId>(0)), ShipmentId(7));
        let kit = read(&wire::kit_components(ProductId(8)), |request| request.path_id::<ProductId>(0));
        assert_eq!(kit, ProductId(8));
        let templates = wire::list_listing_templates(StorefrontId(9), Some("a?b=1"), second_page);
        assert_eq!(read(&templates, |request| request.path_id::<StorefrontId>(0)), StorefrontId(9));
        let month = Month::new(2031, 5).unwrap();
        assert_eq!(read(&wire::top_selling(Some(StorefrontId(1)), month), |request| request.month()), month);
        let entry = QuantityUpdate { sku: sku("A"), quantity: Quantity(3), warehouse_id: WarehouseId(2) };
        let update = wire::update_quantity_on_hand(std::slice::from_ref(&entry));
        assert_eq!(read(&update, |request| request.quantities()), [entry]);
        let line = wire::ShipmentOrderLine { line_item_id: LineItemId(1), quantity: 1 };
        let order = wire::ShipmentOrder { order_id: OrderId(4), lines: Some(vec![line]) };
        assert_eq!(read(&wire::create_shipments(&[order]), |request| request.shipped_orders()), [OrderId(4)]);
    }

    #[test]
    fn a_request_that_lacks_what_it_must_name_is_an_error_and_no_guess() {
        let stored = |operation: Operation, target, body: &'static str| StoredRequest {
            operation,
            target,
            body: body.as_bytes(),
        };
        let balances = stored(Operation::GetProductBalances, "/api/product/getProductBalances", "{}");
        assert!(balances.skus().is_err());
        let shipment = stored(Operation::ShipmentLineItems, "/api/Shipments/x/LineItems", "");
        assert!(shipment.path_id::<i64>(0).is_err());
        let sellers = stored(Operation::TopSelling, "/api/Inventory/TopSelling?year=2031", "");
        assert!(sellers.month().is_err());
        assert!(stored(Operation::UpdateProduct, "/api/Inventory", r#"{"Id":1}"#).product().is_err());
    }
}
