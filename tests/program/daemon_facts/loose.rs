//! The platform's two forms of an answer lead to one mirror and to equal effects.

use super::support::Shop;
use serde_json::{Value, json};
use tallyd::sandbox::SandboxOptions;

/// Tables of what the daemon learnt; the others hold times and positions.
const LEARNT: [&str; 15] = [
    "product",
    "balance",
    "warehouse",
    "supplier",
    "storefront",
    "listing_template",
    "kit",
    "kit_component",
    "sales_order",
    "order_line_item",
    "order_line_allocation",
    "shipment",
    "shipment_line",
    "report_month",
    "tracked_sku",
];
/// Parts of the names of columns that hold a time, a position, a digest or an answer as it came.
const OF_ITS_RUN: [&str; 9] =
    ["contact", "exchange", "position", "_ms", "_at", "batch", "digest", "revision", "proof"];

/// Lets a daemon read everything, push a change of each kind, and read it again; returns what it learnt.
async fn life(loose_answers: bool) -> Vec<(String, Value)> {
    let shop = Shop::with(SandboxOptions { loose_answers, ..SandboxOptions::default() }).await;
    shop.good_once().await;
    let (kit, _, _) = shop.kit().await;
    let levels = shop.sandbox.stock_levels().await.unwrap();
    let good: Vec<_> =
        levels.iter().filter(|level| level.quantity >= 5 && level.sku != kit).take(3).collect();
    let order = shop.sandbox.place_order(&[(&good[0].sku, 2), (&kit, 1)]).await.unwrap();
    let skus: Vec<_> = levels.iter().map(|level| format!("('{}')", level.sku.replace('\'', "''"))).collect();
    shop.execute(&format!(
        "INSERT INTO tracked_sku (sku) VALUES {} ON CONFLICT DO NOTHING; INSERT INTO tracked_order (order_id) VALUES ({order})",
        skus.join(", ")
    ))
    .await;
    shop.cli_json(&["product", "components", &kit]).await;
    shop.good_once().await;
    let storefront = shop.get("/api/storefronts").await["data"][0]["Id"].as_f64().unwrap();
    let level = |n: usize| (good[n].sku.clone(), good[n].warehouse_id);
    let ((counted, at), (adjusted, beside)) = (level(1), level(2));
    let bodies = [
        ("quantity.set", json!({"sku": counted, "warehouse_id": at, "quantity": 3})),
        ("quantity.adjust", json!({"sku": adjusted, "warehouse_id": beside, "delta": -2})),
        ("shipment.create", json!({"order_id": order})),
        ("warehouse.create", json!({"Name": "Annex"})),
        ("listing_template.create", json!({"StorefrontId": storefront, "Name": "Fresh", "Body": "text"})),
        ("product.create", json!({"Sku": "NEW-1", "Name": "New"})),
    ];
    for (kind, body) in &bodies {
        let body = body.to_string().replace('\'', "''");
        shop.execute(&format!("INSERT INTO outbox (key, kind, body) VALUES ('{kind}', '{kind}', '{body}')"))
            .await;
    }
    for _ in 0..2 {
        shop.good_once().await;
    }
    let mut learnt =
        vec![("outbox".to_owned(), shop.rows("key, state, reason", "outbox ORDER BY key").await)];
    for table in LEARNT {
        let columns = shop.columns(table).await;
        let facts: Vec<_> = columns
            .iter()
            .filter(|name| !OF_ITS_RUN.iter().any(|part| name.contains(part)))
            .cloned()
            .collect();
        let rows = shop.rows(&facts.join(", "), &format!("{table} ORDER BY 1")).await;
        learnt.push((table.to_owned(), rows));
    }
    learnt
}

#[tokio::test(flavor = "multi_thread")]
async fn the_daemon_learns_the_same_from_loose_answers_as_from_plain_ones() {
    let (plain, loose) = (life(false).await, life(true).await);
    for ((table, plain), (_, loose)) in plain.iter().zip(&loose) {
        assert_eq!(plain, loose, "{table}");
        assert!(!plain.as_array().unwrap().is_empty(), "{table} holds something");
    }
    let states: Vec<_> = loose[0].1.as_array().unwrap().iter().map(|row| row[1].clone()).collect();
    assert_eq!(states, vec![json!("applied"); 6], "{:?}", loose[0].1);
}
