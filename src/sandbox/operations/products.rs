//! Implements docs/interface.md, *Create product* and *Update product*.
//!
//! An invalid create is answered 400, an invalid update 200 with `WasSuccessful` false. An update is the
//! complete object: an absent field gets its default, while absent images, links and quantities stay.

use serde_json::{Value, json};
use sqlx::SqliteConnection;

use super::links;
use super::product_body::{ProductBody, SentProductType};
use crate::sandbox::http::answer::{HandlerResult, SandboxRefusal, list_envelope, list_envelope_with};
use crate::sandbox::http::request::{OperationCall, WholeNumber, text_of_id};

macro_rules! product_columns {
    () => {
        "sku, name, type, upc, ean, isbn, gtin, is_auto_sync_enabled, is_discontinued, is_dropshipped, is_fire_arm, \
         is_variation, is_parent, sold_as_name, short_description, long_description, price, condition, supplier_id, \
         supplier_sku, supplier_price, supplier_out_of_stock, supplier_by_case"
    };
}

/// The columns as expressions over a [`ProductBody`] in JSON, with the documented defaults.
macro_rules! product_values {
    () => {
        "value->>'Sku', value->>'Name', coalesce(value->>'Type', 'Product'), coalesce(value->>'$.Identifiers.UPC', ''), \
         coalesce(value->>'$.Identifiers.EAN', ''), coalesce(value->>'$.Identifiers.ISBN', ''), \
         coalesce(value->>'$.Identifiers.GTIN', ''), coalesce(value->>'IsAutoSyncEnabled', 1), \
         coalesce(value->>'IsDiscontinued', 0), coalesce(value->>'IsDropshipped', 0), coalesce(value->>'IsFireArm', 0), \
         coalesce(value->>'IsVariation', 0), coalesce(value->>'IsParent', 0), \
         coalesce(value->>'$.GlobalListingAttributes.SoldAsName', ''), \
         coalesce(value->>'$.GlobalListingAttributes.ShortDescription', ''), \
         coalesce(value->>'$.GlobalListingAttributes.LongDescription', ''), \
         coalesce(value->>'$.GlobalListingAttributes.Price', 0), \
         coalesce(value->>'$.GlobalListingAttributes.Condition', 'New'), value->>'$.SupplierInformation.SupplierId', \
         coalesce(value->>'$.SupplierInformation.Sku', ''), coalesce(value->>'$.SupplierInformation.Price', 0), \
         coalesce(value->>'$.SupplierInformation.IsOutOfStock', 0), \
         coalesce(value->>'$.SupplierInformation.IsOrderedByCase', 0)"
    };
}

/// Materialized, because json_each() would otherwise write a product as text again for each of its columns.
const INSERT_PRODUCTS: &str = concat!(
    "WITH body AS MATERIALIZED (SELECT key, value FROM json_each(?2)) INSERT INTO product (company_id, ",
    product_columns!(),
    ") SELECT ?1, ",
    product_values!(),
    " FROM body ORDER BY key RETURNING id"
);
const UPDATE_PRODUCT: &str = concat!(
    "UPDATE product SET (",
    product_columns!(),
    ") = (SELECT ",
    product_values!(),
    " FROM json_each(?2)) WHERE id = ?1"
);

pub(crate) async fn create_product(call: &OperationCall, db: &mut SqliteConnection) -> HandlerResult {
    let body: ProductBody = call.object_body()?;
    let issues = body.all_issues(db, call, None).await?;
    if !issues.is_empty() {
        return Err(SandboxRefusal::bad_request(issues.join(" ")));
    }
    let product_id = insert_linked_product(db, call.company_id, &json!(body)).await?;
    write_product_parts(call, db, product_id, &body).await?;
    updated_answer(db, product_id).await
}

