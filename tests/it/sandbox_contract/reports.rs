//! "Get top-selling products by month", "Business health", "Work queue".

use serde_json::{Value, json};

use super::support::{Shop, WORK_QUEUE, assert_fields, id};

const TOP_SELLING: &str = "/api/Inventory/TopSelling";
const HEALTH: &str = "/api/Company/BusinessHealth";

#[tokio::test]
async fn the_ten_best_sellers_of_last_month_are_ranked() {
    let shop = Shop::open().await;
    let best = shop.get(TOP_SELLING).await.data();
    let best = best.as_array().expect("best sellers");
    assert_eq!(best.len(), 10);
    for (index, product) in best.iter().enumerate() {
        assert_fields(
            product,
            &[
                "CompanyId",
                "Month",
                "Year",
                "SalesChannelId",
                "ProductId",
                "SkuNumber",
                "Name",
                "Rank",
                "QuantitySold",
                "AmountSold",
            ],
        );
        assert_eq!(id(product, "Rank"), i64::try_from(index).expect("small") + 1);
    }
    let sold: Vec<i64> = best.iter().map(|product| id(product, "QuantitySold")).collect();
    assert!(sold.is_sorted_by(|more, less| more >= less), "{sold:?}");
    let asked = format!("{TOP_SELLING}?year={}&month={}", best[0]["Year"], best[0]["Month"]);
    assert_eq!(json!(best), shop.get(&asked).await.data());
}

#[tokio::test]
async fn best_sellers_can_be_asked_of_one_storefront() {
    let shop = Shop::open().await;
    let storefronts = shop.get("/api/storefronts").await.data();
    let of = |storefront: &Value| format!("{TOP_SELLING}?storefrontId={storefront}");
    let first = shop.get(&of(&storefronts[0]["Id"])).await.data();
    assert_eq!(first[0]["SalesChannelId"], storefronts[0]["Id"]);
    assert_ne!(first, shop.get(&of(&storefronts[1]["Id"])).await.data());
    assert_eq!(shop.get(&of(&json!(1))).await.data(), json!([]), "a storefront that is not the company's");
}

#[tokio::test]
async fn what_is_sold_now_is_in_the_next_months_report() {
    let shop = Shop::open().await;
    let product = shop.product(0).await;
    let level = &product["Warehouses"][0];
    let sale = json!({ "Sku": product["Sku"], "WarehouseId": level["WarehouseId"], "Quantity": 3 });
    shop.control("/_sandbox/sales", &sale).await;
    shop.order(json!([{ "Sku": product["Sku"], "Quantity": 1 }])).await;
    let now = shop.control("/_sandbox/clock", &json!({ "AdvanceSeconds": 0 })).await;
    let (year, month) =
        (&now["Now"].as_str().expect("a time")[..4], &now["Now"].as_str().expect("a time")[5..7]);
    let month: u32 = month.parse().expect("a month");
    let best = shop.get(&format!("{TOP_SELLING}?year={year}&month={month}")).await.data();
    let sold = best.as_array().expect("sellers").iter().find(|seller| seller["ProductId"] == product["Id"]);
    assert!(id(sold.expect("the product sold"), "QuantitySold") >= 4);
}

#[tokio::test]
async fn twenty_four_months_of_health_are_kept_newest_first() {
    let shop = Shop::open().await;
    let reply = shop.get(HEALTH).await;
    let months = reply.data();
    let months = months.as_array().expect("months");
    assert_eq!(months.len(), 24);
    assert_eq!(reply.json()["pagination"]["TotalNumberOfEntries"], 24);
    assert_fields(
        &months[0],
        &[
            "Month",
            "Year",
            "TotalRevenue",
            "TotalCostOfGoodsSold",
            "TotalShippingCosts",
            "TotalProfit",
            "TotalAmountShippingCollected",
            "TotalCostofLabelsGenerated",
            "TotalValueofInventoryMonthStart",
            "TotalValueofInventoryMonthEnd",
            "TotalNumberofNewListingsadded",
        ],
    );
    let order: Vec<i64> = months.iter().map(|month| id(month, "Year") * 12 + id(month, "Month")).collect();
    assert!(order.windows(2).all(|pair| pair[0] == pair[1] + 1), "{order:?}");
    let (year, month) = (&months[0]["Year"], &months[0]["Month"]);
    let filtered = shop.get(&format!("{HEALTH}?year={year}&month={month}")).await.data();
    assert_eq!(filtered, json!([months[0]]));
    let of_month = shop.get(&format!("{HEALTH}?month={month}")).await.data();
    assert_eq!(of_month.as_array().expect("months").len(), 2);
    let page = shop.get(&format!("{HEALTH}?pageNumber=3&resultsPerPage=10")).await;
    assert_eq!(page.data(), json!(months[20..]));
    assert_eq!(page.json()["pagination"]["TotalNumberOfPages"], 3);
}

#[tokio::test]
async fn months_and_years_that_are_none_are_refused() {
    let shop = Shop::open().await;
    for path in [TOP_SELLING, HEALTH] {
        for query in ["month=0", "month=13", "month=may", "year=26", "year=0", "year=99999", "year=-2026"] {
            shop.get(&format!("{path}?{query}")).await.message(400);
        }
        assert_eq!(shop.get(&format!("{path}?year=1999&month=1")).await.data(), json!([]));
    }
    shop.get(&format!("{TOP_SELLING}?storefrontId=x")).await.message(400);
}

#[tokio::test]
async fn the_work_queue_counts_the_shops_orders() {
    let shop = Shop::open().await;
    let before = shop.get(WORK_QUEUE).await.ok();
    assert_fields(
        &before,
        &[
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
            "queuedListings",
        ],
    );
    assert!(before.as_object().expect("counts").values().all(Value::is_i64));
    shop.order(json!([{ "Sku": shop.product(0).await["Sku"], "Quantity": 1 }])).await;
    let after = shop.get(WORK_QUEUE).await.ok();
    for count in ["PaidReadyToShipSalesOrders", "UnShippedSalesOrders"] {
        assert_eq!(id(&after, count), id(&before, count) + 1, "{count}");
    }
}
