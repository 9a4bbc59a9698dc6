//! Access for tests and demonstrations in the same process, beside the interface.
//!
//! It offers the actions of the control plane (control.rs), and shares the code of platform/sales.rs with it.

use serde_json::{Value, json};

use super::SandboxError;
use super::control::{add_faults, company_of_key};
use super::core::SandboxCore;
use super::http::answer::SandboxRefusal;
use super::platform::sales::{self, OrderPlacement, SaleLine};

/// A stock level of the default company: a product that is no kit, in a warehouse.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, sqlx_macros::FromRow)]
pub struct SandboxStockLevel {
    pub sku: String,
    pub warehouse_id: i64,
    pub quantity: i64,
}

impl SandboxCore {
    /// Returns the stock levels of the default company, by SKU and warehouse. Kits have no stock of their own.
    pub async fn stock_levels(&self) -> Result<Vec<SandboxStockLevel>, SandboxError> {
        let levels = "SELECT p.sku, l.warehouse_id, l.quantity
                        FROM link l JOIN product p ON p.id = l.product_id JOIN company c ON c.id = p.company_id
                       WHERE c.is_default AND p.type <> 'Kit' ORDER BY p.sku, l.warehouse_id";
        Ok(sqlx::query_as(levels).fetch_all(&mut *self.store.write_connection().await).await?)
    }

    /// Returns all SKUs of the default company, including kits, in the order of creation.
    pub async fn all_skus(&self) -> Result<Vec<String>, SandboxError> {
        let skus = "SELECT p.sku FROM product p JOIN company c ON c.id = p.company_id
                     WHERE c.is_default ORDER BY p.id";
        Ok(sqlx::query_scalar(skus).fetch_all(&mut *self.store.write_connection().await).await?)
    }

    /// Returns all orders of the default company, in the order of placement.
    pub async fn order_ids(&self) -> Result<Vec<i64>, SandboxError> {
        let ids = "SELECT o.id FROM sales_order o JOIN company c ON c.id = o.company_id
                    WHERE c.is_default ORDER BY o.id";
        Ok(sqlx::query_scalar(ids).fetch_all(&mut *self.store.write_connection().await).await?)
    }

    /// Places an order of the default company, which lowers the stock, and returns its id.
    /// Fails with [`SandboxError::Refused`] if a SKU is unknown or its stock is too small; then nothing has changed.
    pub async fn place_order(&self, lines: &[(&str, i64)]) -> Result<i64, SandboxError> {
        let lines: Vec<_> = lines.iter().map(|(sku, quantity)| SaleLine::new(*sku, *quantity)).collect();
        Ok(self.place_order_of(None, &lines).await?)
    }

    /// Sells from a stock level of the default company without an order, and returns the quantity left.
    /// Fails with [`SandboxError::Refused`] if the stock level is unknown or too small.
    pub async fn sell_units(&self, sku: &str, warehouse_id: i64, quantity: i64) -> Result<i64, SandboxError> {
        Ok(self.sell_units_of(None, &SaleLine::new(sku, quantity), warehouse_id).await?)
    }

    /// Drops the answer of the next call of an operation, after the call was done. [`SandboxError::Refused`]
    /// if there is no such operation.
    pub fn lose_next_answer(&self, operation: &str) -> Result<(), SandboxError> {
        let fault = json!({ "Operation": operation, "Drop": "after", "Times": 1 });
        add_faults(self, &fault.to_string().into())?;
        Ok(())
    }

    pub(super) async fn place_order_of(
        &self,
        integration_key: Option<&str>,
        lines: &[SaleLine],
    ) -> Result<i64, SandboxRefusal> {
        let order = OrderPlacement {
            company_id: company_of_key(self, integration_key)?,
            lines,
            customer: walk_in_customer(),
            state: "ReadyToShip",
            placed_at_ms: self.clock.now_ms(),
        };
        self.in_transaction(async |db| sales::place_order(db, &order).await).await
    }

    pub(super) async fn sell_units_of(
        &self,
        integration_key: Option<&str>,
        line: &SaleLine,
        warehouse_id: i64,
    ) -> Result<i64, SandboxRefusal> {
        let (company_id, now_ms) = (company_of_key(self, integration_key)?, self.clock.now_ms());
        let sell = async |db: &mut _| sales::sell_elsewhere(db, company_id, line, warehouse_id, now_ms).await;
        self.in_transaction(sell).await
    }
}

fn walk_in_customer() -> Value {
    json!({
        "FullName": "Robin Walker",
        "FirstName": "Robin",
        "LastName": "Walker",
        "EmailAddress": "robin.walker@example.com",
        "Phone": "+1 555 0100",
        "Address": {
            "Street1": "1 Harbour Road", "City": "Portland", "State": "ME", "Country": "US", "ZipCode": "04101",
        },
    })
}
