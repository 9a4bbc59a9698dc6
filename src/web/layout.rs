//! The frame of a page, and its small parts: findings, links, texts, times, forms.

use super::access::{PageNotice, locked, random_text};
use super::request::{FormFields, PageRequest};
use crate::health::{Finding, FindingCode};
use crate::model::{Timestamp, format_elapsed, in_words};
use crate::present::ViewError;
use crate::present::listing::{ListCell, ListColumns, ListedSubject, ListedValue, field_cells};
use crate::present::sentence::{SentencePart, sentence_parts};
use crate::telemetry::{event, plain_json, plain_line};
use axum::Extension;
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use maud::{DOCTYPE, Markup, html};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

/// Characters of a path's segment that are encoded: all but the unreserved ones, so `/` too.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Rows of a page of a list.
pub(super) const ROWS_SHOWN: u32 = 200;
const SECTIONS: [(&str, &str); 7] = [
    ("/", "Overview"),
    ("/stock", "Stock"),
    ("/outbox", "Outbox"),
    ("/orders", "Orders"),
    ("/jobs", "Jobs"),
    ("/journal", "Journal"),
    ("/quota", "Quota"),
];

/// A page that cannot be shown. It is an extension of its answer, so that a request for data gets data.
#[derive(Clone, Debug)]
pub(super) struct PageFailure(StatusCode, String);

pub(super) type PageResult = Result<Response, PageFailure>;

impl PageFailure {
    pub(super) fn not_found(text: impl Into<String>) -> Self {
        Self(StatusCode::NOT_FOUND, text.into())
    }

    pub(super) fn to_json(&self) -> Response {
        json_response(self.0, &json!({"error": self.1}))
    }
}

impl<E: Into<ViewError>> From<E> for PageFailure {
    fn from(error: E) -> Self {
        match error.into() {
            ViewError::Unknown(text) => Self::not_found(text),
            ViewError::Invalid(text) => Self(StatusCode::BAD_REQUEST, text),
            ViewError::Refused(text) => Self(StatusCode::CONFLICT, text),
            error => {
                tracing::error!(event = event::WEB_FAILED, "a page cannot be made: {error}");
                Self(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
            }
        }
    }
}

impl IntoResponse for PageFailure {
    fn into_response(self) -> Response {
        let Self(status, why) = &self;
        let title = status.canonical_reason().unwrap_or("Error");
        let page =
            frame(title, None, &html! { p { (sentence(why)) } p { a href="/" { "To the overview" } } });
        (*status, Extension(self.clone()), Html(page.into_string())).into_response()
    }
}

pub(super) fn respond(
    request: &PageRequest,
    title: &str,
    data: impl FnOnce() -> Value,
    body: impl FnOnce() -> Markup,
) -> Response {
    if request.wants_json {
        return json_response(StatusCode::OK, &data());
    }
    let notice = if request.is_refresh { None } else { locked(&request.session.notice).take() };
    let body = html! {
        @if let Some(PageNotice { is_done, text: result }) = notice {
            // Green says that nothing is left to do.
            p.notice.refused[!is_done].note[!request.findings().is_empty()] role="status" { (sentence(&result)) }
        }
        @if request.path != "/" {
            div id="findings" data-live { @for finding in request.findings() { (finding_block(finding)) } }
        }
        (body())
    };
    Html(frame(title, Some(request), &body).into_string()).into_response()
}

pub(super) fn json_response(status: StatusCode, data: &Value) -> Response {
    let body = plain_json(&format!("{data:#}\n")).into_owned();
    (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}

fn frame(title: &str, request: Option<&PageRequest>, body: &Markup) -> Markup {
    let section = request.and_then(|request| request.path.split('/').nth(1));
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                title { (plain_line(title)) " · tallyd" }
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                link rel="icon" href="data:,";
                link rel="stylesheet" href=(concat!("/style.css?v=", env!("CARGO_PKG_VERSION")));
                script src=(concat!("/script.js?v=", env!("CARGO_PKG_VERSION"))) defer {}
            }
            body data-mark=[request.map(|request| &request.mark)] {
                a.skip href="#main" { "Skip to the content" }
                header {
                    nav aria-label="Pages" {
                        @for (address, name) in SECTIONS {
                            @let is_here = section == Some(address.trim_start_matches('/'));
                            a href=(address) aria-current=[is_here.then_some("page")] { (name) }
                        }
                    }
                }
                main id="main" tabindex="-1" {
                    h1 { (text(title)) }
                    (body)
                }
                footer {
                    p { "tallyd " (env!("CARGO_PKG_VERSION")) ". Times are those of this browser; UTC without scripts." }
                }
            }
        }
    }
}

