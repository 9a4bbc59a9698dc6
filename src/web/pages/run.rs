//! `/jobs/RUN`: a run with a page of its exchanges, the changes that they carried, and the events during them.

use crate::model::{RunId, Timestamp};
use crate::present::ViewError;
use crate::present::runs::RunDetail;
use crate::store::{ExchangeRow, JournalEvent, PAGE_ROWS, RunChange};
use crate::web::WebState;
use crate::web::layout::{
    PageFailure, PageResult, change_link, exchange_link, live_part, next_page, number, optional_sentence,
    optional_text, optional_time, respond, table, text, time,
};
use crate::web::request::PageRequest;
use axum::extract::{Path, State};
use maud::{Markup, html};
use std::sync::Arc;

pub(super) async fn show_run(
    State(web): State<Arc<WebState>>,
    request: PageRequest,
    Path(id): Path<String>,
) -> PageResult {
    let none = || PageFailure::not_found(format!("there is no run {id}"));
    let run_id = id.parse().map(RunId).map_err(|_| none())?;
    let after = request.query.number("after").map_err(ViewError::Invalid)?.unwrap_or(0);
    let detail = RunDetail::load_page(&web.store, run_id, after, PAGE_ROWS).await?.ok_or_else(none)?;
    let next =
        detail.next.map(|next| next_page(&format!("/jobs/{id}"), &request.query, &[], ("after", next)));
    let body = || {
        html! {
            (live_part("run", "Run", &summary(&detail)))
            (live_part("exchanges", "Exchanges", &exchange_table(&detail.exchanges, "This run made no call.")))
            @if let Some(next) = &next { p { a.button rel="next" href=(next) { "Later exchanges" } } }
            @if !detail.changes.is_empty() { (live_part("changes", "Changes", &change_table(&detail.changes))) }
            @if !detail.events.is_empty() { (live_part("events", "Events during the run", &event_table(&detail.events))) }
            @if detail.events.len() as i64 == PAGE_ROWS { p { "At most " (PAGE_ROWS) " events are shown; `tallyd job show " (id) "` shows all." } }
        }
    };
    Ok(respond(&request, &format!("Run {id}"), || detail.to_json(), body))
}

fn summary(detail: &RunDetail) -> Markup {
    let run = &detail.run;
    html! {
        dl.fields {
            dt { "Job" } dd { (run.job) }
            dt { "Trigger" } dd { (run.trigger) }
            dt { "Outcome" } dd { strong { (run.outcome) } }
            dt { "Started" } dd { (time(Timestamp(run.started_ms))) }
            dt { "Ended" } dd { (optional_time(run.ended_ms)) }
            dt { "Input" } dd { (optional_text(run.input.as_deref())) }
            dt { "Summary" } dd { (optional_sentence(run.summary.as_deref())) }
        }
    }
}

/// Exchanges in a table; `nothing` stands for none.
pub(super) fn exchange_table(rows: &[ExchangeRow], nothing: &str) -> Markup {
    let row = |row: &ExchangeRow| {
        html! {
            tr {
                th scope="row" { (exchange_link(row.id)) }
                td { (row.operation) }
                td { (row.lane) }
                td { (time(Timestamp(row.sent_ms))) }
                td.number { (number(row.answered_ms.map(|answered| answered - row.sent_ms))) }
                td { (optional_text(row.verdict.as_deref())) }
                td.number { (number(row.status)) }
                td { (optional_text(row.message.as_deref())) }
            }
        }
    };
    html! {
        @if rows.is_empty() { p.empty { (nothing) } }
        @else {
            (table("Exchanges", &["Exchange", "Operation", "Lane", "Sent", "#ms", "Verdict", "#Status", "Message"],
                   &html! { @for one in rows { (row(one)) } }))
        }
    }
}

fn change_table(rows: &[RunChange]) -> Markup {
    table(
        "Changes that the run carried",
        &["Change", "Exchange", "Kind", "#Written", "State", "Detail"],
        &html! {
            @for row in rows {
                tr { th scope="row" { (change_link(&row.key)) }
                     td { (exchange_link(row.exchange_id)) }
                     td { (text(&row.kind)) }
                     td.number { (number(row.written)) }
                     td { (row.state.replace('_', " ")) }
                     td { (optional_sentence(row.detail.as_deref().or(row.reason.as_deref()))) } }
            }
        },
    )
}

fn event_table(rows: &[JournalEvent]) -> Markup {
    table(
        "Events during the run",
        &["Position", "Time", "Event", "Subject", "By", "Detail"],
        &html! {
            @for row in rows {
                tr { th scope="row" { (exchange_link(row.position)) }
                     td { (time(Timestamp(row.at_ms))) }
                     td { (text(&row.kind)) }
                     td { (text(&row.subject)) }
                     td { (optional_text(row.decided_by.as_deref())) }
                     td { (optional_text(row.detail.as_deref())) } }
            }
        },
    )
}
