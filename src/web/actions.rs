//! The forms of the pages: the action of each, by the page and the button.
//!
//! The browser loads the page of the form again, which shows the result.

use super::WebState;
use super::access::PageNotice;
use super::decisions::{ActionResult, answer_form, success};
use super::layout::{PageResult, address_with};
use super::request::PageRequest;
use crate::daemon::{ControlRequest, RunResult, send_control_request};
use crate::exec::RunArgs;
use crate::model::{JobKind, OrderId, Quantity, ShipmentId};
use crate::outbox::Resolution;
use crate::present::ViewError;
use crate::present::call_budget::lift_wait;
use crate::present::decisions::{KeyDecision, release_all, resolve};
use crate::present::pauses::{parse_pause_duration, parse_pause_reason, pause_jobs, resume_job};
use crate::present::queue::without_nulls;
use crate::present::tracked::{parse_sku, track_orders, track_skus, untrack_skus};
use crate::store::TransitionRow;
use axum::extract::State;
use serde_json::{Value, json};
use std::slice;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Time for which a form waits for a run; a longer run goes on.
const RUN_WAIT: Duration = Duration::from_secs(10);

pub(super) async fn act(State(web): State<Arc<WebState>>, request: PageRequest) -> PageResult {
    // The page of a SKU that was never read ends with its tracking.
    let to = match request.form.get("action") {
        Some("untrack") => "/stock".to_owned(),
        _ => address_with(&request.path, &request.query.pairs().collect::<Vec<_>>()),
    };
    answer_form(&request, &to, do_action(&web, &request)).await
}

async fn do_action(web: &WebState, request: &PageRequest) -> ActionResult {
    let (form, store, now) = (&request.form, &web.store, web.now());
    let sku = || parse_sku(form.given("sku").unwrap_or(&request.name));
    let job = || form.code::<JobKind>("job")?.ok_or_else(|| ViewError::Invalid("name a job".into()));
    let page = request.path.split('/').nth(1).unwrap_or_default();
    let (kind, body) = match (page, form.get("action").unwrap_or_default()) {
        ("stock", "track") => return success(track_skus(store, &[sku()?]).await?),
        ("stock", "untrack") => return success(untrack_skus(store, &[sku()?]).await?),
        ("stock", "count") => {
            let (warehouse, quantity) =
                (form.required_number("warehouse")?, form.required_number("quantity")?);
            let (seen, counted_at) = (form.number("seen")?, form.given("counted_at"));
            let body = json!({
                "sku": request.name, "warehouse_id": warehouse, "quantity": quantity, "seen": seen,
                "counted_at": counted_at,
            });
            ("quantity.set", body)
        }
        ("stock", "adjust") => {
            let (warehouse, delta) = (form.required_number("warehouse")?, form.required_number("delta")?);
            ("quantity.adjust", json!({"sku": request.name, "warehouse_id": warehouse, "delta": delta}))
        }
        ("orders", "track") => {
            let order = OrderId(form.required_id("order")?);
            return success(track_orders(store, &[order], true).await?);
        }
        ("orders", "ship") => ("shipment.create", ship_body(request)?),
        ("orders", "tracking") => {
            let (shipment, carrier) = (form.required_number("shipment")?, form.number("carrier")?);
            let (number, url) = (form.given("tracking"), form.given("url"));
            let body = json!({
                "shipment_id": shipment, "tracking_number": number, "carrier_id": carrier, "tracking_url": url,
            });
            ("tracking.submit", body)
        }
        ("outbox", action) => return decide_changes(web, request, action).await,
        ("jobs", "run") => return run_now(web, job()?).await,
        ("jobs", "pause") => return pause(web, request, job()?).await,
        ("jobs", "resume") => return success(resume_job(store, job()?, now).await?),
        ("quota", "lift") => return success(lift_wait(store, now).await?),
        (_, action) => return Err(unknown_action(action)),
    };
    web.queue(request, kind, &without_nulls(body)).await
}

fn unknown_action(action: &str) -> ViewError {
    ViewError::Refused(format!("there is no action `{action}`"))
}

pub(super) fn parse_order(id: &str) -> Result<OrderId, ViewError> {
    let parsed = id.parse().ok().filter(|id| *id > 0).map(OrderId);
    parsed.ok_or_else(|| ViewError::Unknown("an order is named by its id, a whole number".into()))
}

