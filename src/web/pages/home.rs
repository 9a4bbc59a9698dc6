//! `/`: the health, the age of the data, the calls of the last hour, and what needs a person.

use crate::health::{Finding, FindingCode};
use crate::model::{Timestamp, in_words};
use crate::present::call_budget::MINUTE_MS;
use crate::present::change::STATE_ORDER;
use crate::present::listing::{ListedSubject, age_cell, columns, sentence_cell, time_cell};
use crate::present::status::{StatusReport, job_health_columns};
use crate::store::{CallInterval, ChangeRow, MirrorCounts, UnitsAtRisk, UnitsTakenRow};
use crate::web::WebState;
use crate::web::chart::{ChartBar, legend, stacked_bars};
use crate::web::layout::{PageResult, address_with, finding_block, listing, live_part, respond};
use crate::web::request::PageRequest;
use axum::extract::State;
use maud::{Markup, html};
use std::sync::Arc;

const NEEDING_MAX: u32 = 20;
/// Lanes in the order of their parts in a bar, each with its class.
pub(super) const LANES: [(&str, &str); 4] =
    [("probe", "lane-probe"), ("operator", "lane-operator"), ("push", "lane-push"), ("poll", "lane-poll")];

pub(super) async fn show_home(State(web): State<Arc<WebState>>, request: PageRequest) -> PageResult {
    let status = StatusReport::load(&web.config, &*web.clock, &web.store, request.health.clone()).await?;
    let now = web.now();
    let mut needing = Vec::new();
    for state in &STATE_ORDER[..3] {
        needing.extend(web.store.outbox_oldest(state.as_str(), None, None, 0, NEEDING_MAX).await?);
    }
    needing.sort_by(|a, b| a.created_at.cmp(&b.created_at));
    needing.truncate(NEEDING_MAX as usize);
    let body = || {
        html! {
            (live_part("state", "State", &banner(&status.health.findings)))
            (live_part("figures", "In the mirror", &mirror(&status.counts)))
            (live_part("needs", "Needs a person", &needs(&needing, now)))
            (live_part("changes", "Changes by state", &states(&status.health.rows.changes)))
            (live_part("risk", "Units at risk", &units_at_risk(&status.units_at_risk)))
            (live_part("ages", "Age of the data", &listing("Age of each job's data", status.health.rows.jobs.iter().map(job_health_columns), "The daemon has never run on this database: start it.")))
            (live_part("calls", "Calls of the last hour", &call_chart(&status.call_budget.calls, 60, MINUTE_MS, status.call_budget.limit, now)))
        }
    };
    Ok(respond(&request, "Overview", || status.to_json(), body))
}

/// The findings that `status` prints, pauses first, then its verdict, then the notes.
fn banner(findings: &[Finding]) -> Markup {
    let is_shown = |found: &&Finding| found.needs_operator() || found.code == FindingCode::Paused;
    let (shown, notes): (Vec<_>, Vec<_>) = findings.iter().partition(is_shown);
    html! {
        @for finding in &shown { (finding_block(finding)) }
        @if !shown.iter().any(|finding| finding.needs_operator()) {
            p.banner.well { @if shown.is_empty() { "all is well" } @else { "all else is well" } }
        }
        @for finding in notes { (finding_block(finding)) }
    }
}

/// Counts with their names; each leads to the page of what is counted.
fn figures<'a>(counts: impl IntoIterator<Item = (&'a str, i64, String)>) -> Markup {
    html! {
        dl.figures {
            @for (name, count, address) in counts { div { dt { (in_words(name)) } dd { a href=(address) { (count) } } } }
        }
    }
}

fn mirror(counts: &MirrorCounts) -> Markup {
    html! {
        (figures([
            ("SKUs", counts.skus, "/stock".into()),
            ("Stock levels", counts.stock_levels, "/stock".into()),
            ("Orders", counts.orders, "/orders".into()),
            ("Missing SKUs", counts.missing_skus, "/stock?state=missing".into()),
            ("Parked records", counts.parked, "/journal".into()),
        ]))
        @if counts.skus == 0 {
            p.empty { "Nothing is mirrored yet. " a href="/stock" { "Track a SKU" } " first; the daemon then reads it." }
        }
    }
}

