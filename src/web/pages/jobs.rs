//! `/jobs`: the pauses, the runs of the last day as a timeline, the next starts, and a run now.

use crate::model::time::DAY;
use crate::model::{JobKind, Timestamp};
use crate::present::pauses::pause_text;
use crate::present::runs::run_columns;
use crate::present::status::job_health_columns;
use crate::store::{PauseRow, RunRow};
use crate::web::WebState;
use crate::web::chart::{LaneSpan, lanes, legend};
use crate::web::layout::{PageResult, action_button, action_form, listing, live_part, respond, sentence};
use crate::web::request::PageRequest;
use axum::extract::State;
use maud::{Markup, html};
use serde_json::json;
use std::sync::Arc;

const RUNS_IN_TIMELINE: u32 = 3000;
const RUNS_LISTED: usize = 50;

pub(super) async fn show_jobs(State(web): State<Arc<WebState>>, request: PageRequest) -> PageResult {
    let kind = request.query.code::<JobKind>("kind")?;
    let runs = web.store.run_list(kind, RUNS_IN_TIMELINE).await?;
    let now = web.now();
    let (jobs, pauses) = (web.store.job_health(now).await?, web.store.pause_list(now).await?);
    let listed = runs.get(..RUNS_LISTED.min(runs.len())).unwrap_or_default();
    let is_failed = |run: &&RunRow| run.started_ms >= now.minus(DAY).0 && run.outcome == "failed";
    let failed: Vec<RunRow> = runs.iter().filter(is_failed).cloned().collect();
    let body = || {
        html! {
            @if kind.is_some() { p { a href="/jobs" { "All jobs" } } }
            (live_part("pauses", "Pauses", &pause_list(&request, &pauses)))
            (live_part("timeline", "The last 24 hours", &timeline(&runs, failed.len(), now)))
            (live_part("jobs", "Next starts", &listing("Next start of each job", jobs.iter().map(job_health_columns), "No schedule is known: the daemon has never run on this database.")))
            @if request.may_act { section.forms aria-label="Runs and pauses" { (run_form(&request)) (pause_form(&request)) } }
            (live_part("failed", "Failed runs of the last 24 hours", &listing("Failed runs, newest first", failed.iter().take(RUNS_LISTED).map(run_columns), "None.")))
            (live_part("runs", "Last runs", &listing("Runs, newest first", listed.iter().map(run_columns), "None.")))
        }
    };
    Ok(respond(&request, "Jobs", || json!(listed), body))
}

fn timeline(runs: &[RunRow], failed: usize, now: Timestamp) -> Markup {
    let from = now.minus(DAY);
    let mut by_job: Vec<(String, Vec<LaneSpan>)> = Vec::new();
    for kind in JobKind::ALL {
        let of_job = runs.iter().filter(|run| run.job == kind.as_str() && run.started_ms >= from.0);
        let spans: Vec<LaneSpan> = of_job.map(|run| run_span(run, now)).collect();
        if !spans.is_empty() {
            by_job.push((kind.to_string(), spans));
        }
    }
    let all = runs.iter().filter(|run| run.started_ms >= from.0).count();
    let label = format!("{all} runs in the last 24 hours, {failed} of them failed");
    html! {
        @if by_job.is_empty() {
            p.empty { "No job ran in the last 24 hours. Start the daemon, or run a job below." }
        } @else {
            (lanes(&label, &by_job, from, now))
            p { (label) "." }
            (legend(&[("run-ok", "ok"), ("run-partial", "partial or interrupted"), ("run-failed", "failed"), ("run-running", "running")]))
        }
    }
}

fn run_span(run: &RunRow, now: Timestamp) -> LaneSpan {
    let class = match run.outcome.as_str() {
        "ok" => "run-ok",
        "failed" => "run-failed",
        "running" => "run-running",
        _ => "run-partial",
    };
    LaneSpan {
        from: Timestamp(run.started_ms),
        to: run.ended_ms.map_or(now, Timestamp),
        class,
        title: format!("run {} of {}: {}", run.id, run.job, run.outcome),
    }
}

fn run_form(request: &PageRequest) -> Markup {
    action_form(
        request,
        "/jobs",
        &html! {
            label for="job" { "Run a job now" }
            select id="job" name="job" { @for kind in JobKind::ALL { option value=(kind.as_str()) { (kind.as_str()) } } }
            (action_button("run", "Run"))
        },
    )
}

/// The pauses in force, each with the button that ends it.
fn pause_list(request: &PageRequest, pauses: &[PauseRow]) -> Markup {
    html! {
        @if pauses.is_empty() { p.empty { "No job is paused." } }
        @for pause in pauses {
            div.banner.note {
                p { (sentence(&pause_text(pause))) }
                (action_form(request, "/jobs", &html! {
                    input type="hidden" name="job" value=(pause.job);
                    (action_button("resume", &format!("End the pause of {}", pause.job)))
                }))
            }
        }
    }
}

fn pause_form(request: &PageRequest) -> Markup {
    action_form(
        request,
        "/jobs",
        &html! {
            label for="paused-job" { "Pause a job" }
            select id="paused-job" name="job" {
                @for kind in JobKind::ALL { option value=(kind.as_str()) selected[*kind == JobKind::Push] { (kind.as_str()) } }
            }
            label for="for" { "For, such as 30m, 2h or 1d; empty: until somebody ends it" }
            input id="for" name="for" autocomplete="off" size="6";
            label for="why" { "Reason" }
            input id="why" name="why" required autocomplete="off";
            (action_button("pause", "Pause"))
        },
    )
}
