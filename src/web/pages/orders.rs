//! `/orders`: the tracked orders, and the units left to pick in each warehouse.

use crate::present::listing::columns;
use crate::present::orders::{order_columns, order_json};
use crate::store::OrderState;
use crate::web::WebState;
use crate::web::layout::{
    PageResult, ROWS_SHOWN, action_button, action_form, listing, live_part, next_link, respond,
};
use crate::web::request::PageRequest;
use axum::extract::State;
use maud::html;
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
    let to_pick = web.store.units_to_pick().await?.into_iter().map(
        |(id, name, lines, units)| columns! {"warehouse": name, "id": id, "lines": lines, "units": units},
    );
    let body = || {
        html! {
            (live_part("pick", "Left to pick", &listing("Units left to pick, by warehouse", to_pick, "Nothing is left to pick in the tracked orders.")))
            p { @if shows_closed { a href="/orders" { "Open orders only" } }
                @else { a href="/orders?closed=1" { "Closed orders too" } } }
            (live_part("orders", "Orders", &listing("Tracked orders", rows.iter().map(|row| order_columns(row, now)), "No open order is tracked. Track one by its id below.")))
            @if let Some(next) = next { (next_link(&request, &[("after", &next.to_string())], "Next page")) }
            (action_form(&request, "/orders", &html! {
                label for="order" { "Order id at the platform" }
                input id="order" name="order" type="number" min="1" required;
                (action_button("track", "Track this order"))
            }))
        }
    };
    Ok(respond(&request, "Orders", || rows.iter().map(|row| order_json(row, now)).collect(), body))
}
