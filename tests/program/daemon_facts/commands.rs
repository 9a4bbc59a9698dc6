//! The reading commands: each prints the mirror's content, and `product find` asks the platform.

use super::support::Shop;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Returns the names of a record's fields, in order.
fn fields(record: &Value) -> Vec<&str> {
    record.as_object().unwrap().keys().map(String::as_str).collect()
}

#[tokio::test]
async fn every_reading_command_answers_from_the_mirror() {
    let shop = Shop::open().await;
    let (kit, _, components) = shop.kit().await;
    let order = shop.sandbox.place_order(&[(&kit, 1)]).await.unwrap().to_string();
    shop.cli(&["order", "track", &order]).await;
    shop.good_once().await;

    let lists: [(&[&str], usize, &[&str]); 7] = [
        (
            &["warehouse", "list"],
            3,
            &["account_number", "id", "is_active", "is_system_generated", "missing_since", "name", "type"],
        ),
        (
            &["supplier", "list"],
            3,
            &["account_number", "id", "is_active", "missing_since", "name", "supplier_url"],
        ),
        (&["storefront", "list"], 2, &["id", "is_active", "missing_since", "name", "properties", "type"]),
        (
            &["product", "components", &kit],
            1,
            &["component_id", "name", "observed_at", "product_id", "quantity", "sku"],
        ),
        (
            &["report", "top-selling", "--months", "1"],
            10,
            &[
                "amount_sold",
                "is_agreed",
                "month",
                "name",
                "observed_at",
                "product_id",
                "quantity_sold",
                "rank",
                "sales_channel_id",
                "sku",
                "year",
            ],
        ),
        (
            &["report", "business-health"],
            24,
            &[
                "is_agreed",
                "month",
                "observed_at",
                "total_amount_shipping_collected",
                "total_cost_of_goods_sold",
                "total_cost_of_labels_generated",
                "total_number_of_new_listings_added",
                "total_profit",
                "total_revenue",
                "total_shipping_costs",
                "total_value_of_inventory_month_end",
                "total_value_of_inventory_month_start",
                "year",
            ],
        ),
        (
            &["report", "work-queue"],
            1,
            &[
                "awaiting_payment_sales_orders",
                "cancelled_sales_orders",
                "low_inventory_products",
                "new_purchase_orders",
                "observed_at",
                "open_work_orders",
                "paid_in_process_sales_orders",
                "paid_ready_to_ship_sales_orders",
                "partially_received_purchase_orders",
                "queued_listings",
                "submitted_purchase_orders",
                "unshipped_drop_ship_orders",
                "unshipped_sales_orders",
            ],
        ),
    ];
    for (arguments, count, expected) in lists {
        let rows = shop.cli_json(arguments).await;
        assert_eq!(rows.as_array().unwrap().len(), count, "{arguments:?}");
        assert_eq!(fields(&rows[0]), expected, "{arguments:?}");
        let text = shop.cli(arguments).await;
        assert_eq!(String::from_utf8(text.stdout).unwrap().lines().count(), count + 1, "{arguments:?}");
    }
    let storefront = shop.cli_json(&["storefront", "list"]).await[0]["id"].to_string();
    let all = shop.cli_json(&["template", "list"]).await;
    let some = shop.cli_json(&["template", "list", "--storefront", &storefront]).await;
    assert!(some.as_array().unwrap().len() < all.as_array().unwrap().len());
    assert_eq!(fields(&some[0]), ["body", "id", "missing_since", "name", "storefront_id"]);

    let line = &shop.cli_json(&["order", "show", &order]).await[0];
    assert_eq!((&line["sku"], &line["shipments"]), (&json!(kit), &json!([])));
    assert_eq!(line["allocations"][0]["sku"], components[0][2], "of a kit the components are taken");
}

#[tokio::test]
async fn a_product_is_found_at_the_service_recorded_and_not_tracked() {
    let shop = Shop::open().await;
    let level = shop.sandbox.stock_levels().await.unwrap().remove(0);
    let found = shop.cli_json(&["product", "find", &level.sku, "NO-SUCH-SKU"]).await;
    assert_eq!(found.as_array().unwrap().len(), 1);
    let (upc, product) = (found[0]["upc"].as_str().unwrap(), &found[0]["product_id"]);
    let quantity = json!({"warehouse_id": level.warehouse_id, "quantity": level.quantity});
    assert!(found[0]["warehouses"].as_array().unwrap().contains(&quantity), "{found}");
    assert_eq!(shop.cli_json(&["product", "find", "--upc", upc]).await[0]["product_id"], *product);

    assert_eq!(shop.rows("count(*)", "tracked_sku").await, json!([[0.0]]));
    assert_eq!(
        shop.rows("count(*)", "product WHERE missing_since_ms IS NOT NULL").await,
        json!([[0.0]]),
        "a person mistyped; no SKU is missing"
    );
    let runs = shop.rows("job, trigger, outcome", "run ORDER BY id").await;
    assert_eq!(runs, json!([["balances", "operator", "ok"], ["balances", "operator", "ok"]]));
    let good = shop.rows("count(*)", "job_state WHERE last_good_ms IS NOT NULL").await;
    assert_eq!(good, json!([[0.0]]), "one question makes no job's data fresh");
    let text = shop.cli(&["product", "find", &level.sku, "NO-SUCH-SKU"]).await;
    assert!(String::from_utf8(text.stdout).unwrap().contains("not found: NO-SUCH-SKU"));
}

#[tokio::test]
async fn beside_a_daemon_a_product_is_asked_for_by_the_daemon() {
    let shop = Shop::open().await;
    let sku = shop.sandbox.stock_levels().await.unwrap().remove(0).sku;
    let (stop, (_changed, reload)) = (CancellationToken::new(), mpsc::channel(1));
    let running = tokio::spawn(shop.daemon().await.run(stop.clone(), reload));
    let found = shop.cli_json(&["product", "find", &sku]).await;
    assert_eq!(found[0]["sku"], json!(sku));
    assert_eq!(shop.calls_of("POST /api/inventory/getProducts"), 1);
    assert_eq!(shop.rows("count(*)", "session").await, json!([[1.0]]), "by the one that holds the lock");
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn beside_a_daemon_a_job_is_run_by_the_daemon() {
    let shop = Shop::open().await;
    let sku = shop.sandbox.stock_levels().await.unwrap().remove(0).sku;
    let (stop, (_changed, reload)) = (CancellationToken::new(), mpsc::channel(1));
    let running = tokio::spawn(shop.daemon().await.run(stop.clone(), reload));
    let input = json!({"skus": [sku]}).to_string();
    let ran = shop.cli(&["job", "run", "balances", "--input", &input]).await;
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
    assert!(String::from_utf8(ran.stdout).unwrap().contains("1 SKU read"));
    assert_eq!(shop.rows("count(*)", "session").await, json!([[1.0]]), "by the one that holds the lock");
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_kit_nobody_ordered_is_asked_for_and_what_is_no_kit_is_said_to_be_none() {
    let shop = Shop::open().await;
    let (kit, product, components) = shop.kit().await;
    let shown = shop.cli_json(&["product", "components", &kit]).await;
    assert_eq!(shown[0]["sku"], components[0][2]);
    let types = shop.rows("product_id", "product WHERE type = 'Kit'").await;
    assert_eq!(types, json!([[product as f64]]));
    let no_kit = shop.cli(&["product", "components", components[0][2].as_str().unwrap()]).await;
    assert_eq!(no_kit.status.code(), Some(1));
    assert!(String::from_utf8(no_kit.stderr).unwrap().contains("it is no kit"), "the platform's own words");
}
