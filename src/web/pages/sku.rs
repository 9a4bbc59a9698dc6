//! `/stock/SKU`: a SKU's stock levels, each with its quantity over time, its history, and the forms to change it.

use crate::model::{Sku, Timestamp};
use crate::present::ViewError;
use crate::present::explain::{SkuExplanation, StockLevelExplanation, current_state_text};
use crate::present::queue::without_nulls;
use crate::store::ExplainedChange;
use crate::web::WebState;
use crate::web::chart::{ChartMark, legend, steps};
use crate::web::decisions::{answer_form, unknown_action};
use crate::web::layout::{
    PageResult, action_button, action_form, address, address_with, change_link, exchange_link, live_part,
    optional_text, respond, table, text, time, written_time,
};
use crate::web::request::PageRequest;
use axum::extract::{Path, State};
use maud::{Markup, html};
use serde_json::json;
use std::sync::Arc;

/// Number of steps shown of each stock level.
const STEPS_SHOWN: usize = 60;

pub(super) async fn show_sku(
    State(web): State<Arc<WebState>>,
    request: PageRequest,
    Path(name): Path<String>,
) -> PageResult {
    let explained =
        SkuExplanation::load(&web.config, &*web.clock, &web.store, &name, None, STEPS_SHOWN).await;
    let explained = match explained {
        Err(ViewError::Unknown(why)) if is_tracked(&web, &name).await? => {
            let body = || html! { p.empty { (text(&why)) } (untrack_form(&request, &name)) };
            return Ok(respond(
                &request,
                &name,
                || json!({"sku": name, "remark": why, "stock_levels": []}),
                body,
            ));
        }
        explained => explained?,
    };
    let now = web.now();
    let body = || {
        html! {
            @if let Some(remark) = &explained.subject.remark { p.banner.note { (text(remark)) } }
            p { a href=(address_with("/journal", &[("sku", &explained.subject.sku)])) { "The exchanges of this SKU" } }
            @for level in &explained.levels { (level_part(&request, &explained.subject.sku, level, now)) }
            (untrack_form(&request, &explained.subject.sku))
        }
    };
    Ok(respond(&request, &explained.subject.sku, || explained.to_json(), body))
}

async fn is_tracked(web: &WebState, name: &str) -> Result<bool, ViewError> {
    let sku = Sku::new(name).map_err(|error| ViewError::Invalid(format!("`{name}`: {error}")))?;
    Ok(!web.store.explain_skus(&sku.case_key()).await?.is_empty() || web.store.is_sku_tracked(name).await?)
}

fn level_part(request: &PageRequest, sku: &str, explained: &StockLevelExplanation, now: Timestamp) -> Markup {
    let level = &explained.level;
    let id = format!("warehouse-{}", level.warehouse_id);
    let name = level.warehouse_name.as_deref().unwrap_or("warehouse");
    let heading = format!("{name} ({})", level.warehouse_id);
    html! {
        (live_part(&id, &heading, &html! {
            p.quantity { (text(&current_state_text(level))) }
            (quantity_chart(explained, &heading, now))
            @for next in &explained.next_steps { p { "Next: " (text(next)) } }
            (changes_table(&explained.history.changes))
            h3 { "History" }
            (timeline(explained))
        }))
        (level_forms(request, sku, explained))
    }
}

