//! Table of the twenty operations: method, path and handler.
//!
//! A path's segments match only in the listed spelling (docs/interface.md, *Conventions*). Another case, a
//! trailing slash or an encoded letter is another path, and answered 404. Braces mark an id.
//!
//! Handlers are in the file of their resource. `product_body.rs` and `links.rs` hold the parts of a product.

pub(crate) mod kits;
mod links;
mod orders;
pub(crate) mod product_body;
pub(crate) mod products;
mod quantity;
mod reports;
mod shipments;
mod stock;
mod templates;
mod tracking;
mod warehouses;

use std::pin::Pin;

use axum::http::{Method, StatusCode, header};
use sqlx::SqliteConnection;

use super::http::answer::{HandlerResult, SandboxRefusal};
use super::http::request::{OperationCall, parse_whole};

type OperationHandler = for<'a> fn(
    &'a OperationCall,
    &'a mut SqliteConnection,
) -> Pin<Box<dyn Future<Output = HandlerResult> + Send + 'a>>;

pub(crate) struct SandboxOperation {
    pub(crate) name: &'static str,
    /// True if it changes data, and so runs in a transaction.
    pub(crate) writes: bool,
    /// True if an inactive key is answered 400 instead of
    /// 403. See docs/interface.md, *Authentication*, rule 2.
    pub(crate) answers_inactive_key_400: bool,
    pub(crate) handler: OperationHandler,
}

const fn read_operation(name: &'static str, handler: OperationHandler) -> SandboxOperation {
    SandboxOperation { name, writes: false, answers_inactive_key_400: false, handler }
}

const fn write_operation(name: &'static str, handler: OperationHandler) -> SandboxOperation {
    SandboxOperation { name, writes: true, answers_inactive_key_400: false, handler }
}

/// All operations, in the order of docs/interface.md.
#[rustfmt::skip]
pub(crate) static OPERATIONS: [SandboxOperation; 20] = [
    write_operation("POST /api/Inventory", |call, db| Box::pin(products::create_product(call, db))),
    write_operation("PUT /api/Inventory", |call, db| Box::pin(products::update_product(call, db))),
    SandboxOperation {
        answers_inactive_key_400: true,
        ..write_operation("POST /api/inventory/updateQuantityOnHand", |call, db| Box::pin(quantity::update_quantities(call, db)))
    },
    read_operation("POST /api/inventory/getProducts", |call, db| Box::pin(stock::get_products(call, db))),
    read_operation("POST /api/product/getProductBalances", |call, db| Box::pin(stock::get_balances(call, db))),
    read_operation("GET /api/Inventory/TopSelling", |call, db| Box::pin(reports::top_selling(call, db))),
    read_operation("GET /api/Inventory/{productid}/kitcomponents", |call, db| Box::pin(kits::kit_components(call, db))),
    write_operation("POST /api/Shipments/Create", |call, db| Box::pin(shipments::create_shipments(call, db))),
    write_operation("POST /api/Shipments/submitTrackingInfo", |call, db| Box::pin(tracking::submit_tracking(call, db))),
    read_operation("GET /api/Shipments/{shipmentid}/LineItems", |call, db| Box::pin(shipments::shipment_line_items(call, db))),
    read_operation("POST /api/orders/getOrderLineItems", |call, db| Box::pin(orders::order_line_items(call, db))),
    read_operation("GET /api/orders/{orderId}/lineitems/{lineitemId}/warehouseallocation",
        |call, db| Box::pin(orders::line_allocations(call, db))),
    write_operation("POST /api/Warehouses", |call, db| Box::pin(warehouses::create_warehouse(call, db))),
    read_operation("GET /api/Warehouses", |call, db| Box::pin(warehouses::list_page(call, db, warehouses::WAREHOUSES))),
    read_operation("GET /api/Suppliers", |call, db| Box::pin(warehouses::list_page(call, db, warehouses::SUPPLIERS))),
    read_operation("GET /api/storefronts", |call, db| Box::pin(warehouses::list_page(call, db, warehouses::STOREFRONTS))),
    write_operation("POST /api/storefronts/{storefrontid}/listingTemplates", |call, db| Box::pin(templates::create_template(call, db))),
    read_operation("GET /api/storefronts/{storefrontid}/listingTemplates", |call, db| Box::pin(templates::list_templates(call, db))),
    read_operation("GET /api/Company/BusinessHealth", |call, db| Box::pin(reports::business_health(call, db))),
    read_operation("GET /api/Company/WorkQueue", |call, db| Box::pin(reports::work_queue(call, db))),
];

