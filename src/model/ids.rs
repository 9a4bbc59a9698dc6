//! Identifiers as distinct types, so that a warehouse id cannot replace an order id.
//!
//! The platform writes ids as JSON numbers, sometimes as `28.0`. Here an id is a 64-bit integer.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! id_types {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub i64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl From<i64> for $name {
            fn from(value: i64) -> Self {
                Self(value)
            }
        }
    )+};
}

id_types! {
    /// A warehouse of the account (`Warehouse.Id`).
    WarehouseId,
    /// A product of the account (`Product.Id`).
    ProductId,
    /// A sales order (`SalesOrderId`), tracked by command or import because the platform cannot list orders.
    OrderId,
    /// A line of a sales order (`OrderLineItemId`).
    LineItemId,
    ShipmentId,
    /// An item of a shipment (`Shipment.Items[].Id`), in another id space than the order's lines.
    ShipmentItemId,
    StorefrontId,
    SupplierId,
    /// A change in the outbox (`outbox.id`); the order of ids is the order of commits.
    ChangeId,
    RunId,
    /// A request to the platform with its outcome.
    ExchangeId,
    /// A position in the journal. Positions give the order, never clock times.
    Position,
}
