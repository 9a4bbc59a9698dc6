//! `/quota`: the calls of a day by lane and operation, the waits, the bad requests, and the schedules' demand.

use super::home::call_chart;
use crate::present::call_budget::{CallBudgetReport, CallSum, budget_sentences, sum_calls};
use crate::present::call_demand::{CallDemand, allotment_columns};
use crate::present::listing::columns;
use crate::store::CallInterval;
use crate::web::WebState;
use crate::web::layout::{PageResult, action_button, action_form, listing, live_part, respond, sentence};
use crate::web::request::PageRequest;
use axum::extract::State;
use maud::{Markup, html};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;

const INTERVAL_MS: i64 = 15 * 60_000;

pub(super) async fn show_quota(State(web): State<Arc<WebState>>, request: PageRequest) -> PageResult {
    let now = web.now();
    let health = &request.health;
    let budget = CallBudgetReport::read(&web.config, &web.store, now).await?;
    let calls = web.store.call_intervals(now, INTERVAL_MS, 96).await?;
    let demand = CallDemand::load(&web.config, &web.store, now).await?;
    let sums = sum_calls(&calls, |row| (row.lane.as_str(), row.operation.as_str()));
    let body = || {
        html! {
            (live_part("waits", "Calls, waits and bad requests", &waits(&request, &budget)))
            (live_part("day", "Calls of the last 24 hours", &html! {
                (call_chart(&calls, 96, INTERVAL_MS, budget.limit, now))
                (sum_table(&sums))
            }))
            (live_part("demand", "The schedules' demand", &html! {
                (listing("Calls that the schedules ask for", demand.rows.iter().map(allotment_columns), "Nothing is tracked yet, so no job reads anything."))
                p { (demand.sentence()) "." }
                @if let Some(warning) = demand.warning() { p.banner.trouble { (warning) "." } }
            }))
        }
    };
    let data = || {
        let sum = |(key, sum): (&(&str, &str), &CallSum)| json!({"lane": key.0, "operation": key.1, "calls": sum.0, "throttled": sum.1, "bad_requests": sum.2});
        let intervals: &[CallInterval] = &calls;
        json!({"budget": budget.to_json(health), "intervals": intervals,
               "last_24_h": sums.iter().map(sum).collect::<Vec<_>>()})
    };
    Ok(respond(&request, "Quota", data, body))
}

fn waits(request: &PageRequest, budget: &CallBudgetReport) -> Markup {
    html! {
        @for one in budget_sentences(budget, &request.health) { p { (sentence(&one)) "." } }
        @if !request.health.quota.holds.is_empty() {
            (action_form(request, "/quota", &action_button("lift", "End the platform's wait, which it ordered by mistake")))
        }
    }
}

fn sum_table(sums: &BTreeMap<(&str, &str), CallSum>) -> Markup {
    let rows = sums.iter().map(|((lane, operation), (calls, throttled, bad))| {
        columns! {
            "lane": lane, "operation": operation, "calls": calls, "answered 429": throttled,
            "answered 400": bad,
        }
    });
    listing("Calls by lane and operation", rows, "No call in the last 24 hours.")
}
