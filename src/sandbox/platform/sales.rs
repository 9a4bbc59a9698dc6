//! Events outside the interface: new orders, and sales elsewhere.
//!
//! The control plane, the library and the generated data use them; the interface has no operation for them.
//! An order takes its units at once: from the default warehouse first, then from the others in the order of
//! their ids. A kit takes its components. If stock is short, the order is refused and nothing changes.

use serde::Deserialize;
use serde_json::Value;
use sqlx::SqliteConnection;

use super::contact::insert_contact;
use crate::sandbox::clock::month_of;
use crate::sandbox::http::answer::SandboxRefusal;
use crate::sandbox::http::request::WholeNumber;
use crate::sandbox::store::values;

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct SaleLine {
    pub(crate) sku: String,
    pub(crate) quantity: WholeNumber,
}

impl SaleLine {
    pub(crate) fn new(sku: impl Into<String>, quantity: impl Into<i64>) -> Self {
        Self { sku: sku.into(), quantity: WholeNumber(quantity.into()) }
    }
}

#[derive(Debug)]
pub(crate) struct OrderPlacement<'a> {
    pub(crate) company_id: i64,
    pub(crate) lines: &'a [SaleLine],
    pub(crate) customer: Value,
    pub(crate) state: &'a str,
    pub(crate) placed_at_ms: i64,
}

#[derive(sqlx_macros::FromRow)]
struct SoldProduct {
    id: i64,
    r#type: String,
    price: f64,
}

#[derive(Debug, PartialEq, Eq)]
struct TakenUnits {
    product_id: i64,
    warehouse_id: i64,
    quantity: i64,
}

/// Places an order and returns its id. On a refusal the caller's transaction must be rolled back.
pub(crate) async fn place_order(
    db: &mut SqliteConnection,
    order: &OrderPlacement<'_>,
) -> Result<i64, SandboxRefusal> {
    if order.lines.is_empty() {
        return Err(SandboxRefusal::bad_request("An order needs at least one line."));
    }
    let contact_id = insert_contact(db, &order.customer).await?;
    let storefront_id = first_storefront(db, order.company_id).await?;
    let insert = "INSERT INTO sales_order (company_id, storefront_id, state, placed_at_ms, contact_id)
                  VALUES (?1, ?2, ?3, ?4, ?5) RETURNING id";
    let row = values!(order.company_id, storefront_id, order.state, order.placed_at_ms, contact_id);
    let order_id: i64 = sqlx::query_scalar_with(insert, row).fetch_one(&mut *db).await?;
    for line in order.lines {
        let quantity = sold_quantity(line.quantity)?;
        let product = find_product(db, order.company_id, &line.sku).await?;
        let taken = take_units(db, &product, quantity).await?;
        insert_order_line(db, order_id, &product, quantity, &taken).await?;
        count_sale(db, storefront_id, &product, quantity, order.placed_at_ms).await?;
    }
    Ok(order_id)
}

/// Lowers a stock level as a sale elsewhere, without an order, and returns the quantity left.
pub(crate) async fn sell_elsewhere(
    db: &mut SqliteConnection,
    company_id: i64,
    line: &SaleLine,
    warehouse_id: i64,
    now_ms: i64,
) -> Result<i64, SandboxRefusal> {
    let (sku, quantity) = (&line.sku, sold_quantity(line.quantity)?);
    let product = find_product(db, company_id, sku).await?;
    if product.r#type == "Kit" {
        return Err(format!("The SKU '{sku}' is a kit; sell its components.").into());
    }
    let on_hand = "SELECT quantity FROM link WHERE product_id = ?1 AND warehouse_id = ?2";
    let on_hand = sqlx::query_scalar(on_hand).bind(product.id).bind(warehouse_id);
    let on_hand: i64 = on_hand.fetch_optional(&mut *db).await?.ok_or_else(|| {
        SandboxRefusal::not_found(format!("The SKU '{sku}' is in no warehouse with the id {warehouse_id}."))
    })?;
    if on_hand < quantity {
        return Err(stock_too_small(sku, quantity, on_hand));
    }
    lower_stock(db, &TakenUnits { product_id: product.id, warehouse_id, quantity }).await?;
    let storefront_id = first_storefront(db, company_id).await?;
    count_sale(db, storefront_id, &product, quantity, now_ms).await?;
    Ok(on_hand - quantity)
}

fn sold_quantity(WholeNumber(quantity): WholeNumber) -> Result<i64, SandboxRefusal> {
    if (1..=1_000_000).contains(&quantity) {
        return Ok(quantity);
    }
    Err(format!("The Quantity {quantity} is not between 1 and 1000000.").into())
}

fn stock_too_small(sku: &str, wanted: i64, on_hand: i64) -> SandboxRefusal {
    SandboxRefusal::conflict(format!("{wanted} of the SKU '{sku}' are wanted and {on_hand} are there."))
}

async fn find_product(
    db: &mut SqliteConnection,
    company_id: i64,
    sku: &str,
) -> Result<SoldProduct, SandboxRefusal> {
    let product = "SELECT id, type, price FROM product WHERE company_id = ?1 AND sku = ?2";
    let found = sqlx::query_as(product).bind(company_id).bind(sku).fetch_optional(db).await?;
    found.ok_or_else(|| SandboxRefusal::not_found(format!("No product with the SKU '{sku}' was found.")))
}

