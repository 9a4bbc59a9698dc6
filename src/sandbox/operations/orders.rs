//! Sales orders in the interface.
//!
//! Implements docs/interface.md, *Get line items of a sales order* and *Get warehouse allocation of an order
//! line item*. Orders are created in platform/sales.rs. Both operations have pagination without page
//! parameters, so everything is on a single page.

use serde::Deserialize;
use sqlx::SqliteConnection;

use crate::sandbox::http::answer::{Pagination, Refusal, envelope, envelope_with};
use crate::sandbox::http::request::{Call, Whole};

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct LineItemsRequest {
    order_id: Whole,
}

/// Answers *Get line items of a sales order*. An unknown order has no lines, and a message states it.
pub(super) async fn line_items(call: &Call, db: &mut SqliteConnection) -> Result<String, Refusal> {
    let LineItemsRequest { order_id: Whole(order_id) } = call.object()?;
    let (known, count, lines): (bool, i64, String) = sqlx::query_as(
        "SELECT EXISTS (SELECT 1 FROM sales_order WHERE id = ?2 AND company_id = ?1), count(*),
                '[' || coalesce(group_concat(body, ',' ORDER BY id), '') || ']'
           FROM wire_order_line WHERE company_id = ?1 AND order_id = ?2",
    )
    .bind(call.company_id)
    .bind(order_id)
    .fetch_one(db)
    .await?;
    let messages = if known { vec![] } else { vec![format!("No order with the id {order_id} was found.")] };
    Ok(envelope_with("Success", &messages, &lines, Some(&Pagination::single(count))))
}

/// Answers *Get warehouse allocation of an order line item*; 404 for an unknown order or line.
pub(super) async fn allocations(call: &Call, db: &mut SqliteConnection) -> Result<String, Refusal> {
    let (order_id, line_id) = (call.id(0), call.id(1));
    let found: Option<(i64, String)> = sqlx::query_as(
        "SELECT (SELECT count(*) FROM allocation a WHERE a.line_id = l.id),
                (SELECT '[' || coalesce(group_concat(a.body, ',' ORDER BY a.id), '') || ']'
                   FROM wire_allocation a WHERE a.line_id = l.id)
           FROM order_line l JOIN sales_order o ON o.id = l.order_id
          WHERE o.company_id = ?1 AND o.id = ?2 AND l.id = ?3",
    )
    .bind(call.company_id)
    .bind(order_id)
    .bind(line_id)
    .fetch_optional(db)
    .await?;
    let Some((count, allocations)) = found else {
        return Err(Refusal::not_found("The order or its line item was not found for the company."));
    };
    Ok(envelope(&allocations, Some(&Pagination::single(count))))
}
