//! What no other test asked for until a bug was planted there (docs/mutants.md).

use crate::support::{BALANCES, Dock, UPDATE};
use serde_json::json;
use tallyd::model::JobKind;
use tallyd::store::Durability;

/// Tracks every SKU and reads all of them.
async fn read_all(dock: &Dock) {
    let known = sqlx::query("INSERT INTO tracked_sku (sku) SELECT value FROM json_each(?1)")
        .bind(json!(dock.sandbox.skus().await.unwrap()).to_string());
    known.execute(&mut dock.outsider().await).await.unwrap();
    dock.run(JobKind::Balances).await;
}

/// A release is for what it names: a flood that comes while a released wish still waits is a flood.
#[tokio::test]
async fn a_second_flood_beside_a_released_wish_trips_again() {
    let dock = Dock::open_with("[quantities]\nmax_fact_age = \"0s\"\nhold_jump_over = 5\n").await;
    read_all(&dock).await;
    let mut cells = dock.sandbox.stock().await.unwrap();
    cells.retain(|row| row.quantity > 0);
    let jump = cells.remove(0);
    let (sku, warehouse) = (jump.sku.as_str(), jump.warehouse_id);
    dock.wish("jump", "quantity.adjust", json!({"sku": sku, "warehouse_id": warehouse, "delta": 9})).await;
    dock.push().await;
    assert_eq!(dock.reason("jump").await, "jump");
    let context = dock.daemon().context();
    let mut write = context.store.begin(Durability::Full).await.unwrap();
    assert_eq!(write.brake_release(&["jump".into()], context.now()).await.unwrap(), 1);
    write.commit().await.unwrap();
    for (n, row) in cells.iter().enumerate() {
        let body = json!({"sku": row.sku, "warehouse_id": row.warehouse_id, "quantity": 0});
        dock.wish(&format!("z{n}"), "quantity.set", body).await;
    }
    dock.push().await;
    assert_eq!(dock.state("jump").await, "applied");
    assert_eq!((dock.state("z0").await, dock.reason("z0").await), ("held".into(), "brake".into()));
    assert_eq!(dock.calls(UPDATE), 1, "the released one alone");
}

/// What a kit holds follows from its components: once it is known to be one, no call is spent on the service's refusal.
#[tokio::test]
async fn a_wish_for_a_known_kit_is_rejected_before_the_send() {
    let mut dock = Dock::open().await;
    let component = dock.sandbox.stock().await.unwrap().remove(0);
    let kit = json!({"Sku": "KIT-OF-TWO", "Name": "Two of them",
                     "Components": [{"Sku": component.sku, "Quantity": 2}]});
    let made = dock.request("POST", "/_sandbox/kits", &kit.to_string()).await;
    let product = made["ProductId"].as_i64().unwrap();
    read_all(&dock).await;
    dock.leave();
    dock.done(&["product", "components", "KIT-OF-TWO"]).await;
    dock.restart().await;
    assert_eq!(
        dock.number(&format!("SELECT type = 'Kit' FROM product WHERE product_id = {product}")).await,
        1
    );
    let body = json!({"sku": "KIT-OF-TWO", "warehouse_id": component.warehouse_id, "quantity": 3});
    dock.wish("kit", "quantity.set", body).await;
    dock.push().await;
    assert_eq!((dock.state("kit").await, dock.reason("kit").await), ("rejected".into(), "kit".into()));
    assert_eq!(dock.calls(UPDATE), 0);
    assert!(dock.calls(BALANCES) > 0, "it was read");
}
