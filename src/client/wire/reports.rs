//! Reports: *Get top-selling products by month*, *Business health* and *Work queue*.
//!
//! *Work queue* is cheap and has no parameters, so it is also the probe that proves a key
//! (docs/rules.md 11).

use super::codec::lenient::{self, FromLoose};
use super::codec::{DecodedAnswer, MalformedBody, PageParams, decode_list};
use crate::client::PlatformRequest;
use crate::model::{Month, Operation, ProductId, Sku, StorefrontId};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::collections::HashMap;

/// Product among the ten best sellers of a month (*TopSellingProduct*). Its JSON is that of the stored report.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub(crate) struct TopSeller {
    #[serde(rename = "Year", skip_serializing, deserialize_with = "lenient::req")]
    pub year: i64,
    #[serde(rename = "Month", skip_serializing, deserialize_with = "lenient::req")]
    pub month: i64,
    /// Rank of the product, from 1.
    #[serde(alias = "Rank", deserialize_with = "lenient::req")]
    pub rank: i64,
    #[serde(alias = "SalesChannelId", default, deserialize_with = "lenient::opt")]
    pub sales_channel_id: Option<i64>,
    #[serde(alias = "ProductId", default, deserialize_with = "lenient::opt")]
    pub product_id: Option<ProductId>,
    #[serde(alias = "SkuNumber", default, deserialize_with = "lenient::opt")]
    pub sku: Option<Sku>,
    #[serde(alias = "Name", default, deserialize_with = "lenient::opt")]
    pub name: Option<String>,
    #[serde(alias = "QuantitySold", default, deserialize_with = "lenient::opt")]
    pub quantity_sold: Option<i64>,
    /// Revenue from the units, in the account's currency.
    #[serde(alias = "AmountSold", default, deserialize_with = "lenient::opt")]
    pub amount_sold: Option<f64>,
}

/// Figures of one month (*BusinessHealth month record*); amounts in the account's currency. Its JSON
/// is that of the stored report.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub(crate) struct HealthMonth {
    #[serde(rename = "Year", skip_serializing, deserialize_with = "lenient::req")]
    pub year: i64,
    #[serde(rename = "Month", skip_serializing, deserialize_with = "lenient::req")]
    pub month: i64,
    #[serde(alias = "TotalRevenue", default, deserialize_with = "lenient::opt")]
    pub total_revenue: Option<f64>,
    #[serde(alias = "TotalCostOfGoodsSold", default, deserialize_with = "lenient::opt")]
    pub total_cost_of_goods_sold: Option<f64>,
    #[serde(alias = "TotalShippingCosts", default, deserialize_with = "lenient::opt")]
    pub total_shipping_costs: Option<f64>,
    #[serde(alias = "TotalProfit", default, deserialize_with = "lenient::opt")]
    pub total_profit: Option<f64>,
    /// Amount that customers paid for shipping.
    #[serde(alias = "TotalAmountShippingCollected", default, deserialize_with = "lenient::opt")]
    pub total_amount_shipping_collected: Option<f64>,
    #[serde(alias = "TotalCostofLabelsGenerated", default, deserialize_with = "lenient::opt")]
    pub total_cost_of_labels_generated: Option<f64>,
    /// Value of the stock at the start of the month.
    #[serde(alias = "TotalValueofInventoryMonthStart", default, deserialize_with = "lenient::opt")]
    pub total_value_of_inventory_month_start: Option<f64>,
    /// Value of the stock at the end of the month.
    #[serde(alias = "TotalValueofInventoryMonthEnd", default, deserialize_with = "lenient::opt")]
    pub total_value_of_inventory_month_end: Option<f64>,
    #[serde(alias = "TotalNumberofNewListingsadded", default, deserialize_with = "lenient::opt")]
    pub total_number_of_new_listings_added: Option<f64>,
}

impl HealthMonth {
    /// Returns the month; `None`: there is no such month.
    pub(crate) fn calendar_month(&self) -> Option<Month> {
        Month::new(u16::try_from(self.year).ok()?, u8::try_from(self.month).ok()?)
    }
}

pub(crate) fn top_selling(storefront: Option<StorefrontId>, month: Month) -> PlatformRequest {
    PlatformRequest::new(Operation::TopSelling)
        .with_query("storefrontId", storefront)
        .with_query("year", Some(month.year()))
        .with_query("month", Some(month.number()))
}

pub(crate) fn business_health(month: Option<Month>, paging: PageParams) -> PlatformRequest {
    PlatformRequest::new(Operation::BusinessHealth)
        .with_query("year", month.map(Month::year))
        .with_query("month", month.map(Month::number))
        .with_page(paging)
}

