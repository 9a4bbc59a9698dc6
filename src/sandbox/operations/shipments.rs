//! Shipments: *Create shipments* and *Get shipment line items* in docs/interface.md.
//!
//! A shipment ties quantities of order lines; the stock fell when the order was placed and does not change
//! again. The requests of a call are independent, and a later request sees the effect of an earlier request.
//! The platform has no idempotency key, so a call that is sent twice ships twice if enough is left.

use serde::Deserialize;
use serde_json::{Value, json};
use sqlx::SqliteConnection;

use crate::sandbox::http::answer::{HandlerResult, SandboxRefusal, list_envelope, split_refused_entry};
use crate::sandbox::http::paging::{SandboxPage, page_of};
use crate::sandbox::http::request::{OperationCall, StrictObject, WholeNumber, text_of_id};
use crate::sandbox::store::values;

const LINE_ITEMS: &str =
    page_of!("wire_shipment_item WHERE shipment_id = ?1 AND company_id = ?4" order by "id");

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ShipmentRequestBody {
    order_id: WholeNumber,
    line_items: Option<Vec<StrictObject<ShipmentLineBody>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ShipmentLineBody {
    line_item_id: WholeNumber,
    quantity: Option<WholeNumber>,
}

#[derive(sqlx_macros::FromRow)]
struct ShippableLine {
    id: i64,
    warehouse_id: i64,
    quantity: i64,
    untied: i64,
}

pub(super) async fn create_shipments(call: &OperationCall, db: &mut SqliteConnection) -> HandlerResult {
    let mut results = Vec::new();
    for request in call.entries_body()? {
        let created = split_refused_entry(create_shipment(call, db, &request).await)?;
        let succeeded = created.is_ok();
        let (shipment, messages) = match created {
            Ok(shipment) => (shipment, json!([])),
            Err(message) => ("null".to_owned(), json!([message])),
        };
        results.push(format!(
            r#"{{"Request":{request},"Shipment":{shipment},"WasSuccessful":{succeeded},"Messages":{messages}}}"#
        ));
    }
    Ok(list_envelope(&format!("[{}]", results.join(","))))
}

async fn create_shipment(call: &OperationCall, db: &mut SqliteConnection, request: &Value) -> HandlerResult {
    let StrictObject(request) = StrictObject::<ShipmentRequestBody>::deserialize(request)
        .map_err(|cause| format!("The request is not valid: {cause}."))?;
    let WholeNumber(order_id) = request.order_id;
    let state = "SELECT state FROM sales_order WHERE company_id = ?1 AND id = ?2";
    match call.own_text(db, state, order_id).await?.as_deref() {
        None => return Err(format!("No order with the id {order_id} was found.").into()),
        Some("Cancelled") => return Err(format!("The order {order_id} is cancelled.").into()),
        Some(_) => {}
    }
    let lines = "SELECT l.id, l.warehouse_id, l.quantity, u.quantity AS untied
                   FROM order_line l JOIN untied u ON u.line_id = l.id WHERE l.order_id = ?1 ORDER BY l.id";
    let lines: Vec<ShippableLine> = sqlx::query_as(lines).bind(order_id).fetch_all(&mut *db).await?;
    let items = match request.line_items.filter(|lines| !lines.is_empty()) {
        Some(requested) => requested_lines(&lines, &requested)?,
        None if has_shipments(db, order_id).await? => {
            let message = "LineItems is required: the order is partly fulfilled or already has shipments.";
            return Err(SandboxRefusal::bad_request(message));
        }
        None => lines.iter().map(|line| (line, line.quantity)).collect(),
    };
    let shipment_id = insert_shipment(db, order_id, &items, call.now_ms).await?;
    Ok(text_of_id(db, "SELECT body FROM wire_shipment WHERE id = ?1", shipment_id).await?)
}

/// Cancelled shipments count too, because the interface does not distinguish them.
async fn has_shipments(db: &mut SqliteConnection, order_id: i64) -> Result<bool, sqlx::Error> {
    let shipments = "SELECT EXISTS (SELECT 1 FROM shipment WHERE order_id = ?1)";
    sqlx::query_scalar(shipments).bind(order_id).fetch_one(db).await
}

fn requested_lines<'a>(
    lines: &'a [ShippableLine],
    requested: &[StrictObject<ShipmentLineBody>],
) -> Result<Vec<(&'a ShippableLine, i64)>, String> {
    let mut items: Vec<(&ShippableLine, i64)> = Vec::new();
    for StrictObject(ShipmentLineBody { line_item_id: WholeNumber(id), quantity }) in requested {
        let line = lines
            .iter()
            .find(|line| line.id == *id)
            .ok_or_else(|| format!("The line item {id} does not belong to the order."))?;
        if items.iter().any(|(taken, _)| taken.id == *id) {
            return Err(format!("The line item {id} appears more than once."));
        }
        let quantity = quantity.map_or(line.untied, |WholeNumber(quantity)| quantity);
        if quantity < 1 || quantity > line.untied {
            let left = line.untied;
            return Err(format!(
                "The line item {id} cannot ship {quantity}: {left} are not tied to a shipment."
            ));
        }
        items.push((line, quantity));
    }
    Ok(items)
}