pub(crate) async fn update_product(call: &OperationCall, db: &mut SqliteConnection) -> HandlerResult {
    let body: ProductBody = call.object_body()?;
    let Some(WholeNumber(product_id)) = body.id else {
        return Err(SandboxRefusal::bad_request("Id is required."));
    };
    let kind = "SELECT type FROM product WHERE company_id = ?1 AND id = ?2";
    let Some(kind) = call.own_text(db, kind, product_id).await? else {
        return Ok(refused_answer(&[format!("No product with the id {product_id} was found.")]));
    };
    let mut issues = body.all_issues(db, call, Some(product_id)).await?;
    issues.extend(foreign_ids(&body, call.company_id, product_id));
    if (kind == "Kit") != (body.type_or_default() == SentProductType::Kit) {
        issues.push(format!("The Type cannot be changed from {kind} to {:?}.", body.type_or_default()));
    }
    if !issues.is_empty() {
        return Ok(refused_answer(&issues));
    }
    let product = json!([body]).to_string();
    sqlx::query(UPDATE_PRODUCT).bind(product_id).bind(product).execute(&mut *db).await?;
    if let Some(is_active) = body.is_active {
        let set = "UPDATE product SET is_active = ?2 WHERE id = ?1";
        sqlx::query(set).bind(product_id).bind(is_active).execute(&mut *db).await?;
    }
    write_product_parts(call, db, product_id, &body).await?;
    updated_answer(db, product_id).await
}

/// Inserts products in JSON, without links, and returns their ids in the order of the products.
pub(crate) async fn insert_products(
    db: &mut SqliteConnection,
    company_id: i64,
    products: &Value,
) -> Result<Vec<i64>, sqlx::Error> {
    let insert = sqlx::query_scalar(INSERT_PRODUCTS).bind(company_id).bind(products.to_string());
    let mut ids: Vec<i64> = insert.fetch_all(db).await?;
    // SQLite does not guarantee the order of RETURNING; ids grow in the order of insertion.
    ids.sort_unstable();
    Ok(ids)
}

pub(crate) async fn insert_linked_product(
    db: &mut SqliteConnection,
    company_id: i64,
    product: &Value,
) -> Result<i64, sqlx::Error> {
    let ids = insert_products(db, company_id, &json!([product])).await?;
    let product_id = *ids.first().ok_or(sqlx::Error::RowNotFound)?;
    links::link_new_product(db, company_id, product_id).await?;
    Ok(product_id)
}

async fn write_product_parts(
    call: &OperationCall,
    db: &mut SqliteConnection,
    product_id: i64,
    body: &ProductBody,
) -> Result<(), SandboxRefusal> {
    links::write_links(db, product_id, body.sent_links()).await?;
    if body.type_or_default() != SentProductType::Kit {
        links::write_quantities(db, call, product_id, body).await?;
    }
    if let Some(images) = body.usable_images() {
        links::write_images(db, product_id, &images).await?;
    }
    Ok(())
}

fn foreign_ids(body: &ProductBody, company_id: i64, product_id: i64) -> Vec<String> {
    let identified = body.identifiers.as_ref().and_then(|identifiers| identifiers.product_id);
    [("CompanyId", body.company_id, company_id), ("Identifiers.ProductId", identified, product_id)]
        .into_iter()
        .filter(|(_, sent, own)| sent.is_some_and(|WholeNumber(id)| id != *own))
        .map(|(field, ..)| format!("{field} does not belong to the product."))
        .collect()
}

async fn updated_answer(db: &mut SqliteConnection, product_id: i64) -> HandlerResult {
    let product = text_of_id(db, "SELECT body FROM wire_product WHERE id = ?1", product_id).await?;
    Ok(list_envelope(&format!(r#"{{"Product":{product},"WasSuccessful":true,"Messages":[]}}"#)))
}

fn refused_answer(issues: &[String]) -> String {
    let data = json!({ "Product": null, "WasSuccessful": false, "Messages": issues });
    list_envelope_with("Success", issues, &Value::Null, &data.to_string())
}
