//! `/orders`: the tracked orders, and the units left to pick in each warehouse.

use crate::model::OrderId;
use crate::present::ViewError;
use crate::present::listing::{ListColumns, columns};
use crate::present::orders::OrderNow;
use crate::present::tracked::track_orders;
use crate::store::OrderState;
use crate::web::WebState;
use crate::web::decisions::{answer_form, success, unknown_action};
use crate::web::layout::{
    PageResult, ROWS_SHOWN, action_button, action_form, listing, live_part, next_page, respond,
};
use crate::web::request::PageRequest;
use axum::extract::State;
use maud::html;
use serde_json::json;
use std::sync::Arc;

pub(super) async fn show_orders(State(web): State<Arc<WebState>>, request: PageRequest) -> PageResult {
    let (mut rows, now) = (web.store.tracked_order_list().await?, web.now());
    let after = request.query.number("after").ok().flatten().unwrap_or(0);
    let shows_closed = request.query.get("closed").is_some();
    rows.retain(|row| row.order_id > after && (shows_closed || row.state(now) != OrderState::Closed));
    rows.sort_by_key(|row| row.order_id);
    let shown = ROWS_SHOWN as usize;
    let next = (rows.len() > shown).then(|| rows.get(shown - 1).map(|row| row.order_id)).flatten();
    rows.truncate(shown);
    let rows: Vec<OrderNow<'_>> = rows.iter().map(|row| OrderNow(row, now)).collect();
    let to_pick = web.store.units_to_pick().await?.into_iter().map(
        |(id, name, lines, units)| columns! {"warehouse": name, "id": id, "lines": lines, "units": units},
    );
    let to_pick: Vec<ListColumns> = to_pick.collect();
    let body = || {
        html! {
            (live_part("pick", "Left to pick", &listing("Units left to pick, by warehouse", &to_pick, "Nothing is left to pick in the tracked orders.")))
            p { @if shows_closed { a href="/orders" { "Open orders only" } }
                @else { a href="/orders?closed=1" { "Closed orders too" } } }
            (live_part("orders", "Orders", &listing("Tracked orders", &rows, "No open order is tracked. Track one by its id below.")))
            @if let Some(next) = next {
                p { a.button rel="next" href=(next_page("/orders", &request.query, &["closed"], ("after", next))) { "Next page" } }
            }
            (action_form(&request, "/orders", &html! {
                label for="order" { "Order id at the platform" }
                input id="order" name="order" type="number" min="1" required;
                (action_button("track", "Track this order"))
            }))
        }
    };
    Ok(respond(&request, "Orders", || json!(rows), body))
}

pub(super) async fn act_on_orders(State(web): State<Arc<WebState>>, request: PageRequest) -> PageResult {
    let action = async {
        if request.form.get("action") != Some("track") {
            return unknown_action(&request);
        }
        match request.form.required_number("order")? {
            id if id > 0 => success(track_orders(&web.store, &[OrderId(id)], true).await?),
            _ => Err(ViewError::Invalid("an order id is at least 1".into())),
        }
    };
    answer_form(&request, "/orders", action).await
}
