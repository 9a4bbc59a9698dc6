//! `/stock/SKU`: a SKU's stock levels, each with its quantity over time, its history, and the forms to change it.

use crate::daemon::preview_push;
use crate::explain::{ExplainError, ExplainStep, ExplainedSku, StepKind, StockLevelExplanation};
use crate::model::{Timestamp, in_words};
use crate::present::ViewError;
use crate::present::listing::{ListColumns, ListedSubject, columns, sentence_cell};
use crate::present::tracked::parse_sku;
use crate::store::MismatchRow;
use crate::web::WebState;
use crate::web::chart::{ChartMark, legend, steps};
use crate::web::layout::{
    PageResult, action_button, action_form, address, address_with, cell, listing, live_part, respond,
    sentence, text,
};
use crate::web::request::PageRequest;
use axum::extract::State;
use maud::{Markup, html};
use serde_json::json;
use std::sync::Arc;

const STEPS_SHOWN: usize = 60;

pub(super) async fn show_sku(State(web): State<Arc<WebState>>, request: PageRequest) -> PageResult {
    let name = &request.name;
    let subject = match ExplainedSku::find(&web.store, name, None).await {
        Err(ExplainError::NothingKnown(why)) if is_tracked(&web, name).await? => {
            let body = || html! { p.empty { (sentence(&why)) } (untrack_form(&request, name)) };
            let data = || json!({"sku": name, "remark": why, "stock_levels": []});
            return Ok(respond(&request, name, data, body));
        }
        subject => subject?,
    };
    let plan = preview_push(&web.config, &web.store, &*web.clock);
    let levels = subject.explain(&web.store, plan, STEPS_SHOWN).await?;
    let mut unshown = web.store.mismatch_list().await?;
    unshown.retain(|row| row.sku == subject.sku);
    let now = web.now();
    let body = || {
        html! {
            @if let Some(remark) = &subject.remark { p.banner.note { (sentence(remark)) } }
            p { a href=(address_with("/journal", &[("sku", &subject.sku)])) { "The exchanges of this SKU" } }
            @for level in &levels { (level_part(&request, &subject.sku, level, &unshown, now)) }
            (untrack_form(&request, &subject.sku))
        }
    };
    Ok(respond(&request, &subject.sku, || subject.to_json(&levels), body))
}

async fn is_tracked(web: &WebState, name: &str) -> Result<bool, ViewError> {
    let key = parse_sku(name)?.case_key();
    Ok(!web.store.explain_skus(&key).await?.is_empty() || web.store.is_sku_tracked(name).await?)
}

fn level_part(
    request: &PageRequest,
    sku: &str,
    explained: &StockLevelExplanation,
    unshown: &[MismatchRow],
    now: Timestamp,
) -> Markup {
    let level = &explained.level;
    let unshown = unshown.iter().find(|row| row.warehouse_id == level.warehouse_id);
    let id = format!("warehouse-{}", level.warehouse_id);
    let name = level.warehouse_name.as_deref().unwrap_or("warehouse");
    let heading = format!("{name} ({})", level.warehouse_id);
    html! {
        (live_part(&id, &heading, &html! {
            p.quantity { (sentence(&explained.current_state_text())) }
            @if let Some(row) = unshown { (unshown_write(row)) }
            (quantity_chart(explained, &heading, now))
            @for next in &explained.next_steps { p { "Next: " (sentence(next)) } }
            (changes_table(&explained.steps))
            h3 { "History" }
            (timeline(explained))
        }))
        (level_forms(request, sku, explained))
    }
}

/// A conflict without a decision to make: it ends when the platform shows the quantity, or with the next count.
fn unshown_write(row: &MismatchRow) -> Markup {
    html! {
        div.banner.trouble {
            p { "The platform accepted " (row.written) " and shows "
                @match row.shown { Some(shown) => (shown), None => "the product without this warehouse" } "." }
            p { "Check the product at the platform (is it a kit?), then count it. This ends by itself once the platform shows "
                (row.written) "." }
        }
    }
}

