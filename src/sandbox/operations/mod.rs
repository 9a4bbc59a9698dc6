//! Table of the twenty operations: method, path and handler.
//!
//! A path's segments match only in the listed spelling (docs/interface.md, *Conventions*). Another case, a
//! trailing slash or an encoded letter is another path, and answered 404. Braces mark an id.
//!
//! Handlers are in the file of their resource. `product_body.rs` and `links.rs` hold the parts of a product.

pub(in crate::sandbox) mod kits;
mod links;
mod lists;
mod orders;
pub(in crate::sandbox) mod product_body;
pub(in crate::sandbox) mod products;
mod quantity;
mod reports;
mod shipments;
mod stock;
mod templates;
mod tracking;
mod warehouses;

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use axum::http::Method;
use sqlx::SqliteConnection;

use super::http::answer::Refusal;
use super::http::request::Call;

/// The result of a handler: the body of the 200, or a refusal.
pub(in crate::sandbox) type Handled<'a> = Pin<Box<dyn Future<Output = Result<String, Refusal>> + Send + 'a>>;

/// An operation of the platform.
pub(in crate::sandbox) struct Operation {
    /// Method and path, as docs/interface.md writes them.
    pub(in crate::sandbox) name: &'static str,
    /// True if it changes data, and so runs in a transaction.
    pub(in crate::sandbox) writes: bool,
    /// True if an inactive key is answered 400 instead of 403.
    ///
    /// See docs/interface.md, *Authentication*, rule 4.
    pub(in crate::sandbox) judges_keys_itself: bool,
    pub(in crate::sandbox) handler: for<'a> fn(&'a Call, &'a mut SqliteConnection) -> Handled<'a>,
}

impl fmt::Debug for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

const fn reads(
    name: &'static str,
    handler: for<'a> fn(&'a Call, &'a mut SqliteConnection) -> Handled<'a>,
) -> Operation {
    Operation { name, writes: false, judges_keys_itself: false, handler }
}

const fn writes(
    name: &'static str,
    handler: for<'a> fn(&'a Call, &'a mut SqliteConnection) -> Handled<'a>,
) -> Operation {
    Operation { name, writes: true, judges_keys_itself: false, handler }
}

/// All operations, in the order of docs/interface.md.
#[rustfmt::skip]
pub(in crate::sandbox) static OPERATIONS: [Operation; 20] = [
    writes("POST /api/Inventory", |call, db| Box::pin(products::create(call, db))),
    writes("PUT /api/Inventory", |call, db| Box::pin(products::update(call, db))),
    Operation {
        judges_keys_itself: true,
        ..writes("POST /api/inventory/updateQuantityOnHand", |call, db| Box::pin(quantity::update(call, db)))
    },
    reads("POST /api/inventory/getProducts", |call, db| Box::pin(stock::products(call, db))),
    reads("POST /api/product/getProductBalances", |call, db| Box::pin(stock::balances(call, db))),
    reads("GET /api/Inventory/TopSelling", |call, db| Box::pin(reports::top_selling(call, db))),
    reads("GET /api/Inventory/{productid}/kitcomponents", |call, db| Box::pin(kits::components(call, db))),
    writes("POST /api/Shipments/Create", |call, db| Box::pin(shipments::create(call, db))),
    writes("POST /api/Shipments/submitTrackingInfo", |call, db| Box::pin(tracking::submit(call, db))),
    reads("GET /api/Shipments/{shipmentid}/LineItems", |call, db| Box::pin(shipments::line_items(call, db))),
    reads("POST /api/orders/getOrderLineItems", |call, db| Box::pin(orders::line_items(call, db))),
    reads("GET /api/orders/{orderId}/lineitems/{lineitemId}/warehouseallocation",
        |call, db| Box::pin(orders::allocations(call, db))),
    writes("POST /api/Warehouses", |call, db| Box::pin(warehouses::create(call, db))),
    reads("GET /api/Warehouses", |call, db| Box::pin(lists::warehouses(call, db))),
    reads("GET /api/Suppliers", |call, db| Box::pin(lists::suppliers(call, db))),
    reads("GET /api/storefronts", |call, db| Box::pin(lists::storefronts(call, db))),
    writes("POST /api/storefronts/{storefrontid}/listingTemplates", |call, db| Box::pin(templates::create(call, db))),
    reads("GET /api/storefronts/{storefrontid}/listingTemplates", |call, db| Box::pin(templates::list(call, db))),
    reads("GET /api/Company/BusinessHealth", |call, db| Box::pin(reports::business_health(call, db))),
    reads("GET /api/Company/WorkQueue", |call, db| Box::pin(reports::work_queue(call, db))),
];

/// Returns the operation of a request with the ids of its path.
pub(in crate::sandbox) fn find(
    method: &Method,
    path: &str,
) -> Result<(&'static Operation, Vec<Option<i64>>), Refusal> {
    let mut other_methods = Vec::new();
    for operation in &OPERATIONS {
        let (listed_method, pattern) = operation.name.split_once(' ').unwrap_or_default();
        let Some(ids) = ids_of(pattern, path) else { continue };
        if method.as_str() == listed_method {
            return Ok((operation, ids));
        }
        other_methods.push(listed_method);
    }
    if other_methods.is_empty() {
        return Err(Refusal::not_found("No operation of the service has this path; its spelling counts."));
    }
    Err(Refusal::method_not_allowed(method, &other_methods))
}

/// Returns the ids at the pattern's braces if the path matches the pattern.
fn ids_of(pattern: &str, path: &str) -> Option<Vec<Option<i64>>> {
    let mut ids = Vec::new();
    let mut segments = path.split('/');
    for expected in pattern.split('/') {
        let segment = segments.next()?;
        if expected.starts_with('{') {
            ids.push(segment.parse().ok().filter(|_| segment.bytes().all(|byte| byte.is_ascii_digit())));
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
        let (get, post) = (Method::GET, Method::POST);
        for (method, path, expected) in [
            (&post, "/api/Inventory", Ok(("POST /api/Inventory", vec![]))),
            (&post, "/api/inventory", Err(404)),
            (&post, "/api/Inventory/", Err(404)),
            (&post, "//api/Inventory", Err(404)),
            (&post, "/api/%49nventory", Err(404)),
            (&get, "/api/Inventory", Err(405)),
            (
                &post,
                "/api/inventory/updateQuantityOnHand",
                Ok(("POST /api/inventory/updateQuantityOnHand", vec![])),
            ),
            (&post, "/api/Inventory/updateQuantityOnHand", Err(404)),
            (
                &get,
                "/api/Inventory/12/kitcomponents",
                Ok(("GET /api/Inventory/{productid}/kitcomponents", vec![Some(12)])),
            ),
            (
                &get,
                "/api/Inventory/+12/kitcomponents",
                Ok(("GET /api/Inventory/{productid}/kitcomponents", vec![None])),
            ),
            (
                &get,
                "/api/orders/1/lineitems/x/warehouseallocation",
                Ok((
                    "GET /api/orders/{orderId}/lineitems/{lineitemId}/warehouseallocation",
                    vec![Some(1), None],
                )),
            ),
            (&get, "/api/Orders/1/lineitems/2/warehouseallocation", Err(404)),
            (&get, "/", Err(404)),
        ] {
            let found = find(method, path);
            let found = found
                .map(|(operation, ids)| (operation.name, ids))
                .map_err(|refused| refused.status.as_u16());
            assert_eq!(found, expected, "{method} {path}");
        }
    }
}
