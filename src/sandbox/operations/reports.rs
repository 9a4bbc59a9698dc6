//! Reports of the company.
//!
//! Implements docs/interface.md, *Get top-selling products by month*, *Business health* and *Work queue*. Top
//! sellers and the work queue are counted from the company's records at each call. The months of business
//! health are generated with the company and do not change.

use std::collections::HashMap;

use sqlx::SqliteConnection;

use crate::sandbox::clock::months_before;
use crate::sandbox::http::answer::{HandlerResult, SandboxRefusal, list_envelope};
use crate::sandbox::http::paging::{SandboxPage, page_of, positive_parameter};
use crate::sandbox::http::request::OperationCall;
use crate::sandbox::store::values;

/// Ranks over all storefronts (channel 0) or one storefront, best first, at most ten.
const TOP_SELLING: &str = "\
    SELECT '[' || coalesce(group_concat(body, ',' ORDER BY rank), '') || ']'
      FROM (SELECT best.rank, json_object(
                       'CompanyId', ?1, 'Month', ?3, 'Year', ?2, 'SalesChannelId', coalesce(?4, 0), 'ProductId', p.id,
                       'SkuNumber', p.sku, 'Name', p.name, 'Rank', best.rank, 'QuantitySold', best.quantity,
                       'AmountSold', best.amount) AS body
              FROM (SELECT s.product_id, sum(s.quantity) AS quantity, round(sum(s.amount), 2) AS amount,
                           row_number() OVER (ORDER BY sum(s.quantity) DESC, sum(s.amount) DESC, s.product_id) AS rank
                      FROM sale s JOIN storefront f ON f.id = s.storefront_id
                     WHERE f.company_id = ?1 AND s.year = ?2 AND s.month = ?3
                       AND (?4 IS NULL OR s.storefront_id = ?4)
                     GROUP BY s.product_id ORDER BY rank LIMIT 10) best
              JOIN product p ON p.id = best.product_id)";

const BUSINESS_HEALTH: &str = page_of!(
    "wire_business_month WHERE company_id = ?1 AND (?4 IS NULL OR year = ?4) AND (?5 IS NULL OR month = ?5)"
    order by "year DESC, month DESC"
);

/// The sandbox has no purchase orders, work orders or listing queue: their counts are 0. The last count is
/// answered under both spellings of docs/interface.md.
const WORK_QUEUE: &str = "\
    WITH open_order AS (
        SELECT o.id, o.state,
               EXISTS (SELECT 1 FROM order_line l JOIN product p ON p.id = l.product_id
                        WHERE l.order_id = o.id AND p.is_dropshipped) AS is_dropshipped
          FROM sales_order o
         WHERE o.company_id = ?1 AND o.state <> 'Cancelled'
           AND EXISTS (SELECT 1 FROM order_line l
                        WHERE l.order_id = o.id
                          AND l.quantity > (SELECT coalesce(sum(i.quantity), 0)
                                              FROM shipment_item i JOIN shipment s ON s.id = i.shipment_id
                                             WHERE i.line_id = l.id AND i.is_shipped AND NOT s.is_cancelled)))
    SELECT json_object(
        'NewPurchaseOrders', 0, 'SubmittedPurchaseOrders', 0, 'PartiallyReceivedPurchaseOrders', 0, 'OpenWorkOrders', 0,
        'AwaitingPaymentSalesOrders', (SELECT count(*) FROM open_order WHERE state = 'AwaitingPayment'),
        'PaidInProcessSalesOrders', (SELECT count(*) FROM open_order WHERE state = 'InProcess'),
        'CancelledSalesOrders',
            (SELECT count(*) FROM sales_order WHERE company_id = ?1 AND state = 'Cancelled'),
        'PaidReadyToShipSalesOrders', (SELECT count(*) FROM open_order WHERE state = 'ReadyToShip'),
        'LowInventoryProducts',
            (SELECT count(*) FROM product p
              WHERE p.company_id = ?1 AND p.type <> 'Kit' AND p.is_active
                AND p.reorder_level >= (SELECT coalesce(sum(l.quantity), 0) FROM link l WHERE l.product_id = p.id)),
        'UnShippedSalesOrders', (SELECT count(*) FROM open_order),
        'UnshippedDropShipOrders', (SELECT count(*) FROM open_order WHERE is_dropshipped),
        'QueuedListings', 0, 'queuedListings', 0)";

pub(super) async fn top_selling(call: &OperationCall, db: &mut SqliteConnection) -> HandlerResult {
    let query = call.query_parameters()?;
    let (last_year, last_month) = months_before(call.now_ms, 1);
    let year = year_parameter(&query)?.unwrap_or(i64::from(last_year));
    let month = month_parameter(&query)?.unwrap_or(i64::from(last_month));
    let storefront_id = positive_parameter(&query, "storefrontId")?;
    let ranked = values!(call.company_id, year, month, storefront_id);
    let best: String = sqlx::query_scalar_with(TOP_SELLING, ranked).fetch_one(db).await?;
    Ok(list_envelope(&best))
}

pub(super) async fn business_health(call: &OperationCall, db: &mut SqliteConnection) -> HandlerResult {
    let query = call.query_parameters()?;
    let page = SandboxPage::from_query(&query)?;
    let (total, months) = page
        .records_of(BUSINESS_HEALTH, call.company_id)
        .bind(year_parameter(&query)?)
        .bind(month_parameter(&query)?)
        .fetch_one(db)
        .await?;
    Ok(page.page_envelope(&[], total, &months))
}

pub(super) async fn work_queue(call: &OperationCall, db: &mut SqliteConnection) -> HandlerResult {
    Ok(sqlx::query_scalar(WORK_QUEUE).bind(call.company_id).fetch_one(db).await?)
}

fn year_parameter(query: &HashMap<String, String>) -> Result<Option<i64>, SandboxRefusal> {
    let year = positive_parameter(query, "year")?;
    if year.is_some_and(|year| !(1_000..=9_999).contains(&year)) {
        return Err(SandboxRefusal::bad_request("The query parameter year must have 4 digits."));
    }
    Ok(year)
}

fn month_parameter(query: &HashMap<String, String>) -> Result<Option<i64>, SandboxRefusal> {
    let month = positive_parameter(query, "month")?;
    if month.is_some_and(|month| month > 12) {
        return Err(SandboxRefusal::bad_request("The query parameter month must be from 1 to 12."));
    }
    Ok(month)
}
