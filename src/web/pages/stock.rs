//! `/stock`: the SKUs with a column for each warehouse, and the search.

use crate::model::Timestamp;
use crate::present::listing::{ListedSubject, age_cell};
use crate::store::{StockFilter, StockPage, StockPageRow, StockRow, StockSelection};
use crate::web::WebState;
use crate::web::layout::{
    PageResult, action_button, action_form, cell, choice, link, live_part, next_link, respond, table,
};
use crate::web::request::{FormFields, PageRequest};
use axum::extract::State;
use maud::{Markup, html};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

const STATES: [(&str, &str); 5] = [
    ("", "every state"),
    ("pending", "with a pending change"),
    ("conflict", "in conflict"),
    ("missing", "missing at the platform"),
    ("low", "low"),
];

pub(super) async fn show_stock(State(web): State<Arc<WebState>>, request: PageRequest) -> PageResult {
    let (filter, is_by_name) = find_filter(&web, &request.query).await?;
    let page = web.store.stock_page(&filter).await?;
    let skus: Vec<String> = page.rows.iter().map(|row| row.sku.to_string()).collect();
    let levels = if skus.is_empty() { Vec::new() } else { web.store.stock_list(&skus).await? };
    let mut warehouses = web.store.warehouse_list().await?;
    warehouses.retain(|row| filter.warehouse.is_none_or(|only| row["id"] == only));
    let now = web.now();
    let by = if is_by_name { "name" } else { "" };
    let body = || {
        html! {
            (search_form(&request))
            @if is_by_name { p { "No SKU begins with this text; these are the names that contain it." } }
            (live_part("rows", "Stock levels", &stock_table(&page, &levels, &warehouses, now)))
            @if let Some(next) = &page.next { (next_link(&request, &[("after", next), ("by", by)], "Next page")) }
            @if request.may_act {
                section aria-labelledby="track-heading" {
                    h2 id="track-heading" { "Track a SKU" }
                    (action_form(&request, "/stock", &html! {
                        label for="sku" { "SKU, in the platform's spelling" }
                        input id="sku" name="sku" required autocomplete="off";
                        (action_button("track", "Track"))
                    }))
                }
            }
        }
    };
    Ok(respond(&request, "Stock", || json!(levels), body))
}

/// Returns the filter of a query, and true if it searches names, because no SKU begins with the text.
async fn find_filter(
    web: &WebState,
    query: &FormFields,
) -> Result<(StockFilter, bool), crate::store::StoreError> {
    let text = query.given("q").unwrap_or_default();
    let selection = match query.given("state") {
        Some("pending") => StockSelection::Pending,
        Some("conflict") => StockSelection::Conflict,
        Some("missing") => StockSelection::Missing,
        Some("low") => StockSelection::Low(web.config.web.low),
        _ => StockSelection::All,
    };
    let filter = StockFilter {
        prefix: text.to_owned(),
        name_part: None,
        warehouse: query.number("warehouse").ok().flatten(),
        selection,
        after: query.get("after").unwrap_or_default().to_owned(),
    };
    let by_name = StockFilter { prefix: String::new(), name_part: Some(text.to_owned()), ..filter.clone() };
    if query.get("by") == Some("name") && !text.is_empty() {
        return Ok((by_name, true));
    }
    if text.is_empty() || !filter.after.is_empty() {
        return Ok((filter, false));
    }
    let is_found = !web.store.stock_page(&filter).await?.rows.is_empty();
    Ok(if is_found { (filter, false) } else { (by_name, true) })
}

fn search_form(request: &PageRequest) -> Markup {
    let query = |name| request.query.get(name).unwrap_or_default();
    html! {
        form.search method="get" action="/stock" role="search" {
            label for="q" { "SKU or name" }
            input id="q" type="search" name="q" value=(query("q"));
            label for="warehouse" { "Warehouse id" }
            input id="warehouse" name="warehouse" inputmode="numeric" value=(query("warehouse"));
            (choice(request, ("state", "State"), STATES.map(|(value, label)| (value, label.to_owned()))))
            button type="submit" { "Search" }
        }
    }
}

/// A row for each SKU, with a column for each warehouse.
fn stock_table(page: &StockPage, levels: &[StockRow], warehouses: &[Value], now: Timestamp) -> Markup {
    let by_level: BTreeMap<(&str, i64), &StockRow> =
        levels.iter().map(|level| ((&*level.sku, level.warehouse_id), level)).collect();
    let name = |row: &Value| format!("#{} ({})", row["name"].as_str().unwrap_or_default(), row["id"]);
    let names = warehouses.iter().map(name);
    let headings: Vec<String> =
        ["SKU".into(), "Name".into()].into_iter().chain(names).chain(["Age".into()]).collect();
    let row = |row: &StockPageRow| {
        let level = |warehouse: &Value| by_level.get(&(&*row.sku, warehouse["id"].as_i64()?));
        let of_sku = levels.iter().filter(|level| level.sku == *row.sku);
        let oldest = of_sku.filter_map(|level| level.observed_at.as_deref()).min();
        html! {
            tr {
                th scope="row" { (link(ListedSubject::Sku, &row.sku)) }
                td { (cell(&row.name)) }
                @for warehouse in warehouses { td.number { (quantity_cell(level(warehouse))) } }
                td {
                    @if row.missing_ms.is_some() { "missing since " (cell(&row.missing_ms.map(Timestamp))) }
                    @else { (cell(&age_cell(oldest, now))) }
                }
            }
        }
    };
    let nothing = match page.next {
        None => "No SKU matches. A SKU is listed once it is tracked; track it below.",
        Some(_) => "Nothing matches on this part of the list; see the next page.",
    };
    table("Stock levels", &headings, nothing, page.rows.iter().map(row))
}

fn quantity_cell(level: Option<&&StockRow>) -> Markup {
    html! {
        @if let Some(level) = level {
            (level.quantity)
            @if let Some(pending) = level.pending_quantity { " " span.pending title="after the pending changes" { "→ " (pending) } }
        }
    }
}