fn quantity_chart(explained: &StockLevelExplanation, heading: &str, now: Timestamp) -> Markup {
    let facts = &explained.history.facts;
    let points: Vec<(Timestamp, i64)> =
        facts.iter().filter_map(|fact| Some((Timestamp(fact.since_ms?), fact.quantity))).collect();
    let mut marks = Vec::new();
    for (before, fact) in facts.iter().zip(facts.iter().skip(1)) {
        let Some(at) = fact.since_ms.map(Timestamp) else { continue };
        let own = fact.own_delta - before.own_delta;
        let others = fact.quantity - before.quantity - own;
        let mut mark = |class, title| marks.push(ChartMark { at, value: fact.quantity, class, title });
        if own != 0 {
            mark("mark-ours", format!("our writes {own:+}"));
        }
        if others != 0 {
            mark("mark-others", format!("others {others:+}"));
        }
    }
    for change in &explained.history.changes {
        let (Some(at), Some(written)) = (Timestamp::parse(&change.created_at), change.written) else {
            continue;
        };
        let title = format!("{} {}: {written} written", change.content.kind, change.key);
        marks.push(ChartMark { at, value: written, class: "mark-change", title });
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

fn changes_table(changes: &[ExplainedChange]) -> Markup {
    let row = |change: &ExplainedChange| {
        html! {
            tr {
                th scope="row" { (change_link(&change.key)) }
                td { (text(&change.content.kind)) }
                td { (change.state.replace('_', " ")) }
                td { (optional_text(change.detail.as_deref().or(change.reason.as_deref()))) }
                td { (written_time(Some(&change.created_at))) }
                td { @if let Some(exchange) = change.exchange_id { (exchange_link(exchange)) } }
            }
        }
    };
    html! {
        @if !changes.is_empty() {
            h3 { "Changes" }
            (table("Changes of this stock level, newest first",
                   &["Change", "Kind", "State", "Detail", "Inserted", "Exchange"],
                   &html! { @for change in changes.iter().rev() { (row(change)) } }))
        }
    }
}

fn timeline(explained: &StockLevelExplanation) -> Markup {
    html! {
        @if explained.earlier_steps > 0 { p { (explained.earlier_steps) " earlier steps are not shown." } }
        ol.timeline {
            @for step in explained.steps.iter().rev() {
                li class={ "step-" (step.code) } {
                    (time(Timestamp(step.at_ms))) " "
                    @if let Some(position) = step.position.filter(|position| *position > 0) {
                        a.position href={ "/journal/" (position) } { "#" (position) } " "
                    }
                    (text(&step.text))
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
                    label for={ "seen-" (warehouse) } { "Quantity that this page showed at the count" }
                    input id={ "seen-" (warehouse) } name="seen" type="number" value=[quantity];
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

pub(super) async fn act_on_sku(
    State(web): State<Arc<WebState>>,
    request: PageRequest,
    Path(name): Path<String>,
) -> PageResult {
    let result = match request.form.get("action") {
        Some("count") => match count_body(&request, &name) {
            Ok(body) => web.queue(&request, "quantity.set", &body).await?,
            Err(why) => Err(why),
        },
        Some("adjust") => match adjust_body(&request, &name) {
            Ok(body) => web.queue(&request, "quantity.adjust", &body).await?,
            Err(why) => Err(why),
        },
        Some(action @ ("track" | "untrack")) => match Sku::new(name.as_str()) {
            Err(error) => Err(format!("`{name}`: {error}")),
            Ok(sku) if action == "track" => {
                web.write(async |write| write.tracked_sku_add(&[sku]).await).await?;
                Ok(format!("{name} is tracked"))
            }
            Ok(sku) => match web.write(async |write| write.tracked_sku_remove(&[sku]).await).await? {
                0 => Err(format!("{name} was not tracked")),
                _ => Ok(format!("{name} is no longer tracked")),
            },
        },
        _ => unknown_action(&request),
    };
    // The page of a SKU that was never read ends with its tracking.
    let is_left = request.form.get("action") == Some("untrack") && result.is_ok();
    let to = if is_left { "/stock".to_owned() } else { address("/stock", &name) };
    answer_form(&request, &to, result)
}

fn count_body(request: &PageRequest, sku: &str) -> Result<serde_json::Value, String> {
    let form = &request.form;
    let (warehouse, quantity) = (form.required_number("warehouse")?, form.required_number("quantity")?);
    let counted_at = form.given("counted_at");
    Ok(without_nulls(json!({
        "sku": sku, "warehouse_id": warehouse, "quantity": quantity, "seen": form.number("seen")?,
        "counted_at": counted_at,
    })))
}

fn adjust_body(request: &PageRequest, sku: &str) -> Result<serde_json::Value, String> {
    let (warehouse, delta) =
        (request.form.required_number("warehouse")?, request.form.required_number("delta")?);
    Ok(json!({"sku": sku, "warehouse_id": warehouse, "delta": delta}))
}
