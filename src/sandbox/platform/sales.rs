//! Events outside the interface: new orders, and sales elsewhere.
//!
//! The control plane, the library and the generated data use them; the interface has no operation for them.
//! An order takes its units at once: from the default warehouse first, then from the others in the order of
//! their ids. A kit takes its components. If stock is short, the order is refused and nothing changes.

use serde::Deserialize;
use sqlx::SqliteConnection;

use super::contact::Contact;
use crate::sandbox::clock::month_of;
use crate::sandbox::http::answer::Refusal;
use crate::sandbox::http::request::Whole;

/// A line of an order to place.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(in crate::sandbox) struct Line {
    pub(in crate::sandbox) sku: String,
    pub(in crate::sandbox) quantity: Whole,
}

/// An order to place.
#[derive(Debug)]
pub(in crate::sandbox) struct Order<'a> {
    pub(in crate::sandbox) company_id: i64,
    pub(in crate::sandbox) lines: &'a [Line],
    pub(in crate::sandbox) customer: &'a Contact,
    /// State, as in table `sales_order`.
    pub(in crate::sandbox) state: &'a str,
    /// Milliseconds since 1970.
    pub(in crate::sandbox) placed_at_ms: i64,
}

/// A sold product.
#[derive(sqlx::FromRow)]
struct Product {
    id: i64,
    r#type: String,
    price: f64,
}

/// Units of a product in a warehouse.
#[derive(Debug, PartialEq, Eq)]
struct Taken {
    product_id: i64,
    warehouse_id: i64,
    quantity: i64,
}

/// Places an order and returns its id. On a refusal the caller's transaction must be rolled back.
pub(in crate::sandbox) async fn place_order(
    db: &mut SqliteConnection,
    order: &Order<'_>,
) -> Result<i64, Refusal> {
    if order.lines.is_empty() {
        return Err(Refusal::bad_request("An order needs at least one line."));
    }
    let contact_id = order.customer.insert(db).await?;
    let storefront_id = first_storefront(db, order.company_id).await?;
    let order_id: i64 = sqlx::query_scalar(
        "INSERT INTO sales_order (company_id, storefront_id, state, placed_at_ms, contact_id)
         VALUES (?1, ?2, ?3, ?4, ?5) RETURNING id",
    )
    .bind(order.company_id)
    .bind(storefront_id)
    .bind(order.state)
    .bind(order.placed_at_ms)
    .bind(contact_id)
    .fetch_one(&mut *db)
    .await?;
    for line in order.lines {
        let quantity = sold_quantity(line.quantity)?;
        let product = product(db, order.company_id, &line.sku).await?;
        let taken = take(db, &product, quantity).await?;
        insert_line(db, order_id, &product, quantity, &taken).await?;
        count_sale(db, storefront_id, &product, quantity, order.placed_at_ms).await?;
    }
    Ok(order_id)
}

/// Lowers a stock level as a sale elsewhere, without an order, and returns the quantity left.
pub(in crate::sandbox) async fn sell(
    db: &mut SqliteConnection,
    company_id: i64,
    line: &Line,
    warehouse_id: i64,
    now_ms: i64,
) -> Result<i64, Refusal> {
    let quantity = sold_quantity(line.quantity)?;
    let product = product(db, company_id, &line.sku).await?;
    if product.r#type == "Kit" {
        return Err(Refusal::bad_request(format!("The SKU '{}' is a kit; sell its components.", line.sku)));
    }
    let there: Option<i64> =
        sqlx::query_scalar("SELECT quantity FROM link WHERE product_id = ?1 AND warehouse_id = ?2")
            .bind(product.id)
            .bind(warehouse_id)
            .fetch_optional(&mut *db)
            .await?;
    let there = there.ok_or_else(|| {
        Refusal::not_found(format!("The SKU '{}' is in no warehouse with the id {warehouse_id}.", line.sku))
    })?;
    if there < quantity {
        return Err(short(&line.sku, quantity, there));
    }
    lower(db, &Taken { product_id: product.id, warehouse_id, quantity }).await?;
    let storefront_id = first_storefront(db, company_id).await?;
    count_sale(db, storefront_id, &product, quantity, now_ms).await?;
    Ok(there - quantity)
}

fn sold_quantity(Whole(quantity): Whole) -> Result<i64, Refusal> {
    if (1..=1_000_000).contains(&quantity) {
        return Ok(quantity);
    }
    Err(Refusal::bad_request(format!("The Quantity {quantity} is not between 1 and 1000000.")))
}

fn short(sku: &str, wanted: i64, there: i64) -> Refusal {
    Refusal::conflict(format!("{wanted} of the SKU '{sku}' are wanted and {there} are there."))
}

async fn product(db: &mut SqliteConnection, company_id: i64, sku: &str) -> Result<Product, Refusal> {
    let found = sqlx::query_as("SELECT id, type, price FROM product WHERE company_id = ?1 AND sku = ?2")
        .bind(company_id)
        .bind(sku)
        .fetch_optional(db)
        .await?;
    found.ok_or_else(|| Refusal::not_found(format!("No product with the SKU '{sku}' was found.")))
}

