//! `/orders`: the tracked orders, and the units left to pick in each warehouse.

use crate::model::{OrderId, Timestamp};
use crate::present::orders::order_json;
use crate::store::{OrderRow, OrderState};
use crate::web::WebState;
use crate::web::decisions::{answer_form, success, unknown_action};
use crate::web::layout::{
    PageResult, action_button, action_form, address_with, age, live_part, number, optional_text,
    optional_time, respond, table,
};
use crate::web::request::PageRequest;
use axum::extract::State;
use maud::{Markup, html};
use serde_json::Value;
use std::sync::Arc;

/// Number of orders on a page.
const ROWS_SHOWN: usize = 200;

pub(super) async fn show_orders(State(web): State<Arc<WebState>>, request: PageRequest) -> PageResult {
    let (mut rows, now) = (web.store.tracked_order_list().await?, web.now());
    let after = request.query.number("after").ok().flatten().unwrap_or(0);
    let shows_closed = request.query.get("closed").is_some();
    rows.retain(|row| row.order_id > after && (shows_closed || row.state(now) != OrderState::Closed));
    rows.sort_by_key(|row| row.order_id);
    let next = (rows.len() > ROWS_SHOWN).then(|| rows.get(ROWS_SHOWN - 1).map(|row| row.order_id)).flatten();
    rows.truncate(ROWS_SHOWN);
    let to_pick = web.store.units_to_pick().await?;
    let body = || {
        html! {
            (live_part("pick", "Left to pick", &pick_table(&to_pick)))
            p { @if shows_closed { a href="/orders" { "Open orders only" } }
                @else { a href="/orders?closed=1" { "Closed orders too" } } }
            (live_part("orders", "Orders", &order_table(&rows, now)))
            @if let Some(next) = next {
                @let closed = if shows_closed { "1" } else { "" };
                p { a.button rel="next" href=(address_with("/orders", &[("closed", closed), ("after", &next.to_string())])) { "Next page" } }
            }
            (action_form(&request, "/orders", &html! {
                label for="order" { "Order id at the platform" }
                input id="order" name="order" type="number" min="1" required;
                (action_button("track", "Track this order"))
            }))
        }
    };
    let data = || rows.iter().map(|row| order_json(row, now)).collect::<Value>();
    Ok(respond(&request, "Orders", data, body))
}

fn pick_table(rows: &[(Option<i64>, Option<String>, i64, i64)]) -> Markup {
    html! {
        @if rows.is_empty() {
            p.empty { "Nothing is left to pick in the tracked orders." }
        } @else {
            (table("Units left to pick, by warehouse", &["Warehouse", "#Lines", "#Units"], &html! {
                @for (id, name, lines, units) in rows {
                    tr { th scope="row" { (optional_text(name.as_deref())) " " (number(*id)) }
                         td.number { (lines) } td.number { (units) } }
                }
            }))
        }
    }
}

fn order_table(rows: &[OrderRow], now: Timestamp) -> Markup {
    let row = |row: &OrderRow| {
        html! {
            tr {
                th scope="row" { a href={ "/orders/" (row.order_id) } { (row.order_id) } }
                td { (row.state(now).as_str()) }
                td.number { (row.lines) }
                td.number { (number(row.sold)) }
                td.number { (number(row.left)) }
                td { (age(row.observed_ms.map(Timestamp), now)) }
                td { (optional_time(row.closed_ms)) }
            }
        }
    };
    html! {
        @if rows.is_empty() {
            p.empty { "No open order is tracked. Track one by its id below." }
        } @else {
            (table("Tracked orders", &["Order", "State", "#Lines", "#Sold", "#Left", "Age", "Closed"],
                   &html! { @for one in rows { (row(one)) } }))
        }
    }
}

pub(super) async fn act_on_orders(State(web): State<Arc<WebState>>, request: PageRequest) -> PageResult {
    let result = match (request.form.get("action"), request.form.required_number("order")) {
        (Some("track"), Ok(id)) if id > 0 => {
            let order = [OrderId(id)];
            web.write(async |write| {
                write.tracked_order_add(&order).await?;
                write.order_read_request_add(&order).await
            })
            .await?;
            success(format!("order {id} is tracked, and read with the next free call"))
        }
        (Some("track"), Ok(_)) => Err("an order id is at least 1".into()),
        (Some("track"), Err(why)) => Err(why),
        _ => unknown_action(&request),
    };
    answer_form(&request, "/orders", result)
}
