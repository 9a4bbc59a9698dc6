//! Implements docs/interface.md, *Create product* and *Update product*.
//!
//! An invalid create is answered 400, an invalid update 200 with `WasSuccessful` false. An update is the
//! complete object: an absent field gets its default, while absent images, links and quantities stay. Both
//! operations write the row through a JSON [`Sheet`], as the generated data does for thousands of rows in a
//! statement.

use serde_json::json;
use sqlx::SqliteConnection;

use super::links;
use super::product_body::{Kind, ProductBody, Sheet};
use crate::sandbox::http::answer::{Refusal, envelope, envelope_with};
use crate::sandbox::http::request::{Call, Whole};

macro_rules! columns {
    () => {
        "sku, name, type, upc, ean, isbn, gtin, is_auto_sync_enabled, is_discontinued, is_dropshipped, is_fire_arm, \
         is_variation, is_parent, sold_as_name, short_description, long_description, price, condition, supplier_id, \
         supplier_sku, supplier_price, supplier_out_of_stock, supplier_by_case"
    };
}

/// The columns as expressions over a [`Sheet`] in JSON.
macro_rules! values {
    () => {
        "value->>'sku', value->>'name', value->>'type', value->>'upc', value->>'ean', value->>'isbn', value->>'gtin', \
         value->>'is_auto_sync_enabled', value->>'is_discontinued', value->>'is_dropshipped', value->>'is_fire_arm', \
         value->>'is_variation', value->>'is_parent', value->>'sold_as_name', value->>'short_description', \
         value->>'long_description', value->>'price', value->>'condition', value->>'supplier_id', \
         value->>'supplier_sku', value->>'supplier_price', value->>'supplier_out_of_stock', value->>'supplier_by_case'"
    };
}

/// Materialized, because json_each() would otherwise write a sheet as text again for each of its columns.
const INSERT: &str = concat!(
    "WITH sheet AS MATERIALIZED (SELECT key, value FROM json_each(?2)) INSERT INTO product (company_id, ",
    columns!(),
    ") SELECT ?1, ",
    values!(),
    " FROM sheet ORDER BY key RETURNING id"
);
const UPDATE: &str = concat!(
    "UPDATE product SET (",
    columns!(),
    ") = (SELECT ",
    values!(),
    " FROM json_each(?2)) WHERE id = ?1"
);

/// Answers *Create product*.
pub(in crate::sandbox) async fn create(call: &Call, db: &mut SqliteConnection) -> Result<String, Refusal> {
    let body: ProductBody = call.object()?;
    let issues = body.issues(db, call.company_id, None).await?;
    if !issues.is_empty() {
        return Err(Refusal::bad_request(issues.join(" ")));
    }
    let ids = insert(db, call.company_id, &[body.sheet()]).await?;
    let Some(product_id) = ids.first().copied() else { return Err(sqlx::Error::RowNotFound.into()) };
    links::connect(db, call.company_id, product_id).await?;
    write_rest(call, db, product_id, &body).await?;
    succeeded(db, product_id).await
}

/// Answers *Update product*.
pub(in crate::sandbox) async fn update(call: &Call, db: &mut SqliteConnection) -> Result<String, Refusal> {
    let body: ProductBody = call.object()?;
    let Some(Whole(product_id)) = body.id else { return Err(Refusal::bad_request("Id is required.")) };
    let kind: Option<String> =
        sqlx::query_scalar("SELECT type FROM product WHERE company_id = ?1 AND id = ?2")
            .bind(call.company_id)
            .bind(product_id)
            .fetch_optional(&mut *db)
            .await?;
    let Some(kind) = kind else {
        return Ok(not_updated(&[format!("No product with the id {product_id} was found.")]));
    };
    let mut issues = body.issues(db, call.company_id, Some(product_id)).await?;
    issues.extend(foreign_ids(&body, call.company_id, product_id));
    if (kind == "Kit") != (body.kind() == Kind::Kit) {
        issues.push(format!("The Type cannot be changed from {kind} to {:?}.", body.kind()));
    }
    if !issues.is_empty() {
        return Ok(not_updated(&issues));
    }
    sqlx::query(UPDATE).bind(product_id).bind(json!([body.sheet()]).to_string()).execute(&mut *db).await?;
    if let Some(is_active) = body.is_active {
        let set = "UPDATE product SET is_active = ?2 WHERE id = ?1";
        sqlx::query(set).bind(product_id).bind(is_active).execute(&mut *db).await?;
    }
    write_rest(call, db, product_id, &body).await?;
    succeeded(db, product_id).await
}

/// Inserts rows of products, without links, and returns their ids in the order of the sheets.
pub(in crate::sandbox) async fn insert(
    db: &mut SqliteConnection,
    company_id: i64,
    sheets: &[Sheet],
) -> Result<Vec<i64>, sqlx::Error> {
    let mut ids: Vec<i64> =
        sqlx::query_scalar(INSERT).bind(company_id).bind(json!(sheets).to_string()).fetch_all(db).await?;
    // SQLite does not guarantee the order of RETURNING; ids grow in the order of insertion.
    ids.sort_unstable();
    Ok(ids)
}

/// Writes links, quantities and images.
async fn write_rest(
    call: &Call,
    db: &mut SqliteConnection,
    product_id: i64,
    body: &ProductBody,
) -> Result<(), Refusal> {
    links::write(db, product_id, body.warehouses().unwrap_or_default()).await?;
    if body.kind() != Kind::Kit {
        links::write_quantities(db, call, product_id, body).await?;
    }
    if let Some(images) = body.images() {
        links::write_images(db, product_id, &images).await?;
    }
    Ok(())
}

/// Returns issues for ids in the body that belong to another product or company.
fn foreign_ids(body: &ProductBody, company_id: i64, product_id: i64) -> Vec<String> {
    let identified = body.identifiers.as_ref().and_then(|identifiers| identifiers.product_id);
    [("CompanyId", body.company_id, company_id), ("Identifiers.ProductId", identified, product_id)]
        .into_iter()
        .filter(|(_, sent, own)| sent.is_some_and(|Whole(id)| id != *own))
        .map(|(field, ..)| format!("{field} does not belong to the product."))
        .collect()
}

async fn succeeded(db: &mut SqliteConnection, product_id: i64) -> Result<String, Refusal> {
    let product: String = sqlx::query_scalar("SELECT body FROM wire_product WHERE id = ?1")
        .bind(product_id)
        .fetch_one(db)
        .await?;
    Ok(envelope(&format!(r#"{{"Product":{product},"WasSuccessful":true,"Messages":[]}}"#), None))
}

fn not_updated(issues: &[String]) -> String {
    let data = json!({ "Product": null, "WasSuccessful": false, "Messages": issues });
    envelope_with("Success", issues, &data.to_string(), None)
}