fn needs(rows: &[ChangeRow], now: Timestamp) -> Markup {
    let row = |change: &ChangeRow| {
        columns! {
            "change": ListedSubject::Change.cell(&change.key), "state": in_words(change.state.as_str()),
            "reason": sentence_cell(change.detail.as_deref().or(change.reason.as_deref())),
            "inserted": age_cell(Some(&change.created_at), now),
        }
    };
    listing(
        "Changes that need a person, oldest first",
        rows.iter().map(row),
        "No change waits for a decision.",
    )
}

fn states(rows: &[(String, i64)]) -> Markup {
    let address = |state: &str| address_with("/outbox", &[("state", state)]);
    html! {
        @if rows.is_empty() {
            p.empty { "The outbox is empty. Count or adjust a stock level on the page of its SKU." }
        } @else {
            (figures(rows.iter().map(|(state, count)| (state.as_str(), *count, address(state)))))
        }
    }
}

/// Units that others took within a day while changes of ours waited.
fn units_at_risk(risk: &UnitsAtRisk) -> Markup {
    let row = |level: &UnitsTakenRow| {
        columns! {
            "sku": ListedSubject::Sku.cell(&level.sku), "warehouse": level.warehouse_id, "units": level.units,
            "last seen": time_cell(Some(&level.seen_at)),
        }
    };
    let nothing = "Within 24 hours others took no unit while a change waited.";
    html! {
        @if !risk.stock_levels.is_empty() {
            p { strong { (risk.units) } " units of " (risk.affected)
                " stock levels were taken by others within 24 hours, between our read and our write." }
        }
        (listing("Stock levels of which most was taken", risk.stock_levels.iter().map(row), nothing))
    }
}

/// Calls by lane in `count` intervals, with marks for answers 429 and 400.
pub(super) fn call_chart(
    calls: &[CallInterval],
    count: usize,
    interval_ms: i64,
    limit_per_minute: u32,
    now: Timestamp,
) -> Markup {
    let mut bars: Vec<ChartBar> = (0..count).map(|_| ChartBar::default()).collect();
    let (mut all, mut throttled, mut bad) = (0, 0, 0);
    for row in calls {
        let index = usize::try_from(row.ago).ok().and_then(|ago| count.checked_sub(ago + 1));
        let Some(bar) = index.and_then(|index| bars.get_mut(index)) else { continue };
        let class = LANES.iter().find(|(lane, _)| *lane == row.lane).map_or("lane-poll", |(_, class)| *class);
        bar.parts.push((class, u32::try_from(row.calls).unwrap_or(u32::MAX)));
        for (mark, count) in [("mark-429", row.throttled), ("mark-400", row.bad_requests)] {
            if count > 0 && !bar.marks.contains(&mark) {
                bar.marks.push(mark);
            }
        }
        let at = Timestamp(now.0 - interval_ms * row.ago);
        bar.title.push_str(&format!(
            "{} {} {}: {}\n",
            at.to_datetime().format("%H:%M UTC"),
            row.lane,
            row.operation,
            row.calls
        ));
        (all, throttled, bad) = (all + row.calls, throttled + row.throttled, bad + row.bad_requests);
    }
    let minutes = u32::try_from(interval_ms / MINUTE_MS).unwrap_or(1);
    let limit = limit_per_minute.saturating_mul(minutes);
    let summary = format!(
        "{all} calls, {throttled} answered 429, {bad} answered 400; the limit is {limit_per_minute} a minute"
    );
    html! {
        (stacked_bars(&summary, &bars, limit))
        p { (summary) "." }
        (legend(&[("lane-probe", "probe"), ("lane-operator", "operator"), ("lane-push", "push"), ("lane-poll", "poll"),
                  ("mark-429", "answered 429"), ("mark-400", "answered 400")]))
    }
}
