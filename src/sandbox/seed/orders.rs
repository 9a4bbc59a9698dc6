//! Generated history: orders and shipments in all states, months of sales, and 24 months of business health.

use serde_json::{Value, json};

use super::CompanySeed;
use crate::sandbox::SandboxError;
use crate::sandbox::clock::{DAY_MS, months_before};
use crate::sandbox::platform::sales::{self, OrderPlacement, SaleLine};
use crate::sandbox::random::SandboxRandom;
use crate::sandbox::store::values;

const SHIPMENT: &str = "\
    INSERT INTO shipment (order_id, warehouse_id, is_cancelled, created_at_ms, shipped_at_ms)
    SELECT order_id, warehouse_id, ?2 = 3, ?3, iif(?2 < 2, ?3, NULL)
      FROM order_line WHERE order_id = ?1 ORDER BY id LIMIT 1 RETURNING id";
const SHIPMENT_ITEMS: &str = "\
    INSERT INTO shipment_item (shipment_id, line_id, quantity, is_shipped, carrier_id, tracking_number)
    SELECT ?1, id, quantity, shipped, iif(shipped, 1, NULL), iif(shipped, '1Z' || printf('%016d', id), NULL)
      FROM (SELECT id, quantity, ?3 = 0 OR (?3 = 1 AND row_number() OVER (ORDER BY id) = 1) AS shipped
              FROM order_line WHERE order_id = ?2 ORDER BY id)";
/// Returns the units of a cancelled order to their warehouses.
const RETURN_STOCK: &str = "\
    UPDATE link SET quantity = link.quantity + taken.quantity
      FROM (SELECT a.product_id, a.warehouse_id, sum(a.quantity) AS quantity
              FROM allocation a JOIN order_line l ON l.id = a.line_id
             WHERE l.order_id = ?1 GROUP BY 1, 2) taken
     WHERE link.product_id = taken.product_id AND link.warehouse_id = taken.warehouse_id";
const SALES: &str = "\
    INSERT INTO sale (storefront_id, product_id, year, month, quantity, amount)
    SELECT value->>0, p.id, value->>2, value->>3, value->>4, (value->>4) * p.price
      FROM json_each(?1) JOIN product p ON p.id = value->>1 WHERE true
    ON CONFLICT DO UPDATE SET quantity = quantity + excluded.quantity, amount = amount + excluded.amount";
const BUSINESS_MONTHS: &str = "\
    INSERT INTO business_month
    SELECT value->>0, value->>1, value->>2, value->>3, value->>4, value->>5, value->>6, value->>7, value->>8,
           value->>9, value->>10, value->>11
      FROM json_each(?1)";

const FIRST_NAMES: [&str; 8] = ["Ada", "Bruno", "Carla", "Deniz", "Emil", "Fumiko", "Gita", "Henrik"];
const LAST_NAMES: [&str; 8] = ["Abara", "Brandt", "Costa", "Dahl", "Eriksen", "Fischer", "Grant", "Hughes"];