async fn first_storefront(db: &mut SqliteConnection, company_id: i64) -> Result<Option<i64>, Refusal> {
    let first = "SELECT id FROM storefront WHERE company_id = ?1 AND is_active ORDER BY id LIMIT 1";
    Ok(sqlx::query_scalar(first).bind(company_id).fetch_optional(db).await?)
}

/// Takes the product, or a kit's components, out of the warehouses.
async fn take(db: &mut SqliteConnection, product: &Product, quantity: i64) -> Result<Vec<Taken>, Refusal> {
    let parts: Vec<(i64, String, i64)> = sqlx::query_as(
        "SELECT p.id, p.sku, 1 FROM product p WHERE p.id = ?1 AND p.type <> 'Kit'
          UNION ALL
         SELECT c.id, c.sku, k.quantity FROM kit_component k JOIN product c ON c.id = k.component_id WHERE k.kit_id = ?1",
    )
    .bind(product.id)
    .fetch_all(&mut *db)
    .await?;
    let mut taken = Vec::new();
    for (part_id, sku, per_unit) in parts {
        let shelves: Vec<(i64, i64)> = sqlx::query_as(
            "SELECT l.warehouse_id, l.quantity FROM link l JOIN warehouse w ON w.id = l.warehouse_id
              WHERE l.product_id = ?1 AND l.quantity > 0 ORDER BY w.is_default DESC, w.id",
        )
        .bind(part_id)
        .fetch_all(&mut *db)
        .await?;
        let from_shelves = spread(part_id, quantity * per_unit, &shelves)
            .map_err(|there| short(&sku, quantity * per_unit, there))?;
        for part in from_shelves {
            lower(db, &part).await?;
            taken.push(part);
        }
    }
    if taken.is_empty() {
        return Err(Refusal::conflict("The product is a kit without components; it cannot be sold."));
    }
    Ok(taken)
}

/// Takes `wanted` units from the warehouses in their order.
///
/// # Errors
/// The available units, if they are fewer.
fn spread(product_id: i64, wanted: i64, shelves: &[(i64, i64)]) -> Result<Vec<Taken>, i64> {
    let mut missing = wanted;
    let mut taken = Vec::new();
    for (warehouse_id, there) in shelves {
        let quantity = missing.min(*there);
        if quantity > 0 {
            taken.push(Taken { product_id, warehouse_id: *warehouse_id, quantity });
            missing -= quantity;
        }
    }
    if missing > 0 { Err(wanted - missing) } else { Ok(taken) }
}

async fn lower(db: &mut SqliteConnection, taken: &Taken) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE link SET quantity = quantity - ?3 WHERE product_id = ?1 AND warehouse_id = ?2")
        .bind(taken.product_id)
        .bind(taken.warehouse_id)
        .bind(taken.quantity)
        .execute(db)
        .await?;
    Ok(())
}

async fn insert_line(
    db: &mut SqliteConnection,
    order_id: i64,
    product: &Product,
    quantity: i64,
    taken: &[Taken],
) -> Result<(), Refusal> {
    let line_id: i64 = sqlx::query_scalar(
        "INSERT INTO order_line (order_id, product_id, warehouse_id, quantity, unit_price)
         VALUES (?1, ?2, ?3, ?4, ?5) RETURNING id",
    )
    .bind(order_id)
    .bind(product.id)
    .bind(taken.first().map(|first| first.warehouse_id))
    .bind(quantity)
    .bind(product.price)
    .fetch_one(&mut *db)
    .await?;
    for part in taken {
        sqlx::query(
            "INSERT INTO allocation (line_id, product_id, warehouse_id, quantity) VALUES (?1, ?2, ?3, ?4)",
        )
        .bind(line_id)
        .bind(part.product_id)
        .bind(part.warehouse_id)
        .bind(part.quantity)
        .execute(&mut *db)
        .await?;
    }
    Ok(())
}

/// Adds to the month's sales of the storefront; without a storefront nothing is counted.
async fn count_sale(
    db: &mut SqliteConnection,
    storefront_id: Option<i64>,
    product: &Product,
    quantity: i64,
    at_ms: i64,
) -> Result<(), Refusal> {
    let Some(storefront_id) = storefront_id else { return Ok(()) };
    let (year, month) = month_of(at_ms);
    sqlx::query(
        "INSERT INTO sale (storefront_id, product_id, year, month, quantity, amount)
         VALUES (?1, ?2, ?3, ?4, ?5, ?5 * ?6)
         ON CONFLICT DO UPDATE SET quantity = quantity + excluded.quantity, amount = amount + excluded.amount",
    )
    .bind(storefront_id)
    .bind(product.id)
    .bind(year)
    .bind(month)
    .bind(quantity)
    .bind(product.price)
    .execute(db)
    .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_empties_the_first_warehouse_before_the_next() {
        let shelves = [(10, 3), (11, 0), (12, 5)];
        let taken = |wanted| {
            spread(1, wanted, &shelves)
                .map(|taken| taken.iter().map(|part| (part.warehouse_id, part.quantity)).collect::<Vec<_>>())
        };
        assert_eq!(taken(2), Ok(vec![(10, 2)]));
        assert_eq!(taken(3), Ok(vec![(10, 3)]));
        assert_eq!(taken(8), Ok(vec![(10, 3), (12, 5)]));
        assert_eq!(taken(9), Err(8));
    }
}
