//! Projection of the reports by month. The payload of a month is kept whole, so that two reads can be compared.

use super::park_records;
use crate::client::wire::{DecodedAnswer, HealthMonth, TopSeller};
use crate::model::{ExchangeId, JobKind, Month, Sku, Timestamp};
use crate::store::{StoreError, WriteTransaction};
use serde_json::{Value, json};

/// Projects the top-selling products of a month. Returns 1 if the payload changed. Their SKUs become
/// discovered SKUs. An answer with an unreadable record is no report, because it might be agreed without that record.
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
    if !decoded.parked.is_empty() {
        return Ok(0);
    }
    let report = (month, json!(decoded.records));
    write.mirror_report(JobKind::TopSelling, exchange, observed_at, &[report]).await
}

/// Projects a page of business health, and returns the number of new or changed months.
pub(crate) async fn project_business_health(
    write: &mut WriteTransaction,
    exchange: ExchangeId,
    observed_at: Timestamp,
    page: &DecodedAnswer<HealthMonth>,
) -> Result<u64, StoreError> {
    park_records(write, exchange, page).await?;
    let months = page.records.iter().filter_map(|record| Some((record.calendar_month()?, json!(record))));
    let months: Vec<(Month, Value)> = months.collect();
    write.mirror_report(JobKind::BusinessHealth, exchange, observed_at, &months).await
}