pub(crate) fn find_operation(
    method: &Method,
    path: &str,
) -> Result<(&'static SandboxOperation, Vec<Option<i64>>), SandboxRefusal> {
    let mut other_methods = Vec::new();
    for operation in &OPERATIONS {
        let (listed_method, pattern) = operation.name.split_once(' ').unwrap_or_default();
        let Some(ids) = path_ids(pattern, path) else { continue };
        if method.as_str() == listed_method {
            return Ok((operation, ids));
        }
        other_methods.push(listed_method);
    }
    if other_methods.is_empty() {
        let message = "No operation of the service has this path; its spelling counts.";
        return Err(SandboxRefusal::not_found(message));
    }
    let allowed = other_methods.join(", ");
    let message = format!("This path does not take {method}; it takes {allowed}.");
    Err(SandboxRefusal::new(StatusCode::METHOD_NOT_ALLOWED, message).with_header(header::ALLOW, &allowed))
}

/// Returns the ids at the pattern's braces if the path matches the pattern.
fn path_ids(pattern: &str, path: &str) -> Option<Vec<Option<i64>>> {
    let mut ids = Vec::new();
    let mut segments = path.split('/');
    for expected in pattern.split('/') {
        let segment = segments.next()?;
        if expected.starts_with('{') {
            ids.push(parse_whole(segment));
        } else if segment != expected {
            return None;
        }
    }
    segments.next().is_none().then_some(ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_matches_only_in_the_listed_spelling() {
        let found = |request: &str| {
            let (method, path) = request.split_once(' ').expect("a method and a path");
            let found = find_operation(&method.parse().expect("a method"), path);
            found.map(|(operation, ids)| (operation.name, ids)).map_err(|refused| refused.status.as_u16())
        };
        for (request, status) in [
            ("POST /api/inventory", 404),
            ("POST /api/Inventory/", 404),
            ("POST //api/Inventory", 404),
            ("POST /api/%49nventory", 404),
            ("GET /api/Inventory", 405),
            ("POST /api/Inventory/updateQuantityOnHand", 404),
            ("GET /api/Orders/1/lineitems/2/warehouseallocation", 404),
            ("GET /", 404),
        ] {
            assert_eq!(found(request), Err(status), "{request}");
        }
        let kit = "GET /api/Inventory/{productid}/kitcomponents";
        let line = "GET /api/orders/{orderId}/lineitems/{lineitemId}/warehouseallocation";
        for (request, name, ids) in [
            ("POST /api/Inventory", "POST /api/Inventory", vec![]),
            ("POST /api/inventory/updateQuantityOnHand", "POST /api/inventory/updateQuantityOnHand", vec![]),
            ("GET /api/Inventory/12/kitcomponents", kit, vec![Some(12)]),
            ("GET /api/Inventory/12.0/kitcomponents", kit, vec![Some(12)]),
            ("GET /api/Inventory/12.5/kitcomponents", kit, vec![None]),
            ("GET /api/Inventory/12./kitcomponents", kit, vec![None]),
            ("GET /api/Inventory/+12/kitcomponents", kit, vec![None]),
            ("GET /api/orders/1/lineitems/x/warehouseallocation", line, vec![Some(1), None]),
        ] {
            assert_eq!(found(request), Ok((name, ids)), "{request}");
        }
    }
}
