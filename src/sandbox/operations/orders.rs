//! Sales orders in the interface.
//!
//! Implements docs/interface.md, *Get line items of a sales order* and *Get warehouse allocation of an order
//! line item*. Orders are created in platform/sales.rs. Both operations have pagination without page
//! parameters, so everything is on a single page.

use serde::Deserialize;
use sqlx::SqliteConnection;

use crate::sandbox::http::answer::{HandlerResult, SandboxRefusal};
use crate::sandbox::http::paging::single_page_envelope;
use crate::sandbox::http::request::{OperationCall, WholeNumber};
use crate::sandbox::store::values;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct LineItemsRequest {
    order_id: WholeNumber,
}

/// Answers *Get line items of a sales order*. An unknown order has no lines, and a message states it.
pub(super) async fn order_line_items(call: &OperationCall, db: &mut SqliteConnection) -> HandlerResult {
    let LineItemsRequest { order_id: WholeNumber(order_id) } = call.object_body()?;
    let lines = "SELECT EXISTS (SELECT 1 FROM sales_order WHERE id = ?2 AND company_id = ?1), count(*),
                        '[' || coalesce(group_concat(body, ',' ORDER BY id), '') || ']'
                   FROM wire_order_line WHERE company_id = ?1 AND order_id = ?2";
    let (known, count, lines): (bool, i64, String) =
        sqlx::query_as(lines).bind(call.company_id).bind(order_id).fetch_one(db).await?;
    let messages = if known { vec![] } else { vec![format!("No order with the id {order_id} was found.")] };
    Ok(single_page_envelope(&messages, count, &lines))
}

/// Answers *Get warehouse allocation of an order line item*; 404 for an unknown order or line.
pub(super) async fn line_allocations(call: &OperationCall, db: &mut SqliteConnection) -> HandlerResult {
    let allocations = "SELECT (SELECT count(*) FROM allocation a WHERE a.line_id = l.id),
                              (SELECT '[' || coalesce(group_concat(a.body, ',' ORDER BY a.id), '') || ']'
                                 FROM wire_allocation a WHERE a.line_id = l.id)
                         FROM order_line l JOIN sales_order o ON o.id = l.order_id
                        WHERE o.company_id = ?1 AND o.id = ?2 AND l.id = ?3";
    let line = values!(call.company_id, call.path_id(0), call.path_id(1));
    let found: Option<(i64, String)> = sqlx::query_as_with(allocations, line).fetch_optional(db).await?;
    let (count, allocations) = found.ok_or_else(|| {
        SandboxRefusal::not_found("The order or its line item was not found for the company.")
    })?;
    Ok(single_page_envelope(&[], count, &allocations))
}