pub(super) fn finding_block(finding: &Finding) -> Markup {
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

/// A part of a page that is refreshed when the database changes.
pub(super) fn live_part(id: &str, heading: &str, body: &Markup) -> Markup {
    html! { section id=(id) aria-labelledby={ (id) "-heading" } data-live { h2 id={ (id) "-heading" } { (text(heading)) } (body) } }
}

/// Text from outside: masked, and isolated from the writing direction of its neighbours.
pub(super) fn text(value: &str) -> Markup {
    html! { bdi { (plain_line(value)) } }
}

/// A sentence of tallyd, which may quote texts from outside: with its times in the browser's zone, and its commands.
pub(super) fn sentence(value: &str) -> Markup {
    html! {
        bdi {
            @for part in sentence_parts(value) {
                @match part {
                    SentencePart::Text(part) => (plain_line(part)),
                    SentencePart::Time(at) => (time(at, None)),
                    SentencePart::Code(code) => code { bdi { (plain_line(code)) } },
                }
            }
        }
    }
}

/// A time, which a script writes in the browser's zone; the tooltip keeps UTC. With `now` it is an age.
fn time(at: Timestamp, now: Option<Timestamp>) -> Markup {
    let utc = at.to_datetime().format("%Y-%m-%d %H:%M:%S UTC").to_string();
    let age = now.map(|now| format!("{} ago", format_elapsed(now.duration_since(at))));
    html! { time datetime=(at.to_rfc3339()) title=(utc) data-age[age.is_some()] { (age.as_ref().unwrap_or(&utc)) } }
}

/// Returns the address of a page below another, such as that of a SKU. A browser takes the parts `.` and `..` out of a
/// path, however they are encoded, so these names stand in the query.
pub(super) fn address(section: &str, name: &str) -> String {
    match name {
        "." | ".." => format!("{section}/?name={name}"),
        name => format!("{section}/{}", utf8_percent_encode(name, SEGMENT)),
    }
}

pub(super) fn address_with(path: &str, fields: &[(&str, &str)]) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(fields.iter().filter(|(_, value)| !value.is_empty()));
    match query.finish() {
        query if query.is_empty() => path.to_owned(),
        query => format!("{path}?{query}"),
    }
}

/// Returns an address without a field. A path that begins with two slashes would lead to another host.
pub(super) fn address_without(path: &str, query: &FormFields, name: &str) -> String {
    let path = format!("/{}", path.trim_start_matches(['/', '\\']));
    let fields: Vec<(&str, &str)> = query.pairs().filter(|(other, _)| *other != name).collect();
    address_with(&path, &fields)
}

/// The link to the next page of a list: its filters as they are, and where the next page begins.
pub(super) fn next_link(request: &PageRequest, begin: &[(&str, &str)], label: &str) -> Markup {
    let filters = request.query.pairs().filter(|(name, _)| begin.iter().all(|(other, _)| other != name));
    let fields: Vec<(&str, &str)> = filters.chain(begin.iter().copied()).collect();
    html! { p { a.button rel="next" href=(address_with(&request.path, &fields)) { (label) } } }
}

pub(super) fn link(subject: ListedSubject, name: &str) -> Markup {
    let section = match subject {
        ListedSubject::Sku => "/stock",
        ListedSubject::Change => "/outbox",
        ListedSubject::Entry => "/journal",
        ListedSubject::Run => "/jobs",
        ListedSubject::Order => "/orders",
    };
    html! { a href=(address(section, name)) { (text(name)) } }
}

