//! A product that is gone has no stock, and an update is built from an answer.

use crate::delivery::between::{Odd, Scene};
use crate::delivery::creates::{product, update_of};
use crate::delivery::support::{A_MOMENT, Dock, PRODUCT_PUT, whole};
use serde_json::{Value, json};
use tallyd::model::JobKind;

const ALWAYS: usize = usize::MAX;

/// Creates a product with nine units in its first warehouse, beside other known products.
async fn nine(scene: &Scene, sku: &str) -> (Value, i64) {
    scene.levels().await;
    let made = product(scene, sku).await;
    let warehouse = whole(&made["Warehouses"][0]["WarehouseId"]);
    scene.change("nine", "quantity.set", json!({"sku": sku, "warehouse_id": warehouse, "quantity": 9})).await;
    scene.push().await;
    scene.run(JobKind::Balances).await;
    (made, warehouse)
}

/// Returns the units of these SKUs by the query that docs/database.md gives to programs.
async fn units(dock: &Dock, skus: &str) -> i64 {
    let sql = format!("SELECT CAST(coalesce(sum(quantity), 0) AS BIGINT) FROM stock WHERE sku IN ({skus})");
    dock.number(&sql).await
}

#[tokio::test]
async fn a_product_that_we_renamed_is_stock_under_one_name() {
    let scene = Scene::open().await;
    let (made, warehouse) = nine(&scene, "OLD-1").await;
    let mut body = update_of(&made, "Renamed");
    body["Sku"] = "NEW-1".into();
    scene.change("u", "product.update", body).await;
    scene.push().await;
    assert_eq!(scene.state("u").await, "applied", "{:?}", scene.fate("u").await);
    assert_eq!(units(&scene, "'OLD-1', 'NEW-1'").await, 9);
    for _ in 0..2 {
        scene.later(A_MOMENT);
        scene.run(JobKind::Balances).await;
        assert_eq!((units(&scene, "'NEW-1'").await, units(&scene, "'OLD-1'").await), (9, 0));
    }
    let listed = scene.refused(&["stock", "OLD-1", "NEW-1"]).await;
    assert!(listed.contains("NEW-1") && !listed.lines().any(|line| line.starts_with("OLD-1")), "{listed}");
    assert!(
        listed.contains("no stock level of OLD-1 is known: the platform does not return this SKU since"),
        "{listed}"
    );
    let old = json!({"sku": "OLD-1", "warehouse_id": warehouse, "delta": -1});
    scene.change("late", "quantity.adjust", old).await;
    scene.push().await;
    assert_eq!((scene.state("late").await, scene.reason("late").await), ("held".into(), "not_shown".into()));
}

/// An update takes its quantities from the read before it, and from no older fact.
#[tokio::test]
async fn an_update_takes_no_quantity_that_the_answer_did_not_show() {
    for way in 0..4 {
        let scene = Scene::open().await;
        let (made, warehouse) = nine(&scene, "UPD-9").await;
        scene.sandbox.sell_units("UPD-9", warehouse, 2).await.unwrap();
        let odd = match way {
            0 => Odd::Lacks("UPD-9".into()),
            1 => Odd::Unreadable("UPD-9".into()),
            2 => Odd::Null("UPD-9".into(), warehouse),
            _ => Odd::LevelTwice("UPD-9".into(), warehouse, 5),
        };
        scene.odd(odd, ALWAYS);
        let puts = scene.calls(PRODUCT_PUT);
        scene.change("u", "product.update", update_of(&made, "After")).await;
        scene.push().await;
        let (state, reason, detail) = scene.fate("u").await;
        assert_eq!((state.as_str(), reason.as_str()), ("held", "not_shown"), "{way}: {detail}");
        assert_eq!((scene.calls(PRODUCT_PUT), scene.level("UPD-9", warehouse).await), (puts, 7), "{way}");
        scene.even();
        scene.later(A_MOMENT);
        scene.settle().await;
        scene.push().await;
        assert_eq!(scene.state("u").await, "applied", "{way}: {:?}", scene.fate("u").await);
        assert_eq!((scene.calls(PRODUCT_PUT), scene.level("UPD-9", warehouse).await), (puts + 1, 7), "{way}");
    }
}

#[tokio::test]
async fn an_update_of_a_product_nobody_ever_saw_is_held() {
    let scene = Scene::open().await;
    let (made, _) = nine(&scene, "UPD-9").await;
    let mut body = update_of(&made, "After");
    (body["Sku"], body["Id"]) = ("NO-SUCH".into(), 999_999.into());
    scene.change("u", "product.update", body).await;
    scene.push().await;
    let (state, reason, detail) = scene.fate("u").await;
    assert_eq!((state.as_str(), reason.as_str()), ("held", "not_shown"), "{detail}");
}
