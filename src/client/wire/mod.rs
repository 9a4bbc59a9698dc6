//! Requests and answers of the platform's twenty operations, one file per subject.
//!
//! Each operation has a function that builds its [`Request`](super::Request) and refuses with [`Invalid`]
//! what the platform would answer with 400. A `decode_…` function reads the body of an accepted answer.
//! Structs hold the stored fields. Unknown fields are ignored, and unknown enumeration values are kept. Names
//! in italics are sections of docs/interface.md.

mod answer;
mod asked;
mod attribution;
mod balance;
mod create_shipment;
mod envelope;
mod fields;
mod kit;
pub(super) mod lenient;
mod order;
mod product;
mod report;
mod request;
mod shipment;
mod storefront;
mod supplier;
mod template;
mod tracking;
mod update;
mod warehouse;
mod work_queue;

pub use crate::model::Month;
pub use answer::{Outcome, WriteAnswer};
pub use asked::Asked;
pub use attribution::{Attribution, attribute};
pub use balance::{
    ProductBalance, ProductKey, WarehouseBalance, decode_balances, decode_products, get_product_balances,
    get_products,
};
pub use create_shipment::{
    CreatedShipment, ShipmentLine, ShipmentOrder, create_shipments, decode_created_shipments,
};
pub(super) use envelope::Envelope;
pub use envelope::{Decoded, Malformed, Page, Parked};
pub use kit::{KitComponent, decode_kit_components, kit_components};
pub use order::{
    Allocation, OrderLineItem, decode_allocations, decode_order_line_items, get_order_line_items,
    warehouse_allocation,
};
pub use product::{
    Identifiers, ListingAttributes, Product, ProductSupplier, ProductWarehouse, create_product,
    decode_product_answer, update_product,
};
pub use report::{
    HealthMonth, TopSeller, business_health, decode_business_health, decode_top_selling, top_selling,
};
pub use request::{Invalid, Paging};
pub use shipment::{
    Carrier, Shipment, ShipmentItem, ShipmentStatus, decode_shipment_line_items, shipment_line_items,
};
pub use storefront::{Storefront, decode_storefronts, list_storefronts};
pub use supplier::{Supplier, decode_suppliers, list_suppliers};
pub use template::{
    ListingTemplate, create_listing_template, decode_created_template, decode_listing_templates,
    list_listing_templates,
};
pub use tracking::{
    TrackingAnswer, TrackingLine, TrackingSubmission, decode_tracking_answers, submit_tracking,
};
pub use update::{
    QuantityUpdate, UPDATE_MAX_ENTRIES, UpdateAnswer, UpdateStatus, decode_update, update_quantity_on_hand,
};
pub use warehouse::{
    Warehouse, create_warehouse, decode_created_warehouse, decode_warehouses, list_warehouses,
};
pub use work_queue::{WorkQueue, decode_work_queue, work_queue};
