//! `replay` as people run it.

use crate::shop::Shop;
use serde_json::Value;

#[tokio::test]
async fn replay_works_beside_the_daemon_and_says_equal_or_exits_3() {
    let shop = Shop::open(5).await;
    shop.read_all().await;
    let into = shop.path("again.db");
    let file = into.to_str().unwrap();
    let done = shop.cli(&["replay", "--into", file, "--json"]).await;
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    let told: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(told["equal"], true);
    assert!(
        told["tables"].as_array().unwrap().iter().all(|table| table["live_hash"] == table["replayed_hash"])
    );
    assert!(
        String::from_utf8_lossy(&done.stderr).contains("folding the journal"),
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
    let then = chrono::Utc::now().to_rfc3339();
    let before = shop.number("SELECT count(*) FROM work_queue").await;
    let sku = shop.sandbox.skus().await.unwrap().remove(0);
    shop.sandbox.place_order(&[(&sku, 1)]).await.unwrap();
    shop.run(tallyd::model::JobKind::WorkQueue).await;
    assert_eq!(shop.number("SELECT count(*) FROM work_queue").await, before + 1);
    let done =
        shop.cli(&["replay", "--into", shop.path("then.db").to_str().unwrap(), "--until", &then]).await;
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    let mut mirror = shop.connect("then.db").await;
    let rows: i64 =
        sqlx::query_scalar("SELECT count(*) FROM work_queue").fetch_one(&mut mirror).await.unwrap();
    assert_eq!(rows, before);
    let nonsense = shop.cli(&["replay", "--into", "x.db", "--until", "yesterday"]).await;
    assert_eq!(nonsense.status.code(), Some(2));
}
