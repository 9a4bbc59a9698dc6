//! `/stock`: the SKUs with a column for each warehouse, and the search.

use crate::model::Timestamp;
use crate::present::ViewError;
use crate::present::listing::{ListedSubject, age_cell};
use crate::present::tracked::{parse_sku, track_skus};
use crate::store::{StockFilter, StockPage, StockPageRow, StockRow, StockSelection, WarehouseRow};
use crate::web::WebState;
use crate::web::decisions::{ActionResult, answer_form, success, unknown_action};
use crate::web::layout::{
    PageResult, action_button, action_form, cell, choice, link, live_part, next_page, respond, table,
};
use crate::web::request::{FormFields, PageRequest};
use axum::extract::State;
use maud::{Markup, html};
use serde_json::json;
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
    warehouses.retain(|row| filter.warehouse.is_none_or(|only| row.id == only));
    let view =
        StockView { request: &request, page: &page, levels: &levels, warehouses, now: web.now(), is_by_name };
    Ok(respond(&request, "Stock", || json!(levels), || view.to_html()))
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

struct StockView<'a> {
    request: &'a PageRequest,
    page: &'a StockPage,
    levels: &'a [StockRow],
    warehouses: Vec<WarehouseRow>,
    now: Timestamp,
    is_by_name: bool,
}

impl StockView<'_> {
    fn to_html(&self) -> Markup {
        html! {
            (self.search_form())
            (live_part("rows", "Stock levels", &self.rows()))
            @if let Some(next) = &self.page.next {
                p { a.button rel="next" href=(self.next_address(next)) { "Next page" } }
            }
            @if self.request.may_act {
                section aria-labelledby="track-heading" {
                    h2 id="track-heading" { "Track a SKU" }
                    (action_form(self.request, "/stock", &html! {
                        label for="sku" { "SKU, in the platform's spelling" }
                        input id="sku" name="sku" required autocomplete="off";
                        (action_button("track", "Track"))
                    }))
                }
            }
        }
    }

    fn search_form(&self) -> Markup {
        let query = |name| self.request.query.get(name).unwrap_or_default();
        html! {
            form.search method="get" action="/stock" role="search" {
                label for="q" { "SKU or name" }
                input id="q" type="search" name="q" value=(query("q"));
                label for="warehouse" { "Warehouse id" }
                input id="warehouse" name="warehouse" inputmode="numeric" value=(query("warehouse"));
                (choice(self.request, ("state", "State"), STATES.map(|(value, label)| (value, label.to_owned()))))
                button type="submit" { "Search" }
            }
            @if self.is_by_name { p { "No SKU begins with this text; these are the names that contain it." } }
        }
    }

    fn rows(&self) -> Markup {
        let mut by_sku: BTreeMap<(&str, i64), &StockRow> = BTreeMap::new();
        for row in self.levels {
            by_sku.insert((&row.sku, row.warehouse_id), row);
        }
        let names: Vec<String> =
            self.warehouses.iter().map(|row| format!("#{} ({})", row.name, row.id)).collect();
        let mut headings = vec!["SKU", "Name"];
        headings.extend(names.iter().map(String::as_str));
        headings.push("Age");
        let nothing = match self.page.next {
            None => "No SKU matches. A SKU is listed once it is tracked; track it below.",
            Some(_) => "Nothing matches on this part of the list; see the next page.",
        };
        table("Stock levels", &headings, nothing, self.page.rows.iter().map(|row| self.row(row, &by_sku)))
    }

    fn row(&self, row: &StockPageRow, levels: &BTreeMap<(&str, i64), &StockRow>) -> Markup {
        let level = |warehouse: i64| levels.get(&(&*row.sku, warehouse)).copied();
        let of_sku = self.levels.iter().filter(|level| level.sku == *row.sku);
        let oldest = of_sku.filter_map(|level| level.observed_at.as_deref()).min();
        html! {
            tr {
                th scope="row" { (link(ListedSubject::Sku, &row.sku)) }
                td { (cell(&row.name)) }
                @for warehouse in &self.warehouses { td.number { (quantity_cell(level(warehouse.id))) } }
                td {
                    @if row.missing_ms.is_some() { "missing since " (cell(&row.missing_ms.map(Timestamp))) }
                    @else { (cell(&age_cell(oldest, self.now))) }
                }
            }
        }
    }

    fn next_address(&self, next: &str) -> String {
        let by = if self.is_by_name { "&by=name" } else { "" };
        next_page("/stock", &self.request.query, &["q", "warehouse", "state"], ("after", next)) + by
    }
}

fn quantity_cell(level: Option<&StockRow>) -> Markup {
    html! {
        @if let Some(level) = level {
            (level.quantity)
            @if let Some(pending) = level.pending_quantity { " " span.pending title="after the pending changes" { "→ " (pending) } }
        }
    }
}

pub(super) async fn act_on_stock(State(web): State<Arc<WebState>>, request: PageRequest) -> PageResult {
    answer_form(&request, "/stock", act(&web, &request).await)
}

async fn act(web: &WebState, request: &PageRequest) -> ActionResult {
    if request.form.get("action") != Some("track") {
        return unknown_action(request);
    }
    let sku = request.form.given("sku").ok_or_else(|| ViewError::Invalid("name a SKU".into()))?;
    success(track_skus(&web.store, &[parse_sku(sku)?]).await?)
}
