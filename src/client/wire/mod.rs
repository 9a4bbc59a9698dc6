//! Requests and answers of the platform's twenty operations, one file per subject.
//!
//! Each operation has a function that builds its [`Request`](super::PlatformRequest) and refuses with [`InvalidRequest`]
//! what the platform would answer with 400. A `decode_…` function reads the body of an accepted answer.
//! Structs hold the stored fields. Unknown fields are ignored, and unknown enumeration values are kept. Names
//! in italics are sections of docs/interface.md.

mod attribution;
mod balances;
pub(super) mod codec;
mod kits;
mod orders;
mod parsed_request;
mod products;
mod reports;
mod shipment_creates;
mod shipments;
mod storefronts;
mod suppliers;
mod templates;
mod tracking;
mod updates;
mod warehouses;
mod work_queue;

pub use crate::model::Month;
pub use attribution::{Attribution, attribute_messages};
pub use balances::{
    ProductBalance, ProductKey, WarehouseBalance, decode_balances, decode_products, get_product_balances,
    get_products,
};
pub(super) use codec::Envelope;
pub use codec::{
    DecodedAnswer, InvalidRequest, MalformedBody, PageInfo, PageParams, ParkedRecord, WriteAnswer,
    WriteOutcome,
};
pub use kits::{KitComponent, decode_kit_components, kit_components};
pub use orders::{
    LineAllocation, OrderLineItem, decode_allocations, decode_order_line_items, get_order_line_items,
    warehouse_allocation,
};
pub use parsed_request::ParsedRequest;
pub use products::{
    ListingAttributes, Product, ProductIdentifiers, ProductSupplier, ProductWarehouse, create_product,
    decode_product_answer, update_product,
};
pub use reports::{
    HealthMonth, TopSeller, business_health, decode_business_health, decode_top_selling, top_selling,
};
pub use shipment_creates::{
    CreatedShipment, ShipmentOrder, ShipmentOrderLine, create_shipments, decode_created_shipments,
};
pub use shipments::{
    Carrier, Shipment, ShipmentItem, ShipmentStatus, decode_shipment_line_items, shipment_line_items,
};
pub use storefronts::{Storefront, decode_storefronts, list_storefronts};
pub use suppliers::{Supplier, decode_suppliers, list_suppliers};
pub use templates::{
    ListingTemplate, create_listing_template, decode_created_template, decode_listing_templates,
    list_listing_templates,
};
pub use tracking::{
    ShipmentItemTracking, TrackingAnswer, TrackingSubmission, decode_tracking_answers, submit_tracking,
};
pub use updates::{QuantityUpdate, UpdateAnswer, UpdateStatus, decode_update, update_quantity_on_hand};
pub use warehouses::{
    Warehouse, create_warehouse, decode_created_warehouse, decode_warehouses, list_warehouses,
};
pub use work_queue::{WorkQueue, decode_work_queue, work_queue};