pub(crate) fn decode_top_selling(
    body: &[u8],
    asked: Month,
) -> Result<DecodedAnswer<TopSeller>, MalformedBody> {
    let month = (i64::from(asked.year()), i64::from(asked.number()));
    decode_list("the top sellers", body, |seller: &TopSeller| (seller.year, seller.month) == month)
}

pub(crate) fn decode_business_health(body: &[u8]) -> Result<DecodedAnswer<HealthMonth>, MalformedBody> {
    decode_list("the business health", body, |record: &HealthMonth| record.calendar_month().is_some())
}

/// Counts of *WorkQueue*, in the interface's order.
const COUNTS: [&str; 12] = [
    "NewPurchaseOrders",
    "SubmittedPurchaseOrders",
    "PartiallyReceivedPurchaseOrders",
    "OpenWorkOrders",
    "AwaitingPaymentSalesOrders",
    "PaidInProcessSalesOrders",
    "CancelledSalesOrders",
    "PaidReadyToShipSalesOrders",
    "LowInventoryProducts",
    "UnShippedSalesOrders",
    "UnshippedDropShipOrders",
    "QueuedListings",
];

pub(crate) fn work_queue() -> PlatformRequest {
    PlatformRequest::new(Operation::WorkQueue)
}

/// Reads the answer of *Work queue*, which has no envelope: the counts in the interface's order; `None`: the answer
/// lacks the count. An object without any of them is refused.
pub(crate) fn decode_work_queue(body: &[u8]) -> Result<[Option<i64>; 12], MalformedBody> {
    let what = "the work queue";
    let fields: HashMap<String, &RawValue> =
        serde_json::from_slice(body).map_err(|error| MalformedBody::new(what, error))?;
    let count = |name: &str| i64::from_loose(serde_json::from_str(fields.get(name)?.get()).ok()?);
    let mut counts = COUNTS.map(count);
    // The interface's sample spells the last one so.
    counts[11] = counts[11].or_else(|| count("queuedListings"));
    if counts.iter().all(Option::is_none) {
        return Err(MalformedBody::new(what, "it has none of the documented counts"));
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_asked_for_by_month_and_storefront() {
        let month = Month::new(2026, 2).unwrap();
        for (request, target) in [
            (
                top_selling(Some(StorefrontId(3)), month),
                "/api/Inventory/TopSelling?storefrontId=3&year=2026&month=2",
            ),
            (top_selling(None, month), "/api/Inventory/TopSelling?year=2026&month=2"),
            (
                business_health(None, PageParams::FIRST),
                "/api/Company/BusinessHealth?pageNumber=1&resultsPerPage=200",
            ),
        ] {
            assert_eq!(request.target(), target);
        }
    }

    #[test]
    fn a_figure_that_makes_no_sense_costs_only_itself() {
        let body =
            br#"{"data":[{"Year":2026,"Month":1.0,"TotalRevenue":"12.50","TotalProfit":{}},{"Month":1}]}"#;
        let decoded = decode_business_health(body).unwrap();
        assert_eq!((decoded.records[0].total_revenue, decoded.records[0].total_profit), (Some(12.5), None));
        assert_eq!(decoded.parked.len(), 1);
        let body = br#"{"data":[{"Year":2026,"Month":1,"Rank":1,"SkuNumber":"A","AmountSold":9.5},{"Year":2026,"Month":1},
            {"Year":2026,"Month":2,"Rank":2},{"Year":2025,"Month":1,"Rank":3}]}"#;
        let decoded = decode_top_selling(body, Month::new(2026, 1).unwrap()).unwrap();
        assert_eq!((decoded.records[0].rank, decoded.records[0].amount_sold), (1, Some(9.5)));
        assert_eq!(decoded.parked.iter().map(|parked| parked.index).collect::<Vec<_>>(), [1, 2, 3]);
    }

    #[test]
    fn queued_listings_are_read_in_both_spellings() {
        for body in [
            r#"{"queuedListings":3}"#,
            r#"{"QueuedListings":3.0}"#,
            r#"{"QueuedListings":3,"queuedListings":9}"#,
        ] {
            let counts = decode_work_queue(body.as_bytes()).unwrap();
            assert_eq!((counts[11], counts.iter().flatten().count()), (Some(3), 1), "{body}");
        }
    }

    #[test]
    fn an_answer_without_any_count_is_none() {
        for body in ["{}", r#"{"Message":"wait"}"#, "[]", "<html>"] {
            assert!(decode_work_queue(body.as_bytes()).is_err(), "{body}");
        }
        let counts = decode_work_queue(br#"{"OpenWorkOrders":0,"CancelledSalesOrders":null}"#).unwrap();
        assert_eq!((counts[3], counts.iter().flatten().count()), (Some(0), 1));
    }
}
