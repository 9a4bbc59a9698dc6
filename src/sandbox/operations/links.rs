//! Links of a product to warehouses with their quantities, and its images.
//!
//! Implements docs/interface.md, *Create product*, rules 1 and 2. With multi-warehousing every warehouse of
//! the company is linked, and the product's quantity is the sum of its links. A `QuantityOnHand` beside the
//! links is ignored. Without multi-warehousing the stock of a product is a single number in the default
//! warehouse's link; other links can exist and stay empty. The sum is the quantity in both cases.

use sqlx::SqliteConnection;

use super::product_body::{ImageBody, ProductBody, ProductLinkBody};
use crate::sandbox::http::request::{OperationCall, StrictObject, WholeNumber};
use crate::sandbox::store::values;

pub(super) async fn link_new_product(
    db: &mut SqliteConnection,
    company_id: i64,
    product_id: i64,
) -> Result<(), sqlx::Error> {
    let insert = "INSERT INTO link (product_id, warehouse_id, sku)
        SELECT p.id, w.id, p.sku
          FROM product p JOIN company c ON c.id = p.company_id JOIN warehouse w ON w.company_id = c.id
         WHERE p.id = ?2 AND c.id = ?1 AND (c.multi_warehousing OR w.is_default) ORDER BY w.id";
    sqlx::query_with(insert, values!(company_id, product_id)).execute(db).await.map(drop)
}

pub(super) async fn write_links(
    db: &mut SqliteConnection,
    product_id: i64,
    entries: &[StrictObject<ProductLinkBody>],
) -> Result<(), sqlx::Error> {
    let write = "INSERT INTO link (product_id, warehouse_id, aisle, bin, sku, is_active)
        SELECT p.id, ?2, coalesce(?3, ''), coalesce(?4, ''), coalesce(?5, p.sku), coalesce(?6, 1)
          FROM product p WHERE p.id = ?1
        ON CONFLICT (product_id, warehouse_id) DO UPDATE
           SET aisle = coalesce(?3, aisle), bin = coalesce(?4, bin), sku = coalesce(?5, sku),
               is_active = coalesce(?6, is_active)";
    for StrictObject(entry) in entries {
        let ProductLinkBody { warehouse_id, aisle, bin, is_active, .. } = entry;
        let sku = entry.sku.as_ref().filter(|sku| !sku.is_empty());
        let link = values!(product_id, warehouse_id, aisle, bin, sku, is_active);
        sqlx::query_with(write, link).execute(&mut *db).await?;
    }
    Ok(())
}

/// Writes the quantities of a body; others stay.
pub(super) async fn write_quantities(
    db: &mut SqliteConnection,
    call: &OperationCall,
    product_id: i64,
    body: &ProductBody,
) -> Result<(), sqlx::Error> {
    let entries = body.sent_links();
    if !call.multi_warehousing {
        let sent: Vec<i64> = entries.iter().filter_map(|entry| entry.quantity_on_hand).collect();
        let total = body.quantity_on_hand.or((!sent.is_empty()).then(|| sent.iter().sum()));
        let update = "UPDATE link SET quantity = coalesce(min(?2, 2147483647), quantity)
            WHERE product_id = ?1 AND warehouse_id IN (SELECT id FROM warehouse WHERE is_default)";
        return sqlx::query_with(update, values!(product_id, total)).execute(db).await.map(drop);
    }
    let update =
        "UPDATE link SET quantity = coalesce(?3, quantity) WHERE product_id = ?1 AND warehouse_id = ?2";
    for entry in entries {
        let level = values!(product_id, entry.warehouse_id, entry.quantity_on_hand);
        sqlx::query_with(update, level).execute(&mut *db).await?;
    }
    Ok(())
}

/// Replaces the images. An image that is sent with its id keeps the id.
pub(super) async fn write_images(
    db: &mut SqliteConnection,
    product_id: i64,
    images: &[&ImageBody],
) -> Result<(), sqlx::Error> {
    let delete = "DELETE FROM product_image WHERE product_id = ?1 RETURNING id";
    let mut own: Vec<i64> = sqlx::query_scalar(delete).bind(product_id).fetch_all(&mut *db).await?;
    let insert = "INSERT INTO product_image (id, product_id, mime_type, url, display_order)
                  VALUES (?1, ?2, coalesce(?3, ''), coalesce(?4, ''), ?5)";
    for (position, image) in (0..).zip(images) {
        let found = image.id.and_then(|WholeNumber(id)| own.iter().position(|own_id| *own_id == id));
        let id = found.map(|index| own.swap_remove(index));
        let order = image.display_order.unwrap_or(WholeNumber(position));
        let image = values!(id, product_id, &image.mime_type, &image.url, order);
        sqlx::query_with(insert, image).execute(&mut *db).await?;
    }
    Ok(())
}