async fn insert_shipment(
    db: &mut SqliteConnection,
    order_id: i64,
    items: &[(&ShippableLine, i64)],
    now_ms: i64,
) -> Result<i64, SandboxRefusal> {
    let (first, _) = items.first().ok_or_else(|| "The order has no line items.".to_owned())?;
    let insert =
        "INSERT INTO shipment (order_id, warehouse_id, created_at_ms) VALUES (?1, ?2, ?3) RETURNING id";
    let shipment = values!(order_id, first.warehouse_id, now_ms);
    let shipment_id: i64 = sqlx::query_scalar_with(insert, shipment).fetch_one(&mut *db).await?;
    for (line, quantity) in items {
        let insert = "INSERT INTO shipment_item (shipment_id, line_id, quantity) VALUES (?1, ?2, ?3)";
        sqlx::query_with(insert, values!(shipment_id, line.id, quantity)).execute(&mut *db).await?;
    }
    Ok(shipment_id)
}

/// Answers *Get shipment line items*. An unknown shipment has no items, and a message states it.
pub(super) async fn shipment_line_items(call: &OperationCall, db: &mut SqliteConnection) -> HandlerResult {
    let page = SandboxPage::from_query(&call.query_parameters()?)?;
    let (total, items) =
        page.records_of(LINE_ITEMS, call.path_id(0)).bind(call.company_id).fetch_one(db).await?;
    let messages = if total > 0 { vec![] } else { vec!["No shipment with this id was found.".to_owned()] };
    Ok(page.page_envelope(&messages, total, &items))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::assert_outcome;

    fn line(id: i64, quantity: i64, untied: i64) -> ShippableLine {
        ShippableLine { id, warehouse_id: 1, quantity, untied }
    }

    #[test]
    fn only_what_is_left_of_a_line_can_be_chosen() {
        let lines = [line(1, 5, 5), line(2, 5, 2), line(3, 5, 0)];
        for (requested, expected) in [
            (r#"[{"LineItemId":1}]"#, Ok(vec![(1, 5)])),
            (r#"[{"LineItemId":2}]"#, Ok(vec![(2, 2)])),
            (r#"[{"LineItemId":1,"Quantity":3.0},{"LineItemId":2,"Quantity":1}]"#, Ok(vec![(1, 3), (2, 1)])),
            (r#"[{"LineItemId":2,"Quantity":3}]"#, Err("2 are not tied")),
            (r#"[{"LineItemId":3}]"#, Err("0 are not tied")),
            (r#"[{"LineItemId":1,"Quantity":0}]"#, Err("cannot ship 0")),
            (r#"[{"LineItemId":1,"Quantity":-1}]"#, Err("cannot ship -1")),
            (r#"[{"LineItemId":9}]"#, Err("does not belong")),
            (r#"[{"LineItemId":1,"Quantity":1},{"LineItemId":1,"Quantity":1}]"#, Err("more than once")),
        ] {
            let parsed: Vec<StrictObject<ShipmentLineBody>> = serde_json::from_str(requested).expect("lines");
            let items = requested_lines(&lines, &parsed)
                .map(|items| items.iter().map(|(line, quantity)| (line.id, *quantity)).collect());
            assert_outcome(items, expected, requested);
        }
    }
}
