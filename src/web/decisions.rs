//! The answer to a form: the page again with the result, or the result as JSON.
//!
//! A served form is done once. A refused one changes nothing, names the reason, and may be sent again. After each form
//! the browser loads a page (303), so a reload repeats nothing.

use super::WebState;
use super::access::{PageNotice, WebSession};
use super::layout::{PageResult, json_response};
use super::request::{PageRequest, wants_json};
use crate::health::Finding;
use crate::outbox::derived_key;
use crate::present::ViewError;
use crate::present::decisions::{KeyDecision, decide};
use crate::present::queue::{ChangeToQueue, insert_changes};
use crate::store::Durability;
use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::Mutex;

/// A done action. [`ViewError::Refused`] and [`ViewError::Invalid`] have the reason for which nothing was done.
pub(super) type ActionResult = Result<PageNotice, ViewError>;

/// A form whose action is done: the page that shows the result, and the result.
#[derive(Clone, Debug)]
pub(super) struct DoneForm(String, String);

/// A form that was sent, locked while its action runs; empty until the action is done.
pub(super) type SentForm = Arc<Mutex<Option<DoneForm>>>;

/// Does what a form asks for, unless it is done already. A second sender waits for the end of the first one's action.
pub(super) async fn act_once(
    form: SentForm,
    session: Arc<WebSession>,
    request: Request,
    next: Next,
) -> Response {
    let mut done = form.lock().await;
    if let Some(DoneForm(to, first)) = &*done {
        let text = format!("this form is known already, and nothing was done again; the first time: {first}");
        let visit = (&*session, wants_json(request.headers()));
        return answer(visit, to, PageNotice { is_done: false, text }, &[]);
    }
    let response = next.run(request).await;
    *done = response.extensions().get().cloned();
    response
}

pub(super) fn answer_form(request: &PageRequest, to: &str, result: ActionResult) -> PageResult {
    let (notice, done) = match result {
        Err(ViewError::Refused(text) | ViewError::Invalid(text)) => {
            (PageNotice { is_done: false, text }, None)
        }
        result => {
            let notice = result?;
            let done = DoneForm(to.to_owned(), notice.text.clone());
            (notice, Some(done))
        }
    };
    let visit = (&*request.session, request.wants_json);
    let mut response = answer(visit, to, notice, &request.findings);
    done.map(|done| response.extensions_mut().insert(done));
    Ok(response)
}

fn answer(
    (session, wants_json): (&WebSession, bool),
    to: &str,
    notice: PageNotice,
    findings: &[Finding],
) -> Response {
    if wants_json {
        let status = if notice.is_done { StatusCode::OK } else { StatusCode::CONFLICT };
        let data = json!({"done": notice.is_done, "message": notice.text, "findings": findings});
        return json_response(status, &data);
    }
    session.leave_notice(notice);
    (StatusCode::SEE_OTHER, [(header::LOCATION, to)]).into_response()
}

pub(super) fn success(sentences: Vec<String>) -> ActionResult {
    Ok(PageNotice { is_done: true, text: sentences.join("; ") })
}

pub(super) fn unknown_action(request: &PageRequest) -> ActionResult {
    let action = request.form.get("action").unwrap_or_default();
    Err(ViewError::Refused(format!("there is no action `{action}`")))
}

impl WebState {
    /// Queues a change typed by a person; without a field `key`, its key is that of the form.
    pub(super) async fn queue(
        &self,
        request: &PageRequest,
        kind: &'static str,
        body: &Value,
    ) -> ActionResult {
        let given = request.form.given("key").map(str::to_owned);
        let (body, once) = (body.to_string(), request.form.given("once").unwrap_or_default());
        let key = given.unwrap_or_else(|| derived_key("web", &[kind, &body], once));
        let change = ChangeToQueue::typed(key.clone(), kind, body);
        change.parsed_body()?;
        let mut write = self.store.begin_write(Durability::Full).await?;
        if insert_changes(&mut write, &[change], std::slice::from_ref(&key)).await? == 0 {
            let why = format!("the key `{key}` is known already; nothing was queued");
            return Err(ViewError::Refused(why));
        }
        write.commit().await?;
        let next =
            request.findings.first().map_or_else(|| "the daemon sends it".to_owned(), Finding::full_text);
        success(vec![format!("change {key} is queued; {next}")])
    }

    /// Decides on each of the changes. The result names those that were refused.
    pub(super) async fn decide(&self, decision: KeyDecision, keys: &[String]) -> ActionResult {
        if keys.is_empty() {
            return Err(ViewError::Refused("select at least one change".into()));
        }
        let decided = decide(&self.store, decision, keys, self.now()).await?;
        let sentences = std::iter::once(decided.summary()).chain(decided.refusals());
        let text = sentences.collect::<Vec<_>>().join("; ");
        match decided.done.is_empty() {
            true => Err(ViewError::Refused(text)),
            false => Ok(PageNotice { is_done: decided.refused.is_empty(), text }),
        }
    }
}
