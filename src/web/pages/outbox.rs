//! `/outbox`: the changes by state and reason, and decisions on several of them.

use crate::model::{Timestamp, counted, in_words};
use crate::outbox::{ChangeBody, ChangeKind, ChangeState, Reason};
use crate::present::change::{STATE_ORDER, change_json, state_rank};
use crate::present::listing::{ListedSubject, age_cell, sentence_cell};
use crate::store::{ChangeRow, OutboxFilter};
use crate::telemetry::plain_line;
use crate::web::WebState;
use crate::web::layout::{
    PageFailure, PageResult, ROWS_SHOWN, action_button, action_form, address_with, cell, choice, link,
    live_part, next_link, respond, sentence, table, text,
};
use crate::web::request::PageRequest;
use axum::extract::State;
use maud::{Markup, html};
use serde_json::Value;
use std::sync::Arc;

pub(super) async fn show_outbox(State(web): State<Arc<WebState>>, request: PageRequest) -> PageResult {
    let state = request.query.code::<ChangeState>("state")?;
    let kind = request.query.code::<ChangeKind>("kind")?;
    let reason = request.query.given("reason");
    let after = request.query.number("after")?.unwrap_or(0);
    // Without a filter the open and the rejected ones are shown.
    let shown: &[ChangeState] = state.as_ref().map_or(&STATE_ORDER[..5], std::slice::from_ref);
    let mut rows = Vec::new();
    for state in shown {
        rows.extend(load_state(&web, *state, kind, reason, after).await?);
    }
    let next =
        state.filter(|_| rows.len() >= ROWS_SHOWN as usize).and_then(|_| rows.last()).map(|row| row.id.0);
    let order = |row: &ChangeRow| (state_rank(row.state), row.reason.clone(), row.id);
    rows.sort_by_cached_key(order);
    let now = web.now();
    let body = || {
        html! {
            (filter_form(&request))
            (action_form_around(&request, &live_part("groups", "Changes", &groups(&request, &rows, now))))
            @if let Some(next) = next { (next_link(&request, &[("after", &next.to_string())], "Next page")) }
        }
    };
    let data = || rows.iter().map(change_json).collect::<Value>();
    Ok(respond(&request, "Outbox", data, body))
}

/// Reads the changes of one state: open and rejected ones oldest first, applied and cancelled ones newest first.
async fn load_state(
    web: &WebState,
    state: ChangeState,
    kind: Option<ChangeKind>,
    reason: Option<&str>,
    after: i64,
) -> Result<Vec<ChangeRow>, PageFailure> {
    let kind = kind.map(ChangeKind::as_str);
    if matches!(state, ChangeState::Applied | ChangeState::Cancelled) {
        let states = vec![state];
        let kind = kind.map(str::to_owned);
        let filter = OutboxFilter { states, kind, limit: ROWS_SHOWN, ..OutboxFilter::default() };
        return Ok(web.store.outbox_list(&filter).await?);
    }
    Ok(web.store.outbox_oldest(state.as_str(), reason, kind, after, ROWS_SHOWN).await?)
}

fn filter_form(request: &PageRequest) -> Markup {
    let any = |what: &str| std::iter::once(("", what.to_owned()));
    let states = ChangeState::ALL.iter().map(|state| (state.as_str(), in_words(state.as_str())));
    let reasons = Reason::ALL.iter().map(|reason| (reason.as_str(), in_words(reason.as_str())));
    let kinds = ChangeKind::ALL.iter().map(|kind| (kind.as_str(), kind.to_string()));
    html! {
        form.search method="get" action="/outbox" {
            (choice(request, ("state", "State"), any("open or rejected").chain(states)))
            (choice(request, ("reason", "Reason"), any("every reason").chain(reasons)))
            (choice(request, ("kind", "Kind"), any("every kind").chain(kinds)))
            button type="submit" { "Filter" }
        }
    }
}

/// The groups within one form, so that its buttons act on every selected change.
fn action_form_around(request: &PageRequest, groups: &Markup) -> Markup {
    if !request.may_act {
        return html! { (groups) };
    }
    action_form(
        request,
        &address_with("/outbox", &[("state", request.query.get("state").unwrap_or_default())]),
        &html! {
            fieldset.actions {
                legend { "With the selected changes" }
                (action_button("release", "Release")) " " (action_button("retry", "Retry")) " "
                (action_button("cancel", "Cancel")) " " (action_button("acknowledge", "Acknowledge")) " "
                button type="submit" name="action" value="release-all" { "Release all that a brake or a restore holds" }
            }
            (groups)
        },
    )
}

fn groups(request: &PageRequest, rows: &[ChangeRow], now: Timestamp) -> Markup {
    html! {
        @if rows.is_empty() {
            p.empty { "No change matches. Programs insert changes; on the page of a SKU you can count or adjust." }
        }
        @for (number, group) in rows.chunk_by(|a, b| (a.state, &a.reason) == (b.state, &b.reason)).enumerate() {
            (group_part(request, group, number, now))
        }
    }
}

fn group_part(request: &PageRequest, rows: &[ChangeRow], number: usize, now: Timestamp) -> Markup {
    let Some(first) = rows.first() else { return html! {} };
    let state = in_words(first.state.as_str());
    let count = counted(rows.len(), "change");
    let heading = match &first.reason {
        Some(reason) => format!("{state}, {}: {count}", in_words(reason)),
        None => format!("{state}: {count}"),
    };
    let advice = first.reason.as_deref().and_then(Reason::from_code).map(Reason::what_to_do);
    let select_all = format!("select-{number}");
    html! {
        section.group {
            h3 { (text(&heading)) }
            @if let Some(advice) = advice { p { "What to do: " (sentence(advice)) } }
            @if request.may_act && (first.state == ChangeState::Rejected || !first.state.is_final()) {
                p.scripted { input type="checkbox" id=(select_all) data-select-all; label for=(select_all) { "Select this group" } }
            }
            (table(&heading, &["Change", "Kind", "Stock level", "Detail", "Inserted"], "",
                   rows.iter().map(|row| change_row(request, row, now))))
        }
    }
}

fn change_row(request: &PageRequest, row: &ChangeRow, now: Timestamp) -> Markup {
    let level = row.content.body.as_ref().ok().and_then(ChangeBody::stock_level);
    // The value of a box is the key as it is, so a key that a page must mask has none; its own page has the forms.
    let may_select = request.may_act
        && (!row.state.is_final() || row.state == ChangeState::Rejected)
        && plain_line(&row.key) == *row.key;
    html! {
        tr {
            th scope="row" {
                @if may_select {
                    input type="checkbox" name="key" value=(&*row.key) aria-label={ "select " (plain_line(&row.key)) }; " "
                }
                (link(ListedSubject::Change, &row.key))
            }
            td { (text(&row.content.kind)) }
            td { @if let Some(level) = level { (link(ListedSubject::Sku, level.sku.as_str())) " @" (level.warehouse_id) } }
            td { (cell(&sentence_cell(row.detail.as_deref()))) }
            td { (cell(&age_cell(Some(&row.created_at), now))) }
        }
    }
}
