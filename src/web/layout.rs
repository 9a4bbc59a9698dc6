//! The frame of a page, and its small parts: links, texts, times, forms.

use super::access::PageNotice;
use super::pages::finding_block;
use super::request::{FormFields, PageRequest};
use crate::model::{Timestamp, format_elapsed};
use crate::present::ViewError;
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

/// The pages of the navigation.
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

/// The answer of a page.
pub(super) type PageResult = Result<Response, PageFailure>;

impl PageFailure {
    pub(super) fn not_found(text: impl Into<String>) -> Self {
        Self(StatusCode::NOT_FOUND, text.into())
    }

    /// Returns the answer to a request for data.
    pub(super) fn to_json(&self) -> Response {
        json_response(self.0, &json!({"error": self.1}))
    }
}

impl<E: Into<ViewError>> From<E> for PageFailure {
    fn from(error: E) -> Self {
        match error.into() {
            ViewError::Unknown(text) => Self::not_found(text),
            ViewError::Invalid(text) => Self(StatusCode::BAD_REQUEST, text),
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

/// Returns the answer of a page: its data as JSON, or HTML.
pub(super) fn respond(
    request: &PageRequest,
    title: &str,
    data: impl FnOnce() -> Value,
    body: impl FnOnce() -> Markup,
) -> Response {
    if request.wants_json {
        return json_response(StatusCode::OK, &data());
    }
    let notice = if request.is_refresh { None } else { request.session.take_notice() };
    let body = html! {
        @if let Some(PageNotice { is_done, text: result }) = notice {
            // Green says that nothing is left to do.
            p.notice.refused[!is_done].note[!request.findings.is_empty()] role="status" { (sentence(&result)) }
        }
        @if request.path != "/" {
            div id="findings" data-live { @for finding in &request.findings { (finding_block(finding)) } }
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

/// A part of a page that is refreshed when the database changes.
pub(super) fn live_part(id: &str, heading: &str, body: &Markup) -> Markup {
    html! { section id=(id) aria-labelledby={ (id) "-heading" } data-live { h2 id={ (id) "-heading" } { (text(heading)) } (body) } }
}

/// Text from outside: masked, and isolated from the writing direction of its neighbours.
pub(super) fn text(value: &str) -> Markup {
    html! { bdi { (plain_line(value)) } }
}

/// Text from outside, or a dash.
pub(super) fn optional_text(value: Option<&str>) -> Markup {
    value.map_or_else(dash, text)
}

/// A sentence of tallyd, which may quote texts from outside: with its times in the browser's zone, and its commands.
pub(super) fn sentence(value: &str) -> Markup {
    html! {
        bdi {
            @for part in sentence_parts(value) {
                @match part {
                    SentencePart::Text(part) => (plain_line(part)),
                    SentencePart::Time(at) => (time(at)),
                    SentencePart::Code(code) => code { bdi { (plain_line(code)) } },
                }
            }
        }
    }
}

/// A sentence of tallyd, or a dash.
pub(super) fn optional_sentence(value: Option<&str>) -> Markup {
    value.map_or_else(dash, sentence)
}

pub(super) fn number(value: Option<i64>) -> Markup {
    value.map_or_else(dash, |value| html! { (value) })
}

fn dash() -> Markup {
    html! { span.none { "–" } }
}

/// A time, which a script writes in the browser's zone; the tooltip keeps UTC.
pub(super) fn time(at: Timestamp) -> Markup {
    let utc = at.to_datetime().format("%Y-%m-%d %H:%M:%S UTC").to_string();
    html! { time datetime=(at.to_rfc3339()) title=(utc) { (utc) } }
}

pub(super) fn optional_time(ms: Option<i64>) -> Markup {
    ms.map_or_else(dash, |ms| time(Timestamp(ms)))
}

/// A time in RFC 3339, as the views of the database have it.
pub(super) fn written_time(at: Option<&str>) -> Markup {
    at.and_then(Timestamp::parse).map_or_else(dash, time)
}

/// An age, with its time as tooltip.
pub(super) fn age(at: Option<Timestamp>, now: Timestamp) -> Markup {
    let Some(at) = at else { return dash() };
    let utc = at.to_datetime().format("%Y-%m-%d %H:%M:%S UTC").to_string();
    html! { time datetime=(at.to_rfc3339()) title=(utc) data-age { (format_elapsed(now.duration_since(at))) " ago" } }
}

/// Returns the address of a page below another, such as that of a SKU.
pub(super) fn address(section: &str, name: &str) -> String {
    format!("{section}/{}", utf8_percent_encode(name, SEGMENT))
}

/// Returns an address with those fields of a query that have a value.
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

/// Returns the address of the next page of a list: its filters as they are, and where the next page begins.
pub(super) fn next_page(
    path: &str,
    query: &FormFields,
    filters: &[&str],
    (name, begin): (&str, i64),
) -> String {
    let begin = begin.to_string();
    let filters = filters.iter().map(|filter| (*filter, query.get(filter).unwrap_or_default()));
    let fields: Vec<(&str, &str)> = filters.chain([(name, begin.as_str())]).collect();
    address_with(path, &fields)
}

pub(super) fn sku_link(sku: &str) -> Markup {
    html! { a href=(address("/stock", sku)) { (text(sku)) } }
}

pub(super) fn change_link(key: &str) -> Markup {
    html! { a href=(address("/outbox", key)) { (text(key)) } }
}

pub(super) fn exchange_link(id: i64) -> Markup {
    html! { a href={ "/journal/" (id) } { (id) } }
}

/// A form that acts; nothing in read-only mode.
pub(super) fn action_form(request: &PageRequest, to: &str, body: &Markup) -> Markup {
    html! {
        @if request.may_act {
            // A browser would put the values of an earlier load into a form that it shows again.
            form method="post" action=(to) autocomplete="off" {
                input type="hidden" name="csrf" value=(request.session.csrf);
                input type="hidden" name="once" value=(request.session.new_form_key());
                (body)
            }
        }
    }
}

pub(super) fn action_button(action: &str, label: &str) -> Markup {
    html! { button type="submit" name="action" value=(action) { (label) } }
}

/// A table that scrolls by itself on a narrow screen. A heading with `#` stands above numbers.
pub(super) fn table(label: &str, headings: &[&str], rows: &Markup) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label=(plain_line(label)) {
            table {
                thead { tr { @for heading in headings { (column_heading(heading)) } } }
                tbody { (rows) }
            }
        }
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
            sku_link("a/b?<\"'%").into_string(),
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
        let written = time(Timestamp(1_000)).into_string();
        assert!(written.contains("title=\"1970-01-01 00:00:01 UTC\""), "{written}");
        assert!(written.contains("datetime=\"1970-01-01T00:00:01.000Z\""), "{written}");
    }
}
