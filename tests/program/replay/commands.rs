//! The command `replay`, as an operator runs it.

use super::shop::Shop;
use serde_json::Value;
use tallyd::daemon::SystemClock;
use tallyd::model::Clock;

#[tokio::test]
async fn replay_works_beside_the_daemon_and_says_equal_or_exits_3() {
    let shop = Shop::open(5).await;
    shop.read_all().await;
    let into = shop.path("again.db");
    let file = into.to_str().unwrap();
    let done = shop.cli(&["replay", "--into", file, "--json"]).await;
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    let answer: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(answer["equal"], true);
    assert!(
        answer["tables"].as_array().unwrap().iter().all(|table| table["live_hash"] == table["replayed_hash"])
    );
    assert!(
        String::from_utf8_lossy(&done.stderr).contains("rebuilding the mirror"),
        "plain lines tell how far it is"
    );

    let again = shop.cli(&["replay", "--into", file]).await;
    assert_eq!(again.status.code(), Some(2), "an existing file is refused: {again:?}");

    shop.sql("UPDATE warehouse SET name = 'other'").await;
    let differs = shop.cli(&["replay", "--into", shop.path("b.db").to_str().unwrap()]).await;
    assert_eq!(differs.status.code(), Some(3), "{differs:?}");
    let text = String::from_utf8_lossy(&differs.stdout).into_owned();
    assert!(text.contains(r#"live {"name":"other"}, replayed {"name":"#), "{text}");
}

#[tokio::test]
async fn until_gives_the_mirror_of_that_time() {
    let shop = Shop::open(6).await;
    shop.read_all().await;
    let then = Clock::now(&SystemClock).to_rfc3339();
    let before = shop.number("SELECT count(*) FROM work_queue").await;
    let sku = shop.sandbox.all_skus().await.unwrap().remove(0);
    shop.sandbox.place_order(&[(&sku, 1)]).await.unwrap();
    shop.run(tallyd::model::JobKind::WorkQueue).await;
    assert_eq!(shop.number("SELECT count(*) FROM work_queue").await, before + 1);
    let done =
        shop.cli(&["replay", "--into", shop.path("then.db").to_str().unwrap(), "--until", &then]).await;
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    let rows: i64 = shop.mirror("then.db").await.value("SELECT count(*) FROM work_queue").await;
    assert_eq!(rows, before);
    let nonsense = shop.cli(&["replay", "--into", "x.db", "--until", "yesterday"]).await;
    assert_eq!(nonsense.status.code(), Some(2));
}

#[tokio::test]
async fn the_journal_is_shown_exported_and_compared_between_positions() {
    let mut shop = Shop::open(7).await;
    shop.track_all().await;
    shop.run(tallyd::model::JobKind::Balances).await;
    let position = shop.number("SELECT position FROM journal_sequence").await;
    let level = shop.sandbox.stock_levels().await.unwrap().into_iter().find(|row| row.quantity > 3).unwrap();
    shop.sandbox.sell_units(&level.sku, level.warehouse_id, 2).await.unwrap();
    shop.end();

    let input = serde_json::json!({"skus": [level.sku]}).to_string();
    let ran = shop.cli(&["job", "run", "balances", "--input", &input]).await;
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
    let refused = shop.cli(&["job", "run", "warehouses", "--input", &input]).await;
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    let run = shop.number("SELECT max(id) FROM run").await.to_string();
    let shown: Value = read(&shop, &["job", "show", &run, "--json"]).await;
    assert_eq!(shown["trigger"], "operator");
    assert_eq!(shown["input"]["skus"][0].as_str(), Some(level.sku.as_str()));
    assert_eq!(shown["exchanges"].as_array().unwrap().len(), 1);
    assert_eq!((&shown["changes"], &shown["events"]), (&serde_json::json!([]), &serde_json::json!([])));

    let exchange = shown["exchanges"][0]["id"].to_string();
    let answer = read(&shop, &["journal", "show", &exchange, "--json"]).await;
    assert_eq!(answer["request"]["skus"][0].as_str(), Some(level.sku.as_str()), "{answer}");
    assert!(answer["response"].is_array(), "{answer}");
    assert_eq!(read(&shop, &["journal", "show", "--last", "3", "--json"]).await.as_array().unwrap().len(), 2);

    let exported = shop.cli(&["journal", "export"]).await;
    let text = String::from_utf8(exported.stdout).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert!(!text.contains(shop.sandbox.integration_key()) && !text.contains(shop.sandbox.gateway_key()));

    let end = shop.number("SELECT position FROM journal_sequence").await.to_string();
    let changed = read(&shop, &["journal", "diff", &position.to_string(), &end, "--json"]).await;
    let balance = changed.as_array().unwrap().iter().find(|table| table["table"] == "balance").unwrap();
    assert_eq!(balance["rows"][0]["before"]["quantity"], level.quantity, "{changed}");
    assert_eq!(balance["rows"][0]["after"]["quantity"], level.quantity - 2);
    let same = read(&shop, &["journal", "diff", &end, &end, "--json"]).await;
    assert_eq!(same, serde_json::json!([]));
}

async fn read(shop: &Shop, arguments: &[&str]) -> Value {
    let output = shop.cli(arguments).await;
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}
