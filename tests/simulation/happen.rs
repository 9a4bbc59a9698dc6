//! The events of a trade, as a world carries them out.
//!
//! An event acts on the goods (the ground truth), at the platform, and as changes. At each sale the ground
//! truth predicts if the platform will sell; the platform must agree.

use super::books::Level;
use super::shop::Event;
use super::world::World;
use axum::body::Bytes;
use axum::http::Request;
use serde_json::{Value, json};
use tallyd::sandbox::SandboxAnswer;

impl World {
    /// Carries out the events, each at its time.
    pub async fn live(&mut self, events: &[(i64, Event)]) {
        for (at, event) in events {
            self.go_on_to(*at).await;
            self.happen(event).await;
        }
    }

    async fn happen(&mut self, event: &Event) {
        match event {
            Event::Sale(level, units) => {
                let sells = self.audit().books.sale(level, *units);
                let sold = self.core.sell_units(&level.0, level.1, *units).await;
                assert_eq!(sold.is_ok(), sells, "{level:?} × {units}: {sold:?}");
            }
            Event::Order(sku, units) => {
                let sells = !self.audit().books.ordered(sku, *units).is_empty();
                let sold = self.core.place_order(&[(sku, *units)]).await;
                assert_eq!(sold.is_ok(), sells, "{sku} × {units}: {sold:?}");
            }
            Event::Moved(level, units) => {
                let moved = self.audit().books.moved(level, *units);
                if moved != 0 {
                    self.change_level("quantity.adjust", level, "delta", moved).await;
                }
            }
            Event::Colleague(level, units) => {
                let listed = self.audit().books.colleague(level, *units);
                self.enter(level, listed).await;
            }
            Event::Count(level) => self.count(level).await,
            Event::Pick(level) => {
                self.audit().books.pick(level);
            }
        }
    }

    /// A clerk counts and subtracts what the stock view shows as sold.
    ///
    /// A stock level with a change on its way is not counted.
    async fn count(&mut self, level: &Level) {
        if self.is_moving(level).await {
            return;
        }
        let shown = self.mirror().await[level];
        let real = self.audit().books.level(level).clone();
        let unseen = shown - real.listed;
        self.change_level("quantity.set", level, "quantity", (real.sellable() + unseen).max(0)).await;
    }

    /// Another program sets a quantity at the platform.
    pub async fn enter(&self, (sku, warehouse): &Level, quantity: i64) {
        let body = json!([{"Sku": sku, "WarehouseId": warehouse, "Quantity": quantity}]);
        self.ask("/api/inventory/updateQuantityOnHand", &body).await;
    }

    /// Sends a call of another program and returns its answer.
    pub async fn ask(&self, path: &str, body: &Value) -> Value {
        self.call("POST", path, body.to_string()).await.expect("no limit is reached")
    }

    /// Sends a call of another program; returns `None` if the account's limits refuse it.
    pub async fn call(&self, method: &str, path: &str, body: String) -> Option<Value> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("svc-subscription-key", self.core.integration_key())
            .header("gateway-subscription-key", self.core.gateway_key())
            .body(Bytes::from(body))
            .unwrap();
        let SandboxAnswer::Full(answer) = self.core.handle_request(request).await else {
            panic!("no fault is on")
        };
        if answer.status() == 429 {
            return None;
        }
        assert_eq!(answer.status(), 200, "{path}: {answer:?}");
        serde_json::from_slice(answer.body()).unwrap()
    }
}