/// A choice of a filter. Each value has a label; the empty value stands for no filter.
pub(super) fn choice(
    request: &PageRequest,
    (name, label): (&str, &str),
    values: impl IntoIterator<Item = (&'static str, String)>,
) -> Markup {
    let chosen = request.query.get(name).unwrap_or_default();
    html! {
        label for=(name) { (label) }
        select id=(name) name=(name) {
            @for (value, label) in values { option value=(value) selected[value == chosen] { (label) } }
        }
    }
}

/// A form that acts; nothing in read-only mode.
pub(super) fn action_form(request: &PageRequest, to: &str, body: &Markup) -> Markup {
    html! {
        @if request.may_act {
            // A browser would put the values of an earlier load into a form that it shows again.
            form method="post" action=(to) autocomplete="off" {
                input type="hidden" name="csrf" value=(request.session.csrf);
                input type="hidden" name="once" value=(random_text());
                (body)
            }
        }
    }
}

pub(super) fn action_button(action: &str, label: &str) -> Markup {
    html! { button type="submit" name="action" value=(action) { (label) } }
}

/// A table that scrolls by itself, or the sentence `nothing`. A heading with `#` stands above numbers.
pub(super) fn table<H: AsRef<str>>(
    label: &str,
    headings: &[H],
    nothing: &str,
    rows: impl IntoIterator<Item = Markup>,
) -> Markup {
    let mut rows = rows.into_iter().peekable();
    html! {
        @if rows.peek().is_none() {
            p.empty { (nothing) }
        } @else {
            div.scroll tabindex="0" role="region" aria-label=(plain_line(label)) {
                table {
                    thead { tr { @for heading in headings { (column_heading(heading.as_ref())) } } }
                    tbody { @for row in rows { (row) } }
                }
            }
        }
    }
}

pub(super) fn listing(label: &str, rows: impl IntoIterator<Item = ListColumns>, nothing: &str) -> Markup {
    let rows: Vec<ListColumns> = rows.into_iter().collect();
    let is_number = |value: &ListCell| matches!(value, ListCell::Number(_));
    let heading = |(column, (name, _)): (usize, &(&str, ListCell))| {
        let has_numbers = rows.iter().any(|row| row.get(column).is_some_and(|(_, value)| is_number(value)));
        (if has_numbers { "#" } else { "" }).to_owned() + &page_heading(name)
    };
    let headings: Vec<String> = rows.first().into_iter().flatten().enumerate().map(heading).collect();
    let row = |row: &ListColumns| {
        html! {
            tr {
                @for (column, (_, value)) in row.iter().enumerate() {
                    @if column == 0 { th scope="row" { (cell(value)) } }
                    @else { td.number[is_number(value)] { (cell(value)) } }
                }
            }
        }
    };
    table(label, &headings, nothing, rows.iter().map(row))
}

fn page_heading(name: &str) -> String {
    match name {
        "sku" => "SKU".into(),
        "ms" => "ms".into(),
        name => name[..1].to_uppercase() + &name[1..],
    }
}

pub(super) fn fields(object: &Value) -> Markup {
    html! {
        dl.fields {
            @for (name, value) in field_cells(object) { dt { (page_heading(&in_words(name))) } dd { (cell(&value)) } }
        }
    }
}

pub(super) fn cell(value: &impl ListedValue) -> Markup {
    match value.cell() {
        ListCell::Missing => html! { span.none { "–" } },
        ListCell::Text(value) => text(&value),
        ListCell::Number(value) => html! { (value) },
        ListCell::Sentence(value) => sentence(&value),
        ListCell::Flag(true) => text("yes"),
        ListCell::Flag(false) => text("no"),
        ListCell::Time(at) => time(at, None),
        ListCell::Age(at, now) => time(at, Some(now)),
        ListCell::Link(subject, name) => link(subject, &name),
    }
}

fn column_heading(heading: &str) -> Markup {
    match heading.strip_prefix('#') {
        Some(heading) => html! { th.number scope="col" { (text(heading)) } },
        None => html! { th scope="col" { (heading) } },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_from_outside_stay_text() {
        let hostile = "<img src=x onerror=alert(1)>\u{1b}[31m\u{202e}&\"";
        let written = text(hostile).into_string();
        assert_eq!(written, "<bdi>&lt;img src=x onerror=alert(1)&gt;\u{fffd}[31m\u{fffd}&amp;&quot;</bdi>");
        assert_eq!(
            link(ListedSubject::Sku, "a/b?<\"'%").into_string(),
            "<a href=\"/stock/a%2Fb%3F%3C%22%27%25\"><bdi>a/b?&lt;&quot;'%</bdi></a>"
        );
    }

    #[test]
    fn an_address_loses_its_token_and_leads_nowhere_else() {
        let query = FormFields::parse(b"token=1&q=a+b");
        assert_eq!(address_without("/stock", &query, "token"), "/stock?q=a+b");
        assert_eq!(address_without("//evil.example", &query, "token"), "/evil.example?q=a+b");
        assert_eq!(address_without("/", &FormFields::parse(b"token=1"), "token"), "/");
    }

    #[test]
    fn a_time_keeps_utc_beside_the_zone_of_the_browser() {
        let written = time(Timestamp(1_000), None).into_string();
        assert!(written.contains("title=\"1970-01-01 00:00:01 UTC\""), "{written}");
        assert!(written.contains("datetime=\"1970-01-01T00:00:01.000Z\""), "{written}");
    }
}