fn ship_body(request: &PageRequest) -> Result<Value, ViewError> {
    let order = parse_order(&request.name)?;
    let mut lines = Vec::new();
    for (name, value) in request.form.pairs().filter(|(_, value)| !value.trim().is_empty()) {
        let Some(id) = name.strip_prefix("line-").and_then(|id| id.parse::<i64>().ok()) else { continue };
        let wrong = |_| ViewError::Invalid(format!("`{value}` is no number of units"));
        let quantity: i64 = value.trim().parse().map_err(wrong)?;
        lines.push(json!({"line_item_id": id, "quantity": quantity}));
    }
    let lines = if lines.is_empty() { Value::Null } else { lines.into() };
    Ok(json!({"order_id": order, "lines": lines}))
}

/// Decides on the change of the page, or on those that are selected in the list.
async fn decide_changes(web: &WebState, request: &PageRequest, action: &str) -> ActionResult {
    let (key, form, store) = (&request.name, &request.form, &web.store);
    if let (Some(shown), Some(change)) = (form.number("shown")?, store.outbox_show(key).await?)
        && last_move(&store.change_transitions(change.id).await?) != shown
    {
        let why =
            format!("`{key}` has moved on since this page was loaded; see its state, then decide again");
        return Err(ViewError::Refused(why));
    }
    match KeyDecision::from_verb(action) {
        Some(decision) if key.is_empty() => web.decide(decision, &form.all("key")).await,
        Some(decision) => web.decide(decision, slice::from_ref(key)).await,
        None if action == "release-all" => success(release_all(store, web.now()).await?),
        None => {
            let (resolution, max_base_age) =
                (parse_resolution(request, action)?, web.config.quantities.max_base_age);
            success(resolve(store, key, resolution, max_base_age, web.now()).await?)
        }
    }
}

/// Returns the position of the last move, by which a form knows that its change has not moved since.
pub(super) fn last_move(moves: &[TransitionRow]) -> i64 {
    moves.last().map_or(0, |row| row.position)
}

fn parse_resolution(request: &PageRequest, action: &str) -> Result<Resolution, ViewError> {
    Ok(match action {
        "mine" => Resolution::Mine,
        "theirs" => Resolution::Theirs,
        "done" => Resolution::TookEffect,
        "not-done" => Resolution::HadNoEffect,
        "number" => match Quantity(request.form.required_number("number")?) {
            number if (Quantity(0)..=Quantity::MAX).contains(&number) => Resolution::Exactly(number),
            _ => {
                let why = format!("a quantity is a number from 0 to {}", Quantity::MAX);
                return Err(ViewError::Invalid(why));
            }
        },
        "shipment" => Resolution::Shipment(ShipmentId(request.form.required_id("shipment")?)),
        _ => return Err(unknown_action(action)),
    })
}

async fn pause(web: &WebState, request: &PageRequest, kind: JobKind) -> ActionResult {
    let duration = request.form.given("for").map(parse_pause_duration).transpose();
    let duration = duration.map_err(|why| ViewError::Invalid(format!("`for`: {why}")))?;
    let why = parse_pause_reason(request.form.get("why").unwrap_or_default()).map_err(ViewError::Invalid)?;
    let paused = pause_jobs(&web.store, &[kind], (duration, &why), web.now()).await?;
    success(if paused.is_empty() { vec![format!("{kind} was resumed at once")] } else { paused })
}

async fn run_now(web: &WebState, kind: JobKind) -> ActionResult {
    let control = ControlRequest::RunJob { job: kind.as_str().into(), input: RunArgs::default() };
    let (config, clock) = (web.config.clone(), Arc::clone(&web.clock));
    let run = async move { send_control_request::<RunResult>(config, clock, &control).await };
    // The request goes on when nobody waits for it, so that its row is removed.
    let asked = tokio::spawn(run);
    match timeout(RUN_WAIT, asked).await {
        Err(_) => success(vec![format!("{kind} takes longer; its run is listed below")]),
        Ok(Err(error)) => Err(ViewError::Refused(format!("{kind} was not run: {error}"))),
        Ok(Ok(Err(error))) => Err(ViewError::Refused(format!("{kind} was not run: {error}"))),
        Ok(Ok(Ok(RunResult { is_good, outcome, summary, .. }))) => {
            Ok(PageNotice { is_done: is_good, text: format!("{kind}: {outcome}: {summary}") })
        }
    }
}
