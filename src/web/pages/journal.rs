//! `/journal`: the exchanges, newest first, and one entry with its request and answer.

use super::run::exchange_table;
use crate::model::{Operation, Position};
use crate::present::ViewError;
use crate::present::runs::{exchange_json, journal_entry};
use crate::store::ExchangeFilter;
use crate::telemetry::plain_lines;
use crate::web::WebState;
use crate::web::layout::{PageFailure, PageResult, live_part, next_page, respond, text, written_time};
use crate::web::request::PageRequest;
use axum::extract::{Path, State};
use maud::{Markup, html};
use serde_json::Value;
use std::borrow::Cow;
use std::sync::Arc;

/// Largest body that is pretty-printed and shown unfolded, in bytes.
pub(super) const UNFOLDED_MAX_BYTES: usize = 64 * 1024;
const VERDICTS: [&str; 8] =
    ["accepted", "rejected", "throttled", "refused", "transient", "not_sent", "in_doubt", "interrupted"];

pub(super) async fn show_journal(State(web): State<Arc<WebState>>, request: PageRequest) -> PageResult {
    let given = |name| request.query.given(name).map(str::to_owned);
    let filter = ExchangeFilter {
        operation: given("operation"),
        verdict: given("verdict"),
        sku: given("sku"),
        before: request.query.number("before").map_err(ViewError::Invalid)?,
    };
    let (rows, next) = web.store.exchange_page(&filter).await?;
    let body = || {
        html! {
            (filter_form(&request))
            (live_part("exchanges", "Exchanges", &exchange_table(&rows, "No exchange matches on this part of the journal.")))
            @if let Some(next) = next { p { a.button rel="next" href=(next_page("/journal", &request.query, &["operation", "verdict", "sku"], ("before", next))) { "Older exchanges" } } }
        }
    };
    let data = || rows.iter().map(exchange_json).collect::<Value>();
    Ok(respond(&request, "Journal", data, body))
}

fn filter_form(request: &PageRequest) -> Markup {
    let chosen = |name| request.query.get(name).unwrap_or_default();
    html! {
        form.search method="get" action="/journal" {
            label for="operation" { "Operation" }
            select id="operation" name="operation" {
                option value="" { "every operation" }
                @for operation in Operation::ALL {
                    option value=(operation.as_str()) selected[operation.as_str() == chosen("operation")] { (operation.as_str()) }
                }
            }
            label for="verdict" { "Verdict" }
            select id="verdict" name="verdict" {
                option value="" { "every verdict" }
                @for verdict in VERDICTS { option value=(verdict) selected[verdict == chosen("verdict")] { (verdict.replace('_', " ")) } }
            }
            label for="sku" { "SKU" }
            input id="sku" name="sku" value=(chosen("sku"));
            button type="submit" { "Filter" }
        }
    }
}

pub(super) async fn show_entry(
    State(web): State<Arc<WebState>>,
    request: PageRequest,
    Path(position): Path<String>,
) -> PageResult {
    let none = || PageFailure::not_found(format!("the journal has no entry at position {position}"));
    let at = position.parse().map(Position).map_err(|_| none())?;
    let parsed_max = if request.wants_json { usize::MAX } else { UNFOLDED_MAX_BYTES };
    let entry = journal_entry(&web.store, at, parsed_max).await?.ok_or_else(none)?;
    let title = match entry["type"].as_str() {
        Some("event") => format!("Event {position}"),
        _ => format!("Exchange {}", entry["position"]),
    };
    Ok(respond(&request, &title, || entry.clone(), || entry_body(&entry)))
}

fn entry_body(entry: &Value) -> Markup {
    let fields = entry.as_object().into_iter().flatten();
    let is_body = |name: &str| matches!(name, "request" | "response" | "detail");
    html! {
        dl.fields {
            @for (name, value) in fields.clone().filter(|(name, value)| !is_body(name) && !value.is_null()) {
                dt { (name.replace('_', " ")) }
                dd { @match (name.as_str(), value) {
                    ("run", Value::Number(run)) => a href={ "/jobs/" (run) } { (run) },
                    ("at" | "sent_at" | "answered_at", Value::String(at)) => (written_time(Some(at))),
                    (_, Value::String(value)) => (text(value)),
                    (_, value) => (text(&value.to_string())),
                } }
            }
        }
        @for (name, label) in [("request", "Request"), ("response", "Answer"), ("detail", "Detail")] {
            @if !entry[name].is_null() { h2 { (label) } (body_block(&entry[name])) }
        }
    }
}

/// A body, pretty-printed; a large one is folded, as it came.
pub(super) fn body_block(body: &Value) -> Markup {
    let written = match body {
        Value::Null => return html! { p.none { "There is none, or it was removed from the journal." } },
        Value::String(text) => Cow::Borrowed(text.as_str()),
        other => Cow::Owned(format!("{other:#}")),
    };
    let shown = plain_lines(&written);
    let block = html! { pre tabindex="0" { bdi { (shown) } } };
    html! {
        @if shown.len() > UNFOLDED_MAX_BYTES {
            details { summary { (shown.len() / 1024) " KiB" } (block) }
        } @else {
            (block)
        }
    }
}
