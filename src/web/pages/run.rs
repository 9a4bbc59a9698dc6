//! `/jobs/RUN`: a run with a page of its exchanges, the changes that they carried, and the events during them.

use crate::model::RunId;
use crate::present::runs::{RunDetail, event_columns, exchange_columns, run_change_columns};
use crate::store::PAGE_ROWS;
use crate::web::WebState;
use crate::web::layout::{PageFailure, PageResult, fields, listing, live_part, next_link, respond};
use crate::web::request::PageRequest;
use axum::extract::State;
use maud::html;
use serde_json::json;
use std::sync::Arc;

pub(super) async fn show_run(State(web): State<Arc<WebState>>, request: PageRequest) -> PageResult {
    let id = &request.name;
    let none = || PageFailure::not_found(format!("there is no run {id}"));
    let run_id = id.parse().map(RunId).map_err(|_| none())?;
    let after = request.query.number("after")?.unwrap_or(0);
    let detail = RunDetail::load(&web.store, run_id, after, PAGE_ROWS).await?.ok_or_else(none)?;
    let body = || {
        html! {
            (live_part("run", "Run", &fields(&json!(detail.run))))
            (live_part("exchanges", "Exchanges", &listing("Exchanges", detail.exchanges.iter().map(exchange_columns), "This run made no call.")))
            @if let Some(next) = detail.next { (next_link(&request, &[("after", &next.to_string())], "Later exchanges")) }
            @if !detail.changes.is_empty() { (live_part("changes", "Changes", &listing("Changes that the run carried", detail.changes.iter().map(run_change_columns), ""))) }
            @if !detail.events.is_empty() { (live_part("events", "Events during the run", &listing("Events during the run", detail.events.iter().map(event_columns), ""))) }
            @if detail.events.len() as i64 == PAGE_ROWS { p { "At most " (PAGE_ROWS) " events are shown; `tallyd job show " (id) "` shows all." } }
        }
    };
    Ok(respond(&request, &format!("Run {id}"), || detail.to_json(), body))
}