impl CompanySeed<'_> {
    pub(crate) async fn fill_history(&mut self, orders: u32) -> Result<(), SandboxError> {
        let skus = self.product_skus().await?;
        for number in 0..orders {
            let age_days = 60 - 60 * number / orders;
            let placed_at_ms =
                self.now_ms - i64::from(age_days) * DAY_MS + i64::from(self.random.number_below(3_600_000));
            self.insert_order(number, &skus, placed_at_ms).await?;
        }
        self.insert_monthly_sales().await?;
        Ok(self.insert_business_health().await?)
    }

    pub(super) async fn product_skus(&mut self) -> Result<Vec<String>, sqlx::Error> {
        let skus = "SELECT sku FROM product WHERE company_id = ?1 ORDER BY id";
        sqlx::query_scalar(skus).bind(self.company_id).fetch_all(&mut *self.db).await
    }

    async fn insert_order(&mut self, number: u32, skus: &[String], at_ms: i64) -> Result<(), SandboxError> {
        let state = match number % 8 {
            5 => "AwaitingPayment",
            6 => "InProcess",
            7 => "Cancelled",
            _ => "ReadyToShip",
        };
        let Self { company_id, ref mut random, .. } = *self;
        let lines = 0..random.number_between(1, 3);
        let lines: Vec<SaleLine> =
            lines.map(|_| SaleLine::new(random.pick_from(skus), random.number_between(1, 2))).collect();
        let customer = random_customer(random);
        let order = OrderPlacement { company_id, lines: &lines, customer, state, placed_at_ms: at_ms };
        let order_id = match sales::place_order(self.db, &order).await.map_err(SandboxError::from) {
            Ok(order_id) => order_id,
            // A component of a kit is out of stock: no order is placed.
            Err(SandboxError::Refused { status: 409, .. }) => return Ok(()),
            Err(cause) => return Err(cause),
        };
        match number % 8 {
            0..=3 => self.insert_shipment(order_id, number % 8, at_ms + DAY_MS).await?,
            7 => sqlx::query(RETURN_STOCK).bind(order_id).execute(&mut *self.db).await.map(drop)?,
            _ => {}
        }
        Ok(())
    }

    /// Creates a shipment of the whole order: 0 shipped, 1 first item shipped, 2 unshipped, 3 cancelled.
    async fn insert_shipment(&mut self, order_id: i64, outcome: u32, at_ms: i64) -> Result<(), sqlx::Error> {
        let shipment = sqlx::query_scalar_with(SHIPMENT, values!(order_id, outcome, at_ms));
        let shipment_id: i64 = shipment.fetch_one(&mut *self.db).await?;
        let items = sqlx::query_with(SHIPMENT_ITEMS, values!(shipment_id, order_id, outcome));
        items.execute(&mut *self.db).await.map(drop)
    }

    async fn insert_monthly_sales(&mut self) -> Result<(), sqlx::Error> {
        let storefronts = "SELECT id FROM storefront WHERE company_id = ?1 AND is_active ORDER BY id";
        let storefronts = self.company_ids(storefronts).await?;
        let products = self.company_ids("SELECT id FROM product WHERE company_id = ?1 ORDER BY id").await?;
        let mut rows = Vec::new();
        for back in 1..=3 {
            let (year, month) = months_before(self.now_ms, back);
            for storefront_id in &storefronts {
                // More products than the ten that are shown.
                for _ in 0..30 {
                    let product_id = self.random.pick_from(&products);
                    let quantity = self.random.number_between(1, 90);
                    rows.push(json!([storefront_id, product_id, year, month, quantity]));
                }
            }
        }
        self.insert_rows(SALES, &rows).await
    }

    /// Adds two years of business health, whose months are consistent. The profit is the remainder of each month. A month
    /// starts with the inventory of the month before.
    async fn insert_business_health(&mut self) -> Result<(), sqlx::Error> {
        let company_id = self.company_id;
        let mut inventory = 250_000 + self.random.number_below(50_000);
        let mut rows = Vec::new();
        for back in (1..=24).rev() {
            let (year, month) = months_before(self.now_ms, back);
            let revenue = self.random.number_between(80_000, 140_000);
            let (goods, shipping) = (revenue * 58 / 100, revenue * 9 / 100);
            let (collected, labels) = (revenue * 7 / 100, revenue * 8 / 100);
            let start = inventory;
            inventory = inventory + self.random.number_below(20_000) - 9_000;
            let profit = revenue + collected - goods - shipping;
            let listings = self.random.number_between(3, 40);
            rows.push(json!([
                company_id, year, month, revenue, goods, shipping, profit, collected, labels, start,
                inventory, listings
            ]));
        }
        self.insert_rows(BUSINESS_MONTHS, &rows).await
    }
}

fn random_customer(random: &mut SandboxRandom) -> Value {
    let (first, last) = (random.pick_from(&FIRST_NAMES), random.pick_from(&LAST_NAMES));
    json!({
        "FullName": format!("{first} {last}"),
        "FirstName": first,
        "LastName": last,
        "EmailAddress": format!("{}.{}@example.com", first.to_lowercase(), last.to_lowercase()),
        "Phone": format!("+1 555 01{:02}", random.number_below(100)),
        "Address": {
            "Street1": format!("{} Main Street", random.number_between(1, 400)),
            "City": "Springfield", "State": "IL", "Country": "US", "ZipCode": "62701", "IsResidential": true,
        },
    })
}
