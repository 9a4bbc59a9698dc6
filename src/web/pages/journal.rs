//! `/journal`: the exchanges, newest first, and one entry with its request and answer.

use crate::model::{Operation, Position, in_words};
use crate::present::runs::{exchange_columns, journal_entry};
use crate::store::ExchangeFilter;
use crate::telemetry::plain_lines;
use crate::web::WebState;
use crate::web::layout::{PageFailure, PageResult, choice, fields, listing, live_part, next_link, respond};
use crate::web::request::PageRequest;
use axum::extract::State;
use maud::{Markup, html};
use serde_json::{Value, json};
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
        before: request.query.number("before")?,
    };
    let (rows, next) = web.store.exchange_page(&filter).await?;
    let body = || {
        html! {
            (filter_form(&request))
            (live_part("exchanges", "Exchanges", &listing("Exchanges", rows.iter().map(exchange_columns), "No exchange matches on this part of the journal.")))
            @if let Some(next) = next { (next_link(&request, &[("before", &next.to_string())], "Older exchanges")) }
        }
    };
    Ok(respond(&request, "Journal", || json!(rows), body))
}

fn filter_form(request: &PageRequest) -> Markup {
    let operations = Operation::ALL.iter().map(|operation| (operation.as_str(), operation.to_string()));
    let verdicts = VERDICTS.iter().map(|verdict| (*verdict, in_words(verdict)));
    let every = |what: &str| std::iter::once(("", format!("every {what}")));
    html! {
        form.search method="get" action="/journal" {
            (choice(request, ("operation", "Operation"), every("operation").chain(operations)))
            (choice(request, ("verdict", "Verdict"), every("verdict").chain(verdicts)))
            label for="sku" { "SKU" }
            input id="sku" name="sku" value=(request.query.get("sku").unwrap_or_default());
            button type="submit" { "Filter" }
        }
    }
}

pub(super) async fn show_entry(State(web): State<Arc<WebState>>, request: PageRequest) -> PageResult {
    let position = &request.name;
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
    html! {
        (fields(entry))
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
