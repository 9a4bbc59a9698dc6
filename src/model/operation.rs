//! The twenty operations of the platform, by the names of docs/interface.md, *Endpoints*.

use super::code_enum;

/// Most entries of a call of *Update quantity on hand* (docs/interface.md, *Limits*).
pub(crate) const UPDATE_MAX_ENTRIES: usize = 25;

/// The effect of a call at the platform, which decides the meaning of a lost answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallEffect {
    /// No change: the call may be repeated.
    Read,
    /// A change: a lost answer leaves it in doubt.
    Write,
}

macro_rules! operations {
    ($($(#[$doc:meta])* $variant:ident = $method:literal $path:literal $effect:ident),+ $(,)?) => {
        code_enum! {
            /// An operation of the platform, in the order of docs/interface.md. The code is method and path.
            pub enum Operation { $($(#[$doc])* $variant = concat!($method, " ", $path)),+ }
        }

        impl Operation {
            pub fn method(self) -> &'static str {
                match self { $(Operation::$variant => $method),+ }
            }

            /// Returns the path with its placeholders.
            pub(crate) fn path(self) -> &'static str {
                match self { $(Operation::$variant => $path),+ }
            }

            /// Returns the effect at the platform.
            pub fn effect(self) -> CallEffect {
                match self { $(Operation::$variant => CallEffect::$effect),+ }
            }
        }
    };
}

operations! {
    CreateProduct = "POST" "/api/Inventory" Write,
    UpdateProduct = "PUT" "/api/Inventory" Write,
    UpdateQuantityOnHand = "POST" "/api/inventory/updateQuantityOnHand" Write,
    /// *Get products by SKU or UPC*
    GetProducts = "POST" "/api/inventory/getProducts" Read,
    GetProductBalances = "POST" "/api/product/getProductBalances" Read,
    TopSelling = "GET" "/api/Inventory/TopSelling" Read,
    KitComponents = "GET" "/api/Inventory/{productid}/kitcomponents" Read,
    CreateShipments = "POST" "/api/Shipments/Create" Write,
    SubmitTracking = "POST" "/api/Shipments/submitTrackingInfo" Write,
    ShipmentLineItems = "GET" "/api/Shipments/{shipmentid}/LineItems" Read,
    /// *Get line items of a sales order*
    GetOrderLineItems = "POST" "/api/orders/getOrderLineItems" Read,
    /// *Get warehouse allocation of an order line item*
    WarehouseAllocation = "GET" "/api/orders/{orderId}/lineitems/{lineitemId}/warehouseallocation" Read,
    CreateWarehouse = "POST" "/api/Warehouses" Write,
    ListWarehouses = "GET" "/api/Warehouses" Read,
    ListSuppliers = "GET" "/api/Suppliers" Read,
    ListStorefronts = "GET" "/api/storefronts" Read,
    CreateListingTemplate = "POST" "/api/storefronts/{storefrontid}/listingTemplates" Write,
    ListListingTemplates = "GET" "/api/storefronts/{storefrontid}/listingTemplates" Read,
    BusinessHealth = "GET" "/api/Company/BusinessHealth" Read,
    WorkQueue = "GET" "/api/Company/WorkQueue" Read,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_is_found_by_its_name() {
        assert_eq!(Operation::ALL.len(), 20);
        for operation in Operation::ALL {
            assert_eq!(Operation::from_code(operation.as_str()), Some(*operation));
        }
    }
}