async fn first_storefront(db: &mut SqliteConnection, company_id: i64) -> Result<Option<i64>, SandboxRefusal> {
    let first = "SELECT id FROM storefront WHERE company_id = ?1 AND is_active ORDER BY id LIMIT 1";
    Ok(sqlx::query_scalar(first).bind(company_id).fetch_optional(db).await?)
}

async fn take_units(
    db: &mut SqliteConnection,
    product: &SoldProduct,
    quantity: i64,
) -> Result<Vec<TakenUnits>, SandboxRefusal> {
    let parts = "SELECT p.id, p.sku, 1 FROM product p WHERE p.id = ?1 AND p.type <> 'Kit'
                  UNION ALL
                 SELECT c.id, c.sku, k.quantity FROM kit_component k JOIN product c ON c.id = k.component_id
                  WHERE k.kit_id = ?1";
    let parts: Vec<(i64, String, i64)> = sqlx::query_as(parts).bind(product.id).fetch_all(&mut *db).await?;
    let stocks = "SELECT l.warehouse_id, l.quantity FROM link l JOIN warehouse w ON w.id = l.warehouse_id
                   WHERE l.product_id = ?1 AND l.quantity > 0 ORDER BY w.is_default DESC, w.id";
    let mut taken = Vec::new();
    for (part_id, sku, per_unit) in parts {
        let stocks: Vec<(i64, i64)> = sqlx::query_as(stocks).bind(part_id).fetch_all(&mut *db).await?;
        let parts = distribute_units(part_id, quantity * per_unit, &stocks)
            .map_err(|on_hand| stock_too_small(&sku, quantity * per_unit, on_hand))?;
        for part in &parts {
            lower_stock(db, part).await?;
        }
        taken.extend(parts);
    }
    if taken.is_empty() {
        return Err(SandboxRefusal::conflict("The product is a kit without components; it cannot be sold."));
    }
    Ok(taken)
}

/// Takes `wanted` units from the warehouses in their order. Fails with the available units, if they are fewer.
fn distribute_units(product_id: i64, wanted: i64, stocks: &[(i64, i64)]) -> Result<Vec<TakenUnits>, i64> {
    let mut missing = wanted;
    let mut taken = Vec::new();
    for (warehouse_id, on_hand) in stocks {
        let quantity = missing.min(*on_hand);
        if quantity > 0 {
            taken.push(TakenUnits { product_id, warehouse_id: *warehouse_id, quantity });
            missing -= quantity;
        }
    }
    if missing > 0 { Err(wanted - missing) } else { Ok(taken) }
}

async fn lower_stock(db: &mut SqliteConnection, taken: &TakenUnits) -> Result<(), sqlx::Error> {
    let lower = "UPDATE link SET quantity = quantity - ?3 WHERE product_id = ?1 AND warehouse_id = ?2";
    let taken = values!(taken.product_id, taken.warehouse_id, taken.quantity);
    sqlx::query_with(lower, taken).execute(db).await.map(drop)
}

async fn insert_order_line(
    db: &mut SqliteConnection,
    order_id: i64,
    product: &SoldProduct,
    quantity: i64,
    taken: &[TakenUnits],
) -> Result<(), SandboxRefusal> {
    let insert = "INSERT INTO order_line (order_id, product_id, warehouse_id, quantity, unit_price)
                  VALUES (?1, ?2, ?3, ?4, ?5) RETURNING id";
    let first = taken.first().map(|first| first.warehouse_id);
    let line = values!(order_id, product.id, first, quantity, product.price);
    let line_id: i64 = sqlx::query_scalar_with(insert, line).fetch_one(&mut *db).await?;
    let insert =
        "INSERT INTO allocation (line_id, product_id, warehouse_id, quantity) VALUES (?1, ?2, ?3, ?4)";
    for TakenUnits { product_id, warehouse_id, quantity } in taken {
        let allocation = values!(line_id, product_id, warehouse_id, quantity);
        sqlx::query_with(insert, allocation).execute(&mut *db).await?;
    }
    Ok(())
}

/// Adds to the month's sales of the storefront; without a storefront nothing is counted.
async fn count_sale(
    db: &mut SqliteConnection,
    storefront_id: Option<i64>,
    product: &SoldProduct,
    quantity: i64,
    at_ms: i64,
) -> Result<(), SandboxRefusal> {
    let Some(storefront_id) = storefront_id else { return Ok(()) };
    let (year, month) = month_of(at_ms);
    let add = "INSERT INTO sale (storefront_id, product_id, year, month, quantity, amount)
        VALUES (?1, ?2, ?3, ?4, ?5, ?5 * ?6)
        ON CONFLICT DO UPDATE SET quantity = quantity + excluded.quantity, amount = amount + excluded.amount";
    let sale = values!(storefront_id, product.id, year, month, quantity, product.price);
    Ok(sqlx::query_with(add, sale).execute(db).await.map(drop)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_empties_the_first_warehouse_before_the_next() {
        let stocks = [(10, 3), (11, 0), (12, 5)];
        let taken = |wanted| {
            distribute_units(1, wanted, &stocks)
                .map(|taken| taken.iter().map(|part| (part.warehouse_id, part.quantity)).collect::<Vec<_>>())
        };
        assert_eq!(taken(2), Ok(vec![(10, 2)]));
        assert_eq!(taken(3), Ok(vec![(10, 3)]));
        assert_eq!(taken(8), Ok(vec![(10, 3), (12, 5)]));
        assert_eq!(taken(9), Err(8));
    }
}
