//! The pages, one file each, and their addresses.

mod change;
mod home;
mod jobs;
mod journal;
mod order;
mod orders;
mod outbox;
mod quota;
mod run;
mod sku;
mod stock;

use super::WebState;
use super::actions::act;
use super::guard::guard;
use super::layout::PageFailure;
use super::live::stream_events;
use axum::Router;
use axum::http::header;
use axum::middleware::from_fn_with_state;
use axum::response::IntoResponse;
use axum::routing::get;
use std::sync::Arc;

const STYLE: &str = include_str!("../assets/style.css");
const SCRIPT: &str = include_str!("../assets/script.js");

pub(super) fn router(web: Arc<WebState>) -> Router {
    Router::new()
        .route("/", get(home::show_home))
        .route("/stock", get(stock::show_stock).post(act))
        .route("/stock/", get(sku::show_sku).post(act))
        .route("/stock/{sku}", get(sku::show_sku).post(act))
        .route("/outbox", get(outbox::show_outbox).post(act))
        .route("/outbox/", get(change::show_change).post(act))
        .route("/outbox/{key}", get(change::show_change).post(act))
        .route("/orders", get(orders::show_orders).post(act))
        .route("/orders/{id}", get(order::show_order).post(act))
        .route("/jobs", get(jobs::show_jobs).post(act))
        .route("/jobs/{run}", get(run::show_run))
        .route("/journal", get(journal::show_journal))
        .route("/journal/{position}", get(journal::show_entry))
        .route("/quota", get(quota::show_quota).post(act))
        .route("/events", get(stream_events))
        .route("/style.css", get(|| asset("text/css; charset=utf-8", STYLE)))
        .route("/script.js", get(|| asset("text/javascript; charset=utf-8", SCRIPT)))
        .fallback(|| async { PageFailure::not_found("there is no page at this address") })
        .layer(from_fn_with_state(Arc::clone(&web), guard))
        .with_state(web)
}

/// Returns a file of this program. Its address names the version, so a browser may keep it.
async fn asset(kind: &'static str, text: &'static str) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "private, max-age=86400")], text)
}