/// The known quantities over time, with a mark for each change of the quantity and each count or movement.
fn quantity_chart(explained: &StockLevelExplanation, heading: &str, now: Timestamp) -> Markup {
    let (mut points, mut marks) = (Vec::new(), Vec::new());
    for step in &explained.steps {
        let Some(value) = step.after else { continue };
        let class = match step.kind {
            StepKind::Fact => {
                points.push((step.at, value));
                if step.others.is_some_and(|others| others != 0) { "mark-others" } else { "mark-ours" }
            }
            StepKind::Change => "mark-change",
            StepKind::Push => "mark-ours",
            StepKind::Agreed | StepKind::Look | StepKind::Trip | StepKind::Event | StepKind::Moved => {
                continue;
            }
        };
        if step.kind != StepKind::Fact || step.before.is_some() {
            marks.push(ChartMark { at: step.at, value, class, title: step.to_string() });
        }
    }
    let last = points.last().map_or_else(String::new, |(_, quantity)| format!(", now {quantity}"));
    let label = format!("Quantity over time in {heading}: {} known values{last}", points.len());
    html! {
        @if points.len() > 1 {
            (steps(&label, &points, &marks, now))
            (legend(&[("mark-ours", "we wrote"), ("mark-others", "others changed it"), ("mark-change", "count or movement")]))
        }
    }
}

fn changes_table(steps: &[ExplainStep]) -> Markup {
    let inserted = steps.iter().rev().filter(|step| step.kind == StepKind::Change);
    let changes = inserted.flat_map(|step| step.changes.iter().map(move |change| (step, change)));
    let rows = changes.map(|(step, change)| {
        columns! {
            "change": ListedSubject::Change.cell(&change.key), "state": change.state.as_deref().map(in_words),
            "detail": sentence_cell(change.detail.as_deref().or(change.reason.as_deref())),
            "by": step.by, "inserted": step.at,
        }
    });
    let rows: Vec<ListColumns> = rows.collect();
    html! {
        @if !rows.is_empty() { h3 { "Changes" } (listing("Changes of this stock level, newest first", rows, "")) }
    }
}

fn timeline(explained: &StockLevelExplanation) -> Markup {
    html! {
        @if explained.earlier_steps > 0 { p { (explained.earlier_steps) " earlier steps are not shown." } }
        ol.timeline {
            @for step in explained.steps.iter().rev() {
                li {
                    (cell(&step.at)) " "
                    @if let Some(position) = step.position.filter(|position| *position > 0) {
                        a.position href={ "/journal/" (position) } { "#" (position) } " "
                    }
                    (sentence(&step.to_string()))
                    @if let Some(by) = &step.by { " " span.none { "by " (text(by)) } }
                }
            }
        }
    }
}

fn level_forms(request: &PageRequest, sku: &str, explained: &StockLevelExplanation) -> Markup {
    let (warehouse, to) = (explained.level.warehouse_id, address("/stock", sku));
    let quantity = explained.level.quantity;
    html! {
        @if request.may_act {
            section.forms aria-label={ "Change the stock level in warehouse " (warehouse) } {
                (action_form(request, &to, &html! {
                    input type="hidden" name="warehouse" value=(warehouse);
                    label for={ "count-" (warehouse) } { "Counted units" }
                    input id={ "count-" (warehouse) } name="quantity" type="number" min="0" required;
                    // The script replaces it together with the level above, so that both have the same number.
                    span id={ "shown-" (warehouse) } data-live {
                        "this page shows " (cell(&quantity)) input type="hidden" name="seen" value=[quantity];
                    }
                    (action_button("count", "Count"))
                }))
                (action_form(request, &to, &html! {
                    input type="hidden" name="warehouse" value=(warehouse);
                    label for={ "delta-" (warehouse) } { "Units that came in (+) or left (−)" }
                    input id={ "delta-" (warehouse) } name="delta" inputmode="numeric" pattern="[+\\-]?[0-9]+" required;
                    (action_button("adjust", "Adjust"))
                }))
            }
        }
    }
}

fn untrack_form(request: &PageRequest, sku: &str) -> Markup {
    action_form(
        request,
        &address("/stock", sku),
        &html! {
            (action_button("track", "Track this SKU")) " "
            (action_button("untrack", "Stop tracking this SKU"))
        },
    )
}
