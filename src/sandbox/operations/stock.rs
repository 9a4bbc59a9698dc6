//! Stock balances by SKU or UPC.
//!
//! Implements docs/interface.md, *Get product balances* and *Get products by SKU or UPC*. Both are a single
//! statement that takes the requested values as a JSON array and returns the records as a JSON text. The
//! values are bound, so `%`, `_` and quotes are ordinary characters. Unknown values are omitted, and
//! duplicates are returned once, in the order of the request.
//!
//! A SKU is found in its exact spelling, else in another case (ASCII). Two SKUs that differ in case only are
//! two products here. Platforms differ in this, and a client must handle both.

use serde::Deserialize;
use serde_json::{Value, json};
use sqlx::SqliteConnection;

use crate::sandbox::http::answer::{HandlerResult, list_envelope, list_envelope_with};
use crate::sandbox::http::request::OperationCall;

const BY_SKU: &str = "\
    SELECT '[' || coalesce(group_concat(b.body, ',' ORDER BY requested.position), '') || ']'
      FROM (SELECT found.id, min(found.position) AS position
              FROM (SELECT j.key AS position,
                           coalesce((SELECT p.id FROM product p WHERE p.company_id = ?1 AND p.sku = j.value),
                                    (SELECT min(p.id) FROM product p
                                      WHERE p.company_id = ?1 AND p.sku = j.value COLLATE NOCASE)) AS id
                      FROM json_each(?2) j) found
             GROUP BY found.id) requested
      JOIN wire_balance b ON b.id = requested.id";

const BY_UPC: &str = "\
    SELECT '[' || coalesce(group_concat(b.body, ',' ORDER BY requested.position, requested.id), '') || ']'
      FROM (SELECT p.id, min(j.key) AS position
              FROM json_each(?2) j JOIN product p ON p.company_id = ?1 AND p.upc = j.value
             WHERE p.upc <> ''
             GROUP BY p.id) requested
      JOIN wire_balance b ON b.id = requested.id";

#[derive(Deserialize)]
struct BalancesRequest {
    skus: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ProductsRequest {
    id_type: String,
    id_list: Vec<String>,
}

pub(super) async fn get_balances(call: &OperationCall, db: &mut SqliteConnection) -> HandlerResult {
    let request: BalancesRequest = call.object_body()?;
    find_records(db, BY_SKU, call.company_id, &request.skus).await
}

pub(super) async fn get_products(call: &OperationCall, db: &mut SqliteConnection) -> HandlerResult {
    let request: ProductsRequest = call.object_body()?;
    let statement = match request.id_type.as_str() {
        "sku" => BY_SKU,
        "upc" => BY_UPC,
        other => {
            let message = format!("The idType must be sku or upc, not '{other}'.");
            return Ok(list_envelope_with("Error", &[message], &Value::Null, "[]"));
        }
    };
    Ok(list_envelope(&find_records(db, statement, call.company_id, &request.id_list).await?))
}

async fn find_records(
    db: &mut SqliteConnection,
    statement: &'static str,
    company_id: i64,
    wanted: &[String],
) -> HandlerResult {
    let wanted = json!(wanted).to_string();
    Ok(sqlx::query_scalar(statement).bind(company_id).bind(wanted).fetch_one(db).await?)
}
