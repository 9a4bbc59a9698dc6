//! `/`: the health, the age of the data, the calls of the last hour, and what needs a person.

use crate::health::{Finding, FindingCode};
use crate::model::{Timestamp, format_age};
use crate::present::change::STATE_ORDER;
use crate::present::listing::{ListColumns, ListedSubject, age_cell, columns, sentence_cell, time_cell};
use crate::present::status::{StatusReport, replaced_json};
use crate::store::{CallInterval, ChangeRow, JobHealthRow, UnitsAtRisk, UnitsTakenRow};
use crate::web::WebState;
use crate::web::chart::{ChartBar, legend, stacked_bars};
use crate::web::layout::{
    PageResult, address, address_with, cell, in_words, listing, live_part, respond, sentence, table,
};
use crate::web::request::PageRequest;
use axum::extract::State;
use maud::{Markup, html};
use std::sync::Arc;

const MINUTE_MS: i64 = 60_000;
const MINUTES: usize = 60;
const NEEDING_MAX: u32 = 20;
/// Lanes in the order of their parts in a bar, each with its class.
pub(super) const LANES: [(&str, &str); 4] =
    [("probe", "lane-probe"), ("operator", "lane-operator"), ("push", "lane-push"), ("poll", "lane-poll")];

pub(super) async fn show_home(State(web): State<Arc<WebState>>, request: PageRequest) -> PageResult {
    let status = match web.status().await? {
        Ok(status) => status,
        Err(finding) => {
            let (data, body) = (|| replaced_json(&finding), || banner(std::slice::from_ref(&finding)));
            return Ok(respond(&request, "Overview", data, body));
        }
    };
    let now = web.now();
    let calls = web.store.call_intervals(now, MINUTE_MS, 60).await?;
    let mut needing = Vec::new();
    for state in &STATE_ORDER[..3] {
        needing.extend(web.store.outbox_oldest(state.as_str(), None, None, 0, NEEDING_MAX).await?);
    }
    needing.sort_by(|a, b| a.created_at.cmp(&b.created_at));
    needing.truncate(NEEDING_MAX as usize);
    let body = || {
        html! {
            (live_part("state", "State", &banner(&status.health.findings)))
            (live_part("figures", "In the mirror", &figures(&status)))
            (live_part("needs", "Needs a person", &needs(&needing, now)))
            (live_part("changes", "Changes by state", &states(&status)))
            (live_part("risk", "Units at risk", &units_at_risk(&status.units_at_risk)))
            (live_part("ages", "Age of the data", &ages(&status.health.rows.jobs)))
            (live_part("calls", "Calls of the last hour", &call_chart(&calls, MINUTES, MINUTE_MS, status.call_budget.limit, now)))
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

pub(in crate::web) fn finding_block(finding: &Finding) -> Markup {
    let class = if finding.needs_operator() { "trouble" } else { "note" };
    html! {
        div.banner.(class) data-finding=(finding.code) {
            p { strong { (sentence(&finding.text)) } }
            p { (sentence(&finding.what_to_do)) }
            @if !finding.consequences.is_empty() {
                ul { @for found in &finding.consequences { li data-finding=(found.code) { (sentence(&found.text)) } } }
            }
            @if let Some((address, label)) = remedy(finding) { p { a.button href=(address) { (label) } } }
        }
    }
}

fn remedy(finding: &Finding) -> Option<(String, &'static str)> {
    use FindingCode as Code;
    let outbox = |state| address_with("/outbox", &[("state", state)]);
    Some(match finding.code {
        Code::Held | Code::Restored => (outbox("held"), "Decide on the held changes"),
        Code::InDoubt => (outbox("in_doubt"), "See the changes in doubt"),
        Code::Rejected => (outbox("rejected"), "See the rejected changes"),
        Code::Waiting => (outbox("pending"), "See the pending changes"),
        Code::NotShown => (address_with("/stock", &[("state", "conflict")]), "See the stock levels"),
        Code::MissingSkus => (address_with("/stock", &[("state", "missing")]), "See the missing SKUs"),
        Code::QuotaHold | Code::ReadsOnly | Code::BadRequests => ("/quota".into(), "See the quota"),
        Code::Paused => ("/jobs".into(), "See the pauses, and end one"),
        Code::Stale | Code::BackupOld | Code::NotPruned => ("/jobs".into(), "See the jobs, and run one now"),
        Code::PushFails => (address_with("/jobs", &[("kind", "push")]), "See the pushes"),
        Code::Unreachable | Code::CallsFail | Code::KeyRefused | Code::Unreadable => {
            ("/journal".into(), "See the last calls")
        }
        Code::Quarantined => match finding.subjects.first() {
            Some(entry) => (address("/stock", entry), "See the first entry"),
            None => return None,
        },
        Code::NothingTracked => ("/stock".into(), "Track a SKU"),
        Code::DatabaseReplaced
        | Code::OtherAccount
        | Code::NoDaemon
        | Code::StandbyAway
        | Code::DiskLow
        | Code::FileUnwritten => return None,
    })
}

fn figures(status: &StatusReport) -> Markup {
    let counts = &status.counts;
    let figure = |name: &str, value: i64, address: &str| {
        html! { div { dt { (name) } dd { a href=(address) { (value) } } } }
    };
    html! {
        dl.figures {
            (figure("SKUs", counts.skus, "/stock"))
            (figure("Stock levels", counts.stock_levels, "/stock"))
            (figure("Orders", counts.orders, "/orders"))
            (figure("Missing SKUs", counts.missing_skus, "/stock?state=missing"))
            (figure("Parked records", counts.parked, "/journal"))
        }
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
    let rows: Vec<ListColumns> = rows.iter().map(row).collect();
    listing("Changes that need a person, oldest first", &rows, "No change waits for a decision.")
}

fn states(status: &StatusReport) -> Markup {
    let rows = &status.health.rows.changes;
    html! {
        @if rows.is_empty() {
            p.empty { "The outbox is empty. Count or adjust a stock level on the page of its SKU." }
        } @else {
            dl.figures {
                @for (state, count) in rows {
                    div { dt { (in_words(state)) }
                          dd { a href=(address_with("/outbox", &[("state", state)])) { (count) } } }
                }
            }
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
    let rows: Vec<ListColumns> = risk.stock_levels.iter().map(row).collect();
    let nothing = "Within 24 hours others took no unit while a change waited.";
    html! {
        @if !risk.stock_levels.is_empty() {
            p { strong { (risk.units) } " units of " (risk.affected)
                " stock levels were taken by others within 24 hours, between our read and our write." }
        }
        (listing("Stock levels of which most was taken", &rows, nothing))
    }
}

fn ages(jobs: &[JobHealthRow]) -> Markup {
    let row = |job: &JobHealthRow| {
        let (seconds, limit) = (job.age_seconds, job.interval_ms.map(|interval| 2 * interval / 1000));
        html! {
            tr.stale[job.stale] {
                th scope="row" { a href=(address_with("/jobs", &[("kind", &job.job)])) { (job.job) } }
                td { @match seconds { Some(seconds) => (format_age(seconds)), None => "never read" } }
                td {
                    @if let (Some(seconds), Some(limit)) = (seconds, limit) {
                        meter min="0" max=(limit) high=(limit - limit / 10) value=(seconds.clamp(0, limit))
                            aria-label={ "age of " (job.job) " against its limit" } {}
                    }
                    @if let Some(limit) = limit { " " (format_age(limit)) }
                }
                td { (cell(&time_cell(job.next_due_at.as_deref()))) }
                td { (cell(&job.last_outcome)) }
            }
        }
    };
    let headings = ["Job", "Age", "Limit", "Next start", "Last outcome"];
    let nothing = "The daemon has never run on this database: start it.";
    table("Age of each job's data", &headings, nothing, jobs.iter().map(row))
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
        if row.throttled > 0 && !bar.marks.contains(&"mark-429") {
            bar.marks.push("mark-429");
        }
        if row.bad_requests > 0 && !bar.marks.contains(&"mark-400") {
            bar.marks.push("mark-400");
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
