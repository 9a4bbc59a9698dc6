//! Projection of the reports by month. The payload of a month is kept whole, so that two reads can be
//! compared.

use super::park_records;
use crate::client::wire::{DecodedAnswer, HealthMonth, TopSeller, WorkQueue};
use crate::model::{ExchangeId, Month, Sku, Timestamp};
use crate::store::{
    BusinessHealthFigures, MonthlyReport, StoreError, TopSellerFact, WorkQueueCounts, WorkQueueDifference,
    WriteTransaction,
};
use serde_json::{Value, json};

/// Projects the top-selling products of a month. Returns 1 if the payload changed. Their SKUs become
/// discovered SKUs.
pub(crate) async fn project_top_selling(
    write: &mut WriteTransaction,
    exchange: ExchangeId,
    observed_at: Timestamp,
    month: Month,
    decoded: &DecodedAnswer<TopSeller>,
) -> Result<u64, StoreError> {
    park_records(write, exchange, decoded).await?;
    let skus: Vec<Sku> = decoded.records.iter().filter_map(|seller| seller.sku.clone()).collect();
    write.discovered_sku_add(exchange, &skus).await?;
    let sellers: Vec<TopSellerFact> = decoded.records.iter().map(top_seller_fact).collect();
    write.mirror_report(MonthlyReport::TopSelling, exchange, observed_at, &[(month, json!(sellers))]).await
}

fn top_seller_fact(seller: &TopSeller) -> TopSellerFact {
    TopSellerFact {
        rank: seller.rank,
        sales_channel_id: seller.sales_channel_id,
        product_id: seller.product_id.map(|id| id.0),
        sku: seller.sku.as_ref().map(Sku::to_string),
        name: seller.name.clone(),
        quantity_sold: seller.quantity_sold,
        amount_sold: seller.amount_sold,
    }
}

/// Projects a page of business health. Returns the number of new or changed months. An invalid month is
/// parked.
pub(crate) async fn project_business_health(
    write: &mut WriteTransaction,
    exchange: ExchangeId,
    observed_at: Timestamp,
    page: &DecodedAnswer<HealthMonth>,
) -> Result<u64, StoreError> {
    park_records(write, exchange, page).await?;
    let mut months: Vec<(Month, Value)> = Vec::new();
    for (index, record) in page.records.iter().enumerate() {
        match month_of(record) {
            Some(month) => months.push((month, json!(health_figures(record)))),
            None => {
                let raw = json!({"Year": record.year, "Month": record.month}).to_string();
                write.exchange_park(exchange, index, "there is no such month", &raw).await?;
            }
        }
    }
    write.mirror_report(MonthlyReport::BusinessHealth, exchange, observed_at, &months).await
}

fn month_of(record: &HealthMonth) -> Option<Month> {
    Month::new(u16::try_from(record.year).ok()?, u8::try_from(record.month).ok()?)
}

fn health_figures(month: &HealthMonth) -> BusinessHealthFigures {
    BusinessHealthFigures {
        total_revenue: month.revenue,
        total_cost_of_goods_sold: month.cost_of_goods_sold,
        total_shipping_costs: month.shipping_costs,
        total_profit: month.profit,
        total_amount_shipping_collected: month.shipping_collected,
        total_cost_of_labels_generated: month.label_costs,
        total_value_of_inventory_month_start: month.inventory_value_start,
        total_value_of_inventory_month_end: month.inventory_value_end,
        total_number_of_new_listings_added: month.new_listings,
    }
}

/// Records *Work queue*. Returns the changed counts.
pub(crate) async fn project_work_queue(
    write: &mut WriteTransaction,
    exchange_id: ExchangeId,
    observed_at: Timestamp,
    queue: &WorkQueue,
) -> Result<WorkQueueDifference, StoreError> {
    let counts: WorkQueueCounts = [
        queue.new_purchase_orders,
        queue.submitted_purchase_orders,
        queue.partially_received_purchase_orders,
        queue.open_work_orders,
        queue.awaiting_payment_sales_orders,
        queue.paid_in_process_sales_orders,
        queue.cancelled_sales_orders,
        queue.paid_ready_to_ship_sales_orders,
        queue.low_inventory_products,
        queue.unshipped_sales_orders,
        queue.unshipped_drop_ship_orders,
        queue.queued_listings,
    ];
    write.mirror_work_queue(exchange_id, observed_at, &counts).await
}
