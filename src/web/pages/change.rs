//! `/outbox/KEY`: a change with its life, its evidence and its calls, and the decisions that its state allows.

use crate::model::{Position, Quantity, ShipmentId, in_words};
use crate::outbox::{ChangeBody, ChangeState, Resolution};
use crate::present::change::{ChangeDetail, change_json};
use crate::present::listing::ListedSubject;
use crate::present::parse_json;
use crate::present::runs::{exchange_columns, journal_entry};
use crate::web::WebState;
use crate::web::actions::last_move;
use crate::web::layout::{
    PageFailure, PageResult, action_button, action_form, address, cell, fields, link, listing, live_part,
    respond, sentence, text,
};
use crate::web::pages::journal::{UNFOLDED_MAX_BYTES, body_block};
use crate::web::request::PageRequest;
use axum::extract::State;
use maud::{Markup, html};
use serde_json::Value;
use std::sync::Arc;

pub(super) async fn show_change(State(web): State<Arc<WebState>>, request: PageRequest) -> PageResult {
    let key = &request.name;
    let detail = ChangeDetail::load(&web.store, key, &web.config, &*web.clock).await?;
    let Some(detail) = detail else {
        return Err(PageFailure::not_found(format!("no change has the key `{key}`")));
    };
    let mut bodies = Vec::new();
    for exchange in detail.exchanges.iter().rev().take(2) {
        bodies.extend(journal_entry(&web.store, Position(exchange.id), UNFOLDED_MAX_BYTES).await?);
    }
    let body = || {
        html! {
            (live_part("change", "Change", &html! { (summary(&detail)) (conflict(&detail)) (evidence(&detail)) }))
            (decisions(&request, &detail))
            (live_part("life", "Life", &listing("Life of the change", detail.steps(), "")))
            (live_part("calls", "Calls", &calls(&detail, &bodies)))
        }
    };
    Ok(respond(&request, key, || detail.to_json(), body))
}

fn summary(detail: &ChangeDetail) -> Markup {
    let change = &detail.change;
    let level = change.content.body.as_ref().ok().and_then(ChangeBody::stock_level);
    html! {
        p { strong { (in_words(change.state.as_str())) } }
        (fields(&change_json(change)))
        @if let Some(advice) = detail.what_to_do() { p { "What to do: " (sentence(&advice)) } }
        @if let Some(level) = level {
            p { "Stock level: " (link(ListedSubject::Sku, level.sku.as_str())) " in warehouse " (level.warehouse_id) }
        }
        h3 { "Body" }
        (body_block(&parse_json(change.content.stored_body.as_deref())))
    }
}

/// Both sides of a conflict about a quantity, each with the effect of its choice.
fn conflict(detail: &ChangeDetail) -> Markup {
    let change = &detail.change;
    let may = |resolution| change.status().is_ok_and(|status| status.resolution_step(resolution).is_ok());
    if !may(Resolution::Theirs) {
        return html! {};
    }
    let counted = match &change.content.body {
        Ok(ChangeBody::QuantitySet(count)) => Some(count.quantity.to_string()),
        _ => None,
    };
    let mine = change.mine.clone().or(counted);
    html! {
        div.sides {
            section {
                h3 { "Mine" }
                p.quantity { (cell(&mine)) }
                @match &mine {
                    Some(mine) if may(Resolution::Mine) => p { "The count is sent as it is: " (text(mine)) " is written." },
                    _ => p { "An adjustment has no quantity of its own; a retry plans it again on the platform's quantity." },
                }
            }
            section {
                h3 { "Theirs" }
                p.quantity { (cell(&change.theirs)) }
                p { "The platform's quantity stays: nothing is written, and the change is rejected." }
            }
        }
    }
}

fn evidence(detail: &ChangeDetail) -> Markup {
    let sentences = detail.evidence_sentences();
    html! {
        @if !sentences.is_empty() {
            h3 { "Evidence" }
            ul { @for one in &sentences { li { (sentence(one)) } } }
        }
    }
}

fn calls(detail: &ChangeDetail, bodies: &[Value]) -> Markup {
    html! {
        (listing("Calls that carried the change", detail.exchanges.iter().map(exchange_columns), "No call carried it yet."))
        @for entry in bodies {
            h3 { "Exchange " (entry["position"]) ": request" } (body_block(&entry["request"]))
            h3 { "Exchange " (entry["position"]) ": answer" } (body_block(&entry["response"]))
        }
    }
}

fn decisions(request: &PageRequest, detail: &ChangeDetail) -> Markup {
    let change = &detail.change;
    let Ok(status) = change.status() else { return html! {} };
    let may = |resolution| status.resolution_step(resolution).is_ok();
    let to = address("/outbox", &change.key);
    let form = |body: &Markup| {
        let shown = html! { input type="hidden" name="shown" value=(last_move(&detail.transitions)); (body) };
        action_form(request, &to, &shown)
    };
    let button = |action: &str, label: &str| form(&action_button(action, label));
    html! {
        @if request.may_act {
            section.forms aria-label="Decisions" {
                @if status.check_release().is_ok() { (button("release", "Release: send it once")) }
                @if status.check_retry().is_ok() { (button("retry", "Retry: plan it again")) }
                @if may(Resolution::Mine) { (button("mine", "Use mine")) }
                @if may(Resolution::Theirs) { (button("theirs", "Use theirs")) }
                @if may(Resolution::Exactly(Quantity(0))) {
                    (form(&html! {
                        label for="number" { "Another quantity, measured against the platform's current one" }
                        input id="number" name="number" type="number" min="0" required;
                        (action_button("number", "Use this quantity"))
                    }))
                }
                @if may(Resolution::TookEffect) { (button("done", "It took effect")) }
                @if may(Resolution::HadNoEffect) { (button("not-done", "It had no effect: plan it again")) }
                @if may(Resolution::Shipment(ShipmentId(1))) {
                    (form(&html! {
                        label for="shipment" { "Id of the shipment that it created" }
                        input id="shipment" name="shipment" type="number" min="1" required;
                        (action_button("shipment", "It created this shipment"))
                    }))
                }
                @if status.check_cancel().is_ok() { (button("cancel", "Cancel the change")) }
                @if change.state == ChangeState::Rejected { (button("acknowledge", "Acknowledge the rejection")) }
            }
        }
    }
}
