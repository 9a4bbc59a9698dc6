//! `/quota`: the calls of a day by lane and operation, the waits, the bad requests, and the schedules' demand.

use super::home::call_chart;
use crate::exec;
use crate::health::{HealthReport, hold_text};
use crate::model::{Timestamp, format_elapsed};
use crate::present::ViewError;
use crate::present::call_demand::CallDemand;
use crate::store::CallInterval;
use crate::web::WebState;
use crate::web::decisions::{answer_form, success, unknown_action};
use crate::web::layout::{
    PageResult, action_button, action_form, live_part, optional_time, respond, sentence, table,
};
use crate::web::request::PageRequest;
use axum::extract::State;
use maud::{Markup, html};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;

/// An interval of the chart, and their number in a day.
const INTERVAL_MS: i64 = 15 * 60_000;
const INTERVALS: usize = 96;

/// Calls, answers 429 and answers 400 by lane and operation.
type CallSums<'a> = BTreeMap<(&'a str, &'a str), (i64, i64, i64)>;

pub(super) async fn show_quota(State(web): State<Arc<WebState>>, request: PageRequest) -> PageResult {
    let status = web.status().await?;
    let status = status.map_err(|finding| ViewError::Unknown(finding.full_text()))?;
    let now = web.now();
    let calls = web.store.call_intervals(now, INTERVAL_MS, 96).await?;
    let demand = CallDemand::new(&web.config, web.counter.counts().await?.to_read);
    let mut sums = CallSums::new();
    for row in &calls {
        let sum = sums.entry((&row.lane, &row.operation)).or_default();
        *sum = (sum.0 + row.calls, sum.1 + row.throttled, sum.2 + row.bad_requests);
    }
    let limit = status.call_budget.limit;
    let body = || {
        html! {
            (live_part("waits", "Waits", &waits(&request, &status.health, now)))
            (live_part("day", "Calls of the last 24 hours", &html! {
                (call_chart(&calls, INTERVALS, INTERVAL_MS, limit, now))
                (sum_table(&sums))
            }))
            (live_part("bad", "Bad requests", &bad_requests(&status.health)))
            (live_part("demand", "The schedules' demand", &demand_table(&demand)))
        }
    };
    let data = || {
        let sum = |(key, sum): (&(&str, &str), &(i64, i64, i64))| json!({"lane": key.0, "operation": key.1, "calls": sum.0, "throttled": sum.1, "bad_requests": sum.2});
        let intervals: &[CallInterval] = &calls;
        json!({"budget": status.call_budget.to_json(&status.health), "intervals": intervals,
               "last_24_h": sums.iter().map(sum).collect::<Vec<_>>()})
    };
    Ok(respond(&request, "Quota", data, body))
}

fn waits(request: &PageRequest, health: &HealthReport, now: Timestamp) -> Markup {
    html! {
        @if health.quota.holds.is_empty() && health.quota.reads_only_until.is_none() {
            p.empty { "Nothing waits." }
        }
        @for hold in &health.quota.holds { p { (sentence(&hold_text(hold, now))) } }
        @if let Some(until) = health.quota.reads_only_until {
            p { "Only reads are sent until " (optional_time(Some(until.0))) "." }
        }
        @if !health.quota.holds.is_empty() {
            (action_form(request, "/quota", &action_button("lift", "End the platform's wait, which it ordered by mistake")))
        }
        @if health.quota.share_permille < 1000 {
            p { "Other software uses the account: " (health.quota.share_permille / 10) " % of the limit is used." }
        }
    }
}

fn sum_table(sums: &CallSums<'_>) -> Markup {
    html! {
        @if sums.is_empty() { p.empty { "No call in the last 24 hours." } }
        @else {
            (table("Calls by lane and operation", &["Lane", "Operation", "#Calls", "#Answered 429", "#Answered 400"], &html! {
                @for ((lane, operation), (calls, throttled, bad)) in sums {
                    tr { th scope="row" { (lane) } td { (operation) } td.number { (calls) }
                         td.number { (throttled) } td.number { (bad) } }
                }
            }))
        }
    }
}

fn bad_requests(health: &HealthReport) -> Markup {
    let budget = &health.bad_requests;
    html! {
        p { (budget.count) " answers of 400 in 24 h, " (budget.last_hour) " in the last hour. Bulk pushes stop at "
            (budget.soft) ", requests that had a 400 at " (budget.hard) "." }
        @if let Some(at) = budget.soft_at { p { "At this rate bulk pushes stop at " (optional_time(Some(at.0))) "." } }
    }
}

fn demand_table(demand: &CallDemand) -> Markup {
    let fit = &demand.fit;
    html! {
        @if fit.rows.is_empty() { p.empty { "Nothing is tracked yet, so no job reads anything." } }
        @else {
            (table("Calls that the schedules ask for",
                   &["Job", "#Calls per run", "#Calls per minute", "#Granted", "Maximum age"], &html! {
                @for row in &fit.rows {
                    tr { th scope="row" { (row.kind) } td.number { (format!("{:.0}", row.calls)) }
                         td.number { (format!("{:.1}", row.requested)) } td.number { (format!("{:.1}", row.granted)) }
                         td { (format_elapsed(row.max_age)) } }
                }
            }))
            p { "The schedules need " (format!("{:.1}", fit.requested)) " calls a minute for " (demand.work.skus)
                " SKUs, " (demand.work.orders) " open orders and " (demand.work.shipments) " shipments; "
                (demand.bulk) " are available." }
        }
        @if let Some(first) = fit.skipped_first {
            p.banner.trouble { "The schedules do not fit into the quota: " (first) " loses calls first. Give " (first)
                " a longer interval, or read more SKUs per call." }
        }
    }
}

pub(super) async fn act_on_quota(State(web): State<Arc<WebState>>, request: PageRequest) -> PageResult {
    let now = web.now();
    let result = match request.form.get("action") {
        Some("lift") => match exec::lift_wait(&web.store, now).await? {
            Some(wait) => success(format!(
                "ended: {}; if the wait was intended, the platform orders it again",
                hold_text(&wait, now)
            )),
            None => Err("no wait of the account is in force".into()),
        },
        _ => unknown_action(&request),
    };
    answer_form(&request, "/quota", result)
}
