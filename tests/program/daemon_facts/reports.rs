//! Reports: kept by month, and read until two reads agree.

use super::support::Shop;
use serde_json::json;

const HEALTH: &str = "GET /api/Company/BusinessHealth";
const TOP: &str = "GET /api/Inventory/TopSelling";

#[tokio::test]
async fn months_are_read_until_two_reads_agree() {
    let shop = Shop::open().await;
    shop.good_once().await;
    let figures = "year, month, total_revenue, total_profit, total_cost_of_labels_generated, \
                   total_value_of_inventory_month_end, total_number_of_new_listings_added";
    let fields = [
        "Year",
        "Month",
        "TotalRevenue",
        "TotalProfit",
        "TotalCostofLabelsGenerated",
        "TotalValueofInventoryMonthEnd",
        "TotalNumberofNewListingsadded",
    ];
    let mirrored = shop.rows(figures, "business_health ORDER BY year, month").await;
    let mut served = shop.served("/api/Company/BusinessHealth?resultsPerPage=200", &fields).await;
    let month = |row: &serde_json::Value| row[0].as_f64().unwrap() * 12.0 + row[1].as_f64().unwrap();
    served.as_array_mut().unwrap().sort_by(|one, other| month(one).total_cmp(&month(other)));
    assert_eq!(mirrored, served);
    assert_eq!(mirrored.as_array().unwrap().len(), 24);

    let newest =
        shop.rows("max(year * 100 + month) / 100, max(year * 100 + month) % 100", "top_seller").await;
    let (year, month) = (&newest[0][0], &newest[0][1]);
    let path = format!("/api/Inventory/TopSelling?year={year}&month={month}").replace(".0", "");
    let sellers = shop.served(&path, &["Rank", "ProductId", "SkuNumber", "QuantitySold", "AmountSold"]).await;
    let columns = "rank, product_id, sku, quantity_sold, amount_sold";
    let of = format!("top_seller WHERE year = {year} AND month = {month} ORDER BY rank");
    assert_eq!(shop.rows(columns, &of).await, sellers);
    assert_eq!(sellers.as_array().unwrap().len(), 10);
    let untracked = "top_seller WHERE sku NOT IN (SELECT sku FROM tracked_sku)";
    assert_eq!(shop.rows("count(*)", untracked).await, json!([[0.0]]), "their SKUs are learnt");

    assert_eq!(shop.rows("count(*)", "report_month WHERE is_agreed").await, json!([[0.0]]));
    let before = (shop.calls_of(HEALTH), shop.calls_of(TOP));
    shop.good_once().await;
    let after = (shop.calls_of(HEALTH), shop.calls_of(TOP));
    assert_eq!((after.0 - before.0, after.1 - before.1), (1, 24), "each month once more");
    assert_eq!(
        shop.rows("count(*) FILTER (WHERE is_agreed), count(*)", "report_month").await,
        json!([[48.0, 48.0]])
    );
    shop.good_once().await;
    assert_eq!((shop.calls_of(HEALTH), shop.calls_of(TOP)), after, "nothing more to ask");
}

#[tokio::test]
async fn a_month_that_says_something_else_is_read_again() {
    let shop = Shop::open().await;
    shop.good_once().await;
    shop.execute(
        "UPDATE report_month SET payload = '[]' WHERE report = 'top_selling' AND (year, month) = \
             (SELECT year, month FROM top_seller LIMIT 1);
         UPDATE report_month SET observed_ms = 1 WHERE report = 'business_health' AND (year, month) = \
             (SELECT year, month FROM business_health LIMIT 1);",
    )
    .await;
    shop.good_once().await;
    let open = shop.rows("report", "report_month WHERE NOT is_agreed ORDER BY report").await;
    assert_eq!(
        open,
        json!([["business_health"], ["top_selling"]]),
        "corrected since, or first read before it was over"
    );
    shop.good_once().await;
    assert_eq!((shop.calls_of(HEALTH), shop.calls_of(TOP)), (3, 49), "only what is open");
}

#[tokio::test]
async fn a_report_without_data_does_not_ask_for_the_job_that_just_ran() {
    let shop = Shop::open().await;
    shop.good_once().await;
    shop.execute("DELETE FROM report_month").await;
    let output = shop.cli(&["report", "top-selling"]).await;
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(!said.contains("job run") && said.contains("or the platform listed none"), "{said}");
}
