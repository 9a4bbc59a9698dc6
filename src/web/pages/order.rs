//! `/orders/ID`: an order with its lines, allocations, shipments and tracking numbers, and the forms to ship it.

use crate::present::orders::{OrderDetail, allocation_columns, order_line_columns, shipment_item_columns};
use crate::telemetry::plain_line;
use crate::web::WebState;
use crate::web::actions::parse_order;
use crate::web::layout::{
    PageFailure, PageResult, action_button, action_form, cell, listing, live_part, respond,
};
use crate::web::request::PageRequest;
use axum::extract::State;
use maud::{Markup, html};
use serde_json::Value;
use std::sync::Arc;

pub(super) async fn show_order(State(web): State<Arc<WebState>>, request: PageRequest) -> PageResult {
    let order = parse_order(&request.name)?;
    let detail = OrderDetail::load(&web.store, order).await?;
    if detail.row.is_none() && detail.lines.is_empty() {
        return Err(PageFailure::not_found(format!(
            "order {order} is not tracked; track it on the page Orders"
        )));
    }
    let shipments = web.store.order_shipments(order).await?;
    let state = detail.row.as_ref().map(|row| row.state(web.now()).as_str());
    let body = || {
        html! {
            p { "State: " (cell(&state)) }
            (live_part("lines", "Lines", &listing("Lines of the order", detail.lines.iter().map(order_line_columns), "No line is known yet; the daemon reads the order with its next calls.")))
            (live_part("allocations", "Allocation", &listing("Allocation to warehouses", detail.allocations.iter().map(allocation_columns), "No allocation is known.")))
            (live_part("shipments", "Shipments", &listing("Shipped items", detail.items.iter().map(shipment_item_columns), "Nothing was shipped yet.")))
            (ship_form(&request, &detail.lines))
            (tracking_form(&request, &shipments))
        }
    };
    Ok(respond(&request, &format!("Order {order}"), || detail.to_json(), body))
}

fn ship_form(request: &PageRequest, lines: &[Value]) -> Markup {
    let open = |line: &&Value| line["quantity_left"].as_i64() != Some(0);
    let lines: Vec<&Value> = lines.iter().filter(open).collect();
    html! {
        @if request.may_act && !lines.is_empty() {
            section.forms aria-labelledby="ship-heading" {
                h2 id="ship-heading" { "Ship" }
                (action_form(request, &request.path, &html! {
                    p { "Units of each line; empty fields are not shipped. With all fields empty, everything left is shipped." }
                    @for line in lines {
                        @if let Some(id) = line["line_item_id"].as_i64() {
                            label for={ "line-" (id) } { "Line " (id) ", " (cell(&line["sku"]))
                                @if !line["supplier_id"].is_null() { " (shipped by a supplier)" } }
                            input id={ "line-" (id) } name={ "line-" (id) } type="number" min="1"
                                max=[line["quantity_left"].as_i64()];
                        }
                    }
                    (action_button("ship", "Ship"))
                }))
            }
        }
    }
}

fn tracking_form(request: &PageRequest, shipments: &[(i64, Option<String>)]) -> Markup {
    html! {
        @if request.may_act && !shipments.is_empty() {
            section.forms aria-labelledby="tracking-heading" {
                h2 id="tracking-heading" { "Submit a tracking number" }
                (action_form(request, &request.path, &html! {
                    label for="shipment" { "Shipment" }
                    select id="shipment" name="shipment" {
                        @for (id, status) in shipments {
                            option value=(id) { (id) " " (plain_line(status.as_deref().unwrap_or_default())) }
                        }
                    }
                    label for="tracking" { "Tracking number" }
                    input id="tracking" name="tracking" required autocomplete="off";
                    label for="carrier" { "Carrier id; without it marketplaces learn no carrier" }
                    input id="carrier" name="carrier" type="number" min="1";
                    label for="url" { "Address of the carrier's tracking page" }
                    input id="url" name="url" type="url";
                    (action_button("tracking", "Submit"))
                }))
            }
        }
    }
}
